"""The order in which images are shown, and the feeds that keep a device supplied with batches in that order."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.images import ArrayImages, FileImages, Images, Labels, Pixels, pixels_of_file
from trainplan.workloads.trainer.process_group import ALONE, ProcessGroup

Batch = tuple[Pixels, Labels]
Order = npt.NDArray[np.int64]
_AHEAD = 4
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Which batches a run shows. Every epoch has `steps_per_epoch` full batches; what an epoch's order leaves over
    another epoch's order shows. Training goes on at `first_step` (counted from 0 over the whole run). Each batch is
    fed in `accumulate` parts. `grouped` is (parts, devices) of devices that take a batch whole and train it in parts:
    the images of a part then lie where each device finds its share of them."""

    batch_size: int
    steps_per_epoch: int
    epochs: int
    seed: int
    first_step: int = 0
    accumulate: int = 1
    grouped: tuple[int, int] = (1, 1)

    @property
    def fed_batch_size(self) -> int:
        """The images that are fed at once: a batch may be trained in parts."""
        return self.batch_size // self.accumulate

    @property
    def total_steps(self) -> int:
        """Steps of all epochs."""
        return self.steps_per_epoch * self.epochs

    @property
    def first_epoch(self) -> int:
        """Counted from 0."""
        return self.first_step // self.steps_per_epoch

    @property
    def skipped_steps(self) -> int:
        """Steps of the first epoch that were done before."""
        return self.first_step % self.steps_per_epoch


def epoch_order(count: int, seed: int, epoch: int) -> Order:
    """Every image once, in an order that depends on the seed and the epoch (from 0) alone."""
    return np.random.default_rng((seed, epoch)).permutation(count)


def epoch_orders(count: int, schedule: Schedule) -> Iterator[Order]:
    """One order per epoch still to do, cut to whole batches, the first without what was done before."""
    images = schedule.steps_per_epoch * schedule.batch_size
    skipped = schedule.skipped_steps * schedule.batch_size
    for epoch in range(schedule.first_epoch, schedule.epochs):
        yield epoch_order(count, schedule.seed, epoch)[skipped:images]
        skipped = 0


def hold_out_batch(count: int, batch_size: int, replicas: int) -> int:
    """The largest batch up to `batch_size` that divides `count` and the replicas, so that one shape serves all;
    where that would be less than a quarter of it, `batch_size`, and the last batch is smaller."""
    fits = [size for size in range(replicas, batch_size + 1, replicas) if count % size == 0]
    return max((size for size in fits if 4 * size >= batch_size), default=min(batch_size, count))


def training_batches(images: Images, schedule: Schedule, group: ProcessGroup = ALONE) -> Iterator[Batch]:
    """Batches for a framework without tf.data, read ahead in a thread of their own; of each, this process's part.

    Raises BadInputError at the first batch that does not divide over the group.
    """
    reader = _part_reader(images, group)
    return _ahead(lambda: _batches(images.count, schedule, reader))


def even_hold_out_batch(count: int, batch_size: int, replicas: int) -> int:
    """The largest batch up to `batch_size` that divides `count` and the replicas: each process of a group must have as
    many images of every batch. Raises BadInputError where there is none."""
    fits = [size for size in range(replicas, max(batch_size, replicas) + 1, replicas) if count % size == 0]
    if not fits:
        raise BadInputError(
            f"{count:,} test images do not divide over {replicas} devices; leave out some images, or train with "
            "another number of nodes"
        )
    return max(fits)


def hold_out_batches(keras: Any, images: Images, batch_size: int, group: ProcessGroup = ALONE) -> Any:
    """Every image once, in order, as a Keras PyDataset; of each batch, this process's part."""
    reader = _part_reader(images, group)
    count = images.count

    class HoldOut(keras.utils.PyDataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return -(-count // batch_size)

        def __getitem__(self, index: int) -> Batch:
            return reader(np.arange(index * batch_size, min(count, (index + 1) * batch_size)))

    return HoldOut()


def read_rows(images: Images, rows: Order) -> Batch:
    """These images, in this order. Raises BadInputError where one cannot be read, and for TFRecords."""
    return _reader(images)(rows)


def _batches(count: int, schedule: Schedule, reader: Callable[[Order], Batch]) -> Iterator[Batch]:
    for order in epoch_orders(count, schedule):
        for batch in order.reshape(-1, schedule.fed_batch_size):
            yield reader(_grouped(batch, schedule))


def _grouped(rows: Order, schedule: Schedule) -> Order:
    """A strategy gives device d the d-th stretch of a batch: it must hold that device's share of each part."""
    parts, devices = schedule.grouped
    return rows.reshape(parts, devices, -1).swapaxes(0, 1).reshape(-1) if parts > 1 else rows


def _part_reader(images: Images, group: ProcessGroup) -> Callable[[Order], Batch]:
    """Reads this process's part of the rows that it is given, and no other image."""
    reader = _reader(images)
    return reader if group.is_alone else lambda rows: reader(group.part(rows))


def _reader(images: Images) -> Callable[[Order], Batch]:
    match images:
        case ArrayImages(pixels=pixels, labels=labels):
            return lambda rows: (pixels[rows % len(labels)], labels[rows % len(labels)])
        case FileImages():
            return _FileReader(images)
        case _:
            raise BadInputError(
                "TFRecords need TensorFlow beside this framework; install it, or use a folder of images"
            )


class _FileReader:
    """Decodes a batch in several threads; Pillow lets go of the interpreter while it decodes."""

    def __init__(self, images: FileImages) -> None:
        self._images = images
        self._pool = ThreadPoolExecutor(thread_name_prefix="decode")

    def __call__(self, rows: Order) -> Batch:
        pixels = np.stack(list(self._pool.map(lambda row: pixels_of_file(self._images, row), rows)))
        return pixels, self._images.labels[rows]


class _Failure:
    def __init__(self, error: BaseException) -> None:
        self.error = error


def _ahead(make: Callable[[], Iterator[_Item]]) -> Iterator[_Item]:
    """The items of `make()`, up to four made ahead in a thread, which ends with the last item or with the caller."""
    waiting: queue.Queue[_Item | _Failure | None] = queue.Queue(maxsize=_AHEAD)
    event = threading.Event()

    def put(item: _Item | _Failure | None) -> bool:
        while not event.is_set():
            try:
                waiting.put(item, timeout=0.2)
            except queue.Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            for item in make():
                if not put(item):
                    return
        except Exception as error:  # noqa: BLE001 - handed to the caller, who raises it
            put(_Failure(error))
            return
        put(None)

    threading.Thread(target=work, name="feed", daemon=True).start()
    try:
        while (item := waiting.get()) is not None:
            if isinstance(item, _Failure):
                raise item.error
            yield item
    finally:
        event.set()
