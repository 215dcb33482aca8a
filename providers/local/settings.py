"""What a person can set for this machine: the engine, what an hour costs, how the image is built."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum

from trainplan.providers.errors import BadRequestError
from trainplan.providers.local.api import EngineName


class EngineChoice(StrEnum):
    """AUTO: Docker or Podman, whichever answers, else a process."""

    AUTO = "auto"
    DOCKER = "docker"
    PODMAN = "podman"
    PROCESS = "process"


_OPTIONS = ("engine", "usd_per_hour", "base_image", "build_flags", "podman_build_flags")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """`base_image` is what the trainer image is built on (None: the local base where there is one, else Python's
    own); `build_flags` go to the build command of either engine as they are, `podman_build_flags` to Podman's."""

    engine: EngineChoice = EngineChoice.AUTO
    usd_per_hour: Decimal = Decimal(0)
    base_image: str | None = None
    build_flags: tuple[str, ...] = ()
    podman_build_flags: tuple[str, ...] = ()


def flags_of(settings: LocalSettings, engine: EngineName) -> tuple[str, ...]:
    """The flags of a build by this engine."""
    return (*settings.build_flags, *(settings.podman_build_flags if engine is EngineName.PODMAN else ()))


def parse_settings(options: Mapping[str, str]) -> LocalSettings:
    """Settings from what the person wrote. Raises BadRequestError naming the option."""
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        raise BadRequestError(f"this machine has no option {unknown[0]!r}", hint=f"known: {', '.join(_OPTIONS)}")
    return LocalSettings(
        engine=_engine(options.get("engine", EngineChoice.AUTO)),
        usd_per_hour=_rate(options.get("usd_per_hour", "0")),
        base_image=options.get("base_image") or None,
        build_flags=_flags("build_flags", options),
        podman_build_flags=_flags("podman_build_flags", options),
    )


def _engine(text: str) -> EngineChoice:
    try:
        return EngineChoice(text)
    except ValueError:
        raise BadRequestError(f"engine {text!r} is not one of {', '.join(EngineChoice)}") from None


def _rate(text: str) -> Decimal:
    try:
        rate = Decimal(text)
    except InvalidOperation:
        rate = Decimal(-1)
    if not rate.is_finite() or rate < 0:
        raise BadRequestError(f"usd_per_hour {text!r} is not dollars an hour", hint="for example 0.12")
    return rate


def _flags(name: str, options: Mapping[str, str]) -> tuple[str, ...]:
    text = options.get(name, "")
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise BadRequestError(f"{name} {text!r}: {error}") from None
