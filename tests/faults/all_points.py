"""All points of all cases, tried by several workers; what of them is wrong."""

from __future__ import annotations

import gc
import multiprocessing
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any, Protocol, TypeVar

from tests.doubles import quick_headers
from tests.faults.branches import at_point, launch_of
from tests.faults.cases import CASES, Case, Then
from tests.faults.trial import run_trial, tried_together, warm
from tests.faults.verdict import KINDS, MakeCloud, Trial, Verdict

Item = TypeVar("Item")
WORKERS = 3
"""Client, double and harness wait for one another: two workers leave a third of two processors idle, three do not."""


MOST_TOGETHER = 16
"""Trials of one launch that are tried by one worker."""


class Spread(Protocol):
    """Does the work on every item, and gives the results in the order of the items."""

    def __call__(self, work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]: ...


@contextmanager
def spread(make_cloud: MakeCloud, workers: int = WORKERS) -> Iterator[Spread]:
    """Over workers that stay: each has its own double, which takes seconds to start. One worker is this process."""
    if workers == 1:
        ready(make_cloud)
        yield map  # type: ignore[misc]
        return
    with multiprocessing.get_context("fork").Pool(workers, ready, (make_cloud,)) as pool:
        yield pool.imap  # type: ignore[misc]


def undisturbed(cases: Iterable[Case], make_cloud: MakeCloud, over: Spread) -> list[Verdict]:
    """One verdict for each case and kind of trial, with the points that its launch reaches."""
    return list(verdicts([Trial(case, case.then[0]) for case in cases], make_cloud, over))


def all_trials(began: Iterable[Verdict]) -> list[Trial]:
    """Every point of these launches, each with whatever is done after it."""
    return [
        Trial(verdict.trial.case, then, point)
        for verdict in began
        for then in verdict.trial.case.then
        for point in _points(verdict, then)
    ]


def _points(verdict: Verdict, then: Then) -> Sequence[int]:
    if then is Then.LEFT:
        return range(verdict.trial.case.draws)
    return _distinct(verdict.names) if then.kills else range(len(verdict.names))


def _distinct(names: Sequence[str]) -> list[int]:
    """Points to die at, but for those before a call that come right after another one: nothing has happened between the
    two but time, and how much passes after a death is drawn for each point."""
    befores = [name.startswith("before ") for name in names]
    return [number for number, before in enumerate(befores) if number == 0 or not before or befores[number - 1]]


def some(every: Sequence[Item], share: float, seed: int) -> list[Item]:
    """A part of them, the same for the same seed, in their order."""
    chosen = Random(seed).sample(range(len(every)), round(len(every) * share))
    return [every[number] for number in sorted(chosen)]


def verdicts(trials: Sequence[Trial], make_cloud: MakeCloud, over: Spread) -> Iterator[Verdict]:
    """In the order of the trials. Those of one launch are tried together."""
    told: dict[Trial, Verdict] = {}
    found = over(partial(tried_together, make_cloud=make_cloud), together(trials))
    for trial in trials:
        while trial not in told:
            told.update({verdict.trial: verdict for verdict in next(found)})
        yield told.pop(trial)


def together(trials: Iterable[Trial]) -> list[list[Trial]]:
    """Trials of one launch, by their points, so many at a time that no worker is left alone with them at the end."""
    launches: dict[tuple[str, bool], list[Trial]] = {}
    for trial in trials:
        launches.setdefault(launch_of(trial), []).append(trial)
    return [
        ordered[first : first + MOST_TOGETHER]
        for ordered in (sorted(those, key=at_point) for those in launches.values())
        for first in range(0, len(ordered), MOST_TOGETHER)
    ]


def ready(make_cloud: MakeCloud) -> None:
    """A worker of the harness, before it forks its clients."""
    quick_headers.install()
    warm(CASES[0], make_cloud)
    gc.freeze()  # what is there already is shared with every client, and no collection needs to touch it


def summary(all_verdicts: Sequence[Verdict]) -> str:
    counts = (f"{kind} {sum(bool(getattr(verdict, kind)) for verdict in all_verdicts)}" for kind in KINDS)
    return f"points {len(all_verdicts)}, {', '.join(counts)}"


def tell(verdict: Verdict, names: dict[tuple[str, int | None], str]) -> None:
    """What is wrong, on stderr: at which point, and how."""
    if verdict.good:
        return
    trial = verdict.trial
    at = names.get((trial.case.name, trial.point), "") if trial.then is not Then.LEFT else ""
    wrong = "; ".join(f"{kind}: {text}" for kind, text in verdict.wrong.items())
    sys.stderr.write(f"{trial.name}{f', {at}' if at else ''}: {wrong}\n")


def named_points(began: Iterable[Verdict]) -> dict[tuple[str, int | None], str]:
    return {(verdict.trial.case.name, number): name for verdict in began for number, name in enumerate(verdict.names)}


def first_red(trials: Iterable[Trial], make_cloud: MakeCloud) -> tuple[int, Verdict | None]:
    """Trials until one is wrong, in this process: how many it took, and what was wrong; None: nothing was."""
    number = 0
    for number, trial in enumerate(trials, start=1):
        verdict = run_trial(trial, make_cloud)
        if not verdict.good:
            return number, verdict
    return number, None
