"""How often the hold-out is tested."""

from __future__ import annotations

import pytest

from trainplan.workloads.hold_out import test_every as every


@pytest.mark.parametrize(
    ("train_images", "hold_out_images", "epochs"),
    [
        # A third of the cost of training an image, and no more than a twentieth of the training in all.
        (1_437, 360, 2),
        (60_000, 10_000, 2),
        (50_000, 10_000, 2),
        (1_000_000, 10_000, 1),
        (100, 100, 7),
        (1_281_167, 50_000, None),
    ],
)
def test_testing_takes_at_most_a_twentieth(train_images: int, hold_out_images: int, epochs: int | None) -> None:
    assert every(train_images, hold_out_images) == epochs
