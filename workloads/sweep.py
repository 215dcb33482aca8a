"""A sweep: one job with other values of some keys, trained by successive halving. Pure.

Every trial is a job of its own with the whole number of epochs. A rung trains the trials that are left up to an epoch,
tests each on the test images, and a third of them and one more go on. A trial that goes on continues from its
checkpoint, so that the best one has been trained exactly as if it had been trained alone.

Successive halving is Jamieson and Talwalkar, arXiv:1502.07943; a third and not a half goes on, since Hyperband (Li et
al., arXiv:1603.06560) suggests 3 or 4.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, NamedTuple, Self, get_args, get_origin

from pydantic import ConfigDict, Field, JsonValue, ValidationError, model_validator

from trainplan.workloads.key_changes import Change, with_changes
from trainplan.workloads.nearest import nearest_names
from trainplan.workloads.script import INSTEAD_OF_IT, Scalar, secrets_in
from trainplan.workloads.terms import Measure
from trainplan.workloads.values import Budget, Value, keys_of, refuse_all

if TYPE_CHECKING:
    from trainplan.workloads.job import TrainingJob

SURVIVING_SHARE = 3
"""One in so many trials goes on to the next rung, which trains up to so many times the epochs."""
_ONE_MORE_FROM = 6
"""From so many trials on, one more than a third goes on: values that lie close together change places late
(benchmarks/sweep_schedules.py), and the sweep still trains no more than 45 % of the epochs of all trials."""
MOST_TRIALS = 100
MOST_VALUES = 100
MOST_KEYS = 20
MOST_FAILURE = 2_000
"""Characters of what is said of a trial that has failed."""
_MOST_TEXT = 300
STATE = "sweep.json"
"""The table of a sweep, in the output of its run and in each of its checkpoints."""

WRITTEN_BY_PLAN = ("model.read", "read_script")
"""Keys of a job that no person writes."""
_OF_THE_RUN = "one machine trains all trials"
_FIXED = {
    "name": "all trials are of one run",
    "project": "all trials are of one run",
    "epochs": "a sweep shares them out itself: each trial is trained for a part of them, the best one for all",
    "sweep": "a sweep is not within a sweep",
    **dict.fromkeys(WRITTEN_BY_PLAN, "plan writes it, and no person"),
    **dict.fromkeys(("nodes", "constraints", "objective", "on_slow", "checkpoint_every"), _OF_THE_RUN),
    **dict.fromkeys(("framework", "container", "secrets"), f"{_OF_THE_RUN} in one container"),
    **dict.fromkeys(("data",), f"{_OF_THE_RUN} on the same images"),
    **dict.fromkeys(("export", "track"), "only the best trial is brought home"),
    **dict.fromkeys(
        ("model.python", "model.onnx", "model.weights", "model.classes"),
        "it is read or fetched once, before the sweep",
    ),
}
"""Keys that have one value for all trials, and why; those within them too."""


FIGURE_NAME = r"[A-Za-z_]([\w ./-]{0,98}[\w./-])?"
"""Of a figure that a script reports: letters, digits, _ . / - and blanks within."""
FigureName = Annotated[str, Field(pattern=f"^{FIGURE_NAME}$")]


class SweepSpec(Value):
    """The keys that a sweep tries, with their values: `optimizer.learning_rate: [0.1, 0.01]`; a trial is one value of
    each. Without `trials` every combination is a trial."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Annotated[tuple[JsonValue, ...], Field(max_length=MOST_VALUES)]]

    trials: Annotated[int, Field(strict=True, ge=2, le=MOST_TRIALS)] | None = Field(
        default=None, description="so many of the combinations, drawn with the job's seed; without it all of them"
    )
    budget_usd: Budget | None = Field(
        default=None, description="the most that the whole sweep may cost; the lower of it and constraints.budget_usd"
    )
    maximize: FigureName | None = Field(
        default=None, description="of a script: the figure that it reports and of which more is better"
    )
    minimize: FigureName | None = Field(
        default=None, description="of a script: the figure that it reports and of which less is better"
    )

    @model_validator(mode="after")
    def _possible(self) -> Self:
        refuse_all(self._contradictions())
        return self

    @property
    def values(self) -> Mapping[str, tuple[JsonValue, ...]]:
        """The values of each key, in the order of the file."""
        return self.__pydantic_extra__ or {}

    @property
    def combinations(self) -> int:
        """How many trials the full grid has."""
        return math.prod(map(len, self.values.values()))

    def _contradictions(self) -> Iterator[str]:
        if self.maximize is not None and self.minimize is not None:
            yield "maximize and minimize name what trials are ranked by; write one of them"
        if not self.values:
            yield "name at least one key with its values, such as optimizer.learning_rate: [0.1, 0.01]"
            return
        if len(self.values) > MOST_KEYS:
            yield f"{len(self.values)} keys are swept; {MOST_KEYS} is the most"
        for key, values in self.values.items():
            yield from _key_problems(key, values)
        if not all(self.values.values()):
            return
        count = self.combinations
        if self.trials is None and count > MOST_TRIALS:
            yield f"{count:,} combinations are more than {MOST_TRIALS} trials; write trials: N to draw N of them"
        if self.trials is not None and self.trials > count:
            yield f"trials: {self.trials} are more than the {count} combinations; leave out trials to train all of them"


