"""The order of images depends on seed and epoch alone, and feeds keep to it from any step on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.rows import each_row
from tests.unit.workloads.trainer.builders import numbered
from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.feed import Schedule, epoch_order, epoch_orders, hold_out_batch, training_batches
from trainplan.workloads.trainer.images import ArrayImages, FileImages

COUNT = 23
SCHEDULE = Schedule(batch_size=4, steps_per_epoch=5, epochs=3, seed=7)


def orders(schedule: Schedule) -> list[list[int]]:
    return [labels.tolist() for _, labels in training_batches(numbered(), schedule)]


def test_an_epoch_shows_every_image_once() -> None:
    assert sorted(epoch_order(COUNT, 7, 0)) == list(range(COUNT))


def test_the_order_changes_with_seed_and_epoch_and_with_nothing_else() -> None:
    first = epoch_order(COUNT, 7, 0).tolist()
    assert first == epoch_order(COUNT, 7, 0).tolist()
    assert first != epoch_order(COUNT, 7, 1).tolist()
    assert first != epoch_order(COUNT, 8, 0).tolist()


def test_what_one_epoch_leaves_over_another_shows() -> None:
    seen = {int(row) for order in epoch_orders(COUNT, SCHEDULE) for row in order}
    assert seen == set(range(COUNT))


@each_row("step", range(16))
def test_training_that_goes_on_shows_exactly_what_was_still_to_come(step: int) -> None:
    going_on = Schedule(batch_size=4, steps_per_epoch=5, epochs=3, seed=7, first_step=step)
    assert orders(going_on) == orders(SCHEDULE)[step:]


def test_batches_carry_the_images_of_their_labels() -> None:
    for pixels, labels in training_batches(numbered(), SCHEDULE):
        assert pixels.shape == (4, 2, 2, 1)
        assert pixels[:, 0, 0, 0].tolist() == labels.tolist()


def test_a_synthetic_pool_is_shown_round_robin() -> None:
    pool = numbered(5)
    larger = ArrayImages(pixels=pool.pixels, labels=pool.labels, count=COUNT)
    labels = [label for _, batch in training_batches(larger, SCHEDULE) for label in batch.tolist()]
    assert len(labels) == 60
    assert set(labels) == set(range(5))


@pytest.mark.parametrize(
    ("count", "batch", "replicas", "expected"),
    [
        (360, 32, 1, 30),
        (10_000, 256, 1, 250),
        (10_000, 256, 8, 200),
        (101, 32, 1, 32),
        (7, 32, 1, 7),
        (50_000, 256, 8, 200),
    ],
)
def test_the_hold_out_is_tested_in_equal_batches_where_that_is_possible(
    count: int, batch: int, replicas: int, expected: int
) -> None:
    assert hold_out_batch(count, batch, replicas) == expected


def feed_threads() -> int:
    return sum(thread.name == "feed" for thread in threading.enumerate())


def test_a_feed_that_is_left_early_ends_its_thread() -> None:
    feed = training_batches(numbered(), Schedule(batch_size=4, steps_per_epoch=5, epochs=100, seed=0))
    next(feed)
    running = [thread for thread in threading.enumerate() if thread.name == "feed"]
    assert isinstance(feed, Iterator)
    feed.close()  # type: ignore[attr-defined]
    for thread in running:
        thread.join(timeout=300)
    assert feed_threads() == 0


def test_a_damaged_image_is_named_by_the_feed(tmp_path: Path) -> None:
    damaged = tmp_path / "broken.png"
    damaged.write_bytes(b"no image")
    images = FileImages(paths=(str(damaged),), labels=np.zeros(1, np.int32), size=4, channels=1)
    with pytest.raises(BadInputError, match=r"broken\.png cannot be read as an image"):
        next(training_batches(images, Schedule(batch_size=1, steps_per_epoch=1, epochs=1, seed=0)))
