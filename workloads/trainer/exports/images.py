"""Images of a run as arrays: which of those it held out a file is checked on, and which give it its ranges."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from trainplan.workloads.trainer.feed import Order, read_rows
from trainplan.workloads.trainer.images import Images, Labels, Pixels, RecordImages, Split


class Chosen(NamedTuple):
    """`pixels` (n, size, size, channels) with their `labels` (n,) are checked on; `overlap` of the images of
    `calibration` are among them."""

    pixels: Pixels
    labels: Labels
    calibration: Pixels
    overlap: int


def choose(split: Split, most: int, calibration: int) -> Chosen:
    """Up to `most` test images to check on, and `calibration` others of these, as far as there are that many.

    Where the hold-out is smaller, those that are checked are calibrated with too, and then images that were trained on.
    Raises BadInputError where one cannot be read.
    """
    count = split.hold_out.count
    checked = _spread(count, most)
    others = np.setdiff1d(np.arange(count), checked)
    if len(others) >= calibration:
        rows, overlap = others[_spread(len(others), calibration)], 0
    else:
        rows = _spread(count, calibration)
        overlap = len(np.intersect1d(rows, checked))
    pixels, labels = _read(split.hold_out, checked)
    ranges, _ = _read(split.hold_out, rows)
    lacking = calibration - len(rows)
    if lacking > 0:
        more, _ = _read(split.train, _spread(split.train.count, lacking))
        ranges = np.concatenate([ranges, more])
    return Chosen(pixels, labels, ranges, overlap)


def _spread(count: int, most: int) -> Order:
    """Up to `most` rows, at equal distances: folders are in the order of their classes."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def _read(images: Images, rows: Order) -> tuple[Pixels, Labels]:
    if not isinstance(images, RecordImages):
        return read_rows(images, rows)
    from trainplan.workloads.trainer import tfdata

    import tensorflow as tf  # isort: skip

    wanted = set(rows.tolist())
    dataset: Any = tfdata.ordered_dataset(tf, images, 1)
    pairs = [pair for number, pair in enumerate(dataset.as_numpy_iterator()) if number in wanted]
    return np.concatenate([pixels for pixels, _ in pairs]), np.concatenate([labels for _, labels in pairs])
