"""Is a receipt what was billed, after somebody has been away? On the simulated cloud, by its ledger.

`python -m benchmarks.absences [--scenarios N] [--seed N] [--verbose]`. Each scenario launches a job of some 60 hours
with `--detach` or with a client that is killed, leaves it alone for seconds to five days, types one of `plan status`,
`attach`, `stop`, `sweep` and the same `plan launch`, or two of them at once, and looks until the run is over. Meanwhile
machines boot in 20 s to 40 minutes, timers fail, spot machines are taken, trainers hang, disks and addresses stay, and
lists lag. Then each receipt is held against the ledger by kind of resource.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from datetime import timedelta
from decimal import Decimal
from random import Random
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.left_alone import RECLAIMS_PER_HOUR
from tests.faults.all_points import ready
from tests.faults.cases import Case, Then
from tests.faults.clients import Desk, job_of
from tests.faults.forks import die
from tests.faults.hours import USUAL, Scene
from tests.faults.points import Points
from tests.faults.sim import FirstFallsSilent, FirstNeverBegins, SimCloud
from tests.faults.verdict import Trial, a_home
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.run import NEGLIGIBLE
from trainplan.providers.sim.catalogue import INTERNET_USD_PER_GB
from trainplan.providers.sim.ledger import ledger
from trainplan.providers.sim.training import Simulated, model_bytes
from trainplan.workloads.job import TrainingJob

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS = {"compute": "instance", "disk": "disk", "address": "address", "transfer": "transfer"}
"""The ledger's name of each part of a receipt."""
LONGEST = timedelta(days=5)
SHORTEST = timedelta(seconds=20)
HANGS, KILLED = 0.2, 0.3
"""How often the first attempt's trainer hangs, and how often the launch is killed instead of detached."""
KILL_POINTS = 40
TOLERANCE = NEGLIGIBLE


class Compared(NamedTuple):
    """A receipt beside the ledger, in USD by part."""

    scenario: int
    run: str
    outcome: str
    told: dict[str, Decimal]
    billed: dict[str, Decimal]
    at_most: bool
    parts_at_most: tuple[str, ...]

    def off(self, part: str) -> Decimal:
        """How far the part is from the ledger, as a share of it."""
        return _share(self.told[part], self.billed[part])

    @property
    def off_in_all(self) -> Decimal:
        return _share(sum(self.told.values(), Decimal(0)), sum(self.billed.values(), Decimal(0)))

    @property
    def wrong(self) -> list[str]:
        """The parts that are too low, or too high in a receipt that is not said to be at most."""
        return [
            f"{part}: told {self.told[part]:.6f}, billed {self.billed[part]:.6f}"
            for part in KINDS
            if self.off(part) < -TOLERANCE or (self.off(part) > TOLERANCE and part not in self.parts_at_most)
        ] + ([f"the whole: off by {self.off_in_all:+.2%}"] if self.off_in_all > TOLERANCE and not self.at_most else [])


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    ready(SimCloud)
    rows = [row for number in range(options.scenarios) for row in one_scenario(number, options.seed)]
    _print(rows, options.scenarios)
    if options.verbose:
        for row in rows:
            sys.stderr.writelines(f"scenario {row.scenario}, {row.run} ({row.outcome}): {text}\n" for text in row.wrong)
    return 1 if any(row.wrong for row in rows) else 0


def one_scenario(number: int, seed: int) -> list[Compared]:
    """One launch, absence and return. Raises AssertionError where a client breaks down."""
    chance = Random(f"absences {seed} {number}")
    market, deadline = chance.choice(("on_demand", "spot")), chance.choice(("1h", "8h", "2d", "5d", "6d"))
    case = Case(name="absent", then=(Then.LEFT,), deadline=deadline, hours=True, market=market)
    with a_home() as home:
        trial = Trial(case=case, then=Then.LEFT, point=number)
        desk = Desk(home=home, case=case, cloud=a_cloud(chance, case))
        scene = Scene(desk, trial, drawn=USUAL)
        scene.launch(Points(at=chance.randrange(KILL_POINTS), happens=die) if chance.random() < KILLED else Points())
        for _ in range(chance.choice((1, 1, 2))):
            desk.cloud.pass_time(desk.cloud.now() + _absence(chance))
            scene.typed()
        scene.to_the_end()
        desk.cloud.pass_time(desk.cloud.now() + timedelta(hours=1))
        return list(_compared(scene, number))


