"""What the trainer's command line in a machine's spec.json says of a measuring run."""

from __future__ import annotations

import json
from typing import NamedTuple


class Measuring(NamedTuple):
    """`max_steps` None: it trains to the end."""

    max_steps: int | None = None
    until_steady: bool = False


def measuring_of(spec: bytes | None) -> Measuring:
    """The measuring run of a spec; one that trains to the end where there is none."""
    command = json.loads(spec)["command"] if spec else []
    steps = int(command[command.index("--max-steps") + 1]) if "--max-steps" in command else None
    return Measuring(steps, "--until-steady" in command)
