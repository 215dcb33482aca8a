"""Whether an exported file says what model.keras says. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

REFERENCE = "reference.npz"
"""`pixels`, `labels` and `probabilities` of model.keras, of the images that files are checked on."""
Probabilities = npt.NDArray[np.float32]
MOST_FLOAT_DIFFERENCE = 1e-3
"""Of a probability, between the file and Keras, where both compute with 32-bit floats in another order."""
MOST_LOSS = 0.02
"""Of top-1 that 8-bit numbers may cost: 2 points, unless the person allows more."""
LEAST_AGREEMENT = 0.9
"""The share of images of which an 8-bit file names the class that model.keras names (assumed; see ADR 47). It is what
tells a broken file of a model that is itself hardly right."""
MOST_CLIPPED = 0.01
MOST_CLIPPED_DIFFERENCE = 0.1
"""The share of logits at an end of their 8-bit range, and what a probability may differ by then (both assumed; see
ADR 47): beyond, the images that the range was taken from were not like these. A net that always says the same has one
logit at an end, and differs by nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The figures of a check (trainplan.workloads.exported.record.Check). `clear_disagreements` are images of which the
    file names another class although model.keras was not undecided between two."""

    images: int
    top1_before: float
    top1_after: float
    agreement: float
    largest_difference: float
    clear_disagreements: int


def compared(expected: Probabilities, given: Any, labels: npt.NDArray[np.int32]) -> Comparison:
    """`expected` of model.keras and `given` of the file, both (images, classes), and what is right.

    Raises ValueError where the file gives something else than probabilities of the same classes.
    """
    given = np.asarray(given, np.float32)
    if given.shape != expected.shape:
        raise ValueError(f"it gives numbers of the shape {given.shape}, and model.keras {expected.shape}")
    if not np.isfinite(given).all():
        raise ValueError("it gives what is no number")
    before, after = expected.argmax(axis=1), given.argmax(axis=1)
    ordered = np.sort(expected, axis=1)
    is_clear = ordered[:, -1] - ordered[:, -2] > MOST_FLOAT_DIFFERENCE if expected.shape[1] > 1 else before == before
    return Comparison(
        images=len(labels),
        top1_before=float((before == labels).mean()),
        top1_after=float((after == labels).mean()),
        agreement=float((before == after).mean()),
        largest_difference=float(np.abs(given - expected).max()),
        clear_disagreements=int(((before != after) & is_clear).sum()),
    )


def float_faults(check: Comparison) -> Iterator[str]:
    """Why a file of 32-bit floats is not the model; none where it is."""
    if check.clear_disagreements:
        yield f"it names another class than model.keras for {check.clear_disagreements} of {check.images} images"
    if check.largest_difference > MOST_FLOAT_DIFFERENCE:
        yield f"a probability differs by {check.largest_difference:.2g} from that of model.keras"


def int8_faults(check: Comparison, clipped: float | None, allowed_loss: float = MOST_LOSS) -> Iterator[str]:
    """Why a file of 8-bit numbers is too far from the model. `clipped` is the share of its logits that are beyond their
    range, `allowed_loss` is of top-1, as a share."""
    if clipped is not None and clipped > MOST_CLIPPED and check.largest_difference > MOST_CLIPPED_DIFFERENCE:
        yield f"{clipped:.1%} of its logits are at an end of their range, so it was calibrated with other images"
    loss = check.top1_before - check.top1_after
    if loss > allowed_loss + 1e-9:
        yield (
            f"it is right in {check.top1_after:.1%} of {check.images} test images, and model.keras in "
            f"{check.top1_before:.1%}: {math.ceil(1e4 * loss) / 100:.2f} points less, and {100 * allowed_loss:g} are "
            "allowed"
        )
    least = min(LEAST_AGREEMENT, 1 - allowed_loss)
    if check.agreement < least:
        yield f"it names the class that model.keras names in {check.agreement:.1%} of images; {least:.0%} are needed"
