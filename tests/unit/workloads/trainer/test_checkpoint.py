"""A checkpoint is whole or it is passed over, and the newest two are kept."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from trainplan.workloads.trainer.checkpoint import Array, Checkpoints, Position, assign
from trainplan.workloads.trainer.errors import BadInputError

ARRAYS = (np.arange(6, dtype=np.float32).reshape(2, 3), np.array(41, np.int64), np.zeros((0, 2), np.float32))


def at(step: int, **changes: object) -> Position:
    fields = {"step": step, "epoch": 1, "job_digest": "d" * 16, "images": 100, "steps_per_epoch": 10}
    return Position.model_validate(fields | changes)


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_what_was_saved_comes_back(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    size = checkpoints.save(at(41, epoch=5), ARRAYS)
    loaded = checkpoints.newest(at(0), pytest.fail)
    assert loaded is not None
    assert loaded.position == at(41, epoch=5)
    assert [array.tolist() for array in loaded.arrays] == [array.tolist() for array in ARRAYS]
    assert [array.dtype for array in loaded.arrays] == [array.dtype for array in ARRAYS]
    assert size == (tmp_path / "step-00000041" / "state.npz").stat().st_size


def test_more_than_ten_arrays_keep_their_order(tmp_path: Path) -> None:
    Checkpoints(tmp_path).save(at(1), [np.array(number) for number in range(120)])
    loaded = Checkpoints(tmp_path).newest(at(0), pytest.fail)
    assert loaded is not None
    assert [int(array) for array in loaded.arrays] == list(range(120))


def test_the_newest_two_are_kept(tmp_path: Path) -> None:
    for step in (5, 10, 200):
        Checkpoints(tmp_path).save(at(step), ARRAYS)
    assert names(tmp_path) == ["step-00000010", "step-00000200"]


def test_nothing_to_go_on_from_is_no_error(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path / "absent").newest(at(0), pytest.fail) is None


def cut(folder: Path) -> None:
    state = folder / "state.npz"
    state.write_bytes(state.read_bytes()[:-10])


def flip(folder: Path) -> None:
    state = folder / "state.npz"
    data = bytearray(state.read_bytes())
    data[len(data) // 2] ^= 1
    state.write_bytes(bytes(data))


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "killed before the mark": (lambda folder: (folder / "complete.json").unlink(), "no complete.json"),
    "cut short": (cut, "sha256 differs"),
    "a bit flipped": (flip, "sha256 differs"),
    "history changed": (lambda folder: (folder / "history.json").write_text("[]"), "history.json is not what was"),
    "state gone": (lambda folder: (folder / "state.npz").unlink(), "No such file"),
    "mark cut short": (lambda folder: (folder / "complete.json").write_text('{"step": 1'), "is damaged"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_one_is_passed_over_with_a_word(tmp_path: Path, damage: str) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(at(5), ARRAYS)
    checkpoints.save(at(10), ARRAYS)
    spoil, word = DAMAGES[damage]
    spoil(tmp_path / "step-00000010")
    warnings: list[str] = []
    loaded = checkpoints.newest(at(0), warnings.append)
    assert loaded is not None
    assert loaded.position.step == 5
    assert len(warnings) == 1
    assert "step-00000010" in warnings[0]
    assert word in warnings[0]


def test_a_full_disk_keeps_the_older_ones(tmp_path: Path) -> None:
    def filling() -> Iterator[Array]:
        yield ARRAYS[0]
        raise OSError(errno.ENOSPC, "No space left on device")

    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(at(5), ARRAYS)
    checkpoints.save(at(10), ARRAYS)
    with pytest.raises(OSError, match="No space"):
        checkpoints.save(at(15), filling())
    assert names(tmp_path) == ["step-00000005", "step-00000010"]
    loaded = checkpoints.newest(at(0), pytest.fail)
    assert loaded is not None
    assert loaded.position.step == 10


def test_one_half_written_before_a_kill_is_replaced(tmp_path: Path) -> None:
    half = tmp_path / "step-00000010"
    half.mkdir()
    (half / "state.npz").write_bytes(b"half")
    (half / "left-over").write_bytes(b"")
    Checkpoints(tmp_path).save(at(10), ARRAYS)
    loaded = Checkpoints(tmp_path).newest(at(0), pytest.fail)
    assert loaded is not None
    assert names(half) == ["complete.json", "history.json", "state.npz"]


def test_one_of_another_job_is_passed_over(tmp_path: Path) -> None:
    Checkpoints(tmp_path).save(at(10, job_digest="e" * 16), ARRAYS)
    warnings: list[str] = []
    assert Checkpoints(tmp_path).newest(at(0), warnings.append) is None
    assert "another job" in warnings[0]


def test_data_that_changed_since_is_refused(tmp_path: Path) -> None:
    Checkpoints(tmp_path).save(at(10), ARRAYS)
    with pytest.raises(BadInputError, match="the data has 101 training images"):
        Checkpoints(tmp_path).newest(at(0, images=101), pytest.fail)


class Variable:
    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.value: Array | None = None

    def assign(self, value: Array) -> None:
        self.value = value


def test_state_of_another_model_changes_nothing() -> None:
    variables = [Variable((2, 3)), Variable((1,))]
    with pytest.raises(BadInputError, match="does not fit this model"):
        assign(variables, ARRAYS[:2])
    assert [variable.value for variable in variables] == [None, None]
