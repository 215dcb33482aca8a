"""All points of all cases, tried by several workers; what of them is wrong."""

from __future__ import annotations

import gc
import multiprocessing
import sys
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from tests.faults.cases import CASES
from tests.faults.trial import MakeCloud, Trial, Verdict, tried, warm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tests.faults.cases import Case

WORKERS = 3
"""Client, double and harness wait for one another: two workers leave a third of two processors idle, three do not."""


def undisturbed(cases: Iterable[Case], make_cloud: MakeCloud, workers: int = WORKERS) -> list[Verdict]:
    """One verdict for each case and kind of trial, with the points that its launch reaches."""
    return list(verdicts([Trial(case, case.then[0]) for case in cases], make_cloud, workers))


def all_trials(began: Iterable[Verdict]) -> list[Trial]:
    """Every point of these launches, each with whatever is done after it."""
    return [
        Trial(verdict.trial.case, then, point)
        for verdict in began
        for then in verdict.trial.case.then
        for point in (_distinct(verdict.names) if then.kills else range(len(verdict.names)))
    ]


def _distinct(names: Sequence[str]) -> list[int]:
    """Points to die at, but for those before a call that come right after another one: nothing has happened between the
    two but time, and how much passes after a death is drawn for each point."""
    befores = [name.startswith("before ") for name in names]
    return [number for number, before in enumerate(befores) if number == 0 or not before or befores[number - 1]]


def some(trials: Sequence[Trial], share: float, seed: int) -> list[Trial]:
    """A part of them, the same for the same seed, in their order."""
    chosen = Random(seed).sample(range(len(trials)), round(len(trials) * share))
    return [trials[number] for number in sorted(chosen)]


def verdicts(trials: Sequence[Trial], make_cloud: MakeCloud, workers: int = WORKERS) -> Iterator[Verdict]:
    """In the order of the trials; with one worker in this process."""
    work: Callable[[Trial], Verdict] = partial(tried, make_cloud=make_cloud)
    if workers == 1:
        yield from map(work, trials)
        return
    with multiprocessing.get_context("fork").Pool(workers, ready, (make_cloud,)) as pool:
        yield from pool.imap(work, trials, chunksize=8)


def ready(make_cloud: MakeCloud) -> None:
    """A worker of the harness, before it forks its clients."""
    warm(CASES[0], make_cloud)
    gc.freeze()  # what is there already is shared with every client, and no collection needs to touch it


def summary(found: Sequence[Verdict]) -> str:
    leaked, doubled, unrecorded = (
        sum(bool(getattr(verdict, name)) for verdict in found) for name in ("leaked", "doubled", "unrecorded")
    )
    return f"points {len(found)}, leaked {leaked}, doubled {doubled}, unrecorded {unrecorded}"


def tell(verdict: Verdict, names: dict[tuple[str, int | None], str]) -> None:
    """What is wrong, on stderr: at which point, and how."""
    if verdict.good:
        return
    trial = verdict.trial
    at = names.get((trial.case.name, trial.point), "")
    kinds = ("leaked", "doubled", "unrecorded")
    wrong = "; ".join(f"{kind}: {getattr(verdict, kind)}" for kind in kinds if getattr(verdict, kind))
    sys.stderr.write(f"{trial.name}{f', {at}' if at else ''}: {wrong}\n")


def named_points(began: Iterable[Verdict]) -> dict[tuple[str, int | None], str]:
    return {(verdict.trial.case.name, number): name for verdict in began for number, name in enumerate(verdict.names)}


def first_red(trials: Iterable[Trial], make_cloud: MakeCloud) -> tuple[int, Verdict | None]:
    """Trials until one is wrong, in this process: how many it took, and what was wrong; None: nothing was."""
    number = 0
    for number, trial in enumerate(trials, start=1):
        verdict = tried(trial, make_cloud)
        if not verdict.good:
            return number, verdict
    return number, None
