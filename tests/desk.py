"""A person's computer as a test of the command line finds it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tests.doubles.clock import NOON
from trainplan.planner.clock import SystemClock
from trainplan.providers.registry import VENDORS

if TYPE_CHECKING:
    import pytest

TINY = """\
name: tiny
model: {layers: [8, M, 16, M], dense: [16]}
data: {name: digits}
epochs: 2
global_batch_size: 32
"""
"""A job file."""


def signed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this computer's own settings and sign-ins is left in the environment."""
    for name in list(os.environ):
        if name.startswith("PLAN_") or any(one.traces and name in one.traces.variables for one in VENDORS):
            monkeypatch.delenv(name)


def a_desk(home: Path, monkeypatch: pytest.MonkeyPatch, **environment: str) -> None:
    """A person who works in `home`, on the doubles' day, with these settings and nothing of this computer's own."""
    signed_out(monkeypatch)
    on_the_doubles_day(monkeypatch)
    given = {"HOME": str(home), "PLAN_HOME": str(home / "plan"), "TZ": "UTC", "NO_COLOR": "1", "COLUMNS": "120"}
    for name, value in (given | environment).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(home)


def own_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Works in this folder with the state in its `home`, and nothing of this computer's own settings and sign-ins."""
    signed_out(monkeypatch)
    monkeypatch.setenv("PLAN_HOME", str(folder / "home"))
    monkeypatch.chdir(folder)


def on_the_doubles_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """This computer's clock begins at the instant where every double's does.

    What a price is taken to be depends on its age: with the real date an expected figure would hold for a day or two.
    """
    clock, real = SystemClock(), SystemClock.now
    began = real(clock)
    monkeypatch.setattr(SystemClock, "now", lambda self: NOON + (real(self) - began))
