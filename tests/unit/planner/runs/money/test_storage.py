"""What runs have left in storage: whose it is, what it costs, and that only what may go is removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import a_run, flat_provider_rates
from trainplan.planner.datasets.storage_costs import rate_text, rates_of
from trainplan.planner.runs.money.storage import StoredFate, removable, stored_runs
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.pricing.side_rates import BUCKET

RATES = flat_provider_rates("aws", **{BUCKET: "0.02"})
SIZES = {"r1/job.json": 10, "r1/output/model.keras": 5 * 10**9, "r2/job.json": 10, "r10/job.json": 10}


def a_known_run(phase: Phase, outcome: Outcome | None = None) -> dict[str, Run]:
    return {"r1": a_run(phase, attempts=1, outcome=outcome)}


def test_what_a_run_has_left_is_added_up() -> None:
    found = stored_runs("aws", SIZES, {}, (), RATES)
    assert [(known.run_id, known.files, known.stored.size_bytes) for known in found] == [
        ("r1", 2, 5_000_000_010), ("r10", 1, 10), ("r2", 1, 10),
    ]  # fmt: skip
    assert found[0].stored.month == "$0.10"
    assert stored_runs("aws", SIZES, {}, (), None)[0].stored.usd_per_month is None
    assert stored_runs("aws", {}, {}, (), RATES) == []


@pytest.mark.parametrize(
    ("runs", "existing", "fate"),
    [
        (a_known_run(Phase.RUNNING), (), StoredFate.LIVE),
        (a_known_run(Phase.INTERRUPTED), (), StoredFate.LIVE),
        (a_known_run(Phase.DONE, Outcome.SUCCEEDED), (), StoredFate.ENDED),
        (a_known_run(Phase.DONE, Outcome.STOPPED), (), StoredFate.ENDED),
        (a_known_run(Phase.DONE, Outcome.SUCCEEDED), ("r1",), StoredFate.LIVE),
        ({}, (), StoredFate.FOREIGN),
        ({}, ("r1",), StoredFate.LIVE),
        (None, (), StoredFate.FOREIGN),
    ],
)
def test_only_what_is_known_to_be_over_may_go(
    runs: dict[str, Run] | None, existing: tuple[str, ...], fate: StoredFate
) -> None:
    found = stored_runs("aws", SIZES, runs, existing, RATES)
    assert found[0].fate is fate
    assert [known.run_id for known in removable(found)] == (["r1"] if fate is StoredFate.ENDED else [])


def test_rates_come_with_their_source(tmp_path: Path) -> None:
    rates = rates_of("gcp", tmp_path)
    assert rates is not None
    assert rate_text(rates) == (
        "$0.02 per GB and month (listed, 2026-07-30: github.com/Cyclenerd/google-cloud-pricing-cost-calculator "
        "pricing.yml@fd66b26 (Cloud Billing Catalog), of us-central1)"
    )
    assert rates_of("local", tmp_path) is None