def _key_problems(key: str, values: Sequence[JsonValue]) -> Iterator[str]:
    """What is wrong with a key of a sweep, whatever the rest of the job."""
    reason = next((why for fixed, why in _FIXED.items() if key == fixed or key.startswith(f"{fixed}.")), None)
    if reason is not None:
        yield f"{key} cannot be swept: {reason}"
    elif not values:
        yield f"{key} has no values; write at least two, or leave it out"
    elif len(values) == 1:
        yield f"{key} has one value; write it in the job itself, or add others"
    elif len({json.dumps(value) for value in values}) < len(values):
        yield f"{key} has the same value twice"


class Trial(NamedTuple):
    """`number` from 1; `values` of the keys that are swept; `job` is what it trains, with all of the epochs."""

    number: int
    values: Mapping[str, JsonValue]
    job: TrainingJob


def trials_of(job: TrainingJob) -> tuple[Trial, ...]:
    """The trials of a job with a sweep, in the order of its combinations; the last key changes fastest.

    Raises ValueError, which names the first combination that is no job.
    """
    return _trials(job.to_json(), type(job))


@lru_cache(maxsize=16)
def _trials(text: str, kind: type[TrainingJob]) -> tuple[Trial, ...]:
    """`kind` is the class of jobs, which has this module's SweepSpec and is not imported here."""
    values = json.loads(text)
    spec = SweepSpec.model_validate(values.pop("sweep"))
    for key in spec.values:
        _refuse_unknown(key, kind)
    count = spec.combinations
    numbers: Sequence[int] = range(count)
    if spec.trials is not None and spec.trials < count:
        numbers = sorted(random.Random(values.get("seed", 0)).sample(range(count), spec.trials))
    values["args"] = values.get("args") or {}
    plain = json.dumps(values)
    trials = tuple(
        _trial(number, _combination(spec, index), plain, kind) for number, index in enumerate(numbers, start=1)
    )
    _refuse_equal(trials)
    return trials


def _refuse_equal(trials: Sequence[Trial]) -> None:
    """Raises ValueError where two of them train the same thing, which would be paid for twice."""
    seen: dict[str, Trial] = {}
    for trial in trials:
        first = seen.setdefault(trial.job.digest(), trial)
        if first is not trial:
            raise ValueError(
                f"{values_text(first.values)} and {values_text(trial.values)} train the same thing; sweep values that "
                "make a difference with each of the others, or write two sweeps"
            )


def sweep_problems(job: TrainingJob) -> Iterator[str]:
    """How the sweep does not go with the rest of its job, and the first combination that is no job."""
    if job.sweep is None:
        return
    yield from _script_problems(job, job.sweep)
    if job.container is not None:
        yield "sweep: a container of your own trains one job; leave out container or sweep"
    elif job.nodes > 1:
        yield "sweep: trials are trained on one machine; leave out nodes or sweep"
    elif job.model.file is not None and any(key.startswith("model.") for key in job.sweep.values):
        yield "sweep: a network in a file is read once, for all trials; sweep keys outside model"
    elif job.script is None or not [*_script_problems(job, job.sweep)]:
        try:
            trials_of(job)
        except ValueError as error:
            yield f"sweep: {error}"


