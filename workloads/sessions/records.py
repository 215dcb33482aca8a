"""What the sessions of a run took and reached: a record of each, and the file of all that comes home."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FORMAT = "trainplan sessions 1"
HISTORY = "history.json"
"""`plan history import` reads it."""
_SESSIONS = "sessions"


class Progress:
    """Reads an attempt's progress.jsonl as the trainer writes it; `lines` are those that a record keeps."""

    def __init__(self, path: Path) -> None:
        self.start: Mapping[str, Any] = {}
        self.step: Mapping[str, Any] = {}
        self.end: Mapping[str, Any] = {}
        self._path = path
        self._offset = 0
        self._lines: list[str] = []
        self._last_step = ""

    def read(self) -> list[Mapping[str, Any]]:
        """The lines that are new."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [entry for raw in whole.splitlines() if (entry := self._take_in(raw)) is not None]

    @property
    def text(self) -> str:
        """All lines but those of single steps, of which the newest is there alone: hours have tens of thousands."""
        return "".join(f"{line}\n" for line in (*self._lines, self._last_step) if line)

    def _take_in(self, raw: bytes) -> Mapping[str, Any] | None:
        try:
            line = raw.decode()
            entry = json.loads(line)
        except ValueError:
            return None
        event = entry.get("event")
        if event == "step":
            self.step, self._last_step = entry, line
            return dict(entry)
        self._lines.append(line)
        if event == "start":
            self.start = entry
        elif event == "end":
            self.end, self._last_step = entry, ""
        return dict(entry)


def records(kept: Path) -> list[dict[str, Any]]:
    """The records of the sessions so far, oldest first; one that cannot be read is left out."""
    found = []
    for path in sorted((kept / _SESSIONS).glob("*.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(record, dict) and isinstance(record.get("attempt"), int):
            found.append(record)
    return found


def write_record(kept: Path, record: Mapping[str, Any]) -> None:
    """The record of a session, whole or as it was. Raises OSError."""
    _write(kept / _SESSIONS / f"{record['attempt']:04}.json", json.dumps(record, indent=1))


def write_history(folder: Path, plan: Mapping[str, Any], job: Any, sessions: Sequence[Mapping[str, Any]]) -> Path:
    """The file that `plan history import` reads, in `folder`. Raises OSError."""
    document = {"format": FORMAT, "place": plan["place"], "run_id": plan["run_id"], "job": job}
    document |= {"estimate": plan.get("estimate", {}), "sessions": list(sessions)}
    _write(folder / HISTORY, json.dumps(document, indent=1))
    return folder / HISTORY


def instant(seconds: float) -> str:
    """Seconds since 1970 as a record has them: ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, tz=UTC).isoformat(timespec="seconds")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
