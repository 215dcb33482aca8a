"""What other programs leave of the processors, by hand."""

from __future__ import annotations

import pytest

from tests.builders import a_throughput
from trainplan.planner.planning.load import Load, Reading, load_since, read_system, under_load
from trainplan.planner.throughput.values import Basis

FIRST = Reading(at=100.0, busy=5_000.0, own=1.0, queue=0.0)


def last(busy: float | None, own: float = 1.0, queue: float = 0.0) -> Reading:
    """Ten seconds later."""
    return Reading(at=110.0, busy=busy, own=own, queue=queue)


@pytest.mark.parametrize(
    ("reading", "share"),
    [
        (last(5_000.0), 1.0),
        # Ourselves alone.
        (last(5_010.0, own=11.0), 1.0),
        # One processor of two is busy with something else: three threads want two.
        (last(5_010.0), 2 / 3),
        # The mean of the last minute counts our own run that has just ended, and says nothing where half is free.
        (last(5_010.0, queue=4.0), 2 / 3),
        # Nothing is free: as many threads as were waiting.
        (last(5_020.0, queue=4.0), 2 / 6),
        (last(5_020.0, own=11.0, queue=4.0), 2 / 5),
        (last(5_020.0, queue=0.5), 2 / 4),
        (last(None), 1.0),
        (Reading(at=100.0, busy=5_020.0, own=1.0, queue=9.0), 1.0),
    ],
)
def test_the_scheduler_shares_out_evenly_among_all_threads(reading: Reading, share: float) -> None:
    assert load_since(FIRST, reading, vcpus=2, processors=2).free_share == pytest.approx(share)


def test_a_machine_with_more_processors_than_the_job_may_use_has_room_for_others() -> None:
    assert load_since(FIRST, last(5_040.0), vcpus=2, processors=8).free_share == 1.0


def test_nothing_is_said_of_a_load_that_is_not_in_the_way() -> None:
    answer = a_throughput(100.0, Basis.MODELLED)
    assert (Load(free_share=0.96).text, under_load(answer, Load(free_share=0.96))) == ("", answer)
    assert "leave 40% of its processors" in under_load(answer, Load(free_share=0.4)).note


def test_this_system_is_read() -> None:
    first, second = read_system(), read_system()
    assert second.at >= first.at
    assert second.own >= first.own > 0
