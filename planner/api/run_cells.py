"""A run, and how it stands, in the cell of a notebook."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from trainplan.planner.report.html import Content, figures, pairs, tag
from trainplan.planner.report.notebook_cell import cell
from trainplan.planner.report.page import Cell, Tone
from trainplan.pricing.money import format_usd, format_usd_per_hour

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainplan.planner.api.run import RunStatus
    from trainplan.planner.runs.run import Run

_GOOD = ("succeeded", "stopped")
_TIME = "%Y-%m-%d %H:%M"


def status_cell(status: RunStatus) -> str:
    """How far the run is and what it has cost in large type, and below it all else that is known."""
    state = (status.outcome or status.phase).replace("_", " ")
    tiles: list[tuple[str, Content]] = [(state, "outcome" if status.outcome else "phase")]
    if status.step is not None:
        of = f" of {status.total_steps:,}" if status.total_steps else ""
        tiles.append((f"{status.step:,}{of}", "optimizer steps"))
    tiles.append((_usd(status.usd), "cost" if status.is_done else "cost so far"))
    rows: list[tuple[str, Content]] = [("run", status.run_id), ("job", status.job_name), ("provider", status.provider)]
    if status.usd_per_hour:
        rows.append(("billed now", format_usd_per_hour(Decimal(str(status.usd_per_hour)))))
    if not status.is_done:
        rows.append(("ends by", f"{status.ends_by.astimezone():{_TIME}} at the latest"))
    if status.message:
        tone = None if status.outcome is None or status.outcome in _GOOD else Tone.BAD
        rows.append(("message", status.message if tone is None else Cell(status.message, tone)))
    if status.trouble:
        rows.append(("not up to date", Cell(status.trouble, Tone.WARNING)))
    return cell(figures(tiles), pairs(rows))


def run_cell(run: Run, receipt: Mapping[str, Any] | None) -> str:
    """The run as the journal has it, with what it took and cost once it has ended."""
    rows: list[tuple[str, Content]] = [
        ("job", run.job_name),
        ("provider", run.provider),
        ("outcome" if run.outcome else "phase", str(run.outcome or run.phase).replace("_", " ")),
        ("launched", f"{run.dated_at.astimezone():{_TIME}}"),
    ]
    if receipt is not None:
        rows.append(("cost", _usd(float(receipt.get("actual_usd", 0)))))
    if run.model_folder:
        rows.append(("model", str(run.model_folder)))
    return cell(tag("p", f"Run {run.run_id}", class_="answer"), pairs(rows))


def _usd(usd: float) -> str:
    return format_usd(Decimal(str(usd)))
