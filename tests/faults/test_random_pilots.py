"""Random sequences of pilots under one cap; `python -m tests.faults.soak --pilots` plays more of them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.faults import pilots
from tests.faults.pilot_sequences import PilotSequence
from tests.faults.sequences import played, template

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta
    from decimal import Decimal
    from pathlib import Path

    from trainplan.planner.runs.proposal.pilots import PilotPlacement

SEQUENCES = 200
MOST_TRIED = 400

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="locks of one process do not shut out itself there")


@pytest.fixture(scope="module")
def empty() -> Iterator[Path]:
    """A journal without a run."""
    with template() as made:
        yield made


def test_no_sequence_passes_its_cap_or_forgets_anything(empty: Path) -> None:
    """A failing seed is named; `python -m tests.faults.soak --pilots --seed N` plays it alone."""
    launches = sum(len(played(seed, empty, "sim", PilotSequence).launched) for seed in range(SEQUENCES))
    assert launches > SEQUENCES / 2


def test_a_pilot_that_does_not_keep_to_its_cap_is_noticed(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = pilots.limit_within

    def generous(placement: PilotPlacement, left_usd: Decimal) -> timedelta | None:
        return real(placement, left_usd * 20)

    monkeypatch.setattr(pilots, "limit_within", generous)
    with pytest.raises(AssertionError, match="were spent of a cap of"):
        _until_noticed(empty)


def _until_noticed(empty: Path) -> None:
    for seed in range(MOST_TRIED):
        played(seed, empty, "sim", PilotSequence)
