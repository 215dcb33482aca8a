"""The record of a provider is behind by minutes: a receipt with "at most" is corrected by it later, once."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tests.builders import a_target
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import stubborn
from tests.doubles.fake_provider import FakeProvider
from tests.unit.planner.runs.execution.followed import Crash, Fuse
from trainplan.planner.api.standing import ask_records_again
from trainplan.planner.runs.events import Message
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.runner import RECORDS_KEPT, RECORDS_LAG
from trainplan.providers.errors import CredentialsError, PermissionDeniedError, ProviderError, TransientError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trainplan.planner.runs.run import Run
    from trainplan.providers.base import InstanceRef, Provider

LONG_BEFORE_IT_WAS_LOOKED_AT = timedelta(seconds=7)


@dataclass
class WithRecord(FakeProvider):
    """Has a record of the ends of its machines, empty at first."""

    told_at: datetime | None = None
    error: ProviderError | None = None
    questions: int = 0

    def ended_at(self, ref: InstanceRef) -> datetime | None:
        del ref
        self.questions += 1
        if self.error is not None:
            raise self.error
        return self.told_at


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    desk.provider = WithRecord(desk.clock)
    yield desk
    desk.close()


def ended_unseen(desk: Desk) -> tuple[Run, datetime]:
    """An ended run whose machine went between two looks, and when it went."""
    desk.scripts(stubborn)
    desk.clock.at_sleep[3] = Fuse(1).burn
    with pytest.raises(Crash):
        desk.launch(targets=[a_target("3600")])
    (run,) = desk.journal.live()
    del desk.provider.machines[f"{run.run_id}-1"]
    last_word = {"state": "stopped", "time": desk.clock.now().isoformat()}
    desk.provider.store(run.run_id).put("attempts/1/status.json", json.dumps(last_word).encode())
    ended_at = desk.clock.now() + LONG_BEFORE_IT_WAS_LOOKED_AT
    desk.clock.advance(1200)
    return desk.runner().settle(run), ended_at


def ask_again(desk: Desk) -> None:
    for run, written_at in desk.journal.unsure():
        with suppress(ProviderError):
            desk.runner().ask_again(run, written_at)


def cost(desk: Desk, run: Run) -> tuple[float, bool]:
    receipt = desk.journal.receipt(run.run_id)
    assert receipt is not None
    return receipt["actual_usd"], receipt["at_most"]


def test_a_receipt_is_corrected_once_when_the_record_has_it(desk: Desk) -> None:
    assert isinstance(desk.provider, WithRecord)
    run, ended_at = ended_unseen(desk)
    most_usd, at_most = cost(desk, run)
    desk.provider.told_at, asked = ended_at, desk.provider.questions
    ask_again(desk)
    assert (at_most, desk.provider.questions) == (True, asked), "it may lack what was done a moment ago"
    desk.clock.advance(RECORDS_LAG.total_seconds())
    ask_again(desk)
    (attempt,) = desk.journal.run(run.run_id).attempts
    usd, at_most = cost(desk, run)
    assert (attempt.ended_at, attempt.ended_after, at_most) == (ended_at, None, False)
    assert usd == pytest.approx((ended_at - run.created_at).total_seconds(), abs=1.5)
    assert usd < most_usd
    said = desk.events_of(Message)[-1].text
    assert said.startswith(f"run {run.run_id} has cost ${usd:.2f}, not ${most_usd:,.2f}: the provider's record")
    assert desk.journal.unsure() == []
    assert desk.runner().settle(desk.journal.run(run.run_id)).attempts == (attempt,)


def test_a_record_that_does_not_answer_is_asked_by_the_next_command(desk: Desk) -> None:
    assert isinstance(desk.provider, WithRecord)
    run, ended_at = ended_unseen(desk)
    desk.clock.advance(RECORDS_LAG.total_seconds())
    desk.provider.error = TransientError("no answer")
    ask_again(desk)
    assert cost(desk, run)[1]
    desk.provider.error, desk.provider.told_at = None, ended_at
    ask_again(desk)
    assert not cost(desk, run)[1]


@pytest.mark.parametrize(("error", "later"), [(PermissionDeniedError("no right"), RECORDS_LAG), (None, RECORDS_KEPT)])
def test_a_record_that_may_not_be_read_or_is_not_kept_is_asked_no_more(
    desk: Desk, error: ProviderError | None, later: timedelta
) -> None:
    assert isinstance(desk.provider, WithRecord)
    run, _ = ended_unseen(desk)
    before = cost(desk, run)
    desk.provider.error = error
    desk.clock.advance(later.total_seconds())
    ask_again(desk)
    assert cost(desk, run) == before
    assert desk.journal.unsure() == []


def test_a_provider_that_nobody_is_signed_in_to_is_asked_once_by_a_command(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended_unseen(desk)
    unsure = desk.journal.unsure()
    monkeypatch.setattr(Journal, "unsure", lambda _: [*unsure, *unsure])
    asked: list[str] = []

    def signed_out(name: str) -> Provider:
        asked.append(name)
        raise CredentialsError("expired")

    ask_records_again(desk.journal, desk.settings, signed_out, desk.events.append)
    assert (len(unsure), len(asked)) == (1, 1)
