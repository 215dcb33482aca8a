"""What a person reads beside the model: metrics.csv, confusion.csv, report.md and curves.png."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from workloads.trainer.curves import curves
from workloads.trainer.history import Epoch

if TYPE_CHECKING:
    from workloads.trainer.counts import Confusion
    from workloads.trainer.tester import HoldOutResult

_MOST_ROWS = 20
"""Classes whose whole table fits a page; of more, the ones with the lowest recall are named."""
_MOST_MISTAKES = 10


def report_files(
    title: str,
    epochs: Sequence[Epoch],
    tested: HoldOutResult,
    class_names: Sequence[str],
    sentence: str,
    usage: Sequence[str] = (),
) -> dict[str, bytes]:
    """Files by name. `sentence` says on what was tested, with which weights; `usage` are lines on how to use them."""
    files = {"metrics.csv": _csv([list(Epoch.model_fields), *[list(row.model_dump().values()) for row in epochs]])}
    picture = curves(epochs, title)
    if picture is not None:
        files["curves.png"] = picture
    names = _names(class_names, tested.confusion)
    lines = [f"# {_plain(title)}", "", sentence, "", *_figure_lines(epochs, tested)]
    if picture is not None:
        lines += ["![loss and accuracy by epoch](curves.png)", ""]
    if tested.confusion is not None:
        rows = [[name, *map(int, row)] for name, row in zip(names, tested.confusion, strict=True)]
        files["confusion.csv"] = _csv([["class", *names], *rows])
        lines += _class_lines(tested.confusion, names) + _mistake_lines(tested.confusion, names)
    lines += usage
    files["report.md"] = ("\n".join(lines) + "\n").encode()
    return files


def _csv(rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _names(class_names: Sequence[str], confusion: Confusion | None) -> list[str]:
    count = 0 if confusion is None else len(confusion)
    return list(class_names) if len(class_names) == count else [str(label) for label in range(count)]


def _figure_lines(epochs: Sequence[Epoch], tested: HoldOutResult) -> list[str]:
    lines = ["| figure | value |", "|---|---|", f"| top-1 accuracy | {tested.accuracy:.2%} |"]
    if tested.top5 is not None:
        lines.append(f"| top-5 accuracy | {tested.top5:.2%} |")
    lines += [f"| loss | {tested.loss:.4f} |", f"| whole epochs | {len(epochs)} |", ""]
    if tested.most_frequent is None or tested.accuracy > tested.most_frequent:
        return lines
    share = f"{tested.most_frequent:.2%}"
    return [*lines, f"**Nothing was learned: to name the most frequent class always is right in {share} too.**", ""]


def _class_lines(confusion: Confusion, names: list[str]) -> list[str]:
    """Recall is the share of a class that was found, precision the share that was right of what was taken for it."""
    right, true, predicted = np.diagonal(confusion), confusion.sum(axis=1), confusion.sum(axis=0)
    labels = list(range(len(names)))
    head = "## Classes"
    if len(names) > _MOST_ROWS:
        recalls = [right[label] / true[label] if true[label] else 2.0 for label in labels]
        labels = sorted(labels, key=lambda label: (recalls[label], label))[:_MOST_ROWS]
        head = f"## The {_MOST_ROWS} of {len(names)} classes with the lowest recall"
    lines = [head, "", "| class | images | recall | precision |", "|---|---|---|---|"]
    for label in labels:
        recall, precision = _share(right[label], true[label]), _share(right[label], predicted[label])
        lines.append(f"| {_plain(names[label])} | {true[label]:,} | {recall} | {precision} |")
    return [*lines, ""]


def _mistake_lines(confusion: Confusion, names: list[str]) -> list[str]:
    wrong = confusion * (1 - np.eye(len(confusion), dtype=np.int64))
    order = np.argsort(-wrong, axis=None, kind="stable")[:_MOST_MISTAKES]
    pairs = [(int(flat) // len(names), int(flat) % len(names)) for flat in order]
    rows = [
        f"| {_plain(names[true])} | {_plain(names[predicted])} | {wrong[true, predicted]:,} |"
        for true, predicted in pairs
        if wrong[true, predicted]
    ]
    if not rows:
        return []
    head = ["## The most frequent mistakes", "", "| class | taken for | images |", "|---|---|---|"]
    return [*head, *rows, "", "All pairs of classes: confusion.csv.", ""]


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def _plain(text: str) -> str:
    """Names of folders may hold anything; in a table they hold no bars and no tags."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
