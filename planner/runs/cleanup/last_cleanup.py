"""When `plan cleanup` last had an answer from every provider, kept in the home folder: a journal may be lost."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from trainplan.providers.agent.schema import instant
from trainplan.workloads.trainer.progress import write_atomically

_FILE = "last-cleanup.json"


@dataclass(frozen=True, slots=True)
class LastCleanup:
    """`providers` are those that told all they have of ours; the others had no sign-in here."""

    at: datetime
    providers: tuple[str, ...]


def keep_cleanup(home: Path, cleanup: LastCleanup) -> None:
    """A home that cannot be written is no reason to fail: the next cleanup writes it."""
    with contextlib.suppress(OSError):
        home.mkdir(parents=True, exist_ok=True)
        # The providers stand under the key that earlier versions wrote.
        write_atomically(home / _FILE, json.dumps({"at": cleanup.at.isoformat(), "asked": list(cleanup.providers)}))


def last_cleanup(home: Path) -> LastCleanup | None:
    """None where there was none, or the file cannot be read."""
    try:
        item = json.loads((home / _FILE).read_text(encoding="utf-8"))
        at, names = instant(item["at"]), tuple(str(name) for name in item["asked"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return LastCleanup(at, names) if at is not None else None


def no_run_text(cleanup: LastCleanup | None) -> str:
    """What `plan status` prints of a journal without a live run, and when the providers last answered."""
    name = "no active runs"
    if cleanup is None:
        return f"{name}; plan cleanup asks the providers for leftovers"
    when, names = f"{cleanup.at.astimezone():%Y-%m-%d %H:%M}", ", ".join(cleanup.providers)
    return f"{name}; plan cleanup asks the providers for leftovers: {names} last answered at {when}"
