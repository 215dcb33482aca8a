"""What is wrong with a checked data folder, each with what to do: problems end a run, warnings do not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from trainplan.workloads.data_folder.duplicates import MOST_SHARE, Duplicates
from trainplan.workloads.data_folder.values import ImageLayout, LeftOut, loose_text, wrong_count_text

if TYPE_CHECKING:
    from trainplan.workloads.data_folder.report import ClassCount, Report
    from trainplan.workloads.job import TrainingJob


_TABLES = (".csv", ".tsv", ".xlsx")
FEW_TEST_IMAGES = 10
"""Below, one image is more than a tenth of the accuracy."""


class Found(NamedTuple):
    """Sentences: `problems` are what a run would fail for or train wrongly with, `warnings` what one should know."""

    problems: tuple[str, ...]
    warnings: tuple[str, ...]


def class_problems(counts: Sequence[ClassCount], first: int | None, left_out: Sequence[LeftOut]) -> list[str]:
    """Of classes without images, of labels, and of data without a hold-out."""
    texts = []
    if len(counts) < 2:
        texts.append(_too_few_classes(counts, left_out))
    empty = [row for row in counts if not row.train]
    if empty:
        texts.append(f"{_classes(empty)} no image to train on; add some, or take the class out")
    if not any(row.hold_out for row in counts):
        texts.append(_no_hold_out(left_out))
    if first is not None and first not in (0, 1):
        texts.append(f"the labels begin at {first}; they must run from 0, or from 1 with data.first_label: 1")
    elif first is not None and counts and counts[-1].label + 1 != len(counts):
        texts.append(f"the labels run to {counts[-1].label}, and only {len(counts)} of them have images")
    return texts


def class_warnings(counts: Sequence[ClassCount]) -> list[str]:
    """Of classes that the accuracy says nothing of, that may be one class, and of few images."""
    texts = []
    untested = [row for row in counts if row.train and not row.hold_out]
    if untested and len(untested) < len(counts):
        texts.append(f"{_classes(untested)} no test image, and no part in the accuracy")
    by_letters: dict[str, list[ClassCount]] = {}
    for row in counts:
        if row.name:
            by_letters.setdefault(re.sub(r"[\W_]+", "", row.name.casefold()), []).append(row)
    alike = [row.name for rows in by_letters.values() if len(rows) > 1 for row in rows]
    if alike:
        names = ", ".join(alike[:6])
        texts.append(f"classes with almost the same name ({names}): put their images into one folder if they are one")
    tested = sum(row.hold_out for row in counts)
    if len(counts) > 1 and 0 < tested < FEW_TEST_IMAGES:
        images = _counted(tested, "test image alone", "test images")
        texts.append(f"{images}: each is {1 / tested:.0%} of the accuracy; a few dozen images of each class are needed")
    return texts


def nested_warnings(layout: object) -> list[str]:
    """Of classes whose images all lie in several folders of the class: these may be the classes that are meant."""
    if not isinstance(layout, ImageLayout):
        return []
    below: dict[int, set[str]] = {}
    for path, label in layout.train:
        below.setdefault(label, set()).add(path.split("/")[-2])
    shared = Counter(name for names in below.values() for name in names)
    for label, names in below.items():
        own, name = sorted(one for one in names if shared[one] == 1), layout.class_names[label]
        if len(names) > 1 and len(own) == len(names) and name not in names:
            within = ", ".join(own[:3]) + (", …" if len(own) > 3 else "")
            one = f"all images in sub-folders of {name} ({within}) are of one class, {name}"
            return [f"{one}; to make each a class, move these folders up by one"]
    return []


def duplicate_texts(report: Report, *, are_allowed: bool) -> Found:
    """Of images that are there twice: a problem where they are more than one in a hundred and not allowed."""
    duplicates = report.duplicates
    if duplicates is None:
        return Found((), ("whether images are there twice was not looked at: plan data check looks at all of them",))
    total = report.train_images + report.hold_out_images
    problems: list[str] = []
    warnings: list[str] = []
    for text, share in _duplicate_rows(duplicates, report.hold_out_images, total):
        if share <= MOST_SHARE or are_allowed:
            warnings.append(text)
        else:
            problems.append(f"{text}; delete one of each, or write data.duplicates: allow")
    return Found(tuple(problems), tuple(warnings))


def problems_of_job(report: Report, job: TrainingJob) -> tuple[str, ...]:
    """What the job says that the data does not hold, each with what to write."""
    texts, classes, first = [], len(report.classes), report.first_label
    if classes != job.classes and classes > 1:
        texts.append(f"the data has {classes} classes, the job {job.classes}; write model.classes: {classes}")
    if first in (0, 1) and first != job.data.first_label:
        texts.append(f"the labels run from {first} to {report.last_label}; write data.first_label: {first}")
    if job.data.images is not None and job.data.images != report.train_images:
        texts.append(wrong_count_text(job.data.images, report.train_images))
    if 0 < report.train_images < job.global_batch_size:
        texts.append(
            f"a batch of {job.global_batch_size:,} cannot be taken from {report.train_images:,} training images; write "
            f"a global_batch_size of at most {report.train_images}"
        )
    return tuple(texts)


def _too_few_classes(counts: Sequence[ClassCount], left_out: Sequence[LeftOut]) -> str:
    one = f" ({counts[0].name})" if counts and counts[0].name else ""
    many = f"1 class{one}" if counts else "no class"
    table = next((row.example for row in left_out if row.example.lower().endswith(_TABLES)), "")
    todo = (
        f": a table of labels ({table}) is not read, move each image into the sub-folder of its class" if table else ""
    )
    return f"there is {many}; a run needs two or more{todo}"


def _no_hold_out(left_out: Sequence[LeftOut]) -> str:
    loose = next((row for row in left_out if row.loose_in not in ("", "the data folder itself")), None)
    if loose is None:
        return "there is no image to hold out; a few dozen of each class are needed"
    return (
        f"there is no image to hold out: {loose_text(loose)}; {loose.reason}, or move {loose.loose_in} out of the data "
        "folder, and one training image in ten is held out"
    )


def _duplicate_rows(duplicates: Duplicates, hold_out: int, total: int) -> list[tuple[str, float]]:
    rows = []
    if duplicates.in_both and duplicates.both_example is not None:
        what = _counted(duplicates.in_both, "test image is", "test images are")
        share = duplicates.in_both / max(1, hold_out)
        example = "for example {} and {}".format(*duplicates.both_example)
        rows.append((f"{what} also trained on ({_percent(share)} of those held out), {example}", share))
    if duplicates.in_two_classes and duplicates.classes_example is not None:
        what = _counted(duplicates.in_two_classes, "image is", "images are")
        share = duplicates.in_two_classes / max(1, total)
        example = "for example {} and {}".format(*duplicates.classes_example)
        rows.append((f"{what} in two classes ({_percent(share)} of all), {example}", share))
    return rows


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= 0.001 else "less than 0.1%"


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _classes(rows: list[ClassCount]) -> str:
    examples = ", ".join(row.name or str(row.label) for row in rows[:5]) + (", …" if len(rows) > 5 else "")
    return f"the class {examples} has" if len(rows) == 1 else f"{len(rows)} classes ({examples}) have"
