"""How often the hold-out is tested between epochs."""

from __future__ import annotations

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
