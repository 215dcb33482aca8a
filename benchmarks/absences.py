"""What becomes of a launch that somebody leaves and comes back to? On six doubles, by their ledgers.

`make absences`, or `python -m benchmarks.absences [--scenarios N] [--seed N] [--provider NAME] [--verbose]`. Scenario N
is on one double after the other: the simulated cloud, AWS, Google, its TPUs, Azure, Slurm. Each launches a job of some
60 hours with `--detach` or with a client that is killed, leaves it alone for seconds to five days, types one of `plan
status`, `attach`, `stop`, `cleanup` and the same `plan launch`, or two at once, looks until the run is over, and once
more three hours later.
Meanwhile machines boot in 20 s to 40 minutes, timers fail, spot machines are taken, trainers hang, disks and addresses
stay, and lists lag; when somebody comes back a sign-in may have expired, a store or a list may not answer, the disk at
home may be full, and a signal may come.

Counted are machines that were left, doubled or destroyed, results that were trained and are neither at home nor stored,
steps paid for after their run had been trained, and outcomes that say something else than the ledger. Then each receipt
is held against the ledger: all of it at the simulated cloud, the machines alone at the others.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.left_alone import RECLAIMS_PER_HOUR
from tests.faults.all_points import ready
from tests.faults.cases import Case, Then
from tests.faults.clients import Desk, job_of, look_once
from tests.faults.clouds import NAMES, cloud_of, random_cloud
from tests.faults.forks import die, forked
from tests.faults.hours import _WORK, FOLLOWED, SEARCHED, USUAL, Scene, Typed, _trained
from tests.faults.points import Points
from tests.faults.random_sim import a_script
from tests.faults.sim import FirstFallsSilent, FirstNeverBegins, SimCloud
from tests.faults.verdict import Trial, a_home, at_once, without_receipt
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.run import NEGLIGIBLE, Outcome, Run
from trainplan.planner.runs.targets import payable_usd
from trainplan.providers import interrupts
from trainplan.providers.sim.catalogue import INTERNET_USD_PER_GB
from trainplan.providers.sim.ledger import ledger
from trainplan.providers.sim.training import Simulated, model_bytes
from trainplan.workloads.job import TrainingJob

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.harness import Ask, Lived

KINDS = {"compute": "instance", "disk": "disk", "address": "address", "transfer": "transfer"}
"""The ledger's name of each part of a receipt."""
LONGEST = timedelta(days=5)
SHORTEST = timedelta(seconds=20)
HANGS, KILLED = 0.2, 0.3
"""How often the first attempt's trainer hangs, and how often the launch is killed instead of detached."""
KILL_POINTS = 40
TOLERANCE = NEGLIGIBLE
HALF_A_CENT = Decimal("0.005")


BROKEN, DISTURBED = 0.5, 0.15
"""How often something goes wrong with calls when somebody comes back, and how often a command meets a signal or a full
disk."""
DISTURBED_AT = 40
WRONG = ("leaked", "doubled", "destroyed", "lost", "paid twice", "contradicts")
_GRACE = timedelta(minutes=20)
ONCE_MORE = timedelta(hours=3)
"""From the end of the run to the last `plan status`: by then the records of the providers are whole."""
_ASKED = frozenset({Outcome.STOPPED, Outcome.SUCCEEDED, Outcome.INTERRUPTED})
TPU_USD_PER_HOUR = 0.5
"""Of the double, which charges for a TPU from when its node is ready."""


class Compared(NamedTuple):
    """A receipt beside the ledger, in USD by part."""

    provider: str
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
    def is_near(self) -> bool:
        """Whether it is within a hundredth, or within half a cent: a receipt shows whole cents."""
        told, billed = (sum(parts.values(), Decimal(0)) for parts in (self.told, self.billed))
        return abs(self.off_in_all) <= TOLERANCE or abs(told - billed) <= HALF_A_CENT

    @property
    def wrong(self) -> list[str]:
        """The parts that are too low, or too high in a receipt that is not said to be at most."""
        return [
            f"{part}: told {self.told[part]:.6f}, billed {self.billed[part]:.6f}"
            for part in KINDS
            if self.off(part) < -TOLERANCE or (self.off(part) > TOLERANCE and part not in self.parts_at_most)
        ] + ([f"the whole: off by {self.off_in_all:+.2%}"] if self.off_in_all > TOLERANCE and not self.at_most else [])


