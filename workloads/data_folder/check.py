"""What is in a data folder, before anything is rented: counts, labels, sizes, what cannot be read, what is left out."""

from __future__ import annotations

import io
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from workloads.data_folder.layout import read_layout
from workloads.data_folder.published import PublishedSet, published_set
from workloads.data_folder.records import KEYS, bytes_of, keys_of, read_records
from workloads.data_folder.unwrapped import unwrapped
from workloads.data_folder.values import HOLD_OUT_EVERY, DataFolderError, ImageLayout, LeftOut, RecordLayout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from workloads.job import TrainingJob

_MOST_NAMED = 20
"""Unreadable images that are kept by name; all of them are counted."""
_AT_ONCE = 256


class Sample(NamedTuple):
    """One image: where it is, its label (as the run numbers classes), whether it is held out, and how to read it.

    `read` gives the encoded bytes; raises OSError.
    """

    where: str
    label: int
    held_out: bool
    read: Callable[[], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A file that cannot be read, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassCount:
    """`label` as the run numbers the class; `name` is "" where nothing tells it."""

    label: int
    name: str
    train: int
    hold_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Width and height in pixels: of the image with the fewest pixels, of the middle one, of the one with the most."""

    least: tuple[int, int]
    middle: tuple[int, int]
    most: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """`first_label` and `last_label` are those of the files, None for folders of images, whose names are the labels.

    `decoded` images were read, of which `unreadable_images` could not be; `sizes` and `channels` (1 grey, 3 colour) are
    theirs, None where none was read. `problems` are what a run would fail for or train wrongly with.
    """

    folder: str
    kind: str
    classes: tuple[ClassCount, ...]
    train_images: int
    hold_out_images: int
    first_label: int | None
    last_label: int | None
    size_bytes: int
    decoded: int
    unreadable_images: int
    unreadable: tuple[Unreadable, ...]
    sizes: Sizes | None
    channels: int | None
    left_out: tuple[LeftOut, ...]
    problems: tuple[str, ...]
    samples: tuple[Sample, ...] = ()


def check_folder(
    folder: Path, most_decoded: int | None = None, report_progress: Callable[[int], None] = lambda _: None
) -> Report:
    """Look at every label and decode the images, or `most_decoded` of them spread over the folder.

    `report_progress` takes the number decoded so far. Raises DataFolderError where nothing can be trained on.
    """
    folder = unwrapped(folder)
    if not folder.is_dir():
        raise DataFolderError(f"there is no folder {folder}; data.path must name one")
    published = published_set(folder)
    if published is not None:
        return _of_published(folder, published)
    layout = read_layout(folder)
    damaged: list[Unreadable] = []
    if isinstance(layout, ImageLayout):
        samples, names, kind = list(_of_images(layout)), layout.class_names, "images, a folder per class"
        first = last = None
    else:
        samples, kind = list(_of_records(folder, layout, damaged)), "TFRecords"
        labels = {sample.label for sample in samples}
        first, last = min(labels, default=0), max(labels, default=0)
        names, shift = layout.class_names, 1 if first == 1 else 0
        samples = [sample._replace(label=sample.label - shift) for sample in samples]
    counts = _counted(samples, names)
    read = _decoded(samples, most_decoded, report_progress)
    return Report(
        folder=str(folder),
        kind=kind,
        classes=counts,
        train_images=sum(row.train for row in counts),
        hold_out_images=sum(row.hold_out for row in counts),
        first_label=first,
        last_label=last,
        size_bytes=_bytes(layout),
        decoded=read.decoded,
        unreadable_images=read.failed,
        unreadable=(*damaged, *read.unreadable),
        sizes=read.sizes,
        channels=read.channels,
        left_out=layout.left_out,
        problems=_problems(counts, first, damaged, read),
        samples=tuple(samples),
    )


# --- where the images are -----------------------------------------------------------------------------------------


def _of_images(layout: ImageLayout) -> Iterator[Sample]:
    for root, files, is_hold_out in (
        (layout.train_root, layout.train, False),
        (layout.hold_out_root, layout.hold_out, True),
    ):
        for relative, label in files:
            yield Sample(str(root / relative), label, is_hold_out, (root / relative).read_bytes)


def _of_records(folder: Path, layout: RecordLayout, damaged: list[Unreadable]) -> Iterator[Sample]:
    """Every record of every shard; a shard that is cut short is told, and its readable records count."""
    for file in (*layout.train, *layout.hold_out):
        name = file.relative_to(folder).as_posix()
        try:
            keys = keys_of(file) or KEYS[0]
            for record in read_records(file, keys):
                is_hold_out = record.number % HOLD_OUT_EVERY == 0 if not layout.hold_out else file in layout.hold_out
                read = lambda file=file, record=record: bytes_of(file, record)  # noqa: E731
                yield Sample(f"{name}, record {record.number}", record.label, is_hold_out, read)
        except (DataFolderError, OSError) as error:
            damaged.append(Unreadable(path=name, reason=str(error)))


def _of_published(folder: Path, data_set: PublishedSet) -> Report:
    trained, hold_out = Counter(data_set.train.labels), Counter(data_set.hold_out.labels)
    last = max((*trained, *hold_out), default=0)
    counts = tuple(
        ClassCount(label=label, name=_name(data_set.class_names, label), train=trained[label], hold_out=hold_out[label])
        for label in range(last + 1)
    )
    side = (data_set.train.width, data_set.train.height)
    return Report(
        folder=str(folder),
        kind=data_set.name,
        classes=counts,
        train_images=len(data_set.train.labels),
        hold_out_images=len(data_set.hold_out.labels),
        first_label=min((*trained, *hold_out), default=0),
        last_label=last,
        size_bytes=sum(path.stat().st_size for path in folder.iterdir() if path.is_file()),
        decoded=len(data_set.train.labels) + len(data_set.hold_out.labels),
        unreadable_images=0,
        unreadable=(),
        sizes=Sizes(least=side, middle=side, most=side),
        channels=data_set.train.channels,
        left_out=(),
        problems=_problems(counts, 0, [], _Read(0, 0, (), None, None)),
    )


def _bytes(layout: ImageLayout | RecordLayout) -> int:
    if isinstance(layout, RecordLayout):
        return sum(file.stat().st_size for file in (*layout.train, *layout.hold_out))
    files = [(layout.train_root, layout.train), (layout.hold_out_root, layout.hold_out)]
    return sum(os.stat(root / relative).st_size for root, rows in files for relative, _ in rows)  # noqa: PTH116


# --- counts and problems ------------------------------------------------------------------------------------------


def _counted(samples: list[Sample], names: tuple[str, ...]) -> tuple[ClassCount, ...]:
    counts = Counter((sample.label, sample.held_out) for sample in samples)
    labels = {label for label, _ in counts} | set(range(len(names)))
    return tuple(
        ClassCount(label=label, name=_name(names, label), train=counts[label, False], hold_out=counts[label, True])
        for label in sorted(labels)
    )


def _name(names: tuple[str, ...], label: int) -> str:
    return names[label] if 0 <= label < len(names) else ""


def _problems(
    counts: tuple[ClassCount, ...], first: int | None, damaged: list[Unreadable], read: _Read
) -> tuple[str, ...]:
    texts = [f"{row.path}: {row.reason}" for row in damaged[:3]]
    if len(counts) < 2:
        texts.append(f"there are {len(counts)} classes; a run needs two or more")
    empty = [row for row in counts if not row.train]
    if empty:
        texts.append(f"{_classes(empty)} no image to train on; add some, or take the class out")
    if not any(row.hold_out for row in counts):
        texts.append("there is no image to hold out; a few dozen of each class are needed")
    if first is not None and first not in (0, 1):
        texts.append(f"the labels begin at {first}; they must run from 0, or from 1 with data.first_label: 1")
    elif first is not None and counts and counts[-1].label + 1 != len(counts):
        texts.append(f"the labels run to {counts[-1].label}, and only {len(counts)} of them have images")
    if read.failed:
        example = read.unreadable[0]
        texts.append(
            f"{read.failed:,} of {read.decoded:,} images cannot be decoded, for example {example.path} "
            f"({example.reason}); replace or delete them"
        )
    return tuple(texts)


def problems_of_job(report: Report, job: TrainingJob) -> tuple[str, ...]:
    """What the job says that the data does not hold, each with what to write."""
    texts, classes, first = [], len(report.classes), report.first_label
    if classes != job.classes:
        texts.append(f"the data has {classes} classes, the job {job.classes}; write model.classes: {classes}")
    if first in (0, 1) and first != job.data.first_label:
        texts.append(f"the labels run from {first} to {report.last_label}; write data.first_label: {first}")
    if job.data.images is not None and job.data.images > report.train_images:
        texts.append(
            f"there are {report.train_images:,} images to train on, and data.images says {job.data.images:,}; write "
            f"data.images: {report.train_images}"
        )
    if report.train_images < job.global_batch_size:
        texts.append(
            f"a batch of {job.global_batch_size:,} cannot be taken from {report.train_images:,} training images; write "
            "a smaller global_batch_size"
        )
    return tuple(texts)


def _classes(rows: list[ClassCount]) -> str:
    examples = ", ".join(row.name or str(row.label) for row in rows[:5]) + (", …" if len(rows) > 5 else "")
    return f"the class {examples} has" if len(rows) == 1 else f"{len(rows)} classes ({examples}) have"


# --- the images themselves ----------------------------------------------------------------------------------------


class _Read(NamedTuple):
    decoded: int
    failed: int
    unreadable: tuple[Unreadable, ...]
    sizes: Sizes | None
    channels: int | None


def spread(samples: list[Sample], most: int | None) -> list[Sample]:
    """So many of them, evenly over the whole; all of them where `most` is None."""
    if most is None or len(samples) <= most:
        return samples
    return [samples[number * len(samples) // most] for number in range(most)]


def _decoded(samples: list[Sample], most: int | None, report: Callable[[int], None]) -> _Read:
    """Each image decoded as the trainer would; several at once, since Pillow lets go of the interpreter."""
    try:
        import PIL  # noqa: F401
    except ModuleNotFoundError:
        return _Read(0, 0, (), None, None)
    selection = spread(samples, most)
    unreadable: list[Unreadable] = []
    sizes: Counter[tuple[int, int]] = Counter()
    failed, colour = 0, False
    with ThreadPoolExecutor(thread_name_prefix="decode") as pool:
        for begin in range(0, len(selection), _AT_ONCE):
            group = selection[begin : begin + _AT_ONCE]
            for sample, (size, is_colour, reason) in zip(group, pool.map(_looked_at, group), strict=True):
                if size is None:
                    failed += 1
                    unreadable += [Unreadable(path=sample.where, reason=reason)] if failed <= _MOST_NAMED else []
                else:
                    sizes[size] += 1
                    colour = colour or is_colour
            report(begin + len(group))
    all_sizes = _sizes(sizes) if sizes else None
    return _Read(len(selection), failed, tuple(unreadable), all_sizes, (3 if colour else 1) if sizes else None)


def _looked_at(sample: Sample) -> tuple[tuple[int, int] | None, bool, str]:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(sample.read())) as opened:
            opened.load()
            return opened.size, opened.mode not in ("1", "L", "LA", "I", "I;16"), ""
    except UnidentifiedImageError:
        return None, False, "it is no image of a known format"
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        return None, False, str(error) or type(error).__name__


def _sizes(counts: Counter[tuple[int, int]]) -> Sizes:
    ordered = sorted(counts.elements(), key=lambda size: (size[0] * size[1], size))
    return Sizes(least=ordered[0], middle=ordered[len(ordered) // 2], most=ordered[-1])
