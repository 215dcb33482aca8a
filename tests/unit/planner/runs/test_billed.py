"""What a receipt counts, against the simulated cloud's own ledger, for runs that a person leaves and comes back to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random

import pytest

from tests.builders import a_job
from tests.doubles.clock import NOON
from tests.doubles.desk import Desk
from trainplan.planner.runs.execution.executor import Detached, Executor
from trainplan.planner.runs.execution.nobody import Nobody
from trainplan.planner.runs.receipt.receipt import Receipt
from trainplan.planner.runs.run import NEGLIGIBLE, Run
from trainplan.planner.runs.runner import Runner, request_for
from trainplan.planner.runs.targets import Target
from trainplan.providers.base import Instance, LaunchRequest
from trainplan.providers.sim.catalogue import ADDRESS_USD_PER_HOUR, DISK_USD_PER_HOUR, RATES, offers
from trainplan.providers.sim.cloud import Setup, SimCloud
from trainplan.providers.sim.provider import SimProvider
from trainplan.providers.sim.scenario import Scenario

JOB = a_job(
    model={"preset": "vgg16"}, data={"name": "cifar10"}, epochs=90, global_batch_size=128, checkpoint_every="5m",
    constraints={"deadline": "4h"},
)  # fmt: skip
"""Trains for about 25 minutes on t4.one."""
MODEL_GB = Decimal("0.134")


class Practice:
    """A simulated cloud whose time a test moves, and one run there."""

    def __init__(self, desk: Desk, folder: Path, scenario: Scenario) -> None:
        self.cloud = SimCloud(folder, Setup(scenario=scenario, speed=0), lambda: NOON)
        self.provider = SimProvider(scenario, self.cloud)
        self._desk = desk

    def runner(self) -> Runner:
        desk = self._desk
        return Runner(lambda _: self.provider, desk.journal, desk.settings, self.provider, lambda _: None, Nobody())

    def launch(self, market: str, folder: Path, places: Sequence[Target] = ()) -> Run:
        """A run that was launched and left at once."""
        journal, runner = self._desk.journal, self.runner()
        run = runner.draft(JOB, places or targets(market), None, folder)
        runner.record(run, JOB, {})
        executor = Executor(lambda _: self.provider, journal, self.provider, lambda _: None, Nobody())
        with pytest.raises(Detached):
            executor.follow(run, request_for(JOB, self.provider), until_launched=True)
        return journal.run(run.run_id)

    def billed(self) -> dict[str, Decimal]:
        usd: dict[str, Decimal] = defaultdict(Decimal)
        told = self.cloud.ledger()
        assert not told["left"]
        for row in [*told["resources"], *told["transfers"]]:
            usd[row["kind"]] += Decimal(row["usd"])
        return usd


def targets(market: str) -> list[Target]:
    return [
        Target(
            offer=offer, zone=zone, seconds=1500.0, overhead_seconds=60.0, disk_gb=Decimal(100),
            disk_usd_per_hour=DISK_USD_PER_HOUR,
            address_usd_per_hour=ADDRESS_USD_PER_HOUR, download_usd=MODEL_GB * RATES.at(offer.region).internet.usd,
        )
        for offer in offers()
        if (offer.instance_type, offer.market) == ("t4.one", market)
        for zone in offer.zones
    ]  # fmt: skip


def a_scenario(chance: Random) -> Scenario:
    boot = chance.choice((20, 300))
    return Scenario.model_validate(
        {
            "seed": chance.randrange(2**31),
            "boot": [f"{boot}s", f"{2 * boot}s"],
            "reclaims_per_hour": chance.choice((0.0, 0.5)),
            "notice": chance.choice(("0s", "2m")),
            "disks_stay": chance.random() < 0.5,
            "addresses_stay": chance.random() < 0.5,
            "standing_reaper": chance.random() < 0.5,
        }
    )


@pytest.mark.parametrize("seed", range(12))
def test_a_receipt_is_what_was_billed_or_says_at_most(desk: Desk, tmp_path: Path, seed: int) -> None:
    chance = Random(f"billed {seed}")
    practice = Practice(desk, tmp_path / "sim", a_scenario(chance))
    run = practice.launch(chance.choice(("on_demand", "spot")), tmp_path / "model")
    practice.cloud.advance(chance.choice((60, 600, 3600, 20 * 3600)))
    _, receipt = practice.runner().follow(desk.journal.run(run.run_id), request_for(JOB, practice.provider))
    practice.cloud.advance(3600)
    compared(receipt, practice.billed())


def compared(receipt: Receipt, billed: dict[str, Decimal]) -> None:
    told = {name: Decimal(str(usd)) for name, usd in receipt.usd_by_resource.items()}
    kinds = {"compute": "instance", "disk": "disk", "address": "address", "transfer": "transfer"}
    rounded = Decimal("0.000002")  # a receipt has whole millionths
    for name, kind in kinds.items():
        slack = billed[kind] * NEGLIGIBLE + rounded
        assert told[name] >= billed[kind] - slack, f"{name}: told {told[name]}, billed {billed[kind]}"
        if name not in receipt.parts_at_most:
            assert told[name] <= billed[kind] + slack, f"{name}: told {told[name]}, billed {billed[kind]}"
    total = sum(billed.values(), Decimal(0))
    if not receipt.at_most:
        assert abs(sum(told.values(), Decimal(0)) - total) <= total * NEGLIGIBLE + rounded


class DiedError(BaseException):
    """The process of a client is gone."""


class DiesAtLaunch(SimProvider):
    """The create takes effect, and its answer reaches nobody."""

    def launch(self, request: LaunchRequest) -> Instance:
        super().launch(request)
        raise DiedError


@pytest.mark.parametrize("stays", [True, False])
def test_a_machine_that_no_answer_told_of_is_in_the_receipt(desk: Desk, tmp_path: Path, stays: bool) -> None:
    """The deadline was over when somebody looked: nothing was launched or looked up any more, the receipt had $0, and
    what had been trained stayed in the store."""
    practice = Practice(desk, tmp_path / "sim", Scenario(disks_stay=stays))
    provider, practice.provider = practice.provider, DiesAtLaunch(practice.provider.scenario, practice.cloud)
    run = practice.runner().draft(JOB, targets("on_demand"), None, tmp_path / "model")
    practice.runner().record(run, JOB, {})
    with pytest.raises(DiedError):
        practice.runner().follow(run, request_for(JOB, practice.provider))
    practice.provider = provider
    practice.cloud.advance(20 * 3600)
    _, receipt = practice.runner().follow(desk.journal.run(run.run_id), request_for(JOB, provider))
    assert receipt.outcome == "succeeded"
    practice.cloud.advance(3600)
    billed = practice.billed()
    assert billed["instance"] > 0
    compared(receipt, billed)


def test_a_practice_run_rents_and_takes_what_its_estimate_counts(desk: Desk, tmp_path: Path) -> None:
    """Twelve minutes were estimated, and five taken, of a disk of another size."""
    practice = Practice(desk, tmp_path / "sim", Scenario())
    target = replace(
        targets("on_demand")[0], steady_seconds=2400.0, overhead_seconds=400.0, images_per_second=3000.0,
        disk_gb=Decimal("130.5"), disk_usd_per_hour=Decimal("130.5") * DISK_USD_PER_HOUR / 100,
    )  # fmt: skip
    run = practice.launch("on_demand", tmp_path / "model", (target,))
    _, receipt = practice.runner().follow(desk.journal.run(run.run_id), request_for(JOB, practice.provider))
    assert receipt.actual_seconds == pytest.approx(2400, rel=0.05)
    assert receipt.actual_images_per_second == pytest.approx(3000)
    practice.cloud.advance(3600)
    compared(receipt, practice.billed())
    hours = Decimal(receipt.actual_seconds / 3600)
    assert practice.billed()["disk"] == pytest.approx(hours * target.disk_usd_per_hour, rel=Decimal("0.05"))


def test_a_launch_trains_as_fast_as_the_first_machine_of_its_job(desk: Desk, tmp_path: Path) -> None:
    """What a pilot has measured is the next estimate: it does not make the simulated machine another one."""
    practice = Practice(desk, tmp_path / "sim", Scenario(throughput_factor=0.5))
    for rate in (3000.0, 1500.0):
        target = replace(targets("on_demand")[0], steady_seconds=9000.0, overhead_seconds=400.0, images_per_second=rate)
        run = practice.launch("on_demand", tmp_path / f"model {rate}", (target,))
        _, receipt = practice.runner().follow(desk.journal.run(run.run_id), request_for(JOB, practice.provider))
        assert receipt.actual_images_per_second == pytest.approx(1500)
