"""A whole run on TPUs against what the double charges for it: from READY on, and nothing for a wait in vain."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.builders import a_job
from tests.contract.tpu import TpuClient, make_ready
from tests.doubles.clock import NOON
from tests.doubles.google import tpu
from tests.doubles.google.process import Google
from tests.doubles.google.scenario import Scenario
from tests.doubles.google.server import GoogleServer
from tests.faults.tpu import SCENARIOS, USD_PER_HOUR, targets_of
from trainplan.planner.api import build
from trainplan.planner.home.client import own_client
from trainplan.planner.runs.execution.nobody import Nobody
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.receipt.receipt import Receipt
from trainplan.planner.runs.run import Outcome, Run
from trainplan.planner.runs.runner import Runner, request_for
from trainplan.planner.settings import Settings
from trainplan.providers.base import EndKind, RunId


def trained(server: GoogleServer, home: Path, scenario: dict[str, Any], market: str) -> tuple[Run, Receipt]:
    """A launch to its end, in the time of the double."""
    google = Google(server.url)
    google.reset(Scenario(**{**scenario, "began": NOON}))
    client = TpuClient(google, home)
    make_ready(client)
    provider, settings = client.provider(), Settings(home=home)
    clock = build.clock_of(provider)
    job = a_job(epochs=4, checkpoint_every="20s", constraints={"deadline": "2h"})
    with Journal.open(settings.journal) as journal:
        runner = Runner(lambda _: provider, journal, settings, clock, lambda _: None, Nobody())
        draft = runner.draft(job, targets_of(market), timedelta(minutes=10), home / "model")
        run = replace(draft, run_id=RunId("261121-00000001"))
        runner.record(run, job, {})
        done = runner.follow(run, request_for(job, clock, client=own_client(settings).id))
    provider.account.close()
    return done


def charged(server: GoogleServer) -> float:
    return float(sum(row["usd"] for row in tpu.ledger(server.host.world)))


def test_a_run_costs_what_is_charged_from_ready_on(server: GoogleServer, tmp_path: Path) -> None:
    run, receipt = trained(server, tmp_path, {"boot_seconds": 600}, "on_demand")
    (attempt,) = run.attempts
    assert run.outcome is Outcome.SUCCEEDED
    assert attempt.asked_at is not None
    assert attempt.bills_from is not None
    assert timedelta(minutes=9) < attempt.bills_from - attempt.asked_at < timedelta(minutes=11)
    # Never too little, and at most some looks too much at either end.
    over = receipt.actual_usd - charged(server)
    assert 0 <= over < float(USD_PER_HOUR[targets_of("on_demand")[0].offer.market]) * 120 / 3600


def test_what_waits_in_vain_and_what_is_taken_back_are_told_apart(server: GoogleServer, tmp_path: Path) -> None:
    """The first zone has none in time; in the second spot takes one back; the third trains it to its end."""
    scenario = {
        **SCENARIOS["plain"],
        "stock": {"us-central1-a": 0},
        "incidents": ({"event": "preempt", "attempt": 2, "after": 50},),
    }
    run, receipt = trained(server, tmp_path, scenario, "spot")
    assert run.outcome is Outcome.SUCCEEDED
    assert [attempt.end for attempt in run.attempts[:2]] == [EndKind.NO_CAPACITY, EndKind.RECLAIMED]
    assert [attempt.target.zone for attempt in run.attempts if attempt.target] == [
        "us-central1-a", "us-central1-b", "europe-west4-a",
    ]  # fmt: skip
    assert (receipt.attempts, receipt.interruptions) == (3, 1)
    assert run.attempts[0].cost_usd(NOON + timedelta(days=1)) == 0
