"""Two thousand random sequences of commands and faults; `make soak` plays more of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.sequences import played, template

SEQUENCES = int(os.environ.get("SOAK_SEQUENCES", "2000"))
PARTS = 10

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="locks of one process do not shut out itself there")


@pytest.fixture(scope="module")
def empty() -> Iterator[Path]:
    """A journal without a run."""
    with template() as made:
        yield made


@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_happens_nothing_is_forgotten(part: int, empty: Path) -> None:
    """A failing seed is named; `python -m tests.faults.soak --seed N` plays it alone, and tells what was done."""
    for seed in range(part, SEQUENCES, PARTS):
        played(seed, empty)


def test_the_same_seed_gives_the_same_run(empty: Path) -> None:
    first, second = (played(seed, empty) for seed in (36, 36))
    assert first.messages == second.messages
    one, other = (sequence.cloud.world for sequence in (first, second))  # type: ignore[attr-defined]
    assert one.now == other.now
    for table in ("machines", "things", "objects", "counts"):
        assert dict(getattr(one.state, table)) == dict(getattr(other.state, table)), table
