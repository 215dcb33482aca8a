"""What a person sets for a cluster, in the table [slurm]."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from trainplan.providers.errors import BadRequestError

PROVIDER = "slurm"
OPTIONS = ("directory", "login", "python", "container", "flags", "partitions", "usd_per_device_hour")
_LOGIN = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.@-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """`directory` is on the file system that all nodes share: run directories and data sets are below it; "" where no
    cluster is set up. `login` is a host for ssh, "" where Slurm's commands are on this computer. `python` is the
    interpreter that trains, `container` are words before it (such as `apptainer exec --nv IMAGE`), `flags` are more
    words for sbatch (such as `--account=A`). `partitions` are those to offer, none: all that are up.
    `usd_per_device_hour` is what an hour of one device costs the person; a node without accelerators is one device.
    """

    directory: str = ""
    login: str = ""
    python: str = "python3"
    container: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    partitions: frozenset[str] = frozenset()
    usd_per_device_hour: Decimal = Decimal(0)


def parse_settings(options: Mapping[str, str]) -> SlurmSettings:
    """Settings from what the person wrote. Raises BadRequestError naming the option."""
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise BadRequestError(f"slurm: there is no setting {unknown[0]!r}", hint=f"known: {', '.join(OPTIONS)}")
    names = (name.strip() for name in options.get("partitions", "").split(","))
    return SlurmSettings(
        directory=_directory(options.get("directory", "")),
        login=_login(options.get("login", "")),
        python=options.get("python") or "python3",
        container=_words("container", options.get("container", "")),
        flags=_words("flags", options.get("flags", "")),
        partitions=frozenset(name for name in names if name),
        usd_per_device_hour=_rate(options.get("usd_per_device_hour", "0")),
    )


def _directory(text: str) -> str:
    """Absolute, since the jobs of a cluster start in other folders than a person's shell."""
    if text and not (text.startswith("/") and not set(text) & {"\n", "\0"}):
        raise BadRequestError(
            f"slurm: directory {text!r} is not an absolute path",
            hint="write a folder on the file system that the nodes share, such as /shared/me/trainplan",
        )
    return text.rstrip("/")


def _login(text: str) -> str:
    # Anything else could be read by ssh as an option.
    if text and not _LOGIN.fullmatch(text):
        raise BadRequestError(f"slurm: login {text!r} is no host", hint="write a host or USER@HOST as for ssh")
    return text


def _words(key: str, text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise BadRequestError(f"slurm: {key} {text!r}: {error}", hint="close the quotes") from None


def _rate(text: str) -> Decimal:
    try:
        rate = Decimal(text)
    except InvalidOperation:
        rate = Decimal(-1)
    if not rate.is_finite() or rate < 0:
        raise BadRequestError(f"slurm: usd_per_device_hour {text!r} is not dollars an hour", hint="for example 0.80")
    return rate
