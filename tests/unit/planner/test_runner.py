"""One launch from the person's side: when it ends itself, where its model goes, what it finds in its way."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from planner.errors import BadInputError, RefusedError, ThisMachineError
from planner.run import Phase
from planner.runner import deadline_of, output_folder, refused, request_for
from providers.base import Check, PreflightState
from tests.builders import a_job, a_machine_estimate, a_run_time, an_offer
from tests.doubles.clock import NOON

if TYPE_CHECKING:
    from planner.plan import MachineEstimate
    from tests.doubles.desk import Desk

HOUR = timedelta(hours=1)
QUOTE = a_machine_estimate(time=a_run_time(4 * 3600))  # 8 hours less the minute of setup and what comes after, slow end


@pytest.mark.parametrize(
    ("limits", "usd_per_hour", "quote", "lasting"),
    [
        # The person's own, in the whole hours it has or that its money buys.
        ({"deadline": "8h"}, "0", QUOTE, 8 * HOUR),
        ({"deadline": "8h"}, "2", QUOTE, 8 * HOUR),
        ({"budget_usd": 10}, "2", QUOTE, 5 * HOUR),
        ({"budget_usd": 10, "deadline": "8h"}, "2", QUOTE, 5 * HOUR),
        ({"budget_usd": 10, "deadline": "3h"}, "2", QUOTE, 3 * HOUR),
        ({"budget_usd": 1}, "3600", QUOTE, timedelta(seconds=1)),
        # Never more than thirty days.
        ({"deadline": "90d"}, "0", QUOTE, 720 * HOUR),
        ({"budget_usd": 1440}, "2", QUOTE, 720 * HOUR),
        ({"budget_usd": 1439}, "2", QUOTE, 719.5 * HOUR),
        ({"budget_usd": 10**9}, "0.00000000001", QUOTE, 720 * HOUR),
        # Without a wish three times the slow end of the estimate, and at least half an hour.
        ({}, "2", QUOTE, 3 * timedelta(seconds=70 + 2 * (4 * 3600 - 70))),
        ({}, "2", a_machine_estimate(time=a_run_time(80)), timedelta(minutes=30)),
        ({"budget_usd": 10}, "0", a_machine_estimate(time=a_run_time(80)), timedelta(minutes=30)),
        # Without an estimate thirty days.
        ({}, "2", None, 720 * HOUR),
        ({}, "2", a_machine_estimate(time=None), 720 * HOUR),
    ],
)
def test_a_run_ends_itself_at_the_soonest_of_its_limits(
    limits: dict[str, Any], usd_per_hour: str, quote: MachineEstimate | None, lasting: timedelta
) -> None:
    offer = an_offer(usd_per_hour=Decimal(usd_per_hour))
    assert deadline_of(a_job(constraints=limits), offer, quote, NOON) == NOON + lasting


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


def test_a_draft_is_recorded_nowhere(desk: Desk) -> None:
    draft = desk.runner().draft(a_job(), an_offer(usd_per_hour=Decimal("0.5")), a_machine_estimate(), None)
    assert (draft.phase, draft.job_name, draft.provider) == (Phase.PLANNED, "tiny", "local")
    assert (draft.job_digest, draft.usd_per_hour) == (a_job().digest(), Decimal("0.5"))
    assert draft.run_id.startswith("261121-")
    assert Path(draft.model_folder).name == f"tiny-{draft.run_id}"
    assert desk.journal.runs() == []
    assert desk.provider.calls == []


def test_ids_do_not_repeat(desk: Desk) -> None:
    drafts = [desk.runner().draft(a_job(), an_offer(), None, None) for _ in range(100)]
    assert len({draft.run_id for draft in drafts}) == 100


def test_a_run_that_goes_on_keeps_its_folder_unless_another_is_given(desk: Desk) -> None:
    run = replace(desk.planned(), phase=Phase.DONE)
    assert desk.runner().again(run, NOON + HOUR, None).model_folder == run.model_folder
    other = desk.runner().again(run, NOON + HOUR, desk.folder / "other")
    assert (other.model_folder, other.deadline) == (str(desk.folder / "other"), NOON + HOUR)


@pytest.mark.parametrize(("provider", "kind"), [("local", ThisMachineError), ("aws", RefusedError)])
def test_a_refused_preflight_has_the_class_of_its_place(desk: Desk, provider: str, kind: type[Exception]) -> None:
    assert refused(provider) is kind
    desk.provider.name = provider
    desk.provider.checks = (Check(name="quota", state=PreflightState.REFUSED, detail="none", fix="ask for some"),)
    request = request_for(a_job(), an_offer())(desk.planned(), 1)
    with pytest.raises(kind, match="quota: none"):
        desk.runner().prepare(request)
    assert desk.provider.prepared == []


def test_preparing_makes_ready_what_takes_long(desk: Desk) -> None:
    request = request_for(a_job(), an_offer())(desk.planned(), 1)
    desk.runner().prepare(request)
    assert desk.provider.prepared == [request]
