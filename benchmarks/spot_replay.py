"""Expected time and cost on spot against replays of recorded traces, job by job and trace by trace.

The traces are in tests/data/spot_spells.csv, each with its source. Prints what is compared with what, a row for each
trace and job, and the summary; exits with 1 where a target is missed:
`python benchmarks/spot_replay.py [--replays N] [--seed TEXT] [--brief]`.
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from random import Random
from typing import NamedTuple

from trainplan.planner.forecast.interruption import InterruptibleRun, Spells, SpotPlacement, expected_run
from trainplan.planner.forecast.simulate import OneRun, Spell, go_through, simulate, spread

TRACES = Path(__file__).parents[1] / "tests" / "data" / "spot_spells.csv"
JOB_HOURS = (4, 12, 48)
INTERVAL_SECONDS = 600.0
CHECKPOINT_SECONDS = 10.0
RESTART_SECONDS = 465.0
LEAST_AVAILABILITY = 0.6
DAY = 86_400.0
MOST_ERROR = 0.15
COVERAGE = (0.80, 0.97)
MOST_REPLAY_SPELLS = 100_000

HEADER = f"""\
Compared: the expectation of trainplan.planner.forecast.interruption.expected_run, and the P90 of
trainplan.planner.forecast.simulate.simulate, with replays of the same job over the whole recorded trace:
wrapped at its end, started at seeded random moments (up or down),
waiting in the zone while it is down. The job checkpoints every {INTERVAL_SECONDS:.0f} s ({CHECKPOINT_SECONDS:.0f} s \
each) and needs {RESTART_SECONDS:.0f} s to restart;
nothing is done within the notice. Cost is up time used, at a constant price: its error is that of the billed seconds.
Estimated from `even days`: spell lengths within the days 0, 2, 4, ... of the trace, cut at midnight and treated as cut.
`forward half`: estimated on the first half, replayed on the second half alone (wrapped), which it has not seen.
Errors of time and cost: expectation against the mean of the replays, as a share of it. `to median`: expectation
against the median replay; `P50`: median of the simulated runs against the median replay. A trace is counted where the
zone is up at least 60 % of the whole trace.
"""


class Trace(NamedTuple):
    name: str
    gap_seconds: float
    up: tuple[bool, ...]

    @property
    def availability(self) -> float:
        return sum(self.up) / len(self.up)

    def part(self, begin: int, end: int) -> Trace:
        return self._replace(up=self.up[begin:end])


class ObservedSpell(NamedTuple):
    """A spell as a window shows it: whether its end is in the window, and whether its beginning is."""

    seconds: float
    has_ended: bool
    fresh: bool


Fit = Callable[[Sequence[ObservedSpell]], Spells]


def load() -> list[Trace]:
    """Every recorded trace, by name: its table has the lengths of its spells in ticks, in turn up and down."""
    traces = []
    with TRACES.open(encoding="utf-8", newline="") as text:
        for row in csv.DictReader(text):
            up: list[bool] = []
            state = row["first"] == "up"
            for ticks in row["ticks"].split():
                up += [state] * int(ticks)
                state = not state
            traces.append(Trace(row["trace"], float(row["gap_seconds"]), tuple(up)))
    return traces


def even_days(trace: Trace) -> list[tuple[bool, ...]]:
    """The days 0, 2, 4, ... each a window of its own."""
    days = groupby(enumerate(trace.up), key=lambda tick: int(tick[0] * trace.gap_seconds // DAY))
    return [tuple(up for _, up in ticks) for day, ticks in days if day % 2 == 0]


def seen_spells(windows: Sequence[Sequence[bool]], gap_seconds: float, state: bool) -> list[ObservedSpell]:
    observed_spells = []
    for window in windows:
        spells = [(up, len(list(ticks))) for up, ticks in groupby(window)]
        for index, (up, ticks) in enumerate(spells):
            if up is state:
                observed_spells.append(ObservedSpell(ticks * gap_seconds, index < len(spells) - 1, index > 0))
    return observed_spells


def fit_one(observed_spells: Sequence[ObservedSpell]) -> Spells:
    """One exponential: the time seen in the state over the ends seen, which cut spells do not bias."""
    ends = max(sum(spell.has_ended for spell in observed_spells), 0.5)
    return Spells(long_seconds=max(1.0, sum(spell.seconds for spell in observed_spells)) / ends)


def fit_two(observed_spells: Sequence[ObservedSpell]) -> Spells:
    """Two exponentials by expectation-maximisation.

    A spell that is cut at its end counts with the probability to last that long. One that was under way when its
    window began has an exponential rest too, but another share of short ones: it counts for the means, not the share.
    """
    mean = fit_one(observed_spells).long_seconds
    means, fresh, under_way = (0.3 * mean, 1.7 * mean), 0.5, 0.5
    for _ in range(200):
        shorts = [_chance_of_short(spell, means, fresh if spell.fresh else under_way) for spell in observed_spells]
        short = _mean([(chance, spell) for chance, spell in zip(shorts, observed_spells, strict=True)])
        long = _mean([(1 - chance, spell) for chance, spell in zip(shorts, observed_spells, strict=True)])
        means = (short or means[0], long or means[1])
        fresh = _share([chance for chance, spell in zip(shorts, observed_spells, strict=True) if spell.fresh], fresh)
        under_way = _share(
            [chance for chance, spell in zip(shorts, observed_spells, strict=True) if not spell.fresh], under_way
        )
    return Spells(short_share=fresh, short_seconds=means[0], long_seconds=means[1])


def _chance_of_short(spell: ObservedSpell, means: tuple[float, float], share: float) -> float:
    short, long = (
        weight * math.exp(-spell.seconds / mean) / (mean if spell.has_ended else 1.0)
        for weight, mean in zip((share, 1 - share), means, strict=True)
    )
    return short / (short + long) if short + long > 0 else 0.0


def _mean(weighted: Sequence[tuple[float, ObservedSpell]]) -> float:
    ends = sum(weight for weight, spell in weighted if spell.has_ended)
    return max(1.0, sum(weight * spell.seconds for weight, spell in weighted) / max(ends, 1e-3))


def _share(chances: Sequence[float], otherwise: float) -> float:
    return sum(chances) / len(chances) if chances else otherwise


def estimated_placement(windows: Sequence[Sequence[bool]], gap_seconds: float, fit: Fit) -> SpotPlacement:
    up, down = (fit(seen_spells(windows, gap_seconds, state)) for state in (True, False))
    return SpotPlacement(up=up, down=down)


def job(hours: float) -> InterruptibleRun:
    return InterruptibleRun(
        work_seconds=hours * 3600,
        interval_seconds=INTERVAL_SECONDS,
        checkpoint_seconds=CHECKPOINT_SECONDS,
        restart_seconds=RESTART_SECONDS,
    )


def recorded_spells(trace: Trace, start_seconds: float) -> Iterator[Spell]:
    """Spells of the trace from a moment on, over and over; the last and the first are one where they are alike."""
    spells = [Spell(up, len(list(ticks)) * trace.gap_seconds) for up, ticks in groupby(trace.up)]
    if len(spells) > 1 and spells[0].up is spells[-1].up:
        first = spells.pop(0)
        spells[-1] = Spell(first.up, spells[-1].seconds + first.seconds)
        start_seconds = (start_seconds - first.seconds) % (len(trace.up) * trace.gap_seconds)
    ends = [0.0]
    for spell in spells:
        ends.append(ends[-1] + spell.seconds)
    index = min(bisect_right(ends, start_seconds) - 1, len(spells) - 1)
    yield Spell(spells[index].up, ends[index + 1] - start_seconds)
    for _ in range(MOST_REPLAY_SPELLS):
        index = (index + 1) % len(spells)
        yield spells[index]


def replays(run: InterruptibleRun, trace: Trace, count: int, seed: str) -> list[OneRun]:
    random, length = Random(seed), len(trace.up) * trace.gap_seconds
    return [go_through(run, recorded_spells(trace, random.random() * length)) for _ in range(count)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One trace and job: what was expected, and what the replays came to."""

    trace: str
    availability: float
    hours: int
    mean_hours: float
    time_error: float
    cost_error: float
    median_error: float
    p50_error: float
    single_error: float
    covered: float

    @property
    def counts(self) -> bool:
        return self.availability >= LEAST_AVAILABILITY


