"""What other programs leave of the processors, by hand."""

from __future__ import annotations

import pytest

from trainplan.planner.planning.load import Load, Reading, load_since, read_system

FIRST = Reading(at=100.0, busy=5_000.0, own=1.0, threads=5)


def last(busy: float | None, own: float = 1.0, threads: int = 1) -> Reading:
    """Ten seconds later."""
    return Reading(at=110.0, busy=busy, own=own, threads=threads)


@pytest.mark.parametrize(
    ("reading", "share"),
    [
        (last(5_000.0), 1.0),
        # Ourselves alone.
        (last(5_010.0, own=11.0), 1.0),
        # One processor of two is busy with something else: three threads want two.
        (last(5_010.0), 2 / 3),
        # Half is free: nobody waits, whatever runs at this instant.
        (last(5_010.0, threads=5), 2 / 3),
        # Nothing is free: as many threads as wait at both readings, without this one.
        (last(5_020.0, threads=5), 2 / 6),
        (last(5_020.0, own=11.0, threads=4), 2 / 5),
        (last(5_020.0, threads=1), 2 / 4),
        # Many for a moment, of the first reading alone: our own training has just ended.
        (last(5_020.0, own=21.0, threads=1), 1.0),
        (last(None), 1.0),
        (Reading(at=100.0, busy=5_020.0, own=1.0, threads=9), 1.0),
    ],
)
def test_the_scheduler_shares_out_evenly_among_all_threads(reading: Reading, share: float) -> None:
    assert load_since(FIRST, reading, vcpus=2, processors=2).free_share == pytest.approx(share)


def test_a_machine_with_more_processors_than_the_job_may_use_has_room_for_others() -> None:
    assert load_since(FIRST, last(5_040.0), vcpus=2, processors=8).free_share == 1.0


def test_nothing_is_said_of_a_load_that_is_not_in_the_way() -> None:
    assert Load(free_share=0.96).text == ""
    assert Load(free_share=0.46).text == "slower while other programs run (now: 46% free)"


def test_this_system_is_read() -> None:
    first, second = read_system(), read_system()
    assert second.at >= first.at
    assert second.own >= first.own > 0
