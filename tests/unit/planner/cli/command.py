"""The command line in this process: what it prints and with which code it leaves."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

from tests.json_output import complaint
from trainplan.planner.cli.main import run


@dataclass(frozen=True, slots=True)
class CommandResult:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The text behind `error:`; empty where there is none."""
        return next((line[7:] for line in self.err.splitlines() if line.startswith("error: ")), "")

    @property
    def hint(self) -> str:
        return next((line[6:] for line in self.err.splitlines() if line.startswith("hint: ")), "")


def plan(*arguments: object) -> CommandResult:
    """`plan …`; what it prints with --json is held to the command's schema."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run([str(argument) for argument in arguments])
    if "--json" in arguments:
        wrong = complaint([str(argument) for argument in arguments], out.getvalue())
        assert not wrong, f"{wrong}; whoever changes an output changes its schema (planner/report/schemas)"
    return CommandResult(code, out.getvalue(), err.getvalue())
