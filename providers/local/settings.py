"""What a person can set for this machine: the engine, what an hour costs, how the image is built."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum

from trainplan.providers.errors import BadRequestError


class EngineChoice(StrEnum):
    """AUTO: Docker or Podman, whichever answers, else a process."""

    AUTO = "auto"
    DOCKER = "docker"
    PODMAN = "podman"
    PROCESS = "process"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """`base_image` is what the trainer image is built on (None: the local base where there is one, else Python's
    own); `build_flags` go to the engine's build command as they are."""

    engine: EngineChoice = EngineChoice.AUTO
    usd_per_hour: Decimal = Decimal(0)
    base_image: str | None = None
    build_flags: tuple[str, ...] = ()


def parse_settings(options: Mapping[str, str]) -> LocalSettings:
    """Settings from what the person wrote. Raises BadRequestError naming the option."""
    unknown = sorted(set(options) - {"engine", "usd_per_hour", "base_image", "build_flags"})
    if unknown:
        raise BadRequestError(
            f"this machine has no option {unknown[0]!r}", hint="known: engine, usd_per_hour, base_image, build_flags"
        )
    return LocalSettings(
        engine=_engine(options.get("engine", EngineChoice.AUTO)),
        usd_per_hour=_rate(options.get("usd_per_hour", "0")),
        base_image=options.get("base_image") or None,
        build_flags=_flags(options.get("build_flags", "")),
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


def _flags(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise BadRequestError(f"build_flags {text!r}: {error}") from None
