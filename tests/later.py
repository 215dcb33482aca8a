"""A run of the tests at a later date: `TRAINPLAN_DAYS_AHEAD=400 pytest tests/unit` (`make later`).

The clock goes on from that day at its usual speed. It is the clock of this process alone: a test of providers is
skipped where it starts another one, a double or a machine's timer, which has today's date.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta

import pytest

VARIABLE = "TRAINPLAN_DAYS_AHEAD"
OF_TWO_DATES = "tests/unit/providers/"
"""Elsewhere a process that is started says what this computer has, or takes a message; it does not ask for the date."""


def go_ahead() -> None:
    """Move this process's clock ahead by the days that the variable names; without it, leave everything alone."""
    days = int(os.environ.get(VARIABLE, "0"))
    if days:
        import time_machine

        time_machine.travel(datetime.now(UTC) + timedelta(days=days), tick=True).start()  # noqa: TID251
        sys.addaudithook(_skip_a_test_of_two_dates)


def _skip_a_test_of_two_dates(event: str, _: object) -> None:
    test = os.environ.get("PYTEST_CURRENT_TEST", "")
    if event in ("subprocess.Popen", "os.fork", "os.posix_spawn") and test.startswith(OF_TWO_DATES):
        pytest.skip("starts a process, which has today's date")