def a_cloud(chance: Random, case: Case) -> SimCloud:
    """A world of its own."""
    boot = chance.choice((20, 300, 2000))
    timer = chance.random()
    cloud = SimCloud(
        "absent",
        seed=chance.randrange(2**31),
        boot=[timedelta(seconds=boot), timedelta(seconds=1.2 * boot)],
        reclaims_per_hour=chance.choice(RECLAIMS_PER_HOUR),
        notice=timedelta(seconds=chance.choice((0, 120))),
        disks_stay=chance.random() < 0.5,
        addresses_stay=chance.random() < 0.5,
        standing_reaper=chance.random() < 0.5,
        machine_timer_works=timer > 0.1,
        cloud_timer_works=timer < 0.9,
        listing_lag=timedelta(seconds=chance.choice((0, 10, 60))),
        page_size=20,
    )
    hangs = chance.random() < HANGS
    cloud.trains_with(chance.choice((FirstFallsSilent, FirstNeverBegins))() if hangs else Simulated())
    job = TrainingJob.model_validate(job_of(case))
    cloud.download_usd = model_bytes(job.to_json()) * INTERNET_USD_PER_GB / 10**9
    return cloud


def _compared(scene: Scene, number: int) -> Iterator[Compared]:
    """The receipt of each run that has one, and that may have been billed something."""
    world = scene.desk.cloud.world  # type: ignore[attr-defined]
    billed: dict[str, dict[str, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    told = ledger(world.state, world.now)
    for row in [*told["resources"], *told["transfers"]]:
        billed[row["run"]][row["kind"]] += Decimal(row["usd"])
    with Journal.open(scene.desk.settings.journal) as journal:
        for run in journal.runs():
            receipt = journal.receipt(run.run_id)
            if receipt is None:
                raise AssertionError(f"scenario {number}: run {run.run_id} has no receipt")
            yield Compared(
                number,
                str(run.run_id),
                str(run.outcome),
                {part: Decimal(str(receipt["usd_by_resource"][part])) for part in KINDS},
                {part: billed[run.run_id][kind] for part, kind in KINDS.items()},
                receipt["at_most"],
                tuple(receipt["parts_at_most"]),
            )


def _print(rows: list[Compared], scenarios: int) -> None:
    exact = [row for row in rows if not row.at_most]
    say = sys.stdout.write
    say(f"{scenarios} absences, {len(rows)} receipts, {len(rows) - len(exact)} of them at most\n")
    outcomes = Counter(row.outcome for row in rows)
    say(f"outcomes: {', '.join(f'{name} {count}' for name, count in outcomes.most_common())}\n")
    say("| part | billed, USD | told, USD | median off | at most in | farthest off in the others | farthest below |\n")
    say("|---|---|---|---|---|---|---|\n")
    for part in KINDS:
        offs = [row.off(part) for row in rows if row.billed[part] or row.told[part]]
        exact_offs = [abs(row.off(part)) for row in rows if part not in row.parts_at_most]
        at_most = sum(part in row.parts_at_most for row in rows)
        billed = sum((row.billed[part] for row in rows), Decimal(0))
        told = sum((row.told[part] for row in rows), Decimal(0))
        say(
            f"| {part} | {billed:.2f} | {told:.2f} | {_percent(median(offs) if offs else Decimal(0))} "
            f"| {at_most} | {_percent(max(exact_offs, default=Decimal(0)))} | {_percent(min([*offs, Decimal(0)]))} |\n"
        )
    say(f"receipts beyond {TOLERANCE:.0%} in a part that do not say so: {sum(bool(row.wrong) for row in rows)}\n")


def _absence(chance: Random) -> timedelta:
    """Seconds to five days; half of them are hours and more."""
    if chance.random() < 0.5:
        return timedelta(hours=2) + chance.random() * (LONGEST - timedelta(hours=2))
    return SHORTEST * float((timedelta(hours=2) / SHORTEST) ** chance.random())


def _share(told: Decimal, billed: Decimal) -> Decimal:
    if abs(told - billed) < Decimal("0.000002"):  # a receipt has whole millionths
        return Decimal(0)
    return (told - billed) / billed if billed else Decimal(1)


def _percent(share: Decimal) -> str:
    return f"{share:+.2%}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", type=int, default=235)
    parser.add_argument("--seed", type=int, default=43)
    parser.add_argument("--verbose", action="store_true", help="say on stderr which receipts are wrong")
    return parser


if __name__ == "__main__":
    sys.exit(main())
