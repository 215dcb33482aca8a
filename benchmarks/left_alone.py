"""What becomes of launches that are left alone for up to three days, on the simulated cloud.

`python benchmarks/left_alone.py [--scenarios N] [--seed N] [--code DIR]`. Each scenario launches a job of some 60 hours
with `--detach`, leaves it alone for up to three days (spot machines are reclaimed meanwhile, some trainers hang), then
types one of `plan status`, `attach`, `stop`, `cleanup` and the same `plan launch`, or two of them at once, and at last
looks until the run is over. Every figure but the outcomes comes from the simulated cloud's own ledger.

`--code DIR` takes the product from another checkout, and the harness from this one: the same scenarios, other code.

Dollars wasted: what a machine cost after its newest checkpoint where it did not train to its end, and all that was paid
for runs of the job beside the one that came furthest.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from statistics import mean
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.faults.harness import Lived
    from tests.faults.hours import Scene

ROOT = Path(__file__).parents[1]
LONGEST = timedelta(days=3)
SHORTEST = timedelta(minutes=1)
RECLAIMS_PER_HOUR = (0.0, 0.005, 0.02)
HANGS = 0.1
"""How often the trainer of a run's first attempt falls silent, or never begins."""


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    take_product_from(options.code)
    from tests.faults.all_points import ready
    from tests.faults.cases import Case, Then
    from tests.faults.sim import SimCloud
    from tests.faults.verdict import KINDS

    ready(SimCloud)
    case = Case(name="absent", then=(Then.LEFT,), deadline="5d", hours=True)
    scenarios = [one_scenario(case, number, options.seed) for number in range(options.scenarios)]
    outcomes = Counter(row["outcome"] for row in scenarios)
    rows = sorted(outcomes.items(), key=lambda row: -row[1])
    sys.stdout.write("\n".join(["| what became of it | scenarios |", "|---|---|"]) + "\n")
    sys.stdout.write("".join(f"| {outcome} | {count} |\n" for outcome, count in rows))
    counts = [f"{kind} {sum(bool(row['wrong'].get(kind)) for row in scenarios)}" for kind in (*KINDS, "broken down")]
    alive = sum(row["live_at_first_look"] for row in scenarios)
    sys.stdout.write(f"scenarios {len(scenarios)}, {', '.join(counts)}\n")
    sys.stdout.write(
        f"a live machine at the first look: {alive}; machines made: {sum(row['machines'] for row in scenarios)}\n"
    )
    wasted, spent = (
        mean(row["wasted_usd"] for row in scenarios),
        mean(row["spent_usd"] for row in scenarios),
    )
    sys.stdout.write(f"dollars in the mean: {spent:.2f} spent, {wasted:.2f} wasted\n")
    if options.verbose:
        for row in scenarios:
            for kind, text in row["wrong"].items():
                sys.stderr.write(f"scenario {row['number']}: {kind}: {text}\n")
    return 1 if any(row["wrong"] for row in scenarios) else 0


def take_product_from(code: Path) -> None:
    """Import the product, and what its tests build things with, from a checkout, and the harness from this one."""
    sys.path[:0] = [str(code.resolve() / "src"), str(code.resolve())]
    if code.resolve() == ROOT:
        return
    import tests.doubles

    tests.doubles.__path__.append(str(ROOT / "tests/doubles"))  # what is missing there is taken from here
    spec = importlib.util.spec_from_file_location(
        "tests.faults", ROOT / "tests/faults/__init__.py", submodule_search_locations=[str(ROOT / "tests/faults")]
    )
    assert spec is not None
    assert spec.loader is not None
    tests.faults = sys.modules["tests.faults"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["tests.faults"])


def one_scenario(case: Any, number: int, seed: int) -> dict[str, Any]:
    """One launch, absence and return; what became of it, as JSON values."""
    from tests.faults.cases import Then
    from tests.faults.clients import Desk
    from tests.faults.hours import USUAL, Scene
    from tests.faults.points import Points
    from tests.faults.verdict import Trial, a_home

    chance = Random(f"{seed} {number}")
    with a_home() as home:
        trial = Trial(case=_in_a_market(case, chance), then=Then.LEFT, point=number)
        scene = Scene(Desk(home=home, case=trial.case, cloud=a_cloud(chance)), trial, drawn=USUAL)
        broken = ""
        alive = False
        try:
            scene.launch(Points())
            scene.desk.cloud.pass_time(scene.desk.cloud.now() + _absence(chance))
            alive = any(row.ours and row.machine and row.ended_at is None for row in scene.desk.cloud.ledger())
            scene.typed()
            scene.to_the_end()
        except AssertionError as error:
            broken = str(error)
        verdict = scene.verdict()
        rows = [row for row in scene.desk.cloud.ledger() if row.ours]
        machines = [row for row in rows if row.machine]
        return {
            "number": number,
            "outcome": _outcome(scene),
            "wrong": {**verdict.wrong, **({"broken down": broken} if broken else {})},
            "live_at_first_look": alive,
            "machines": len(machines),
            "spent_usd": sum(row.usd for row in rows),
            "wasted_usd": wasted_usd(scene, machines),
        }


