"""A run in one sentence, of its document: the first line of its page and of what `plan report` prints."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from trainplan.planner.report.sweep_page import table_of_json
from trainplan.pricing.money import format_usd, format_usd_per_hour
from trainplan.workloads.durations import format_duration, format_estimate
from trainplan.workloads.sweep_text import winner_text

if TYPE_CHECKING:
    from trainplan.workloads.sweep import SweepTable

RunDocument = dict[str, Any]
"""What trainplan.planner.runs.report.document makes; its keys are those of schemas/report.schema.json."""

_NEAR = 0.05
"""A time or a cost within so much of its estimate is told as estimated."""


def answer(document: RunDocument) -> str:
    """What became of the run, what it took and cost beside the estimate, and what it reached."""
    run, actual = document["run"], document["actual"]
    parts = [f"{run['job_name']} {_state(document)}"]
    machines = sum(attempt["had_machine"] for attempt in document["attempts"])
    if actual["seconds"] is not None:
        on = f" on {machines} machines" if machines > 1 else ""
        parts.append(f"{seconds_text(actual['seconds'])}{on}{_beside(document, 'seconds', 'than estimated')}")
    at_most = "at most " if (document["receipt"] or {}).get("at_most") else ""
    parts.append(
        f"{at_most}{usd_text(actual['usd'])}{' so far' if not run['outcome'] else ''}{_beside(document, 'usd', '')}"
    )
    if run["simulated"]:
        parts[-1] += ", simulated"
    trials = trials_of(document)
    if trials is not None and trials.best is not None:
        parts.append(f"best: {winner_text(trials)}")
    accuracy = (document["held_out"] or {}).get("accuracy")
    if accuracy is not None:
        parts.append(f"accuracy {accuracy:.1%} on test images")
    return ", ".join(parts)


def trials_of(document: RunDocument) -> SweepTable | None:
    """The trials of a sweep; None without one."""
    if document["sweep"] is None:
        return None
    return table_of_json(document["sweep"], is_of_script=bool((document["job"] or {}).get("script")))


def bills_text(document: RunDocument) -> str:
    """What a run still costs, and until when at the latest; "" for one of which nothing bills."""
    bills, run = document["bills"], document["run"]
    if not bills["bills"]:
        return ""
    until = f"until {local_text(bills['until'])} at the latest"
    rate = format_usd_per_hour(Decimal(str(bills["usd_per_hour"])))
    if not bills["usd_per_hour"] and document["attempts"][-1]["ended_at"]:
        return "the machine has ended; a disk or an address may bill until they are removed"
    if run["simulated"]:
        return f"would bill {rate} {until} (simulated time), were it not simulated"
    return f"bills {rate} {until}"


def seconds_text(seconds: float | None) -> str:
    """`3h 07m`; a dash where it is not known."""
    return "-" if seconds is None else format_duration(timedelta(seconds=seconds))


def estimate_texts(seconds: float | None, low: float | None, high: float | None) -> tuple[str, str, str]:
    """An estimated time and the ends of its 80 % interval, with as many digits as that bears; to the second where no
    interval is kept."""
    if seconds is None or low is None or high is None:
        return seconds_text(seconds), seconds_text(low), seconds_text(high)
    return format_estimate(seconds, low, high)


def usd_text(usd: float | None) -> str:
    """`$1.25`; a dash where it is not known."""
    return "-" if usd is None else format_usd(Decimal(str(usd)))


def rate_text(images_per_second: float | None) -> str:
    """`1,234.5`; a dash where it is not known."""
    return "-" if images_per_second is None else f"{images_per_second:,.1f}"


def local_text(instant: str | None) -> str:
    """An instant of the document as this computer's clock shows it; a dash for none."""
    return "-" if instant is None else f"{datetime.fromisoformat(instant).astimezone():%Y-%m-%d %H:%M}"


def off_text(estimated: float | None, actual: float | None) -> str:
    """`+12 %`: how far what was is from what was estimated; a dash where either is not known."""
    return "-" if not estimated or actual is None else f"{(actual - estimated) / estimated:+.0%}"


def ended_early(document: RunDocument) -> bool:
    """Whether early stopping ended the run: its time and cost are those of fewer epochs than were estimated."""
    return (document["receipt"] or {}).get("early_end_epoch") is not None


def estimated(document: RunDocument, name: str) -> float | None:
    """A figure of the estimate: of the receipt, which holds it to the placements where the run was; else of the
    launch."""
    receipt = document["receipt"] or {}
    value = receipt.get(f"estimated_{name}")
    return (document["estimate"] or {}).get(name) if value is None else value


def _state(document: RunDocument) -> str:
    run = document["run"]
    if run["outcome"] == "succeeded":
        return "is trained"
    if run["outcome"]:
        return f"ended ({run['outcome'].replace('_', ' ')}){_at(document, ' at ')}"
    return f"is {run['phase'].replace('_', ' ')}{_at(document, ', ')}"


def _at(document: RunDocument, before: str) -> str:
    """How far the training is: of a sweep the share, since its trials have steps of their own."""
    step, total = document["actual"]["step"], document["actual"]["total_steps"]
    if document["sweep"] is not None:
        return f"{before}{step / total:.0%} of its trials' epochs" if total else ""
    return f"{before}step {step:,}{f' of {total:,}' if total else ''}"


def _beside(document: RunDocument, name: str, than: str) -> str:
    """How far a run that was trained to its end is from its estimate."""
    expected, actual = estimated(document, name), document["actual"][name]
    if document["run"]["outcome"] != "succeeded" or not expected or actual is None:
        return ""
    if ended_early(document):
        return " (ended early)" if than else ""
    off = (actual - expected) / expected
    if abs(off) <= _NEAR:
        return " (as estimated)"
    return f" ({abs(off):.0%} {'more' if off > 0 else 'less'}{f' {than}' if than else ''})"
