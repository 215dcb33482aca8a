"""What every command has to say before it ends: a teardown that nobody could make sure of."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def warn_of_unverified() -> None:
    """A line on stderr for each run whose teardown is unverified. Costs a look at whether there is a journal."""
    from planner.errors import PlanError
    from planner.settings import load_settings

    try:
        journal = load_settings(os.environ).journal
    except PlanError:
        return  # the command itself has said what is wrong with the settings
    for line in _unverified(journal) if journal.exists() else ():
        sys.stderr.write(f"warning: {line}\n")


def _unverified(journal: Path) -> list[str]:
    import sqlite3
    from contextlib import closing

    try:
        # Read by hand: the journal's own modules would slow down the end of every command.
        with closing(sqlite3.connect(f"{journal.absolute().as_uri()}?mode=ro", uri=True)) as db:
            rows = db.execute("SELECT unverified FROM runs WHERE unverified IS NOT NULL AND phase <> 'done'").fetchall()
    except sqlite3.Error:
        return []
    return [f"{row[0]}; plan status looks again" for row in rows]