def _script_problems(job: TrainingJob, spec: SweepSpec) -> Iterator[str]:
    """What a sweep over arguments of a script lacks, and what one of our trainer has too much."""
    goals = [name for name in ("maximize", "minimize") if getattr(spec, name) is not None]
    if job.script is None:
        yield from (f"sweep.{name} is for a script; validation.measure says what ranks trials" for name in goals)
        return
    if not goals:
        yield (
            "sweep: nobody but you knows which figure of a script counts; write maximize: NAME or minimize: NAME, as "
            "the script reports it (trainplan_run.figures)"
        )
    if not job.checkpoints:
        yield "sweep: trials of a script pause and go on from their checkpoints; checkpoints: true says that it does"
    yield from (
        f"sweep: a value of {key} seems to be a secret, and arguments are stored and shown; {INSTEAD_OF_IT}"
        for key, values in spec.values.items()
        if any(isinstance(value, Scalar) and any(secrets_in({key.removeprefix("args."): value})) for value in values)
    )
    others = [key for key in spec.values if not key.startswith("args.")]
    yield from (f"sweep: {key} is not swept with a script; sweep its arguments, such as args.lr" for key in others)
    if job.args and not isinstance(job.args, dict):
        yield "sweep: args is a list of words; write keys and values ({lr: 0.1}), so that one of them can be swept"


def _refuse_unknown(key: str, kind: type[TrainingJob]) -> None:
    """Raises ValueError for what is no single key of a job file."""
    known = keys_of(kind)
    parts = [one for one in known if one.startswith(f"{key}.")]
    if parts:
        raise ValueError(f"{key} is a group of keys; sweep one of them, such as {parts[0]}")
    group = key.rpartition(".")[0]
    holds = kind.model_fields[group].annotation if group in kind.model_fields else None
    is_free = any(get_origin(part) is dict for part in (holds, *get_args(holds)))
    if key not in known and not is_free:
        near = nearest_names(key, known)
        raise ValueError(f"there is no key {key!r}{f'; did you mean {near[0]!r}?' if near else ''}")


def _combination(spec: SweepSpec, index: int) -> dict[str, JsonValue]:
    """The values of one combination of the grid, counted from 0."""
    chosen: dict[str, JsonValue] = {}
    for key, values in reversed(tuple(spec.values.items())):
        index, place = divmod(index, len(values))
        chosen[key] = values[place]
    return {key: chosen[key] for key in spec.values}


def _trial(number: int, values: Mapping[str, JsonValue], plain: str, kind: type[TrainingJob]) -> Trial:
    """`plain` is the job without its sweep, as JSON. Raises ValueError where the combination is no job."""
    changes = [Change(tuple(key.split(".")), value, "") for key, value in values.items()]
    try:
        return Trial(number, values, kind.model_validate(with_changes(json.loads(plain), changes)))
    except ValidationError as error:
        raise ValueError(f"{values_text(values)} is no job: {_first_problem(error)}") from None


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    text = first["msg"].removeprefix("Value error, ")[:_MOST_TEXT]
    return f"{where}: {text[:1].lower()}{text[1:]}" if where else text


def values_text(values: Mapping[str, JsonValue]) -> str:
    """`optimizer.learning_rate 0.1, optimizer.momentum 0.9`."""
    return ", ".join(f"{key} {value if isinstance(value, str) else json.dumps(value)}" for key, value in values.items())


class Rung(NamedTuple):
    """`trials` are trained up to the end of `epochs`, counted from the beginning of each."""

    epochs: int
    trials: int


