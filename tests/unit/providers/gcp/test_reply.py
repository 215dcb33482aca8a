"""How a stopped machine of Google's has ended, as far as its own description tells."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from trainplan.providers.base import LABEL_DEADLINE, LABEL_RUN, EndKind
from trainplan.providers.gcp.reply import ended_at, instance_of

DEADLINE = "20261121t120000z"


def stopped(**more: str) -> dict[str, object]:
    return {
        "name": "trainplan-r1-1",
        "zone": "https://www.googleapis.com/compute/v1/projects/p/zones/us-central1-a",
        "status": "TERMINATED",
        "labels": {LABEL_RUN: "r1", LABEL_DEADLINE: DEADLINE},
        **more,
    }


def test_a_machine_that_stopped_after_its_deadline_ended_itself() -> None:
    """`lastStopTimestamp` is RFC 3339 text (Compute Engine API v1, instances)."""
    assert instance_of(stopped(lastStopTimestamp="2026-11-21T12:00:30.000+00:00")).end is EndKind.DEADLINE
    assert instance_of(stopped(lastStopTimestamp="2026-11-21T11:59:30.000+00:00")).end is not EndKind.DEADLINE


def test_a_stopped_machine_without_the_time_of_its_stop_is_said_to_be_stopped_and_no_more() -> None:
    ended = instance_of(stopped())
    assert ended.end is not EndKind.DEADLINE
    assert ended.ended_at is None


def operation(kind: str, minute: int, **more: object) -> dict[str, object]:
    return {"operationType": kind, "status": "DONE", "endTime": f"2026-11-21T12:{minute:02}:00.000+00:00", **more}


@pytest.mark.parametrize(
    ("operations", "minute"),
    [
        ([operation("delete", 30), operation("insert", 1)], 30),
        ([operation("delete", 30), operation("compute.instances.guestTerminate", 20)], 20),
        ([operation("compute.instances.preempted", 10)], 10),
        ([operation("delete", 30, error={"errors": []}), operation("insert", 1)], None),
        ([operation("delete", 30, status="RUNNING"), operation("compute.instances.migrateOnHostMaintenance", 5)], None),
        ([], None),
    ],
)
def test_a_machine_that_is_gone_ended_with_the_first_operation_that_ends_one(
    operations: list[dict[str, object]], minute: int | None
) -> None:
    expected = None if minute is None else datetime(2026, 11, 21, 12, minute, tzinfo=UTC)
    assert ended_at(operations) == expected