class Figures(NamedTuple):
    """What is held against the replays, in seconds."""

    wall: float
    billed: float
    p50: float
    p90: float


def compare(trace: Trace, hours: int, figures: Figures, ends: Sequence[OneRun]) -> Case:
    walls = [end.wall_seconds for end in ends]
    mean, billed = statistics.fmean(walls), statistics.fmean(end.billed_seconds for end in ends)
    median = statistics.median(walls)
    return Case(
        trace=trace.name,
        availability=trace.availability,
        hours=hours,
        mean_hours=mean / 3600,
        time_error=figures.wall / mean - 1,
        cost_error=figures.billed / billed - 1,
        median_error=figures.wall / median - 1,
        p50_error=figures.p50 / median - 1,
        single_error=statistics.median(abs(figures.wall / one - 1) for one in walls),
        covered=sum(one <= figures.p90 for one in walls) / len(walls),
    )


def model_cases(trace: Trace, placement: SpotPlacement, ends: dict[int, list[OneRun]], seed: str) -> list[Case]:
    """The closed form and the simulated P90 against the replays."""
    cases = []
    for hours in JOB_HOURS:
        expected = expected_run(job(hours), placement)
        runs = simulate(job(hours), placement, f"{seed} {trace.name} {hours}", draws=1000).wall
        figures = Figures(expected.wall_seconds, expected.billed_seconds, runs.p50, runs.p90)
        cases.append(compare(trace, hours, figures, ends[hours]))
    return cases