def rungs_of(epochs: int, trials: int) -> tuple[Rung, ...]:
    """The rungs of so many trials of so many epochs; the last one trains all epochs.

    Where there are too few epochs for all rungs, those that would train up to the same epoch are one: more trials are
    trained to the end then.
    """
    counts = [trials]
    while counts[-1] > 1:
        counts.append(-(-counts[-1] // SURVIVING_SHARE))
    if trials >= _ONE_MORE_FROM:
        counts[1:] = [count + 1 for count in counts[1:]]
    parts = (SURVIVING_SHARE**power for power in reversed(range(len(counts))))
    lengths = sorted({max(1, -(-epochs // part)) for part in parts})
    return tuple(map(Rung, lengths, counts))


def rungs_for(job: TrainingJob) -> tuple[Rung, ...]:
    """The rungs of a job's sweep. A script has no epochs that anybody knows: it is trained in parts, of which the first
    rung trains one."""
    count = len(trials_of(job))
    if job.script is None:
        return rungs_of(job.epochs, count)
    halvings, left = 0, count
    while left > 1:
        halvings, left = halvings + 1, -(-left // SURVIVING_SHARE)
    return rungs_of(SURVIVING_SHARE**halvings, count)


def planned_epochs(rungs: Sequence[Rung]) -> int:
    """The epochs that all trials of the rungs are trained for together."""
    return sum(rung.trials * new for rung, new in zip(rungs, new_epochs(rungs), strict=True))


def whole_trainings(rungs: Sequence[Rung]) -> float:
    """How many trainings of one trial to its end they make."""
    return planned_epochs(rungs) / rungs[-1].epochs


def new_epochs(rungs: Sequence[Rung]) -> list[int]:
    """Of each rung, the epochs that each of its trials is trained for beyond the rung before."""
    return [rung.epochs - before for rung, before in zip(rungs, (0, *(rung.epochs for rung in rungs)), strict=False)]


def images_of_epochs(job: TrainingJob, images: int) -> list[int]:
    """What an epoch shows in whole batches, of each trial, of a data set of so many. Of a script what it trains on in
    each of its parts, where all of them are so many."""
    parts = 1 if job.script is None else rungs_for(job)[-1].epochs
    batches = [trial.job.global_batch_size for trial in trials_of(job)]
    return [max(1, images // parts // batch) * batch for batch in batches]


def planned_images(job: TrainingJob, images: int) -> list[list[int]]:
    """Of each rung the images of each of its trials, of a data set of so many, or a script that trains on so many in
    all; the most where batches differ, since nobody knows which trials go on."""
    rungs = rungs_for(job)
    of_an_epoch = sorted(images_of_epochs(job, images), reverse=True)
    return [
        [new * of_an_epoch[place] for place in range(rung.trials)]
        for rung, new in zip(rungs, new_epochs(rungs), strict=True)
    ]


class Goal(NamedTuple):
    """What trials are ranked by: the name of a figure, and whether more of it is better."""

    name: str
    is_more_better: bool


ACCURACY, LOSS = Goal(Measure.ACCURACY.value, is_more_better=True), Goal(Measure.LOSS.value, is_more_better=False)


def goal_of(job: TrainingJob) -> Goal:
    """What ranks the trials of a job: of a script what its sweep names, else what its validation measures."""
    if job.script is not None and job.sweep is not None:
        return Goal(job.sweep.maximize or job.sweep.minimize or "", job.sweep.maximize is not None)
    return ACCURACY if job.validation.measure is Measure.ACCURACY else LOSS


class Result(Value):
    """What a trial was worth after so many epochs, or parts of a script: on the test images, or by the `figure`
    that the script reported. `reached` is the share of all its steps that a script had done by then, 1 where it has
    ended. `failure` says why it has no figures."""

    trial: Annotated[int, Field(ge=1, le=MOST_TRIALS)]
    epochs: Annotated[int, Field(ge=1, le=1_000_000)]
    accuracy: float | None = None
    loss: float | None = None
    figure: float | None = None
    reached: Annotated[float, Field(ge=0, le=1)] = 0.0
    failure: Annotated[str, Field(max_length=MOST_FAILURE)] = ""

    def value(self, goal: Goal) -> float | None:
        """What ranks it; None where it has none."""
        if self.figure is not None:
            return self.figure
        return self.accuracy if goal == ACCURACY else self.loss if goal == LOSS else None

    def order(self, goal: Goal) -> tuple[float, ...]:
        """Sorts the best first; of equals the one with the better other figure, then that with the lower number."""
        beside = self.loss if goal.is_more_better else None if self.accuracy is None else -self.accuracy
        value = self.value(goal)
        signed = None if value is None else -value if goal.is_more_better else value
        return (*(math.inf if one is None else one for one in (signed, beside)), self.trial)


class Task(NamedTuple):
    """What a sweep does next: train a trial up to an epoch. `rung` counts from 0."""

    rung: int
    trial: int
    epochs: int


class Standing:
    """How a sweep stands: everything follows from the results so far, so that it goes on wherever it was left."""

    def __init__(self, rungs: Sequence[Rung], trials: int, goal: Goal, results: Sequence[Result] = ()) -> None:
        self.results = tuple(results)
        self._rungs = tuple(rungs)
        self._all = tuple(range(1, trials + 1))
        self._goal = goal

    def of(self, trial: int) -> list[Result]:
        """The results of a trial."""
        return [result for result in self.results if result.trial == trial]

    def with_result(self, result: Result) -> Standing:
        """The same after one more result."""
        return Standing(self._rungs, len(self._all), self._goal, (*self.results, result))

    def next_task(self) -> Task | None:
        """The next trial to train; None: all rungs are done, or no trial that is left has figures."""
        for number, rung in enumerate(self._rungs):
            done = {result.trial for result in self._of(rung)}
            for trial in self._participants(number):
                if trial not in done:
                    return Task(number, trial, rung.epochs)
        return None

    @property
    def best(self) -> int | None:
        """The trial with the best result of the furthest rung that has any; None before the first, and where all have
        failed there."""
        furthest = next((ranked for rung in reversed(self._rungs) if (ranked := self._of(rung))), ())
        return next(iter(self._best_of(furthest, 1)), None)

    @property
    def best_so_far(self) -> int | None:
        """The trial with the best newest result of those whose state is kept: of a sweep that ends here."""
        kept = self.kept()
        newest = {result.trial: result for result in sorted(self.results, key=lambda one: one.epochs)}
        return next(iter(self._best_of([result for trial, result in newest.items() if trial in kept], 1)), None)

    def kept(self) -> set[int]:
        """Trials whose state may still be needed: those that a rung has yet to train, and the best of those that it has
        trained, as many as go on."""
        task = self.next_task()
        if task is None:
            return set() if self.best is None else {self.best}
        results = self._of(self._rungs[task.rung])
        last = task.rung + 1 == len(self._rungs)
        going_on = 1 if last else self._rungs[task.rung + 1].trials
        waiting = set(self._participants(task.rung)) - {result.trial for result in results}
        return waiting | set(self._best_of(results, going_on))

    def done(self) -> list[list[int]]:
        """Of each rung the trials that have a result."""
        return [[result.trial for result in self._of(rung)] for rung in self._rungs]

    def _of(self, rung: Rung) -> list[Result]:
        return [result for result in self.results if result.epochs == rung.epochs]

    def _participants(self, number: int) -> list[int]:
        if number == 0:
            return list(self._all)
        before = self._of(self._rungs[number - 1])
        return sorted(self._best_of(before, self._rungs[number].trials))

    def _best_of(self, results: Sequence[Result], count: int) -> list[int]:
        ranked = sorted((result for result in results if not result.failure), key=lambda one: one.order(self._goal))
        return [result.trial for result in ranked[:count]]


class TableRow(Value):
    """A trial in the table of a sweep, with its results from the first rung on."""

    trial: Annotated[int, Field(ge=1, le=MOST_TRIALS)]
    values: dict[str, JsonValue]
    results: tuple[Result, ...] = ()


class SweepTable(Value):
    """What a sweep has come to, as `sweep.json` has it. `measure` is what ranks trials; `best` is None while nobody
    knows it. `ended_early`: its time or money ended before its last rung, and `best` is the best trial until then."""

    job_digest: str
    measure: FigureName
    more_is_better: bool
    rungs: tuple[Rung, ...]
    trials: Annotated[tuple[TableRow, ...], Field(max_length=MOST_TRIALS)]
    best: int | None = None
    epochs: int
    grid_epochs: int
    ended_early: bool = False
    is_of_script: bool = False


def table_of(job: TrainingJob, results: Sequence[Result], *, ended_early: bool = False) -> SweepTable:
    """The table of a sweep after these results; `ended_early`: nothing more is trained."""
    trials = trials_of(job)
    rungs, goal = rungs_for(job), goal_of(job)
    standing = Standing(rungs, len(trials), goal, results)
    return SweepTable(
        job_digest=job.digest(),
        measure=goal.name,
        more_is_better=goal.is_more_better,
        rungs=rungs,
        trials=tuple(
            TableRow(
                trial=trial.number,
                values=dict(trial.values),
                results=tuple(result for result in results if result.trial == trial.number),
            )
            for trial in trials
        ),
        best=standing.best_so_far if ended_early else standing.best if standing.next_task() is None else None,
        epochs=planned_epochs(rungs),
        grid_epochs=rungs[-1].epochs * len(trials),
        ended_early=ended_early,
        is_of_script=job.script is not None,
    )
