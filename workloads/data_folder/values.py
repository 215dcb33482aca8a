"""What a data folder holds, and the error that says why nothing can be trained on it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HOLD_OUT_EVERY = 10
"""Of data without a hold-out of its own, one image in ten is held out."""


class DataFolderError(ValueError):
    """A data folder cannot be trained on as it is; the message says what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Entries of the folder that a run does not read. `example` is the path of one of them, below the folder."""

    reason: str
    entries: int
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageLayout:
    """A sub-folder per class. `train` and `hold_out` are (path below their root, label), in the same order everywhere.

    Labels number `class_names`. Without a hold-out folder both roots are the same.
    """

    train_root: Path
    hold_out_root: Path
    class_names: tuple[str, ...]
    train: tuple[tuple[str, int], ...]
    hold_out: tuple[tuple[str, int], ...]
    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLayout:
    """TFRecord files. Where `hold_out` is empty, every tenth record of each training file is held out.

    `class_names` are those that TensorFlow Datasets wrote beside its files; () where there are none.
    """

    train: tuple[Path, ...]
    hold_out: tuple[Path, ...]
    left_out: tuple[LeftOut, ...]
    class_names: tuple[str, ...] = ()


def left_out_text(left_out: LeftOut) -> str:
    """One sentence: how many entries, why, and one of them."""
    some = "entry of the data folder is" if left_out.entries == 1 else "entries of the data folder are"
    return f"{left_out.entries:,} {some} left out ({left_out.reason}), for example {left_out.example}"