def strung_cases(trace: Trace, ends: dict[int, list[OneRun]], count: int, seed: str) -> list[Case]:
    """Tried instead of a model: replay the even days strung together, spells and their order as they were."""
    strung = trace._replace(up=tuple(up for window in even_days(trace) for up in window))
    cases = []
    for hours in JOB_HOURS:
        replayed = replays(job(hours), strung, count, f"strung {seed} {trace.name} {hours}")
        walls = [one.wall_seconds for one in replayed]
        billed, runs = statistics.fmean(one.billed_seconds for one in replayed), spread(walls)
        cases.append(compare(trace, hours, Figures(statistics.fmean(walls), billed, runs.p50, runs.p90), ends[hours]))
    return cases


def print_never(cases: Sequence[Case]) -> list[Case]:
    """Says which replays never ended, as no machine came in them at all, and returns the other cases."""
    for trace in sorted({case.trace for case in cases if not math.isfinite(case.mean_hours)}):
        print(f"  {trace}: left out, in part of the replays no machine is ever to be had")
    return [case for case in cases if math.isfinite(case.mean_hours)]


def print_cases(title: str, cases: Sequence[Case]) -> None:
    print(f"\n{title}")
    print(
        f"  {'trace':36} {'up':>4} {'job':>4} {'replays':>8} {'time':>6} {'cost':>6} {'to median':>9} {'P50':>6} "
        f"{'within P90':>10}"
    )
    for case in sorted(print_never(cases), key=lambda one: not one.counts):
        print(
            f"  {case.trace:36} {case.availability:4.0%} {case.hours:3}h {case.mean_hours:7.1f}h "
            f"{case.time_error:+6.0%} {case.cost_error:+6.1%} {case.median_error:+9.0%} {case.p50_error:+6.0%} "
            f"{case.covered:10.0%}"
            f"{'' if case.counts else '  (not counted)'}"
        )


class Summary(NamedTuple):
    """Medians over cases of the sizes of the errors; coverage: over all replays, and how many cases are in range."""

    time: float
    cost: float
    median: float
    p50: float
    single: float
    covered: float
    within: int
    cases: int

    @property
    def good(self) -> bool:
        low, high = COVERAGE
        return self.time <= MOST_ERROR and self.cost <= MOST_ERROR and low <= self.covered <= high


def summarise(cases: Sequence[Case]) -> Summary:
    low, high = COVERAGE
    return Summary(
        time=statistics.median(abs(case.time_error) for case in cases),
        cost=statistics.median(abs(case.cost_error) for case in cases),
        median=statistics.median(abs(case.median_error) for case in cases),
        p50=statistics.median(abs(case.p50_error) for case in cases),
        single=statistics.median(case.single_error for case in cases),
        covered=statistics.fmean(case.covered for case in cases),
        within=sum(low <= case.covered <= high for case in cases),
        cases=len(cases),
    )


