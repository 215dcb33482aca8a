"""A run from Python: launched on the simulated cloud, followed, looked at, stopped."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from tests.desk import own_home
from tests.unit.planner.cli.command import plan as command
from trainplan.planner.api.ask import Notebook, Reply, ask
from trainplan.planner.api.job import Job
from trainplan.planner.api.launch import launch
from trainplan.planner.api.plan import Plan, estimate
from trainplan.planner.api.run import Run, runs
from trainplan.planner.clock import SystemClock
from trainplan.planner.errors import BadInputError, NothingLeftError, RefusedError, TrainplanError, UnknownRunError

EXAMPLES = Path(__file__).parents[4] / "examples"


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return estimate(Job.read(EXAMPLES / "digits-vgg.yaml"), providers=["sim"])


def test_a_run_is_launched_followed_and_found_again(plan: Plan, tmp_path: Path) -> None:
    offer = plan[1]
    run = launch(offer, max_cost_usd=3, yes=True, model_folder=tmp_path / "model", quiet=True)
    assert run.status().phase in ("booting", "running")
    assert run.folder == tmp_path / "model"
    assert run.model_path is None
    assert run.receipt() is None
    status = run.wait(quiet=True)
    assert (status.outcome, status.is_done, status.usd_per_hour) == ("succeeded", True, 0)
    assert status.step == status.total_steps
    assert 0 < status.usd <= 3
    receipt = run.receipt()
    assert receipt is not None
    (placement,) = receipt["placements"]
    assert offer.instance_type in placement["where"]
    assert offer.region in placement["where"]
    assert runs() == [run]
    assert Run(run.id[:10]) == run
    assert "succeeded" in repr(run)
    assert run.wait(quiet=True) == status, "what has ended is not launched once more"


def test_a_status_says_what_the_command_says(plan: Plan) -> None:
    run = launch(plan[0], max_cost_usd=3, yes=True, quiet=True)
    for _ in range(2):
        status, (row,) = run.status(), command("status", run.id, "--json").json
        assert row["phase"] == status.phase
        assert row["outcome"] == status.outcome
        assert row["bills_usd_per_hour"] == status.usd_per_hour
        assert row["usd_so_far"] == pytest.approx(status.usd, abs=0.01)  # simulated time goes on between the looks
        assert datetime.fromisoformat(row["deadline"]) == status.ends_by
        run.wait(quiet=True)


def test_columns_of_the_history_are_equally_long(plan: Plan) -> None:
    run = launch(plan, max_cost_usd=3, yes=True, quiet=True)
    run.wait(quiet=True)
    history = run.history()
    assert set(history) >= {"epoch", "loss", "accuracy", "validation_accuracy", "seconds"}
    assert len({len(column) for column in history.values()}) == 1


def test_a_run_is_stopped(plan: Plan) -> None:
    run = launch(plan[0], max_cost_usd=3, yes=True, quiet=True)
    assert run.stop(quiet=True).outcome == "stopped"
    assert run.wait(quiet=True).outcome == "stopped"
    assert run.stop(quiet=True).outcome == "stopped"


def test_where_nobody_can_be_asked_nothing_is_launched(plan: Plan) -> None:
    with pytest.raises(BadInputError) as caught:
        launch(plan[0], max_cost_usd=3)
    assert caught.value.hint == "yes=True launches without asking"
    assert runs() == []


def test_what_is_no_offer_is_refused(plan: Plan) -> None:
    with pytest.raises(BadInputError, match="an offer is expected"):
        launch(plan.job, max_cost_usd=3)  # type: ignore[arg-type]


def test_an_offer_that_is_only_estimated_is_refused_with_the_reason(plan: Plan) -> None:
    """PyTorch leaves three of four T4 idle; one alone, in the same region, is another offer."""
    job = Job.from_dict({**plan.job.to_dict(), "framework": "torch"})
    torch = estimate(job, providers=["sim"], devices=["T4"])
    several = next(offer for offer in torch if offer.device_count == 4)
    assert not several.can_launch
    assert any(offer.device_count == 1 and offer.can_launch for offer in torch)
    with pytest.raises(NothingLeftError, match="the trainer uses one device with PyTorch"):
        launch(several, max_cost_usd=3, yes=True)
    assert runs() == []


def test_the_cap_has_no_default_and_holds(plan: Plan) -> None:
    with pytest.raises(TypeError, match="max_cost_usd"):
        launch(plan[0], yes=True)  # type: ignore[call-arg]
    with pytest.raises(NothingLeftError, match="max_cost_usd"):
        launch(plan[0], max_cost_usd=0.001, yes=True)
    with pytest.raises(NothingLeftError):
        launch(plan[0], max_cost_usd=0, yes=True)
    for wrong in (-1, "much", float("nan"), float("inf")):
        with pytest.raises(BadInputError, match="max_cost_usd"):
            launch(plan[0], max_cost_usd=wrong, yes=True)  # type: ignore[arg-type]
    assert runs() == []
    run = launch(plan[0], max_cost_usd=Decimal("0.5"), yes=True, quiet=True)
    from trainplan.planner.api.run import _journal

    with _journal() as (journal, _):
        assert journal.run(run.id).budget_usd == Decimal("0.5")
    run.stop(quiet=True)


def test_nothing_is_launched_whose_model_could_not_be_kept(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadInputError, match=r"nothing can be written to .*file") as caught:
        launch(plan[0], max_cost_usd=3, yes=True, model_folder=tmp_path / "file" / "model")
    assert caught.value.hint == "choose another model_folder"
    assert runs() == []


def test_a_run_that_lives_is_attached_to(plan: Plan) -> None:
    run = launch(plan[0], max_cost_usd=3, yes=True, quiet=True)
    assert launch(plan[0], max_cost_usd=3, yes=True, quiet=True) == run
    other = launch(plan[0], max_cost_usd=3, yes=True, another=True, quiet=True)
    assert set(runs()) == {run, other}
    for one in (run, other):
        assert one.stop(quiet=True).is_done


def test_attaching_is_told_in_words_of_python(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    run = launch(plan[0], max_cost_usd=3, yes=True, quiet=True)
    capsys.readouterr()
    launch(plan[0], max_cost_usd=3, yes=True)
    assert ": attaching to it (another=True launches another)" in capsys.readouterr().err
    run.stop(quiet=True)


def test_what_narrows_a_search_is_an_argument_of_estimate_where_a_launch_says_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_home(tmp_path, monkeypatch)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(RefusedError, match="nobody is signed in") as caught:
        launch(estimate(Job.read(EXAMPLES / "digits-vgg.yaml")), max_cost_usd=3, yes=True)
    assert "estimate(job, providers=['local']) trains on this machine" in caught.value.hint


def test_an_unknown_run_is_refused(plan: Plan) -> None:
    with pytest.raises(UnknownRunError):
        Run("990101-00000000")
    with pytest.raises(TrainplanError):
        Run("")
    with pytest.raises(UnknownRunError, match="the id of a run is expected, not 26"):
        Run(26)  # type: ignore[arg-type]


def test_a_run_that_cannot_be_read_hides_no_other(
    plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged, run = (launch(plan[0], max_cost_usd=3, yes=True, another=True, quiet=True) for _ in range(2))
    with sqlite3.connect(tmp_path / "home" / "journal.sqlite") as db:
        db.execute(
            "UPDATE runs SET run_json = json_set(run_json, '$.phase', 'no such phase') WHERE run_id = ?", (damaged.id,)
        )
    db.close()
    capsys.readouterr()
    assert runs() == [run]
    assert damaged.id in capsys.readouterr().err


def test_a_run_of_another_home_is_shown_and_not_found(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = launch(plan[0], max_cost_usd=3, yes=True, quiet=True)
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "another home"))
    assert repr(run) == f"<Run {run.id}>"
    with pytest.raises(UnknownRunError):
        run.status()


class _Kernel:
    _allow_stdin = True


@pytest.mark.parametrize(("typed", "reply"), [("y", Reply.YES), ("no", Reply.NO), ("", Reply.YES)])
def test_a_notebook_shows_a_field_for_the_answer(typed: str, reply: Reply) -> None:
    questions: list[str] = []

    def read_line(question: str) -> str:
        questions.append(question)
        return typed

    assert ask("launch?", Notebook(_Kernel(), read_line), SystemClock(), default=True) is reply
    assert questions == ["launch? [Y/n]: "]


def test_a_notebook_without_a_person_asks_nobody() -> None:
    def refuse(question: str) -> str:
        raise AssertionError(question)

    assert ask("launch?", Notebook(object(), refuse), SystemClock()) is Reply.NOBODY
