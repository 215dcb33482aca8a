"""What an attempt has left in its store, and what a trainer writes into a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.providers.agent.machine import MemoryStore


def checkpoints(store: MemoryStore) -> list[str]:
    return sorted(path.split("/")[1] for path in store.objects if path.endswith("/complete.json"))


def write(path: Path, text: str) -> None:
    path.write_text(text)
