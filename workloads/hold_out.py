"""What tests cost beside training: how often the hold-out is tested between epochs, and images before the last test."""

from __future__ import annotations

AVERAGED_IMAGES = 1_024
"""Training images of which the averages of batch norm are made before the last test: a thousand are enough (Wu and
Johnson, arXiv:2105.07576, section 3.2; ADR 57)."""

# Testing between epochs is for the person who watches; it may cost a twentieth of the training.
_TESTED_BETWEEN_EPOCHS = 10_000
_TEST_SHARE = 0.05
# One image forward is about a third of one image forward and backward.
_TEST_COST = 1 / 3


def test_every(train_images: int, hold_out_images: int) -> int | None:
    """Test after every so many epochs, so that it costs little; None is only at the end."""
    if hold_out_images > _TESTED_BETWEEN_EPOCHS:
        return None
    cost = hold_out_images * _TEST_COST / train_images
    return max(1, -int(-cost // _TEST_SHARE))


def averaged_images(train_images: int | None, statistics: int) -> int:
    """Training images that go through the network once before its last test; `statistics` are the averages that it
    has."""
    return min(AVERAGED_IMAGES, train_images or 0) if statistics else 0
