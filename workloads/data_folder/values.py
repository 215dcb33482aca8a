"""What a data folder holds, and the error that says why nothing can be trained on it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".jfif", ".png", ".bmp", ".gif", ".webp")


class DataFolderError(ValueError):
    """A data folder cannot be trained on as it is; the message says what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Entries of the folder that a run does not read. `example` is the path of one of them, below the folder.

    `loose_in` is the folder whose images lie in no class folder, where that is the reason; else "".
    """

    reason: str
    entries: int
    example: str
    loose_in: str = ""


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
    """TFRecord files. Where `hold_out` is empty, one record in ten of each class is held out, by a hash of its bytes.

    `class_names` are those that TensorFlow Datasets wrote beside its files; () where there are none.
    """

    train: tuple[Path, ...]
    hold_out: tuple[Path, ...]
    left_out: tuple[LeftOut, ...]
    class_names: tuple[str, ...] = ()


def left_out_text(left_out: LeftOut) -> str:
    """One sentence: how many entries, why, and one of them."""
    if left_out.loose_in:
        return f"{loose_text(left_out)} and left out, for example {left_out.example}; {left_out.reason}"
    some = "file or folder" if left_out.entries == 1 else "files or folders"
    return f"ignored {left_out.entries:,} {some} ({left_out.reason}), for example {left_out.example}"


def loose_text(left_out: LeftOut) -> str:
    """`20 images in val/ are in no class folder`."""
    what = "1 image" if left_out.entries == 1 else f"{left_out.entries:,} images"
    return f"{what} in {left_out.loose_in} {'is' if left_out.entries == 1 else 'are'} in no class folder"


def wrong_count_text(written: int, train_images: int) -> str:
    """What to write where `data.images` is not the number of images to train on."""
    return (
        f"there are {train_images:,} images to train on, and data.images says {written:,}; write data.images: "
        f"{train_images}, or leave it out and they are counted"
    )
