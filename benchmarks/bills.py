"""Estimate, receipt and bill side by side, for three runs on each cloud's double.

`python -m benchmarks.bills [--provider NAME]` prints the table; docs/alarm.md says what it shows. Each run trains the
same small job: one is followed to its end, one is left alone for ten hours, one is asked to stop. The estimate is
what the whole job costs at the price list. The bill is what the double's own ledger has of the run's machine, disk and
address, at the same price list, rounded as that vendor rounds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tests.builders import a_job
from tests.drill.worlds import NAMES, Table, a_cloud
from trainplan.planner.report.bill_page import BilledRun, billed_run
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.runner import request_for
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.cost import ProviderRates, RegionRates, RunUsage, attached_per_hour, run_cost
from trainplan.pricing.money import UsdPerHour, amount
from trainplan.providers.base import RunId
from trainplan.providers.cloud.invoice import Invoice, InvoiceLine, Part
from trainplan.providers.sim.catalogue import PROVIDER, RATES

if TYPE_CHECKING:
    from tests.faults.harness import Lived
    from trainplan.planner.runs.run import Run
    from trainplan.planner.runs.targets import Target

JOB = a_job(epochs=40, checkpoint_every="20s", constraints={"deadline": "4h"})
SETUP_SECONDS, END_SECONDS = 45.0, 20.0
"""About what the doubles take: their machines boot in seconds."""
IMAGES_PER_SECOND = {"sim": 3_010.0, "aws": 4_000.0, "gcp": 3_010.0, "azure": 3_010.0}
"""How fast the doubles train this job."""
USAGE = RunUsage(disk_gb=Decimal(100), addresses=1, egress_gb=Decimal(0))
ALONE, ASKED_AFTER = timedelta(hours=10), timedelta(minutes=2)


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    names = [options.provider] if options.provider else NAMES
    rows = [row for name in names for row in rows_of(name)]
    text = "\n".join(["| double | run | estimate | receipt | bill | difference |", "|---|---|---|---|---|---|", *rows])
    sys.stdout.write(f"{text}\n")
    return 0


def rows_of(name: str) -> Iterator[str]:
    """A line for each of the three runs on one double."""
    for number, (what, lived) in enumerate(LIVES.items(), start=1):
        with TemporaryDirectory() as folder:
            run = billed(name, Path(folder), RunId(f"261121-{number:08}"), lived)
        receipt = run.receipt_usd or Decimal(0)
        parts = ", ".join(f"{part} {usd:.4f}" for part, usd in run.billed.items())
        yield (
            f"| {name} | {what} | {run.estimated_usd:.4f} | {'at most ' if run.at_most else ''}{receipt:.4f} "
            f"| {run.billed_amount:.4f} ({parts}) | {run.billed_amount - receipt:+.4f} |"
        )


def billed(name: str, home: Path, run_id: RunId, lived: Callable[[Any, Run], Run]) -> BilledRun:
    """One run, its receipt and its bill."""
    table = Table(home, a_cloud(name))
    rates = RATES if name == PROVIDER else _catalog_rates(name)
    with Journal.open(table.settings.journal) as journal:
        tools = table.tools(journal)
        targets = [_priced(target, rates) for target in table.cloud.targets("on_demand")]
        draft = tools.runner.draft(JOB, targets, timedelta(minutes=10), home / "model")
        run = tools.runner.record(replace(draft, run_id=run_id), JOB, {})
        make = request_for(JOB, tools.clock, client=tools.client.id)
        lived((tools, make, table), tools.launched(run, make))
        receipt = journal.receipt(run_id) or {}
        table.cloud.pass_time(table.cloud.now() + timedelta(hours=1))
        target = next(one.target for one in journal.run(run_id).attempts if one.target is not None)
        invoice = _invoice(table, run_id, target, rates.at(target.offer.region))
        table.cloud.let_go()
    return billed_run(run_id, JOB.name, receipt, invoice)


def _followed(scene: Any, run: Run) -> Run:
    tools, make, _ = scene
    ended: Run = tools.runner.follow(run, make)[0]
    return ended


def _left_alone(scene: Any, run: Run) -> Run:
    tools, _, table = scene
    table.cloud.pass_time(table.cloud.now() + ALONE)
    return _followed(scene, tools.journal.run(run.run_id))


def _stopped(scene: Any, run: Run) -> Run:
    tools, _, table = scene
    table.cloud.pass_time(table.cloud.now() + ASKED_AFTER)
    ended: Run = tools.runner.stop(tools.runner.settle(run))[0]
    return ended


LIVES: dict[str, Callable[[Any, Run], Run]] = {
    "followed to its end": _followed,
    "left alone for 10 hours": _left_alone,
    "asked to stop after 2 minutes": _stopped,
}


def _priced(target: Target, rates: ProviderRates) -> Target:
    """With the estimate of the job there, and what its disk and its address cost."""
    placement = rates.at(target.offer.region)
    attached = attached_per_hour(USAGE, placement)
    images = JOB.train_images or 0
    steps = images // JOB.global_batch_size * JOB.epochs
    rate = IMAGES_PER_SECOND[target.offer.provider]
    train = steps * JOB.global_batch_size / rate
    seconds = SETUP_SECONDS + train + END_SECONDS
    cost = run_cost(UsdPerHour(target.offer.usd_per_hour), timedelta(seconds=seconds), USAGE, placement)
    return replace(
        target, seconds=seconds, overhead_seconds=SETUP_SECONDS, usd=cost.total, images_per_second=rate,
        disk_usd_per_hour=attached.disk, address_usd_per_hour=attached.address, download_usd=Decimal(0),
    )  # fmt: skip


def _invoice(table: Table, run_id: RunId, target: Target, rates: RegionRates) -> Invoice:
    """What the ledger of the double makes at the price list, of a run that has had one machine."""
    rows = [row for row in table.rows() if row.run == run_id]
    (machine,) = [row for row in rows if row.machine]
    disk = attached_per_hour(USAGE, rates).disk
    found = [(Part.COMPUTE, machine, target.offer.usd_per_hour)]
    found += [(Part.DISK, row, disk) for row in rows if not row.machine and _is_disk(row.id)]
    # A public address that is no thing of its own lives as long as its machine.
    addresses = [row for row in rows if not row.machine and "address" in row.id.lower()] or [machine]
    found += [(Part.ADDRESS, row, rates.address.usd) for row in addresses]
    day = table.cloud.now().date()
    lines = [_line(run_id, part, _lasting(row, machine), usd, rates) for part, row, usd in found]
    return Invoice(begin=day, end=day, currency="USD", lines=tuple(lines), whole_until=day)


def _is_disk(name: str) -> bool:
    """A disk of Google's is called like its machine."""
    return "disk" in name or name.startswith("vol-") or "/plan-" in name


def _lasting(row: Lived, machine: Lived) -> timedelta:
    """Where the ledger has no end of something that is gone, it went with its machine."""
    end = row.ended_at or (None if row.remaining else machine.ended_at)
    if end is None:
        raise AssertionError(f"{row.id} is still there")
    return end - row.created_at


def _line(run_id: RunId, part: Part, lasting: timedelta, usd_per_hour: Decimal, rates: RegionRates) -> InvoiceLine:
    return InvoiceLine(run_id=run_id, part=part, amount=amount(UsdPerHour(usd_per_hour), lasting, rates.billing))


def _catalog_rates(name: str) -> ProviderRates:
    with Catalog.open() as catalog:
        return catalog.rates[name]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--provider", choices=NAMES)
    return parser


if __name__ == "__main__":
    sys.exit(main())
