"""The receipt of a run: what was estimated, what it took, what it reached, and what is left of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from trainplan.planner.datasets.storage_costs import Stays, Stored
from trainplan.planner.errors import ThisMachineError
from trainplan.planner.planning.own_measurements import OwnMeasurement
from trainplan.planner.planning.this_machine import shape_of, trained_job
from trainplan.planner.runs.directory.progress import Story, framework_text
from trainplan.planner.runs.receipt.legs import estimate_of, legs_of
from trainplan.planner.runs.run import INTERRUPTIONS, NEGLIGIBLE, Outcome, Run
from trainplan.planner.throughput.values import Basis
from trainplan.providers.registry import is_simulated
from trainplan.workloads.job import job_from_json
from trainplan.workloads.secret_rules import secret_kinds
from trainplan.workloads.sweep import FIGURE_NAME
from trainplan.workloads.wording import Command, Option

if TYPE_CHECKING:
    from trainplan.planner.forecast.plan import MachineEstimate
    from trainplan.workloads.job import TrainingJob


TryRecord = dict[str, Any]
"""A `try` line of the trainer (workloads/trainer/tries.py) without its instant."""
PILOT_FIGURES = (
    "boot_seconds", "not_tried", "is_time_up",
    "half_width", "data_images_per_second", "data_half_width", "checkpoint_seconds", "checkpoint_bytes",
    "peak_memory_bytes",
)  # fmt: skip

_OF_A_SCRIPT = re.compile(rf"figure\.(?P<name>{FIGURE_NAME})", re.ASCII)
_MOST_REPORTED, _WIDTH = 20, 80
_OF_THE_TEST = {
    "accuracy": "hold_out_accuracy",
    "hold_out_images": "hold_out_images",
    "top5": "hold_out_top5",
    "most_frequent": "hold_out_most_frequent",
    "trained_on": "hold_out_trained_on",
    "training_accuracy": "training_accuracy",
    "training_tested_accuracy": "training_tested_accuracy",
    "best_epoch": "best_epoch",
}
"""Figures of the last test, by their names in the line that ends an attempt."""
_STARTING_PHASES = "import", "build", "compile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Estimated figures are None where nothing could be estimated, actual ones where the run did not get there.

    Seconds are whole-run, from the request to the model at home and nothing left. `accuracy` is on the hold-out.
    `top5` is the same for the five likeliest classes; `best_epoch` is the epoch whose weights the model has, where it
    is not the last one, and `early_end_epoch` the one that early stopping ended the run after.
    `most_frequent`: the share of the most frequent class in the hold-out. `trained_on`: test images that were
    trained on too, counted where all were told right. `training_accuracy` is on the training images, while the weights
    of the model were trained, `training_tested_accuracy` in a test of some of them, where `accuracy` is far below.
    What stays stored is that of the run directory and, as `data`, of what was uploaded for it; None where nobody
    charges for it, or the store did not answer. `placements` are the machines that it had (receipt/legs.py), and the
    estimated figures those of the placements where it trained. `actual_usd` is at the person's own rates (`own_rate`,
    in words), `list_usd` the same at list prices; both None where every price was a list price. `credit_usd` is what
    credits pay of `actual_usd`, None where the person has none there. `usd_by_resource` are the parts of `actual_usd`
    (trainplan.planner.runs.run.BilledUsd); `at_most`: nobody told when something of it ended, and more than a hundredth
    of it may not have been billed; `parts_at_most` are the parts of which that holds. `project` is the job's. `billed`
    is what the vendor has billed by part (plan bill), in `billed_currency`, `billed_whole` whether it adds nothing any
    more. `simulated`: nothing was rented and no net was trained. `sweep` names the best trial of a
    sweep, with its values and what it reached; "" without a sweep. `figures` is what a pilot measured beside its rate
    (PILOT_FIGURES), or the newest figures that a script reported, by its names; `tries` are the settings that a pilot
    tried, `kept` the number from 1 of the one whose figures these are.
    """

    run_id: str
    job_name: str
    outcome: str
    message: str | None
    attempts: int
    interruptions: int = 0
    lost_steps: int = 0
    estimated_seconds: float | None
    estimated_low_seconds: float | None = None
    estimated_high_seconds: float | None = None
    actual_seconds: float
    estimated_usd: float | None
    actual_usd: float
    estimated_images_per_second: float | None
    basis: str | None
    actual_images_per_second: float | None
    steps: int
    total_steps: int | None
    accuracy: float | None
    hold_out_images: int | None
    framework: str | None
    device: str | None
    phase_seconds: dict[str, float]
    model_folder: str | None
    stored_bytes: int | None = None
    stored_usd_per_month: float | None = None
    data_stored_bytes: int | None = None
    data_stored_usd_per_month: float | None = None
    placements: list[dict[str, Any]] = field(default_factory=list)
    top5: float | None = None
    most_frequent: float | None = None
    trained_on: int | None = None
    training_accuracy: float | None = None
    training_tested_accuracy: float | None = None
    best_epoch: int | None = None
    early_end_epoch: int | None = None
    list_usd: float | None = None
    own_rate: str | None = None
    credit_usd: float | None = None
    usd_by_resource: dict[str, float] = field(default_factory=dict)
    at_most: bool = False
    parts_at_most: list[str] = field(default_factory=list)
    project: str = ""
    billed: dict[str, float] = field(default_factory=dict)
    billed_currency: str = ""
    billed_whole: bool = False
    simulated: bool = False
    sweep: str = ""
    figures: dict[str, float] = field(default_factory=dict)
    tries: list[TryRecord] = field(default_factory=list)
    kept: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields as the journal keeps them and as `--json` prints them."""
        return asdict(self)


def receipt_record(value: object) -> dict[str, Any] | None:
    """What the journal keeps of a receipt, without fields that are not known; None where a field cannot be one.

    An earlier version may have written fewer fields.
    """
    if not isinstance(value, dict):
        return None
    field_by_name = {field.name: field for field in fields(Receipt)}
    record = {name: item for name, item in value.items() if name in field_by_name}
    if not all(_CHECKS[str(field_by_name[name].type)](item) for name, item in record.items()):
        return None
    return record


def receipt_from(record: dict[str, Any]) -> Receipt:
    """The receipt of such a record. Raises ThisMachineError where it lacks a figure."""
    try:
        return Receipt(**record)
    except TypeError:
        raise ThisMachineError(
            f"the receipt of run {record.get('run_id')} lacks figures: an earlier version has written it",
            f"{Command('history', Option.JSON)} shows what there is",
        ) from None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _is_count(value: object) -> bool:
    return _is_number(value) and isinstance(value, int)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_placement(value: object) -> bool:
    """What trainplan.planner.runs.receipt.legs writes: text of where it was, and figures or None."""
    if not isinstance(value, dict) or not _is_text(value.get("where")):
        return False
    return all(figure is None or _is_number(figure) for name, figure in value.items() if name != "where")


def _is_try(value: object) -> bool:
    """What `_try_record` writes: text of how it ended, figures, and whether XLA compiled it."""
    if not isinstance(value, dict) or not all(_is_count(value.get(name)) for name in _TRY_COUNTS):
        return False
    if not isinstance(value.get("xla"), bool) or not all(map(_is_text, map(value.get, ("state", "message")))):
        return False
    return all(figure is None or _is_number(figure) for figure in map(value.get, _TRY_FIGURES))


def _or_none(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or check(value)


_TRY_COUNTS = ("number", "accumulate", "micro_batch_size")
_TRY_FIGURES = ("seconds", "images_per_second", "half_width", "peak_memory_bytes")
_GIB, _MB = 1024**3, 1e6
_LARGEST = 1e12
"""Of any figure of a receipt: seconds beyond it are no duration that Python knows."""
_CHECKS: dict[str, Callable[[object], bool]] = {
    "bool": lambda value: isinstance(value, bool),
    "str": _is_text,
    "str | None": _or_none(_is_text),
    "int": _is_count,
    "int | None": _or_none(_is_count),
    "float": _is_number,
    "float | None": _or_none(_is_number),
    "list[dict[str, Any]]": lambda value: isinstance(value, list) and all(map(_is_placement, value)),
    "list[TryRecord]": lambda value: isinstance(value, list) and all(map(_is_try, value)),
    "list[str]": lambda value: isinstance(value, list) and all(map(_is_text, value)),
    "dict[str, float]": lambda value: isinstance(value, dict) and all(map(_is_number, value.values())),
}


def estimate_record(quote: MachineEstimate | None) -> dict[str, Any]:
    """What the journal keeps of the estimate that a run was launched on."""
    if quote is None or quote.time is None or quote.throughput is None or quote.throughput.basis is Basis.UNMEASURED:
        return {}
    return {
        "seconds": quote.time.total.total_seconds(),
        "low_seconds": quote.time.low.total_seconds(),
        "high_seconds": quote.time.high.total_seconds(),
        "usd": float(quote.cost_usd) if quote.cost_usd is not None else None,
        "images_per_second": quote.throughput.images_per_second,
        "basis": quote.throughput.basis,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """When a run's first attempt was asked for, when nothing was left of it; where the model went, and what stays.

    `credit_usd` is what credits of the person's pay of the run (None: there are none).
    """

    asked_at: datetime
    ended_at: datetime
    model_folder: str | None
    stays: Stays | None = None
    credit_usd: Decimal | None = None


def write_receipt(
    run: Run, story: Story, estimate: dict[str, Any], ending: Ending, before: dict[str, Any] | None = None
) -> Receipt:
    """The receipt of a run that is done; `before` is the one of its life so far, where it went on from an end."""
    run = run.at_latest
    earlier_seconds = before.get("actual_seconds", 0.0) if before else 0.0
    seconds = (ending.ended_at - ending.asked_at).total_seconds() + earlier_seconds
    end = story.end or {}
    steps = _kept_steps(run, story)
    legs = legs_of(run, steps, ending.ended_at)
    estimate = estimate_of(legs, estimate)
    interrupted = [attempt for attempt in run.attempts if attempt.end is not None and attempt.end in INTERRUPTIONS]
    return Receipt(
        run_id=run.run_id,
        job_name=run.job_name,
        outcome=run.outcome or "unknown",
        message=run.message,
        attempts=len(run.attempts),
        interruptions=len(interrupted) + story.restarts,
        lost_steps=sum(attempt.lost_steps or 0 for attempt in interrupted) + story.lost_steps,
        estimated_seconds=estimate.get("seconds"),
        estimated_low_seconds=estimate.get("low_seconds"),
        estimated_high_seconds=estimate.get("high_seconds"),
        actual_seconds=seconds,
        estimated_usd=estimate.get("usd"),
        estimated_images_per_second=estimate.get("images_per_second"),
        basis=estimate.get("basis"),
        actual_images_per_second=story.images_per_second,
        steps=steps,
        total_steps=story.total_steps,
        framework=story.framework,
        device=story.device,
        phase_seconds={name: round(seconds, 3) for name, seconds in story.phase_seconds.items()},
        model_folder=ending.model_folder,
        placements=[leg.to_json() for leg in legs],
        early_end_epoch=story.early_end["epoch"] if story.early_end else None,
        own_rate="; ".join(run.own_rates) or None,
        credit_usd=None if ending.credit_usd is None else float(ending.credit_usd),
        **_costs(run, ending.ended_at),
        project=run.project,
        simulated=is_simulated(run.provider),
        **(_of_pilot(run, story) if run.until_steady else {"figures": _reported(end)}),
        **_stored(ending.stays),
        **_of_the_test(end),
    )


def _costs(run: Run, now: datetime) -> dict[str, Any]:
    """What the run has cost, each machine ended as late as it can have."""
    billed_usd, uncertain_usd = run.billed_usd(now), run.uncertain_usd
    return {
        "actual_usd": float(sum(billed_usd, Decimal(0))),
        "list_usd": float(run.list_usd(now)) if run.own_rates else None,
        "usd_by_resource": {name: round(float(usd), 6) for name, usd in billed_usd._asdict().items()},
        "at_most": run.is_at_most(now),
        "parts_at_most": [
            name for name, usd in uncertain_usd._asdict().items() if usd > getattr(billed_usd, name) * NEGLIGIBLE
        ],
    }


def corrected(receipt: Receipt, run: Run, now: datetime) -> Receipt:
    """The receipt of an ended run of whose machines more is known by now."""
    run = run.at_latest
    usds = run.attempt_usds(now)
    placements = [row | {"actual_usd": float(usds.get(int(row.get("attempt") or 0), 0))} for row in receipt.placements]
    return replace(receipt, placements=placements, **_costs(run, now))


def _kept_steps(run: Run, story: Story) -> int:
    """How far training came. Where the last machine was lost, as far as the checkpoints in the store: the steps beyond
    them are lost steps."""
    last = next((attempt for attempt in reversed(run.attempts) if attempt.had_instance), None)
    if last is None or last.step is None or last.end not in INTERRUPTIONS or run.outcome is Outcome.SUCCEEDED:
        return story.step
    return last.step


def _of_the_test(end: dict[str, Any]) -> dict[str, Any]:
    return {name: end.get(key) for name, key in _OF_THE_TEST.items()}


def _reported(end: dict[str, Any]) -> dict[str, float]:
    """The figures of a script by its names, in the line of its end."""
    found = ((_OF_A_SCRIPT.fullmatch(name), value) for name, value in end.items())
    rows = [(match[1], float(value)) for match, value in found if match is not None and _is_number(value)]
    return dict([row for row in rows if not any(secret_kinds(row[0]))][:_MOST_REPORTED])


def reported_text(figures: dict[str, float]) -> str:
    """The figures of a script, which are none of a pilot's, as a person reads them."""
    return ", ".join(f"{name} {value:.6g}" for name, value in figures.items() if name not in PILOT_FIGURES)


