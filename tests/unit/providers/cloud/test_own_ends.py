"""A request may say when what is inside the machine ends it: labels and the cloud's timer keep to the deadline."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.builders import RUN_ID, a_job, an_offer
from tests.doubles.clock import FakeClock
from tests.doubles.fake_provider import FakeProvider
from tests.unit.providers.cloud.test_machine import NOON, part, spec_of
from trainplan.planner.runs.journal.records import request_from_record, request_record
from trainplan.providers.base import LABEL_DEADLINE, LaunchRequest
from trainplan.providers.sim.translate import SimResolution, run_instance
from trainplan.providers.values import OwnEnds

ENDS = OwnEnds(trainer=NOON + timedelta(hours=2), timer=NOON + timedelta(minutes=20))
SIM = SimResolution(image="img-1")
DEADLINE = NOON + timedelta(minutes=23)


def armed(user_data: str) -> dict[str, datetime]:
    """When the timers inside a machine end it, by their names."""
    return {
        name: datetime.strptime(at, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
        for name, at in re.findall(r"arm (\w+) '([^']+) UTC'", user_data)
    }


def test_the_timer_in_the_machine_and_its_trainer_have_instants_of_their_own() -> None:
    made = part(deadline=DEADLINE, own_ends=ENDS)
    assert armed(made.user_data) == {"deadline": ENDS.timer, "boot": ENDS.timer}
    spec = spec_of(made)
    assert spec.deadline == ENDS.trainer.timestamp()
    assert spec.command[spec.command.index("--deadline-unix") + 1] == f"{ENDS.trainer.timestamp():.0f}"


def test_without_them_both_end_at_the_deadline() -> None:
    made = part(deadline=DEADLINE)
    assert armed(made.user_data)["deadline"] == DEADLINE
    assert spec_of(made).deadline == DEADLINE.timestamp()


def a_request(**changes: Any) -> LaunchRequest:
    return LaunchRequest(run_id=RUN_ID, attempt=1, offer=an_offer(), job=a_job(), deadline=DEADLINE, **changes)


def test_the_simulated_cloud_is_told_the_same() -> None:
    told: Any = run_instance(a_request(own_ends=ENDS, resolution=SIM)).parameters
    assert told["labels"][LABEL_DEADLINE] == DEADLINE.isoformat()
    assert told["userData"]["deadline"] == ENDS.timer.isoformat()
    assert told["userData"]["trains_until"] == ENDS.trainer.isoformat()
    usual: Any = run_instance(a_request(resolution=SIM)).parameters
    assert usual["userData"]["deadline"] == DEADLINE.isoformat()
    assert "trains_until" not in usual["userData"]


def test_they_survive_the_journal() -> None:
    request, here = a_request(own_ends=ENDS), FakeProvider(FakeClock())
    assert request_from_record(request_record(request), here) == request
    older = {name: value for name, value in request_record(a_request()).items() if name != "own_ends"}
    assert request_from_record(older, here) == a_request()