def a_cloud(chance: Random) -> Any:
    """A world of its own: how long boot takes, how often spot is reclaimed, what stays behind, which trainers hang."""
    from tests.faults.sim import FirstFallsSilent, FirstNeverBegins, SimCloud
    from trainplan.providers.sim.training import Simulated

    boot = chance.choice((20, 300, 1500))
    cloud = SimCloud(
        "absent",
        seed=chance.randrange(2**31),
        boot=[timedelta(seconds=boot), timedelta(seconds=1.2 * boot)],
        reclaims_per_hour=chance.choice(RECLAIMS_PER_HOUR),
        notice=timedelta(seconds=chance.choice((0, 120))),
        disks_stay=chance.random() < 0.5,
        standing_reaper=chance.random() < 0.5,
        listing_lag=timedelta(seconds=chance.choice((0, 10))),
        page_size=20,
    )
    hangs = chance.random() < HANGS
    trainer = chance.choice((FirstFallsSilent, FirstNeverBegins))() if hangs else Simulated()
    cloud.trains_with(trainer)
    return cloud


def wasted_usd(scene: Scene, machines: list[Lived]) -> float:
    """What was paid for work that nobody has any more (see above)."""
    reached: dict[str, int] = {}
    lost: dict[str, float] = {}
    spent: dict[str, float] = {}
    for row in machines:
        run = row.run or ""
        lines = _progress(scene, row)
        saved_lines = [line for line in lines if line["event"] == "checkpoint" or _is_done(line)]
        until = datetime.fromisoformat(saved_lines[-1]["time"]) if saved_lines else row.created_at
        end = row.ended_at or scene.desk.cloud.now()
        share = (
            0.0
            if saved_lines and _is_done(saved_lines[-1])
            else (end - until) / (end - row.created_at)
            if end > until
            else 0.0
        )
        reached[run] = max(reached.get(run, 0), *(int(line["step"]) for line in saved_lines), 0)
        lost[run] = lost.get(run, 0.0) + row.usd * share
        spent[run] = spent.get(run, 0.0) + row.usd
    if not reached:
        return 0.0
    furthest = max(reached, key=lambda run: reached[run])
    return lost[furthest] + sum(usd for run, usd in spent.items() if run != furthest)


def _progress(scene: Scene, row: Lived) -> list[dict[str, Any]]:
    """What a machine's trainer has said."""
    world = scene.desk.cloud.world  # type: ignore[attr-defined]
    course = world.state.machines[row.id].course
    if course is None:
        return []
    data = world.state.objects.get(f"{course.run}/attempts/{course.attempt}/progress.jsonl", b"")
    return [json.loads(line) for line in data.splitlines()]


def _is_done(line: dict[str, Any]) -> bool:
    return bool(line["event"] == "end" and line["state"] == "done")


def _in_a_market(case: Any, chance: Random) -> Any:
    from dataclasses import replace

    return replace(case, market=chance.choice(("on_demand", "spot")))


def _absence(chance: Random) -> timedelta:
    """Minutes to three days; half of them are a day and more."""
    if chance.random() < 0.5:
        return timedelta(days=1) + chance.random() * (LONGEST - timedelta(days=1))
    return SHORTEST * float((timedelta(days=1) / SHORTEST) ** chance.random())


def _outcome(scene: Scene) -> str:
    """The outcomes of the job's runs, in their order."""
    runs = sorted(scene.runs(), key=lambda run: run.created_at)
    return ", then ".join(str(run.outcome or f"still {run.phase}") for run in runs)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", type=int, default=200)
    parser.add_argument("--seed", type=int, default=16)
    parser.add_argument("--code", type=Path, default=ROOT, help="a checkout whose product is tried")
    parser.add_argument("--verbose", action="store_true", help="say on stderr what was wrong")
    return parser


if __name__ == "__main__":
    sys.exit(main())