def _of_pilot(run: Run, story: Story) -> dict[str, Any]:
    boot_seconds = _boot_seconds(run, story)
    booted = {} if boot_seconds is None else {"boot_seconds": boot_seconds}
    end, tries = story.end or {}, [_try_record(line) for line in story.tries]
    kept = (
        row["number"] for row in tries if [row["accumulate"], row["xla"]] == [end.get("accumulate"), end.get("xla")]
    )
    figures = {name: float(end[name]) for name in PILOT_FIGURES if end.get(name) is not None}
    return {"figures": booted | figures, "tries": tries, "kept": next(kept, None)}


def _boot_seconds(run: Run, story: Story) -> float | None:
    """None, too, where the trainer began before it was asked for: one of the two clocks is wrong, and tells nothing."""
    asked_at = run.attempts[-1].asked_at if run.attempts else None
    if asked_at is None or story.began_at is None or story.began_at < asked_at:
        return None
    return round((story.began_at - asked_at).total_seconds(), 3)


def _start_seconds(story: Story) -> float | None:
    told = [story.phase_seconds[name] for name in _STARTING_PHASES if name in story.phase_seconds]
    return round(sum(told), 3) if told else None


def _try_record(line: dict[str, Any]) -> TryRecord:
    return {
        **{name: line[name] for name in _TRY_COUNTS},
        "xla": line["xla"] is True,
        "state": str(line["state"]),
        **{name: line.get(name) for name in _TRY_FIGURES},
        "message": str(line.get("message") or ""),
    }


