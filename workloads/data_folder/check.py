"""What is in a data folder, before anything is rented: counts, labels, sizes, what cannot be read, what is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from trainplan.workloads.data_folder.decode import ImageError, Look, looked_at, too_large
from trainplan.workloads.data_folder.duplicates import MOST_COMPARED, Contents, count_duplicates, digest_of
from trainplan.workloads.data_folder.entries import Tally, files_below
from trainplan.workloads.data_folder.layout import read_layout, refuse_no_folder
from trainplan.workloads.data_folder.npz import pixel_warnings
from trainplan.workloads.data_folder.parquet import ParquetLayout, column_notes, rows_of
from trainplan.workloads.data_folder.problems import class_problems, class_warnings, nested_warnings
from trainplan.workloads.data_folder.published import PublishedSet
from trainplan.workloads.data_folder.report import ClassCount, Report, Sizes
from trainplan.workloads.data_folder.samples import Sample, Unreadable, of_images, of_published, of_records
from trainplan.workloads.data_folder.taken import Taken
from trainplan.workloads.data_folder.unwrapped import unwrapped
from trainplan.workloads.data_folder.values import DataFolderError, ImageLayout, RecordLayout

PARQUET = "Parquet, an image and a label in each row"
_MOST_NAMED = 20
"""Unreadable images that are kept by name; all of them are counted."""
_AT_ONCE = 256


def check_folder(
    folder: Path, most_decoded: int | None = None, report_progress: Callable[[int], None] = lambda _: None
) -> Report:
    """Look at every label and decode the images, or `most_decoded` of them spread over the folder.

    `report_progress` takes the number decoded so far. Raises DataFolderError where nothing can be trained on.
    """
    refuse_no_folder(folder)
    folder = unwrapped(folder)
    layout = read_layout(folder)
    if isinstance(layout, PublishedSet):
        return _of_published(folder, layout)
    damaged: list[Unreadable] = []
    notes: list[str] = []
    if isinstance(layout, ImageLayout):
        samples, names, kind = list(of_images(layout)), layout.class_names, "images, a folder per class"
        first = last = None
    elif isinstance(layout, ParquetLayout):
        (samples, names), kind = rows_of(layout), PARQUET
        notes = column_notes(layout)
        first = last = None
    else:
        samples, kind = of_records(folder, layout, damaged), "TFRecords"
        labels = {sample.label for sample in samples}
        first, last = min(labels, default=0), max(labels, default=0)
        names, shift = layout.class_names, 1 if first == 1 else 0
        samples = [sample._replace(label=sample.label - shift) for sample in samples]
    counts = _counted(samples, names)
    samples, large = _without_large(samples)
    damaged += large
    contents = Contents(samples)
    read = _decoded(contents.watched(), most_decoded, report_progress)
    return Report(
        folder=str(folder),
        kind=kind,
        classes=counts,
        train_images=sum(row.train for row in counts),
        hold_out_images=sum(row.hold_out for row in counts),
        first_label=first,
        last_label=last,
        size_bytes=_bytes(layout, samples),
        decoded=read.decoded,
        unreadable_images=read.failed + len(large),
        unreadable=(*damaged, *read.unreadable),
        sizes=read.sizes,
        channels=read.channels,
        left_out=layout.left_out,
        duplicates=contents.duplicates(None if most_decoded is None else MOST_COMPARED),
        problems=(
            *(f"{row.path}: {row.reason}" for row in damaged[:3]),
            *class_problems(counts, first, layout.left_out),
            *_damage(read),
        ),
        warnings=(*class_warnings(counts), *nested_warnings(layout)),
        notes=(*notes, *read.notes),
        samples=tuple(samples),
    )


def _of_published(folder: Path, data_set: PublishedSet) -> Report:
    samples = list(of_published(data_set))
    labels = range(max((sample.label for sample in samples), default=0) + 1)
    counts = _counted(samples, tuple(_name(data_set.class_names, label) for label in labels))
    side = (data_set.train.width, data_set.train.height)
    first = min((sample.label for sample in samples), default=0)
    problems, warnings = _of_pixels(data_set)
    return Report(
        folder=str(folder),
        kind=data_set.name,
        classes=counts,
        train_images=len(data_set.train.labels),
        hold_out_images=len(data_set.hold_out.labels),
        first_label=first,
        last_label=labels[-1],
        size_bytes=sum(path.stat().st_size for path in files_below(folder, Tally(folder))),
        decoded=len(samples),
        unreadable_images=0,
        unreadable=(),
        sizes=Sizes(least=side, middle=side, most=side),
        channels=data_set.train.channels,
        left_out=(),
        duplicates=count_duplicates(samples, (digest_of(sample.read()) for sample in samples)),
        problems=(*class_problems(counts, 0, ()), *problems),
        warnings=(*class_warnings(counts), *warnings),
    )


def _of_pixels(data_set: PublishedSet) -> tuple[list[str], list[str]]:
    """Problems and warnings."""
    try:
        parts = (data_set.train, data_set.hold_out)
        return [], sorted({line for part in parts for line in pixel_warnings(part)})[:1]
    except DataFolderError as error:
        return [str(error)], []


def _bytes(layout: ImageLayout | RecordLayout | ParquetLayout, samples: list[Sample]) -> int:
    if not isinstance(layout, ImageLayout):
        return sum(file.stat().st_size for file in (*layout.train, *layout.hold_out))
    return sum(sample.size_bytes for sample in samples)


# --- counts -------------------------------------------------------------------------------------------------------


def _counted(samples: list[Sample], names: tuple[str, ...]) -> tuple[ClassCount, ...]:
    counts = Counter((sample.label, sample.held_out) for sample in samples)
    labels = {label for label, _ in counts} | set(range(len(names)))
    return tuple(
        ClassCount(label=label, name=_name(names, label), train=counts[label, False], hold_out=counts[label, True])
        for label in sorted(labels)
    )


def _name(names: tuple[str, ...], label: int) -> str:
    return names[label] if 0 <= label < len(names) else ""


# --- the images themselves ----------------------------------------------------------------------------------------


class _Read(NamedTuple):
    decoded: int
    failed: int
    unreadable: tuple[Unreadable, ...]
    sizes: Sizes | None
    channels: int | None
    notes: tuple[str, ...] = ()


def _damage(read: _Read) -> list[str]:
    if not read.failed:
        return []
    example = read.unreadable[0]
    return [
        f"{read.failed:,} of {read.decoded:,} images cannot be decoded, for example {example.path} "
        f"({example.reason}); replace or delete them"
    ]


def _without_large(samples: list[Sample]) -> tuple[list[Sample], list[Unreadable]]:
    """The samples that may be images by their size, and the others, of which nothing is read."""
    large = [
        Unreadable(path=sample.where, reason=f"{why}; replace or delete it")
        for sample in samples
        if (why := too_large(sample.size_bytes))
    ]
    return ([sample for sample in samples if not too_large(sample.size_bytes)] if large else samples), large


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
    failed, colour, taken = 0, False, Taken()
    with ThreadPoolExecutor(thread_name_prefix="decode") as pool:
        for begin in range(0, len(selection), _AT_ONCE):
            group = selection[begin : begin + _AT_ONCE]
            for sample, look in zip(group, pool.map(_look_or_reason, group), strict=True):
                if isinstance(look, str):
                    failed += 1
                    unreadable += [Unreadable(path=sample.where, reason=look)] if failed <= _MOST_NAMED else []
                else:
                    sizes[look.size] += 1
                    colour = colour or look.is_colour
                    taken.add(sample.where, look)
            report(begin + len(group))
    all_sizes = _sizes(sizes) if sizes else None
    channels = (3 if colour else 1) if sizes else None
    return _Read(len(selection), failed, tuple(unreadable), all_sizes, channels, taken.notes())


def _look_or_reason(sample: Sample) -> Look | str:
    """What the image is, or why it cannot be read."""
    try:
        return looked_at(sample.read())
    except (ImageError, DataFolderError) as error:
        return str(error)
    except OSError as error:
        return error.strerror or str(error)


def _sizes(counts: Counter[tuple[int, int]]) -> Sizes:
    ordered = sorted(counts.elements(), key=lambda size: (size[0] * size[1], size))
    return Sizes(least=ordered[0], middle=ordered[len(ordered) // 2], most=ordered[-1])
