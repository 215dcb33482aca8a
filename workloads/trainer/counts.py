"""Values that several parts of the trainer count with."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Confusion = npt.NDArray[np.int64]
"""Images by (true class, taken for)."""
