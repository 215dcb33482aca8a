"""Who has the processors: all programs, this process, and so the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainplan.workloads.processor_time import ProcessorTime, busy_seconds, others_share, processor_time


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_processor_seconds_that_were_not_idle_are_those_of_everybody(tmp_path: Path) -> None:
    """700 ticks of 1,000 were not idle or waiting for a disk; those of guests are among the user's."""
    stat = "cpu  300 50 200 250 50 20 30 100 90 9\ncpu0 1 1 1 1 1 1 1 1 0 0\n"
    assert busy_seconds(tree(tmp_path, {"proc/stat": stat})) == 7.0


@pytest.mark.parametrize("text", ["", "cpu  1 2 3\n", "cpu a b c d e f g h\n"])
def test_a_system_that_does_not_tell_what_is_busy(tmp_path: Path, text: str) -> None:
    assert busy_seconds(tree(tmp_path, {"proc/stat": text})) is None


@pytest.mark.parametrize(
    ("last", "share"),
    [
        (ProcessorTime(10, 116.0, 20.0), 0.3),
        (ProcessorTime(10, 109.0, 20.0), 0.0),
        (ProcessorTime(10, 500.0, 10.0), 1.0),
        (ProcessorTime(10, None, 10.0), None),
        (ProcessorTime(0, 100.0, 10.0), None),
    ],
)
def test_what_is_busy_and_not_ours_is_the_others(last: ProcessorTime, share: float | None) -> None:
    """Two processors for ten seconds: twenty seconds, of which ten are ours."""
    assert others_share(ProcessorTime(0, 100.0, 10.0), last, 2) == share


def test_a_reading_of_now_is_after_one_of_before() -> None:
    first = processor_time()
    last = processor_time()
    assert last.own >= first.own > 0
    assert last.at >= first.at
