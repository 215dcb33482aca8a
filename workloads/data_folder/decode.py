"""The one reader of images: the check of a folder and the feeds of every framework decode through it.

ADR 33 says why. Whatever has a known signature is read by what it holds, whatever its name says; the first image of
several; turned upright as its EXIF orientation says; without transparency; of 16 bits the upper 8.
"""

from __future__ import annotations

import io
import os
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from trainplan.workloads.regular_file import open_regular

if TYPE_CHECKING:
    from pathlib import Path

    from PIL.Image import Image

# Formats by Pillow's names. Others that Pillow knows are not asked for: some of them start programs (EPS).
_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "JPEG2000", "ICO", "AVIF", "DIB")
_READ = "JPEG, PNG, BMP, GIF, WebP, TIFF, JPEG 2000, ICO or AVIF"
_GREY_MODES = frozenset({"1", "L", "LA", "La", "I;16", "I;16L", "I;16B", "I;16N"})
_ORIENTATION = 0x0112
"""The tag of Exif 2.32 (CIPA DC-008-2019), section 4.6.4."""
_DRAFT_FACTOR = 2
"""A JPEG is decoded at a half, a quarter or an eighth, where that leaves this many times the pixels a side needed."""


MOST_IMAGE_BYTES = 2**30
"""A larger file is no image to train on, and is not read. What Pillow opens (178,956,970 pixels of 4 bytes) takes less
uncompressed; that no film of images to train on is as long is assumed."""
_BLOCKS_KEPT = 8
"""Of up to 16 MiB each (Pillow's manual, "Block allocator")."""


class ImageError(ValueError):
    """Bytes cannot be decoded as an image; the message says why."""


class Look(NamedTuple):
    """An image as it is stored, and upright. `size` is width and height in pixels; `brightest_of_16_bits` is the
    highest value of a grey image with 16 bits, None for others."""

    size: tuple[int, int]
    is_colour: bool
    is_transparent: bool
    is_animated: bool
    brightest_of_16_bits: int | None


def image_bytes(path: Path) -> bytes:
    """The file of an image, as it is encoded. Raises ImageError for one that is too large for an image, and OSError."""
    with open_regular(path) as file:
        if why := too_large(os.fstat(file.fileno()).st_size):
            raise ImageError(why)
        return file.read()


def too_large(size_bytes: int) -> str:
    """Why so many bytes are no image; "" where they may be one."""
    if size_bytes <= MOST_IMAGE_BYTES:
        return ""
    return f"it has {size_bytes:,} bytes; an image has at most {MOST_IMAGE_BYTES:,}"


def looked_at(encoded: bytes) -> Look:
    """Decode an image whole, as a run does, and say what it is. Raises ImageError."""
    try:
        with _opened(encoded) as opened:
            frames = opened.format in ("GIF", "WEBP", "PNG", "AVIF") and getattr(opened, "is_animated", False)
            upright = _upright(opened)
            _converted(upright, 3)
            return Look(
                size=upright.size,
                is_colour=opened.mode not in _GREY_MODES,
                is_transparent=_is_transparent(opened),
                is_animated=frames,
                brightest_of_16_bits=_extremes(upright.convert("I"))[1] if opened.mode.startswith("I;16") else None,
            )
    # What Pillow's readers raise on bytes that a stranger wrote is not listed anywhere.
    except Exception as error:
        raise _image_error(error) from error


def square(encoded: bytes, size: int, channels: int) -> Image:
    """Return the central square of an image, resized to `size` px a side: grey for one channel, else RGB, 8 bits each.

    Resized with a triangle filter as wide as the reduction. Raises ImageError.
    """
    from PIL.Image import Resampling

    try:
        with _opened(encoded) as opened:
            opened.draft("L" if channels == 1 else "RGB", (_DRAFT_FACTOR * size, _DRAFT_FACTOR * size))
            image = _converted(_upright(opened), channels)
            width, height = image.size
            side = min(width, height)
            left, top = (width - side) // 2, (height - side) // 2
            return image.resize((size, size), Resampling.BILINEAR, box=(left, top, left + side, top + side))
    except Exception as error:
        raise _image_error(error) from error


def _opened(encoded: bytes) -> Any:
    from PIL import Image

    if not encoded:
        raise ImageError("it is empty")
    return Image.open(io.BytesIO(encoded), formats=_formats())


@cache
def _formats() -> tuple[str, ...]:
    """Those that the installed Pillow knows: AVIF came with 11.3. Called once."""
    from PIL import Image

    Image.init()
    # Pillow warns of what is read all the same: a photograph of 100 million pixels, a damaged note of the camera.
    warnings.filterwarnings("ignore", module=r"PIL\.")
    # Else the memory of each image goes back to the system and is asked for anew: a quarter more time for a photograph.
    Image.core.set_blocks_max(_BLOCKS_KEPT)  # type: ignore[attr-defined]
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def _upright(image: Image) -> Image:
    from PIL.Image import Transpose

    image.load()
    turns = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    try:
        turn = turns.get(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # noqa: BLE001 - damaged EXIF data does not damage the image: it stays as it is stored
        turn = None
    return image if turn is None else image.transpose(turn)


def _is_transparent(image: Image) -> bool:
    """Whether a pixel is; many images have an alpha channel of which nothing is seen."""
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.mode in ("LA", "RGBA", "PA") and _extremes(image.getchannel("A"))[0] < 255


def _extremes(image: Image) -> tuple[int, int]:
    """The least and the greatest value of an image with one channel."""
    extremes: Any = image.getextrema()
    return extremes[0], extremes[1]


def _converted(image: Image, channels: int) -> Image:
    if image.mode.startswith("I;16"):
        # Pillow's own conversion takes what is above 255 for 255. Here the lower 8 bits are dropped.
        image = image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    elif image.mode in ("I", "F"):
        raise ImageError("its pixels have 32 bits each; write it with 8 or 16")
    mode = "L" if channels == 1 else "RGB"
    return image if image.mode == mode else image.convert(mode)  # a conversion to the same mode copies


def _image_error(error: Exception) -> ImageError:
    from PIL import Image, UnidentifiedImageError

    if isinstance(error, ImageError):
        return error
    if isinstance(error, UnidentifiedImageError):
        return ImageError(f"it is no {_READ}")
    if isinstance(error, Image.DecompressionBombError) and Image.MAX_IMAGE_PIXELS:
        return ImageError(f"it has more than {2 * Image.MAX_IMAGE_PIXELS:,} pixels: make it smaller")
    return ImageError(str(error) or type(error).__name__)