def _stored(stays: Stays | None) -> dict[str, Any]:
    if stays is None:
        return {}
    return {
        "stored_bytes": stays.run.size_bytes,
        "stored_usd_per_month": _dollars(stays.run),
        "data_stored_bytes": stays.data.size_bytes if stays.data else None,
        "data_stored_usd_per_month": _dollars(stays.data) if stays.data else None,
    }


def _dollars(stored: Stored) -> float | None:
    return None if stored.usd_per_month is None else float(stored.usd_per_month)


def measurement_of(
    run: Run, story: Story, ending: Ending, machine: str, shape: str, *, batch: int | None
) -> OwnMeasurement | None:
    """What the run teaches about this machine; None where it was resumed or did not get to a steady rate.

    Setup is from the request to the first step, after from the last step to the end. Of a run of some epochs the rate
    is that of its middle ones: a stall is no news of the next run. Of a shorter one, what lies between and was not
    steps (of `batch` images; None: a script's, which has told) at the steady rate is shared out over the epochs.
    """
    start, end = story.start, story.end
    # A resumed run has no setup from the request to step 0, and its last rate is that of a part of the run.
    if start is None or end is None or not end.get("images_per_second") or start.get("resumed_from_step"):
        return None
    rate = float(end["images_per_second"])
    total_images = None
    if batch is None:
        total_images = start.get("images")
        if not total_images or not start.get("total_steps"):
            return None
        batch = max(1, total_images // start["total_steps"])
    beside = _seconds_beside_steps(story, ending, story.step * batch / rate)
    setup, per_epoch, after = beside if beside else (None, None, None)
    usual = None if run.until_steady else _usual_epoch(story)  # a pilot tells the rate of its windows
    if usual is not None and start.get("steps_per_epoch"):
        rate, per_epoch = start["steps_per_epoch"] * batch / usual[0], usual[1]
    return OwnMeasurement(
        machine=machine,
        shape=shape,
        images_per_second=rate,
        setup_seconds=setup,
        per_epoch_seconds=per_epoch,
        after_seconds=after,
        measured_at=ending.ended_at,
        run_id=run.run_id,
        framework=framework_text(start),
        others=min(1.0, float(end.get("others_share") or 0.0)),
        half_width=end.get("half_width"),
        input_bound=bool(end.get("input_bound")),
        total_images=total_images,
        checkpoints=total_images is not None and story.checkpoint_step > 0,
        boot_seconds=_boot_seconds(run, story) if run.until_steady else None,
        start_seconds=_start_seconds(story) if run.until_steady else None,
    )


def of_tries(kept: OwnMeasurement, story: Story, job: TrainingJob) -> list[OwnMeasurement]:
    """What a pilot measured with each of the settings that it tried, under the shape that they make; what it kept,
    which is the rate of `kept`, comes last. A rate without a spread is left out, except for that one."""
    last = _of_try(kept, {**(story.end or {}), "images_per_second": kept.images_per_second}, job)
    if last is None:
        return []
    rows = [_of_try(kept, line, job) for line in story.tries if line.get("half_width") is not None]
    return [*(row for row in rows if row is not None and row.shape != last.shape), last]


def _of_try(kept: OwnMeasurement, line: dict[str, Any], job: TrainingJob) -> OwnMeasurement | None:
    """None for settings that the job cannot have, or no rate: any machine may write such a line."""
    try:
        changes = {"accumulate": line["accumulate"], "xla": line["xla"] is True}
        tried = job_from_json(json.dumps(json.loads(job.to_json()) | changes))
    except (KeyError, ValueError):
        return None
    if not line.get("images_per_second"):
        return None
    return replace(
        kept, shape=shape_of(tried), job=trained_job(tried),
        images_per_second=float(line["images_per_second"]), half_width=line.get("half_width"),
    )  # fmt: skip


def _seconds_beside_steps(story: Story, ending: Ending, steady: float) -> tuple[float, float, float] | None:
    """(setup, per epoch, after) in seconds; None for a run without a whole epoch."""
    first_step_at = story.first_step_at
    if first_step_at is None or not story.epochs:
        return None
    total = (ending.ended_at - ending.asked_at).total_seconds()
    setup = max(0.0, (first_step_at - ending.asked_at).total_seconds())
    after = max(0.0, (ending.ended_at - story.last_epoch_at).total_seconds()) if story.last_epoch_at else 0.0
    # The first step of a process compiles; it happens once, so it belongs to the setup and not to each epoch.
    setup += story.phase_seconds.get("compile", 0.0)
    # A stall behind the last step may be in the rate already: the parts never add up to more than the whole.
    after = min(after, max(0.0, total - setup - steady))
    between = max(0.0, total - setup - after - steady)
    return setup, between / len(story.epochs), after


# Epochs from which on the slowest and fastest are told from the usual ones, and the share left out at each end.
_ENOUGH_EPOCHS = 5
_LEFT_OUT = 0.1


def _usual_epoch(story: Story) -> tuple[float, float] | None:
    """Seconds of steps, and of what is beside them, in an epoch like most; None for a run of few epochs.

    The first epoch is left out: it compiles.
    """
    lines = [line for line in story.epochs[1:] if "train_seconds" in line and "seconds" in line]
    if len(lines) < _ENOUGH_EPOCHS:
        return None
    cut = max(1, int(_LEFT_OUT * len(lines)))
    usual = sorted(float(line["train_seconds"]) for line in lines)[cut:-cut]
    beside = sum(float(line["seconds"]) - float(line["train_seconds"]) for line in lines) / len(lines)
    seconds = sum(usual) / len(usual)
    return (seconds, max(0.0, beside)) if seconds > 0 else None
