"""What the trainer's command line says of a measuring run: in a machine's spec.json, or in a job's script."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Measuring(NamedTuple):
    """`max_steps` None: it trains to the end."""

    max_steps: int | None = None
    until_steady: bool = False
    try_settings: bool = False


def measuring_of(spec: bytes | None) -> Measuring:
    """The measuring run of a spec; one that trains to the end where there is none."""
    return measuring_in(json.loads(spec)["command"] if spec else [])


def measuring_in(command: Sequence[str]) -> Measuring:
    """The measuring run of a command's words."""
    steps = int(command[command.index("--max-steps") + 1]) if "--max-steps" in command else None
    return Measuring(steps, "--until-steady" in command, "--try-settings" in command)
