"""Images as the feeds read them: in memory, in files, or in TFRecords."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trainplan.workloads.data_folder.decode import ImageError, image_bytes, square
from trainplan.workloads.data_folder.records import KEYS, Keys
from trainplan.workloads.data_folder.values import LeftOut
from trainplan.workloads.trainer.errors import BadInputError

Labels = npt.NDArray[np.int32]
Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArrayImages:
    """`pixels` (held, size, size, channels), 0 to 255; `labels` (held,). An epoch shows `count` images: image i
    is held image i modulo held, so a synthetic set needs no more memory than its pool."""

    pixels: Pixels
    labels: Labels
    count: int

    @property
    def size(self) -> int:
        """Height and width of an image in pixels."""
        return int(self.pixels.shape[1])

    @property
    def channels(self) -> int:
        """The channels of an image."""
        return int(self.pixels.shape[3])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileImages:
    """One encoded image a file; decoded, cropped to the central square and resized to `size` px when read."""

    paths: tuple[str, ...]
    labels: Labels
    size: int
    channels: int

    @property
    def count(self) -> int:
        """The number of images."""
        return len(self.paths)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordImages:
    """TFRecord files of tf.train.Example, whose features `keys` names. Labels run from `first_label` on, for `classes`
    classes; they are read as 0 to classes - 1.

    `kept`: of each file, which of its records are these images; None for all of all files.
    """

    files: tuple[str, ...]
    count: int
    kept: tuple[npt.NDArray[np.bool_], ...] | None
    size: int
    channels: int
    classes: int
    keys: Keys = KEYS[0]
    first_label: int = 0


Images = ArrayImages | FileImages | RecordImages


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Split:
    """What is trained on, and what is only ever tested on; they share no image. `class_names` by label.

    `left_out`: entries of the data folder that are not read, and why.
    """

    train: Images
    hold_out: Images
    class_names: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def in_memory(pixels: npt.NDArray[Any], labels: npt.NDArray[Any]) -> ArrayImages:
    """Arrays as they come, as uint8 (n, size, size, channels) and int32 (n,); grey ones get a channel of their own."""
    shaped = pixels if pixels.ndim == 4 else pixels[..., np.newaxis]
    flat = labels.reshape(-1).astype(np.int32)
    return ArrayImages(pixels=np.ascontiguousarray(shaped, dtype=np.uint8), labels=flat, count=len(flat))


def pixels_of_file(images: FileImages, row: int) -> Pixels:
    """One file as (size, size, channels). Raises BadInputError with its name."""
    path = images.paths[row]
    try:
        encoded = image_bytes(Path(path))
    except ImageError as error:
        raise _no_image(path, error) from error
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror}") from error
    return pixels_of(encoded, path, images)


def pixels_of(encoded: bytes, where: str, images: FileImages | RecordImages) -> Pixels:
    """An encoded image, which lies at `where`, as (size, size, channels). Raises BadInputError with `where`."""
    try:
        image = square(encoded, images.size, images.channels)
    except ImageError as error:
        raise _no_image(where, error) from error
    return np.asarray(image, dtype=np.uint8).reshape(images.size, images.size, images.channels)


def _no_image(where: str, error: ImageError) -> BadInputError:
    return BadInputError(f"{where} cannot be read as an image ({error}); replace or delete it")


def available_bytes() -> int | None:
    """Memory this process may still take: the machine's or the container's, whichever is less; None if unknown."""
    figures = [figure for figure in (_machine_bytes(), _container_bytes()) if figure is not None]
    return min(figures, default=None)


def _machine_bytes() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    kib = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return kib[0] * 1024 if kib else None


def _container_bytes() -> int | None:
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
        used = Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(limit) - int(used) if limit.isdigit() else None