def print_summary(title: str, cases: Sequence[Case]) -> None:
    for which, some in (("up >= 60 %", True), ("the others", False)):
        selected = [case for case in cases if case.counts is some and math.isfinite(case.mean_hours)]
        if not selected:
            continue
        summary = summarise(selected)
        print(
            f"  {title:32} {which:10}  time {summary.time:5.1%}  cost {summary.cost:5.1%}  "
            f"to median {summary.median:4.0%}  P50 {summary.p50:4.0%}  to one replay {summary.single:4.0%}  "
            f"P90 covers {summary.covered:4.0%} ({summary.within} of {summary.cases} cases in 80-97 %)"
        )


def print_pooled(traces: Sequence[Trace]) -> None:
    """Where the rate of V100s in trainplan.planner.forecast.spot comes from."""
    selected = [one for one in traces if "v100_1" in one.name and "avail" in one.name and one.availability >= 0.6]
    for state, name in ((True, "up"), (False, "down")):
        spells = fit_two(
            [observed_spells for one in selected for observed_spells in seen_spells([one.up], one.gap_seconds, state)]
        )
        print(
            f"  {name:4} {spells.short_share:.2f} of {spells.short_seconds / 3600:.2f} h, the others of "
            f"{spells.long_seconds / 3600:.1f} h on average"
        )


def run_all(traces: Sequence[Trace], count: int, seed: str) -> dict[str, list[Case]]:
    """The cases of each way to estimate, by its title; the first is the one that is shipped."""
    cases_by_trace: dict[str, list[Case]] = {}
    for trace in traces:
        days, middle = even_days(trace), len(trace.up) // 2
        first, second = trace.part(0, middle), trace.part(middle, len(trace.up))
        ends = {hours: replays(job(hours), trace, count, f"{seed} {trace.name} {hours}") for hours in JOB_HOURS}
        ahead = {hours: replays(job(hours), second, count, f"ahead {seed} {trace.name} {hours}") for hours in JOB_HOURS}
        for title, fit in (("two exponentials", fit_two), ("one exponential", fit_one)):
            placement = estimated_placement(days, trace.gap_seconds, fit)
            cases_by_trace.setdefault(f"even days, {title}", []).extend(model_cases(trace, placement, ends, seed))
            placement = estimated_placement([first.up], trace.gap_seconds, fit)
            cases = [
                replace(case, availability=trace.availability) for case in model_cases(second, placement, ahead, seed)
            ]
            cases_by_trace.setdefault(f"forward half, {title}", []).extend(cases)
        steady = replace(estimated_placement(days, trace.gap_seconds, fit_two), drift=0.0)
        cases_by_trace.setdefault("even days, two, no bad weeks", []).extend(model_cases(trace, steady, ends, seed))
        strung = strung_cases(trace, ends, count, seed)
        cases_by_trace.setdefault("even days strung together", []).extend(strung)
    return cases_by_trace


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replays", type=int, default=600)
    parser.add_argument("--seed", default="spot")
    parser.add_argument("--brief", action="store_true", help="the summary alone")
    options = parser.parse_args()
    traces = load()
    print(HEADER)
    cases_by_trace = run_all(traces, options.replays, options.seed)
    if not options.brief:
        for title in ("even days, two exponentials", "forward half, two exponentials"):
            print_cases(f"{title}, {options.replays} replays a case", cases_by_trace[title])
    print("\nsizes of the errors, median over traces and jobs; the first line is the model that is shipped, held to")
    print(f"time and cost at most {MOST_ERROR:.0%}, P90 covering {COVERAGE[0]:.0%} to {COVERAGE[1]:.0%}")
    for title, cases in cases_by_trace.items():
        print_summary(title, cases)
    print("\npooled over V100 availability traces up >= 60 % of the time (whole traces)")
    print_pooled(traces)
    shipped = next(iter(cases_by_trace.values()))
    good = summarise([case for case in shipped if case.counts]).good
    print("\ntargets met" if good else "\ntargets missed")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
