"""A checked data folder for a person and for a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainplan.planner.report.page import Column, Page, Table
from trainplan.workloads.data_folder.values import left_out_text
from trainplan.workloads.terminal_text import visible
from trainplan.workloads.wording import Option

if TYPE_CHECKING:
    from pathlib import Path

    from trainplan.workloads.data_folder.duplicates import Duplicates
    from trainplan.workloads.data_folder.report import Report, Sizes

_COLUMNS = (
    Column("label", right=True),
    Column("class", shrinks=True),
    Column("to train on", right=True),
    Column("held out", right=True),
)
_CLASSES_SHOWN = 30
_PROBLEMS_SHOWN = 3
_NAMES_WIDTH = 40
"""Characters of the names of classes in one line."""


def data_page(report: Report) -> Page:
    """Counts by class, sizes, unreadable images, what is left out and why, and keys for the job; problems last."""
    lines: list[str | Table] = [
        f"{visible(report.folder)}: {report.kind}",
        f"{_counts_text(report)}, {report.size_bytes / 1e6:,.1f} MB",
    ]
    rows = [(str(row.label), visible(row.name), f"{row.train:,}", f"{row.hold_out:,}") for row in report.classes]
    lines.append(Table(_COLUMNS, rows[:_CLASSES_SHOWN]))
    if len(rows) > _CLASSES_SHOWN:
        lines.append(f"and {len(rows) - _CLASSES_SHOWN:,} more classes ({Option.JSON} has all)")
    if report.first_label is not None:
        lines.append(f"labels {report.first_label} to {report.last_label}")
    lines.append(_sizes_text(report))
    lines += [visible(note) for note in report.notes]
    lines += [visible(left_out_text(item)) for item in report.left_out]
    lines += [f"cannot be decoded: {visible(row.path)} ({visible(row.reason)})" for row in report.unreadable]
    lines += [f"warning: {visible(warning)}" for warning in report.warnings]
    lines.append("for the job: " + ", ".join(f"{key}: {value}" for key, value in job_keys(report).items()))
    lines += [f"problem: {visible(problem)}" for problem in report.problems]
    return lines


def launch_lines(report: Report) -> list[str]:
    """What a launch says of a local folder that it has looked at."""
    lines = [f"data: {_counts_text(report)}{_names_text(report)}; {_sizes_text(report) or report.kind}"]
    texts = (*report.notes, *map(left_out_text, report.left_out), *report.warnings)
    return lines + [f"data: {visible(text)}" for text in texts]


def problems_text(folder: Path, report: Report) -> str:
    """The first problems of a folder in one sentence."""
    shown = "; ".join(report.problems[:_PROBLEMS_SHOWN])
    return f"{folder} cannot be trained on: {shown}"


def data_json(report: Report) -> dict[str, object]:
    """The same for a program; sizes are [width, height] in pixels."""
    return {
        "folder": report.folder,
        "kind": report.kind,
        "train_images": report.train_images,
        "hold_out_images": report.hold_out_images,
        "size_bytes": report.size_bytes,
        "classes": [
            {"label": row.label, "name": row.name, "train": row.train, "hold_out": row.hold_out}
            for row in report.classes
        ],
        "first_label": report.first_label,
        "last_label": report.last_label,
        "decoded": report.decoded,
        "unreadable_images": report.unreadable_images,
        "unreadable": [{"path": row.path, "reason": row.reason} for row in report.unreadable],
        "sizes_px": _sizes_json(report.sizes),
        "channels": report.channels,
        "notes": list(report.notes),
        "left_out": [{"reason": row.reason, "entries": row.entries, "example": row.example} for row in report.left_out],
        "job": job_keys(report),
        "duplicates": _duplicates_json(report.duplicates),
        "warnings": list(report.warnings),
        "problems": list(report.problems),
    }


def _duplicates_json(duplicates: Duplicates | None) -> dict[str, int] | None:
    if duplicates is None:
        return None
    return {"held_out_also_trained_on": duplicates.in_both, "in_two_classes": duplicates.in_two_classes}


def job_keys(report: Report) -> dict[str, int]:
    """What a job file says of this data."""
    keys = {"model.classes": len(report.classes), "data.images": report.train_images}
    if report.channels is not None:
        keys["data.channels"] = report.channels
    if report.first_label == 1:
        keys["data.first_label"] = 1
    return keys


def _counts_text(report: Report) -> str:
    images, classes = report.train_images, len(report.classes)
    trained = f"{images:,} image{'' if images == 1 else 's'} to train on, {report.hold_out_images:,} held out"
    return f"{trained}, {classes:,} class{'' if classes == 1 else 'es'}"


def _names_text(report: Report) -> str:
    """The names of a few classes in brackets; "" where they have none."""
    names = [visible(row.name) for row in report.classes if row.name]
    shown = [name for number, name in enumerate(names) if sum(map(len, names[: number + 1])) <= _NAMES_WIDTH]
    return f" ({', '.join(shown)}{', …' if len(shown) < len(names) else ''})" if shown else ""


def _sizes_text(report: Report) -> str:
    total = report.train_images + report.hold_out_images
    if report.sizes is None:
        why = ": Pillow is not installed here (pip install pillow)" if total else ""
        return "" if report.decoded else f"no image was decoded{why}"
    some = f"all {total:,} images" if report.decoded == total else f"{report.decoded:,} of {total:,} images"
    least, middle, most = (
        "x".join(map(str, size)) for size in (report.sizes.least, report.sizes.middle, report.sizes.most)
    )
    colour = "grey" if report.channels == 1 else "colour"
    failed = f", {report.unreadable_images:,} unreadable" if report.unreadable_images else ""
    return f"{some} read{failed}; {colour}, {least} to {most} px (median {middle})"


def _sizes_json(sizes: Sizes | None) -> dict[str, list[int]] | None:
    if sizes is None:
        return None
    return {"least": list(sizes.least), "middle": list(sizes.middle), "most": list(sizes.most)}
