"""`plan logs`: the output of a run in whole lines, however it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainplan.planner.runs.directory.printed import MOST_LINES_AT_ONCE, PIECE_BYTES, PrintedLines, new_output
from trainplan.providers.local.store import FolderStore

LOG = "attempts/1/log"


def test_a_line_is_printed_when_its_end_is_written(tmp_path: Path) -> None:
    """A look may come in the middle of a line, and of a letter."""
    store, counts = FolderStore(tmp_path), dict[str, int]()
    text = "epoch 1\nLänge 3\nlast".encode()
    middle = text.index("ä".encode()) + 1
    store.put(f"{LOG}/output.log", text[:middle])
    lines = [*new_output(store, LOG, counts, is_last=False)]
    assert lines == ["epoch 1"]
    store.put(f"{LOG}/output.log", text)
    lines += new_output(store, LOG, counts, is_last=False)
    assert lines == ["epoch 1", "Länge 3"]
    lines += new_output(store, LOG, counts, is_last=True)
    assert lines == ["epoch 1", "Länge 3", "last"]


def test_a_log_of_several_pieces_comes_in_whole_lines(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    written = [f"ä{number}" * 20 for number in range(PIECE_BYTES // 100)]
    store.put(f"{LOG}/output.log", "\n".join(written).encode())
    assert [*new_output(store, LOG, {}, is_last=True)] == written


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("1/47 loss 1.27" + "\b" * 14 + "47/47 loss 0.85\nEpoch 2/2\n", ["47/47 loss 0.85", "Epoch 2/2"]),  # Keras
        ("\r 10%|#   |\r 50%|##  |\r100%|####|\ndone\n", ["100%|####|", "done"]),  # tqdm
        ("\r\x1b[32mworking\x1b[0m 1 of 10\r\x1b[2Kdone\n", ["done"]),  # rich
        ("of Windows\r\n\r\nabc\b\b\b\b\bZ\n", ["of Windows", "", "Zbc"]),
        (" 10%|#   |\r 50%|##  |\r", [" 50%|##  |"]),
    ],
)
def test_a_progress_bar_is_shown_as_a_terminal_shows_it(tmp_path: Path, written: str, shown: list[str]) -> None:
    store = FolderStore(tmp_path)
    store.put(f"{LOG}/trainer.log", written.encode())
    assert [*new_output(store, LOG, {}, is_last=False)] == shown


def test_a_line_longer_than_a_piece_does_not_keep_the_rest_waiting(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.put(f"{LOG}/output.log", b"x" * (PIECE_BYTES + 5))
    assert "".join(new_output(store, LOG, {}, is_last=True)) == "x" * (PIECE_BYTES + 5)


def test_what_the_trainer_wrote_and_the_machine_printed_is_shown_once(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.put(f"{LOG}/trainer.log", b"a line\n")
    store.put(f"{LOG}/output.log", b"a line\n")
    assert [*new_output(store, LOG, {}, is_last=True)] == ["a line"]


def test_what_a_script_prints_is_told_look_by_look(tmp_path: Path) -> None:
    """Also where only the newest lines can be asked for, which overlap from look to look."""
    told = [["a", "b"], ["a", "b"], ["b", "c", "c"], ["c", "c", "d"], ["x"]]
    reader = PrintedLines(FolderStore(tmp_path), 1, lambda: told.pop(0))
    assert [reader.new(is_last=False) for _ in range(5)] == [("a", "b"), (), ("c", "c"), ("d",), ("x",)]


def test_of_many_lines_at_once_the_newest_are_shown(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.put(f"{LOG}/trainer.log", b"".join(b"%d\n" % number for number in range(MOST_LINES_AT_ONCE + 3)) + b"half")
    reader = PrintedLines(store, 1, None)
    first, *rest = reader.new(is_last=False)
    assert first == "(3 more lines: plan logs shows all)"
    assert (rest[0], rest[-1], len(rest)) == ("3", str(MOST_LINES_AT_ONCE + 2), MOST_LINES_AT_ONCE)
    assert reader.new(is_last=True) == ("half",)
