"""Jobs as squeue shows them, and what they leave, as values of the seam."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from tests.builders import an_attempt
from trainplan.planner.runs.directory.signs import Sign, silent_since
from trainplan.providers.base import EndKind, InstanceState, RunId
from trainplan.providers.slurm.reply import Traces, instance, owned, slurm_jobs
from trainplan.providers.slurm.request import AttemptName

NAME = AttemptName(run_id=RunId("261123-ab"), attempt=2)
COMMENT = (
    "trainplan-run=261123-ab;trainplan-attempt=2;trainplan-deadline=2026-11-24T00:00:00%2B00:00;trainplan-client=c%7C1"
)
AFTER_START = Traces(has_begun=True, was_submitted=True)


def line(number: int, state: str, *, name: str = NAME.text, started: str = "1795467465", nodes: int = 2) -> str:
    return f"{number}|{name}|{state}|1795467462|{started}|1795467765|None|{nodes}|{COMMENT}\n"


def test_only_jobs_of_ours_are_read_the_oldest_first() -> None:
    text = (
        line(9, "RUNNING") + "3|x|PENDING|1|N/A|N/A|Resources|1|(null)\n" + line(7, "PENDING") + "nonsense\n7_1|a|b\n"
    )
    assert [job.number for job in slurm_jobs(text)] == [7, 9]


def test_a_comment_with_a_separator_in_it_is_read_whole() -> None:
    (job,) = slurm_jobs(line(7, "RUNNING"))
    resource = owned(job, Decimal("0.5"))
    assert (resource.id, resource.run_id, resource.attempt, resource.client) == (NAME.text, "261123-ab", 2, "c|1")
    assert resource.deadline == datetime(2026, 11, 24, tzinfo=UTC)
    assert resource.usd_per_hour == Decimal("1.0")


@pytest.mark.parametrize(
    ("state", "traces", "expected"),
    [
        ("PENDING", Traces(), InstanceState.PENDING),
        ("RUNNING", AFTER_START, InstanceState.RUNNING),
        ("COMPLETING", AFTER_START, InstanceState.RUNNING),
        ("RUNNING", Traces(has_begun=True, asked_to_stop=True), InstanceState.STOPPING),
        ("RUNNING", Traces(has_begun=True, exit_code=137), InstanceState.STOPPING),
        ("A_STATE_OF_NEXT_YEAR", AFTER_START, InstanceState.RUNNING),
    ],
)
def test_a_job_that_lives_has_a_state(state: str, traces: Traces, expected: InstanceState) -> None:
    made = instance(NAME, slurm_jobs(line(7, state)), traces)
    assert made is not None
    assert (made.state, made.end) == (expected, None)


@pytest.mark.parametrize(
    ("state", "traces", "end"),
    [
        ("COMPLETED", Traces(has_begun=True, exit_code=0), EndKind.DONE),
        ("FAILED", Traces(has_begun=True, exit_code=65), EndKind.BAD_JOB),
        ("CANCELLED", Traces(asked_to_stop=True), EndKind.STOPPED),
        ("CANCELLED", AFTER_START, EndKind.KILLED),
        ("CANCELLED by 1000", AFTER_START, EndKind.KILLED),
        ("FAILED", AFTER_START, EndKind.LOST),
        ("FAILED", Traces(was_submitted=True), EndKind.FAILED),
        ("TIMEOUT", AFTER_START, EndKind.RECLAIMED),
        ("NODE_FAIL", AFTER_START, EndKind.LOST),
        ("OUT_OF_MEMORY", AFTER_START, EndKind.OUT_OF_MEMORY),
        ("PREEMPTED", AFTER_START, EndKind.RECLAIMED),
    ],
)
def test_a_job_that_has_ended_says_how(state: str, traces: Traces, end: EndKind) -> None:
    made = instance(NAME, slurm_jobs(line(7, state)), traces)
    assert made is not None
    assert (made.state, made.end) == (InstanceState.ENDED, end)
    assert made.ended_at == datetime.fromtimestamp(1795467765, UTC)
    assert made.reason


def test_a_requeued_job_says_that_something_was_lost() -> None:
    (first,) = slurm_jobs(line(7, "PENDING", started="1795469000"))
    again, at_first = instance(NAME, (first,), AFTER_START), instance(NAME, (first,), Traces(was_submitted=True))
    assert again is not None
    assert at_first is not None
    assert (again.state, again.bills, again.ended_at) == (InstanceState.PENDING, False, None)
    assert again.reason == "Slurm has requeued its job: a node was lost, or it had to give way"
    assert at_first.reason is None


def test_a_requeued_job_is_charged_for_from_its_first_start_on() -> None:
    """Whoever looks after the requeue alone sees nothing of it in Slurm."""
    began = datetime.fromtimestamp(1795460000, UTC)
    made = instance(NAME, slurm_jobs(line(7, "COMPLETED")), replace(AFTER_START, exit_code=0, began_at=began))
    assert made is not None
    assert made.bills_from == began


def test_a_second_job_of_the_attempt_that_gave_way_is_not_the_attempt() -> None:
    made = instance(NAME, slurm_jobs(line(8, "COMPLETED") + line(7, "RUNNING")), AFTER_START)
    assert made is not None
    assert made.state is InstanceState.RUNNING


def test_what_slurm_has_forgotten_is_told_by_the_run_directory() -> None:
    done, lost = instance(NAME, (), Traces(exit_code=0)), instance(NAME, (), Traces(was_submitted=True))
    assert done is not None
    assert lost is not None
    assert (done.end, lost.end) == (EndKind.DONE, EndKind.LOST)
    assert instance(NAME, (), Traces()) is None


def test_a_job_that_waits_bills_nothing() -> None:
    made = instance(NAME, slurm_jobs(line(7, "PENDING", started="N/A")), Traces())
    assert made is not None
    assert not made.bills
    (job,) = slurm_jobs(line(7, "PENDING", started="N/A"))
    assert owned(job, Decimal(1)).usd_per_hour is None


def test_after_a_requeue_the_newest_start_counts() -> None:
    """Its last sign of life is from before the wait, which may have taken hours: it does not hang."""
    waited = line(7, "RUNNING", started="1795480000")
    made = instance(NAME, slurm_jobs(waited), AFTER_START)
    assert made is not None
    assert made.launched_at == datetime.fromtimestamp(1795480000, UTC)
    sign = Sign(datetime.fromtimestamp(1795467500, UTC), trains=True)
    now = datetime.fromtimestamp(1795480060, UTC)
    attempt = an_attempt(asked_at=datetime.fromtimestamp(1795467462, UTC), sent_at=None)
    assert silent_since(attempt, made, sign, now) == ""
