"""One launch from the person's side: when it ends itself, where its model goes, what it finds in its way."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from tests.builders import a_job, a_target
from tests.doubles.clock import NOON
from tests.doubles.desk import Desk
from trainplan.planner.errors import BadInputError, RefusedError, ThisMachineError
from trainplan.planner.runs.events import Message
from trainplan.planner.runs.run import Outcome, Phase
from trainplan.planner.runs.runner import deadline_of, output_folder, refuse_unwritable, refused
from trainplan.providers.base import Check, LaunchRequest, PreflightState
from trainplan.workloads.job import OnSlow

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("deadline", "slow_end", "lasting"),
    [
        ("8h", None, 8 * HOUR),
        ("8h", timedelta(minutes=1), 8 * HOUR),
        # Never more than thirty days.
        ("90d", None, 720 * HOUR),
        # Without a wish three times the slow end of the estimate, and at least half an hour.
        (None, 4 * HOUR, 12 * HOUR),
        (None, 300 * HOUR, 720 * HOUR),
        (None, timedelta(seconds=80), timedelta(minutes=30)),
        (None, timedelta(0), timedelta(minutes=30)),
        # Without an estimate thirty days.
        (None, None, 720 * HOUR),
    ],
)
def test_a_run_ends_itself_at_its_deadline_or_when_it_is_far_too_late(
    deadline: str | None, slow_end: timedelta | None, lasting: timedelta
) -> None:
    job = a_job(constraints={"deadline": deadline} if deadline else {})
    assert deadline_of(job, slow_end, NOON) == NOON + lasting


def test_the_model_goes_to_a_folder_of_the_runs_name_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert output_folder(None, "tiny", "run-1") == tmp_path / "tiny-run-1"
    (tmp_path / "tiny-run-1").mkdir()
    (tmp_path / "tiny-run-1" / "from before").touch()
    assert output_folder(None, "tiny", "run-1") == tmp_path / "tiny-run-1", "the same run may bring it home again"
    (tmp_path / "tiny-run-2").touch()
    with pytest.raises(BadInputError, match="is not a folder"):
        output_folder(None, "tiny", "run-2")


def test_the_model_goes_where_the_person_says_unless_something_is_there(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    assert output_folder(tmp_path / "empty", "tiny", "run-1") == tmp_path / "empty"
    assert output_folder(tmp_path / "new" / "deep", "tiny", "run-1") == tmp_path / "new" / "deep"
    with pytest.raises(BadInputError, match="is not empty"):
        output_folder(tmp_path / "full", "tiny", "run-1")
    with pytest.raises(BadInputError, match="is not a folder"):
        output_folder(tmp_path / "full" / "x", "tiny", "run-1")


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    refuse_unwritable(tmp_path / "model")
    refuse_unwritable(tmp_path / "new" / "deep" / "model")
    (tmp_path / "file").touch()
    with pytest.raises(BadInputError, match=r"nothing can be written to .*file$"):
        refuse_unwritable(tmp_path / "file" / "new" / "model")


def test_a_link_is_followed_when_the_run_begins(tmp_path: Path) -> None:
    (tmp_path / "to-nothing").symlink_to(tmp_path / "new")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    assert output_folder(tmp_path / "to-nothing", "tiny", "run-1") == tmp_path / "new"
    with pytest.raises(BadInputError, match=r"circle' cannot be a folder|circle is there and is not a folder"):
        output_folder(tmp_path / "circle", "tiny", "run-1")


def test_a_name_is_refused_that_is_too_long_only_while_the_model_is_fetched(tmp_path: Path) -> None:
    assert output_folder(tmp_path / ("x" * 246), "tiny", "run-1").name == "x" * 246
    with pytest.raises(BadInputError, match="cannot be a folder"):
        output_folder(tmp_path / ("x" * 250), "tiny", "run-1")


def test_no_two_runs_bring_their_models_to_one_folder(desk: Desk) -> None:
    """One would replace the other's model.keras. An ended run's folder is free once its model is not there any more."""
    run, runner, job = desk.planned(), desk.runner(), a_job(epochs=9)
    draft = runner.draft(job, [a_target()], None, desk.folder / "x" / ".." / "model")
    with pytest.raises(BadInputError, match=f"the model of run {run.run_id} goes to {run.model_folder}"):
        runner.record(draft, job, {})
    runner.refuse_taken(Path(run.model_folder), run.run_id)
    desk.journal.save(replace(run, phase=Phase.DONE, outcome=Outcome.SUCCEEDED), NOON)
    Path(run.model_folder).mkdir()
    (Path(run.model_folder) / "model.keras").touch()
    with pytest.raises(BadInputError, match=f"the model of run {run.run_id} is in"):
        runner.record(draft, job, {})
    (Path(run.model_folder) / "model.keras").unlink()
    assert runner.record(draft, job, {}) is draft


def test_a_run_that_goes_on_does_not_write_over_the_model_of_another(desk: Desk) -> None:
    run, runner, job = desk.planned(), desk.runner(), a_job(epochs=9)
    run = replace(run, phase=Phase.DONE, outcome=Outcome.STOPPED)
    desk.journal.save(run, NOON)
    other = runner.record(runner.draft(job, [a_target()], None, desk.folder / "model"), job, {})
    with pytest.raises(BadInputError, match=f"the model of run {other.run_id} goes to"):
        runner.again(run, run, None)
    assert runner.again(run, run, desk.folder / "elsewhere").model_folder == str(desk.folder / "elsewhere")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_folder_of_somebody_elses_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    for folder in (tmp_path, tmp_path / "model"):
        with pytest.raises(BadInputError, match="nothing can be written to"):
            refuse_unwritable(folder)


def test_a_draft_is_recorded_nowhere(desk: Desk) -> None:
    placements = [a_target("0.5"), a_target("0.7", provider="aws")]
    job = a_job(constraints={"budget_usd": 10}, on_slow="replan")
    draft = desk.runner().draft(job, placements, HOUR, None)
    assert (draft.phase, draft.job_name, draft.provider) == (Phase.PLANNED, "tiny", "local")
    assert (draft.job_digest, draft.usd_per_hour) == (a_job().digest(), Decimal("0.5"))
    assert (draft.targets, draft.deadline) == (tuple(placements), NOON + 3 * HOUR)
    assert (draft.budget_usd, draft.on_slow) == (10, OnSlow.REPLAN)
    assert draft.run_id.startswith("261121-")
    assert Path(draft.model_folder).name == f"tiny-{draft.run_id}"
    assert desk.journal.runs() == []
    assert desk.provider.calls == []


def test_ids_do_not_repeat(desk: Desk) -> None:
    drafts = [desk.runner().draft(a_job(), [a_target()], None, None) for _ in range(100)]
    assert len({draft.run_id for draft in drafts}) == 100


def test_a_run_that_goes_on_keeps_its_folder_unless_another_is_given(desk: Desk) -> None:
    run = replace(desk.planned(), phase=Phase.DONE, outcome=Outcome.STOPPED)
    desk.journal.save(run, NOON)
    draft = desk.runner().draft(a_job(), [a_target()], HOUR, None)
    assert desk.runner().again(run, draft, None).model_folder == run.model_folder
    other = desk.runner().again(run, draft, desk.folder / "other")
    assert other.model_folder == str(desk.folder / "other")


def test_a_run_that_goes_on_does_so_under_the_limits_and_in_the_placements_of_now(desk: Desk) -> None:
    run = replace(desk.planned(), phase=Phase.DONE, outcome=Outcome.STOPPED, stop_asked=NOON, slow=OnSlow.STOP)
    desk.journal.save(run, NOON)
    job = a_job(constraints={"deadline": "9h", "budget_usd": 3}, on_slow="continue")
    draft = desk.runner().draft(job, [a_target("0.1")], HOUR, None)
    again = desk.runner().again(run, draft, None)
    assert (again.deadline, again.budget_usd, again.on_slow) == (NOON + 9 * HOUR, 3, OnSlow.CONTINUE)
    assert (again.targets, again.run_id) == (draft.targets, run.run_id)
    assert (again.outcome, again.stop_asked, again.slow) == (None, None, None)


def a_request(desk: Desk) -> LaunchRequest:
    run = desk.planned()
    return desk.request()(run, 1, run.targets[0])


@pytest.mark.parametrize(("provider", "kind"), [("local", ThisMachineError), ("aws", RefusedError)])
def test_a_refused_preflight_has_the_class_of_its_placement(desk: Desk, provider: str, kind: type[Exception]) -> None:
    assert refused(provider) is kind
    desk.provider.name = provider
    desk.provider.checks = (Check(name="identity", state=PreflightState.REFUSED, detail="none", fix="sign in"),)
    request = a_request(desk)
    with pytest.raises(kind, match="identity: none"):
        desk.runner().prepare(request)
    assert desk.provider.prepared == []


def test_a_quota_that_is_too_small_in_the_first_placement_is_told_and_no_end(desk: Desk) -> None:
    """Another placement may have enough."""
    desk.provider.checks = (Check(name="quota", state=PreflightState.REFUSED, detail="0 of 4 vCPUs", fix="ask"),)
    request = a_request(desk)
    desk.runner().prepare(request)
    assert desk.provider.prepared == [request]
    assert desk.events_of(Message)[0].text == "0 of 4 vCPUs: the launch will look further"


def test_preparing_makes_ready_what_takes_long(desk: Desk) -> None:
    request = a_request(desk)
    desk.runner().prepare(request)
    assert desk.provider.prepared == [request]
