"""Which names in the store and on the disk are checkpoints: `step-` and digits, and nothing else."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.unit.providers.agent.machine import FakeClock, MemoryStore, drained
from trainplan.providers.agent.checkpoints import Checkpoints

NO_CHECKPOINTS = [
    "step-",
    "step-best",
    "step-00000020.tmp",
    "step--0000020",
    "00000020",
    "20",
    "old-step-00000020",
    "step-\u00b2",
]


def write(folder: Path, name: str) -> None:
    """A whole checkpoint of that name."""
    placement = folder / name
    placement.mkdir(parents=True)
    (placement / "state.npz").write_bytes(b"w")
    files = {"state.npz": hashlib.sha256(b"w").hexdigest()}
    (placement / "complete.json").write_text(json.dumps({"files": files}))


@pytest.mark.parametrize("name", NO_CHECKPOINTS)
def test_another_name_on_the_disk_is_not_waiting(tmp_path: Path, name: str) -> None:
    write(tmp_path / "local", name)
    checkpoints = Checkpoints(MemoryStore(FakeClock()), tmp_path / "local", tmp_path / "spool", FakeClock())
    assert checkpoints.waiting() == ""
    write(tmp_path / "local", "step-00000010")
    assert checkpoints.waiting() == "step-00000010"


@pytest.mark.parametrize("name", NO_CHECKPOINTS)
def test_another_name_in_the_store_is_not_restored_and_not_counted_among_the_newest_two(
    tmp_path: Path, name: str
) -> None:
    store = MemoryStore(FakeClock())
    write(tmp_path / "there", name)
    for path in (tmp_path / "there" / name).iterdir():
        store.objects[f"checkpoints/{name}/{path.name}"] = path.read_bytes()
    checkpoints = Checkpoints(store, tmp_path / "local", tmp_path / "spool", FakeClock())
    assert drained(checkpoints.restore()) == ""
    for step in (10, 20):
        write(tmp_path / "local", f"step-{step:08}")
        assert drained(checkpoints.push(f"step-{step:08}"))
    left = {path.split("/")[1] for path in store.objects if path.startswith("checkpoints/")}
    assert left == {name, "step-00000010", "step-00000020"}


def test_steps_of_more_than_eight_digits_are_in_order_as_numbers(tmp_path: Path) -> None:
    """A script may count images: 90 epochs of ImageNet are 115,000,000."""
    store = MemoryStore(FakeClock())
    checkpoints = Checkpoints(store, tmp_path / "local", tmp_path / "spool", FakeClock())
    for step in (99_000_000, 99_999_999, 100_000_000, 101_000_000):
        write(tmp_path / "local", f"step-{step:08}")
        assert checkpoints.waiting() == f"step-{step:08}"
        assert drained(checkpoints.push(f"step-{step:08}"))
    left = {path.split("/")[1] for path in store.objects if path.startswith("checkpoints/")}
    assert left == {"step-100000000", "step-101000000"}
    another = Checkpoints(store, tmp_path / "another", tmp_path / "spool", FakeClock())
    assert drained(another.restore()) == "step-101000000"