@dataclass
class Absence(Scene):
    """A scene in which a command may meet a signal or a full disk."""

    def _work(self, typed: Typed) -> Callable[[Ask], None]:
        if self.chance.random() >= DISTURBED:
            return super()._work(typed)
        happens = self.chance.choice((full_disk, *(_signals(kind) for kind in _KINDS)))
        points = Points(at=self.chance.randrange(DISTURBED_AT), happens=happens)
        return lambda ask: self._disturbed(typed, ask, points)

    def _disturbed(self, typed: Typed, ask: Ask, points: Points) -> None:
        names = points.names

        def until_followed() -> None:
            if len(names) > FOLLOWED:
                die()

        points.stops, points.stopped = frozenset({FOLLOWED}), lambda _: until_followed()
        try:
            with interrupts.noted():
                _WORK[typed](self.desk, ask, points)
        except (KeyboardInterrupt, interrupts.HungUp):
            pass


_KINDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def full_disk() -> None:
    """No file of this process grows any more."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def _signals(kind: signal.Signals) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), kind)


class Played(NamedTuple):
    """What became of a scenario: what was wrong, by its kind, and its receipts."""

    provider: str
    number: int
    wrong: dict[str, str]
    receipts: list[Compared]


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    names = [options.provider] if options.provider else NAMES
    for name in names:
        ready(cloud_of(name))
    played: list[Played] = []
    for number in range(options.first, options.first + options.scenarios):
        played.append(one_scenario(number, options.seed, names[number % len(names)]))
        if options.verbose:
            _tell(played[-1])
    rows = [row for one in played for row in one.receipts]
    _print(played, rows)
    return 1 if any(row.wrong for row in rows) or any(one.wrong for one in played) else 0


def _tell(played: Played) -> None:
    what = f"{played.provider} {played.number}"
    sys.stderr.writelines(f"{what}: {kind}: {text}\n" for kind, text in played.wrong.items())
    for row in played.receipts:
        sys.stderr.writelines(f"{what}, {row.run} ({row.outcome}): {text}\n" for text in row.wrong)
    sys.stderr.flush()


def one_scenario(number: int, seed: int, name: str) -> Played:
    """One launch, absence and return."""
    chance = Random(f"absences {seed} {number}")
    market, deadline = chance.choice(("on_demand", "spot")), chance.choice(("1h", "8h", "2d", "5d", "6d"))
    case = Case(name="absent", then=(Then.LEFT,), deadline=deadline, hours=True, market=market)
    with a_home() as home:
        trial = Trial(case=case, then=Then.LEFT, point=number)
        is_sim = name == "sim"
        cloud: Any = a_cloud(chance, case) if is_sim else random_cloud(name)(chance, never_back=False)
        desk = Desk(home=home, case=case, cloud=cloud)
        scene = Absence(desk, trial, drawn=USUAL)
        broken = ""
        try:
            is_killed = chance.random() < KILLED
            scene.launch(Points(at=chance.randrange(KILL_POINTS) if is_killed else SEARCHED, happens=die))
            for _ in range(chance.choice((1, 1, 2))):
                cloud.pass_time(cloud.now() + _absence(chance))
                if chance.random() < BROKEN:
                    cloud.world.play(a_script(chance)) if is_sim else cloud.break_more(chance)
                scene.typed()
            cloud.world.state.faults.clear() if is_sim else cloud.mend()
            scene.to_the_end()
            cloud.pass_time(cloud.now() + ONCE_MORE)
            forked(lambda ask: look_once(desk, ask), scene.answer)
        except AssertionError as error:
            broken = str(error)
        cloud.pass_time(cloud.now() + timedelta(hours=1))
        rows = [row for row in cloud.ledger() if row.ours]
        wrong = {"contradicts": f"broken down: {broken}"} if broken else _wrong(scene, rows)
        receipts = (
            [] if broken else list(_compared(scene, number) if is_sim else _machines_compared(scene, name, number))
        )
        return Played(name, number, wrong, receipts)


def _wrong(scene: Absence, rows: list[Lived]) -> dict[str, str]:
    """What of the promises did not hold, by the ledger."""
    machines = [row for row in rows if row.machine]
    wrong = {
        "leaked": ", ".join([row.id for row in rows if row.remaining] + _too_long(machines)),
        "doubled": f"{most} machines at once" if (most := at_once(machines)) > 1 else "",
        "destroyed": ", ".join(scene._destroyed(_without_unheard(scene, rows))),
        "lost": "",
        "paid twice": ", ".join(_paid_twice(machines)),
        "contradicts": "",
    }
    for run in scene.runs():
        mine = [row for row in machines if row.run == run.run_id]
        is_trained = any(_is_done(row) for row in mine)
        if is_trained and run.outcome is not Outcome.SUCCEEDED and not (scene.wished_at and run.outcome in _ASKED):
            wrong["lost"] = f"{run.run_id} was trained to its end, and is recorded as {run.outcome}: {run.message}"
        elif text := _contradiction(scene, run, is_trained=is_trained):
            wrong["contradicts"] = text
    told = "; ".join(scene.messages)
    return {kind: f"{text} ({told})" for kind, text in wrong.items() if text}


def _without_unheard(scene: Absence, rows: list[Lived]) -> list[Lived]:
    """Without machines of which no answer ever told, though their creates were sent again: the launch has gone on
    elsewhere, and ends what it finds (as `unheard` of tests.faults.cases)."""
    spans = [
        (one.asked_at, one.ended_at) for run in scene.runs() for one in run.attempts
        if one.ref is None and one.tries and one.asked_at and one.ended_at
    ]  # fmt: skip
    return [row for row in rows if not any(began <= row.created_at < ended for began, ended in spans)]


def _paid_twice(machines: list[Lived]) -> list[str]:
    done = {row.run: row.work.home_at for row in machines if _is_done(row) and row.work and row.work.home_at}
    return [f"{row.id} was made when its run had been trained" for row in machines if _later(row, done.get(row.run))]


def _later(row: Lived, at: datetime | None) -> bool:
    return at is not None and row.created_at > at


def _is_done(row: Lived) -> bool:
    """Whether a machine trained to the last step; one whose trainer its deadline has ended did not."""
    work = row.work
    if work is None or work.trained_at is None or work.deadline is None or not _trained(work):
        return False
    return work.trained_at < work.deadline - timedelta(minutes=1)


def _too_long(machines: list[Lived]) -> list[str]:
    late = [
        row for row in machines if row.work and row.work.deadline and row.ended_at
        if row.ended_at > row.work.deadline + _GRACE
    ]  # fmt: skip
    return [f"{row.id} until {row.ended_at}, deadline {row.work.deadline}" for row in late if row.work]


def _contradiction(scene: Absence, run: Run, *, is_trained: bool) -> str:
    if run.live or run.outcome is None:
        return f"run {run.run_id} is still {run.phase} ({run.unverified or run.message})"
    if run.outcome is Outcome.SUCCEEDED and not is_trained:
        return f"{run.run_id} is recorded as succeeded, and no machine has trained it"
    text = without_receipt(scene.desk.settings, run, Path(run.model_folder))
    return f"{run.run_id} ({run.outcome}): {text}" if text else ""


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


def _machines_compared(scene: Absence, name: str, number: int) -> Iterator[Compared]:
    """The machines of each receipt beside the ledger, at the prices of their targets."""
    cloud: Any = scene.desk.cloud
    rows = [row for row in cloud.ledger() if row.ours and row.machine]
    with Journal.open(scene.desk.settings.journal) as journal:
        for run in journal.runs():
            receipt = journal.receipt(run.run_id)
            if receipt is None:
                continue
            told = {part: Decimal(0) for part in KINDS}
            told["compute"] = Decimal(str(receipt["usd_by_resource"]["compute"]))
            mine = [row for row in rows if row.run == run.run_id]
            billed = sum((_at_its_price(row, run, cloud, name) for row in mine), Decimal(0))
            of_ledger = {part: Decimal(0) for part in KINDS} | {"compute": billed}
            parts = tuple(receipt["parts_at_most"])
            yield Compared(name, number, str(run.run_id), str(run.outcome), told, of_ledger, "compute" in parts, parts)


def _at_its_price(row: Lived, run: Run, cloud: Any, name: str) -> Decimal:
    """A machine at the price of its attempt's target, by that target's billing; of one that no attempt knows, of the
    first target in its region."""
    end: datetime = row.ended_at or cloud.now()
    lasting = timedelta(hours=row.usd / TPU_USD_PER_HOUR) if name == "tpu" else end - row.created_at
    region = cloud.region_of(row)
    name_of = row.id.rpartition("/")[2]  # a ledger has the vendor's whole path
    own = [one.target for one in run.attempts if one.target and one.ref and one.ref.id.rpartition("/")[2] == name_of]
    of_region = [one.target for one in run.attempts if one.target and one.target.offer.region == region]
    targets = [*own, *of_region]
    return payable_usd(targets[0].offer, lasting) if targets else Decimal(0)


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
                "sim",
                number,
                str(run.run_id),
                str(run.outcome),
                {part: Decimal(str(receipt["usd_by_resource"][part])) for part in KINDS},
                {part: billed[run.run_id][kind] for part, kind in KINDS.items()},
                receipt["at_most"],
                tuple(receipt["parts_at_most"]),
            )


def _print(played: list[Played], rows: list[Compared]) -> None:
    say = sys.stdout.write
    counts = [f"{kind} {sum(kind in one.wrong for one in played)}" for kind in WRONG]
    say(f"{len(played)} absences, {len(rows)} receipts: {', '.join(counts)}\n")
    outcomes = Counter(row.outcome for row in rows)
    say(f"outcomes: {', '.join(f'{name} {count}' for name, count in outcomes.most_common())}\n")
    say(
        "| double | absences | receipts | within 1 % | or half a cent | at most | billed USD | told USD | p5 | median |"
    )
    say(" p95 | worst |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n")
    for name in [*dict.fromkeys(one.provider for one in played), "all"]:
        of_it = [row for row in rows if name in (row.provider, "all")]
        absences = sum(name in (one.provider, "all") for one in played)
        _print_receipts(
            name, absences, [row for row in of_it if sum(row.billed.values(), Decimal(0)) or any(row.told.values())]
        )
    say(f"receipts beyond {TOLERANCE:.0%} in a part that do not say so: {sum(bool(row.wrong) for row in rows)}\n")


def _print_receipts(name: str, absences: int, rows: list[Compared]) -> None:
    offs = sorted(row.off_in_all for row in rows) or [Decimal(0)]
    p5, p50, p95 = (_percent(offs[min(len(offs) - 1, int(share * len(offs)))]) for share in (0.05, 0.5, 0.95))
    within, at_most = sum(abs(off) <= TOLERANCE for off in offs), sum(row.at_most for row in rows)
    near = sum(row.is_near for row in rows)
    billed, told = (
        sum((sum(parts.values(), Decimal(0)) for parts in which), Decimal(0))
        for which in ([row.billed for row in rows], [row.told for row in rows])
    )
    sys.stdout.write(
        f"| {name} | {absences} | {len(rows)} | {within if rows else 0} | {near} | {at_most} | {billed:.2f} "
        f"| {told:.2f} | {p5} | {p50} | {p95} | {_percent(max(offs, key=abs))} |\n"
    )


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
    parser.add_argument("--scenarios", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first scenario")
    parser.add_argument("--seed", type=int, default=43)
    parser.add_argument("--provider", choices=NAMES)
    parser.add_argument("--verbose", action="store_true", help="say on stderr which receipts are wrong")
    return parser


if __name__ == "__main__":
    sys.exit(main())
