"""What `plan convert` and the end of a run share: which images a model is checked on, and how its exports are told."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from planner.cli import build
from planner.cli.screen import show
from planner.datasets.storage_costs import format_bytes
from planner.errors import BadInputError, ThisMachineError
from planner.report.page import Column, Table
from planner.runs.exports import FOLDER, Export, ExportQuery, doubt, export_model
from planner.runs.journal.reader import recorded_job
from planner.runs.predictions import kept_model
from providers.hardware import this_machine

if TYPE_CHECKING:
    from planner.runs.run import Run
    from planner.settings import Settings
    from workloads.job import TrainingJob
    from workloads.terms import ExportFormat

MOST_LOSS_POINTS = 2.0
_COLUMNS = (
    Column("format"),
    Column("size", right=True),
    Column("top-1", right=True),
    Column("of model.keras", right=True),
    Column("agrees", right=True, rank_of_need=2),
    Column("ms an image", right=True, rank_of_need=1),
    Column("file", shrinks=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportChoice:
    """What a person asks for. `data` has the images where they are not where the job says; `out` None: beside the
    model. `loss_points` of top-1 are allowed."""

    formats: tuple[ExportFormat, ...]
    data: Path | None = None
    out: Path | None = None
    images: int
    loss_points: float = MOST_LOSS_POINTS


def export_run(run: Run, job: TrainingJob, choice: ExportChoice, settings: Settings) -> list[Export]:
    """Export the model of a run. Raises BadInputError where there is none, or its images are elsewhere."""
    if not run.model_folder:
        raise BadInputError(f"run {run.run_id} measured this machine, and leaves no model", "plan history lists runs")
    if choice.data is None:
        _refuse_far_images(job, run.run_id)
    return _exported(_query(Path(run.model_folder), choice, settings, job))


def export_named(name: str, choice: ExportChoice, settings: Settings) -> list[Export]:
    """The same of a run by its name, or of a folder with a model. Raises BadInputError."""
    if (Path(name) / "model.keras").is_file():
        if choice.data is None:
            raise BadInputError(
                f"nothing says which images the model in {name} was tested on", "--data FOLDER names them"
            )
        return _exported(_query(Path(name), choice, settings, None))
    with build.journal(settings) as journal:
        run = journal.run(name)
        job = recorded_job(journal, run.run_id)
    return export_run(run, job, choice, settings)


def _exported(query: ExportQuery) -> list[Export]:
    exports = export_model(query, _tell)
    for text in dict.fromkeys(doubt(query.model, export) for export in exports):
        if text:
            sys.stderr.write(f"{text}\n")
    return exports


def _query(folder: Path, choice: ExportChoice, settings: Settings, job: TrainingJob | None) -> ExportQuery:
    if choice.data is not None and not choice.data.is_dir():
        raise BadInputError(f"there is no folder {choice.data}", "--data names the images that the run trained on")
    return ExportQuery(
        model=kept_model(folder),
        formats=choice.formats,
        to=choice.out or folder / FOLDER,
        job="" if job is None else job.to_json(),
        data=choice.data,
        first_label=0 if job is None else job.data.first_label,
        data_dir=settings.home / "datasets",
        images=choice.images,
        allowed_loss=choice.loss_points / 100,
        processor=this_machine().cpu_name,
    )


def _refuse_far_images(job: TrainingJob, run_id: str) -> None:
    """The images are only read here: nothing is fetched from an address that may bill for it."""
    hint = "--data FOLDER names the folder that they came from; some of its images are held out as the run did"
    if job.data.url is not None:
        raise BadInputError(f"the images of run {run_id} are not on this computer, but where the job says", hint)
    if job.data.path is not None and not Path(job.data.path).is_dir():
        raise BadInputError(f"the images of run {run_id} are no longer in {job.data.path}", hint)


def _tell(export: Export) -> None:
    text = f"not kept: {export.error}" if export.error else f"written to {export.folder}"
    sys.stderr.write(f"{export.format}: {text}\n")


def print_exports(exports: Sequence[Export], as_json: bool) -> None:
    """The exports on stdout. Raises ThisMachineError where one of them has failed."""
    kept = [export for export in exports if not export.error]
    if as_json:
        sys.stdout.write(json.dumps({"exports": [_json(export) for export in exports]}) + "\n")
    elif kept:
        show([Table(_COLUMNS, [_row(export) for export in kept]), *_edge_tpu_lines(kept)])
    failed = [export.format for export in exports if export.error]
    if failed:
        raise ThisMachineError(
            f"{len(failed)} of {len(exports)} exports are not kept: {', '.join(failed)}",
            "what is wrong with each is above; the run and model.keras are as they were",
        )


def _row(export: Export) -> tuple[str, ...]:
    assert export.record is not None
    assert export.folder is not None
    check = export.record.check
    return (
        export.format,
        format_bytes(export.record.size_bytes),
        f"{check.top1_after:.1%}",
        f"{check.top1_before:.1%}",
        f"{check.agreement:.1%}",
        f"{check.milliseconds_per_image:.3g}",
        str(export.folder / export.record.file),
    )


def _edge_tpu_lines(exports: Sequence[Export]) -> list[str]:
    lines: list[str] = []
    for export in exports:
        if export.record is None or export.record.edge_tpu is None:
            continue
        board = export.record.edge_tpu
        known = "; ".join(board.refused) or "none of its operations is known to be refused"
        lines.append(f"Coral: not compiled here. {board.compiler}: {known}. It compiles with: {board.command}")
    return lines


def _json(export: Export) -> dict[str, object]:
    return {
        "format": export.format,
        "folder": None if export.folder is None else str(export.folder),
        "record": None if export.record is None else export.record.model_dump(mode="json"),
        "error": export.error or None,
    }
