"""Small images in the formats that people have, each with the pixels that a run must see; and bytes that are none."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageOps, features

SIDE = 12
_LOSSY = 12
_OPTIONS: dict[str, dict[str, Any]] = {"JPEG": {"quality": 100, "subsampling": 0}, "WEBP": {"lossless": True}}
"""How far a pixel may lie from the original after a lossy format, of 255."""


class Encoded(NamedTuple):
    """`pixels` are (height, width, 3) as a run must see them before it crops; `most_off` how far it may be off.

    `whole` is whether nothing of the image but its edges is left out.
    """

    name: str
    data: bytes
    pixels: Any
    most_off: int = 0
    whole: bool = True


def corpus() -> list[Encoded]:
    """All images that are read."""
    return [*_pngs(), *_deep_pngs(), *_jpegs(), *_turned(), *_bmps(), *_gifs(), *_webps(), *_others(), *_shapes()]


def picture(width: int = SIDE, height: int = SIDE, tint: int = 0) -> Any:
    """A smooth picture without symmetry: (height, width, 3)."""
    across, down = np.arange(width) * 150 // width, np.arange(height) * 90 // height
    red = 40 + across[None, :] + 0 * down[:, None]
    green = 60 + 0 * across[None, :] + down[:, None]
    return np.stack([red, green, (red + 2 * green + tint) // 3], axis=-1).astype(np.uint8)


COLOUR = picture()
GREY = np.repeat(COLOUR[..., :1], 3, axis=-1)
OPAQUE = np.full_like(GREY[..., :1], 255)
PALETTE = (COLOUR // 64) * 64
"""At most 64 colours, so that a palette holds them all."""
BLACK_OR_WHITE = np.where(GREY > 100, np.uint8(255), np.uint8(0))


def as_image(pixels: Any, mode: str = "RGB") -> Any:
    """The pixels as an image of Pillow's."""
    return Image.fromarray(pixels).convert(mode)


def _palette_image() -> Any:
    image = as_image(PALETTE).quantize(64)
    assert (np.asarray(image.convert("RGB")) == PALETTE).all()
    return image


def saved(image: Any, form: str, **options: Any) -> bytes:
    """The bytes of a file."""
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def _clear(pixels: Any, mode: str = "RGBA") -> Any:
    """With an alpha channel from 0 to 255 over the pixels."""
    image = as_image(pixels, mode)
    image.putalpha(Image.fromarray(np.linspace(0, 255, SIDE * SIDE).astype(np.uint8).reshape(SIDE, SIDE)))
    return image


def _pngs() -> Iterator[Encoded]:
    yield Encoded("rgb.png", saved(as_image(COLOUR), "PNG"), COLOUR)
    yield Encoded("grey.png", saved(as_image(GREY, "L"), "PNG"), GREY)
    yield Encoded("one-bit.png", saved(as_image(BLACK_OR_WHITE, "1"), "PNG"), BLACK_OR_WHITE)
    yield Encoded("palette.png", saved(_palette_image(), "PNG"), PALETTE)
    for bits, levels in ((1, 2), (2, 4), (4, 16)):
        few = (GREY // (256 // levels) * (256 // levels)).astype(np.uint8)
        image = as_image(few).quantize(levels)
        yield Encoded(f"palette-{bits}-bits.png", saved(image, "PNG", bits=bits), few)
    yield Encoded("palette-transparent.png", saved(_palette_image(), "PNG", transparency=1), PALETTE, whole=False)
    yield Encoded("rgba.png", saved(_clear(COLOUR), "PNG"), COLOUR, whole=False)
    yield Encoded("opaque-rgba.png", saved(as_image(COLOUR, "RGBA"), "PNG"), COLOUR)
    yield Encoded("grey-alpha.png", saved(_clear(GREY, "LA"), "PNG"), GREY, whole=False)
    animated = saved(as_image(COLOUR), "PNG", save_all=True, append_images=[as_image(GREY)])
    yield Encoded("animated.png", animated, COLOUR, whole=False)
    yield Encoded("upright.png", saved(as_image(COLOUR), "PNG", exif=_exif(1)), COLOUR)
    yield Encoded("is-a-png.jpg", saved(as_image(COLOUR), "PNG"), COLOUR)
    yield Encoded("rgb.PNG", saved(as_image(COLOUR), "PNG", compress_level=0), COLOUR)


def _deep_pngs() -> Iterator[Encoded]:
    """More or fewer than 8 bits: Pillow does not write them all."""
    for kind, name, pixels, whole in (
        (0, "grey", GREY[..., :1], False),
        (2, "rgb", COLOUR, True),
        (4, "grey-alpha", np.concatenate([GREY[..., :1], OPAQUE], -1), True),
        (6, "rgba", np.concatenate([COLOUR, OPAQUE], -1), True),
    ):
        deep = (pixels.astype(np.uint16) * 256 + 77).astype(">u2")
        shown = COLOUR if kind & 2 else GREY
        yield Encoded(f"{name}-16-bits.png", png(deep.tobytes(), 16, kind), shown, whole=whole)
    scaled = saved(Image.fromarray(GREY[..., 0].astype(np.uint16) * 257), "PNG")
    yield Encoded("grey-16-bits-scaled.png", scaled, GREY, whole=False)
    for bits, levels in ((2, 4), (4, 16)):
        values = GREY[..., 0] // (256 // levels)
        rows = np.packbits(np.unpackbits(values[..., None], axis=-1)[..., -bits:].reshape(SIDE, -1), axis=-1)
        shown = np.repeat((values * (255 // (levels - 1)))[..., None], 3, axis=-1)
        yield Encoded(f"grey-{bits}-bits.png", png(rows.tobytes(), bits, 0), shown)


def png(rows: bytes, bits: int, kind: int) -> bytes:
    """A PNG of SIDE by SIDE pixels from its unfiltered rows (ISO/IEC 15948, 11.2.2: bit depth and colour type)."""
    step = len(rows) // SIDE
    filtered = b"".join(b"\0" + rows[start : start + step] for start in range(0, len(rows), step))
    parts = (
        (b"IHDR", struct.pack(">2I5B", SIDE, SIDE, bits, kind, 0, 0, 0)),
        (b"IDAT", zlib.compress(filtered)),
        (b"IEND", b""),
    )
    chunks = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _jpegs() -> Iterator[Encoded]:
    best: dict[str, Any] = {"quality": 100, "subsampling": 0}
    yield Encoded("rgb.jpg", saved(as_image(COLOUR), "JPEG", **best), COLOUR, _LOSSY)
    yield Encoded("subsampled.jpeg", saved(as_image(COLOUR), "JPEG", quality=95), COLOUR, _LOSSY)
    yield Encoded("progressive.jpg", saved(as_image(COLOUR), "JPEG", progressive=True, **best), COLOUR, _LOSSY)
    yield Encoded("rgb-stored.jpg", saved(as_image(COLOUR), "JPEG", keep_rgb=True, quality=100), COLOUR, _LOSSY)
    yield Encoded("grey.jpg", saved(as_image(GREY, "L"), "JPEG", quality=100), GREY, _LOSSY)
    yield Encoded(
        "grey-progressive.jpg", saved(as_image(GREY, "L"), "JPEG", progressive=True, quality=100), GREY, _LOSSY
    )
    yield Encoded("cmyk.jpg", saved(as_image(COLOUR, "CMYK"), "JPEG", quality=100), COLOUR, _LOSSY)
    yield Encoded(
        "two-pictures.jpg",
        saved(as_image(COLOUR), "MPO", save_all=True, append_images=[as_image(GREY)], **best),
        COLOUR,
        _LOSSY,
    )
    yield Encoded("is-a-jpeg.png", saved(as_image(COLOUR), "JPEG", **best), COLOUR, _LOSSY)
    yield Encoded(
        "damaged-exif.jpg",
        saved(as_image(COLOUR), "JPEG", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff", **best),
        COLOUR,
        _LOSSY,
    )


def _exif(orientation: int) -> Any:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


def _turned() -> Iterator[Encoded]:
    """As a camera that was held otherwise stores them: upright they are all one picture."""
    turns = Image.Transpose
    undo = {
        2: turns.FLIP_LEFT_RIGHT, 3: turns.ROTATE_180, 4: turns.FLIP_TOP_BOTTOM, 5: turns.TRANSPOSE,
        6: turns.ROTATE_90, 7: turns.TRANSVERSE, 8: turns.ROTATE_270,
    }  # fmt: skip
    for orientation, turn in undo.items():
        for form, most_off in (("PNG", 0), ("JPEG", _LOSSY), ("WEBP", 0), ("TIFF", 0)):
            options = _OPTIONS.get(form, {})
            data = saved(as_image(COLOUR).transpose(turn), form, exif=_exif(orientation), **options)
            assert ImageOps.exif_transpose(Image.open(io.BytesIO(data))).size == (SIDE, SIDE)
            yield Encoded(f"turned-{orientation}-{form.lower()}.jpg", data, COLOUR, most_off)


def _bmps() -> Iterator[Encoded]:
    yield Encoded("rgb.bmp", saved(as_image(COLOUR), "BMP"), COLOUR)
    yield Encoded("rgba.bmp", saved(as_image(COLOUR, "RGBA"), "BMP"), COLOUR)
    yield Encoded("grey.bmp", saved(as_image(GREY, "L"), "BMP"), GREY)
    yield Encoded("one-bit.bmp", saved(as_image(BLACK_OR_WHITE, "1"), "BMP"), BLACK_OR_WHITE)
    yield Encoded("palette.bmp", saved(_palette_image(), "BMP"), PALETTE)


def _gifs() -> Iterator[Encoded]:
    yield Encoded("palette.gif", saved(_palette_image(), "GIF"), PALETTE)
    yield Encoded("grey.gif", saved(as_image(GREY, "L"), "GIF"), GREY)
    yield Encoded("interlaced.gif", saved(_palette_image(), "GIF", interlace=True), PALETTE)
    yield Encoded("transparent.gif", saved(_palette_image(), "GIF", transparency=1), PALETTE, whole=False)
    animated = saved(_palette_image(), "GIF", save_all=True, append_images=[as_image(GREY, "L")])
    yield Encoded("animated.gif", animated, PALETTE, whole=False)


def _webps() -> Iterator[Encoded]:
    yield Encoded("lossless.webp", saved(as_image(COLOUR), "WEBP", lossless=True), COLOUR)
    yield Encoded("lossy.webp", saved(as_image(COLOUR), "WEBP", quality=100), COLOUR, 2 * _LOSSY)
    yield Encoded("grey.webp", saved(as_image(GREY), "WEBP", lossless=True), GREY)
    clear = saved(_clear(COLOUR), "WEBP", lossless=True, exact=True)
    yield Encoded("rgba.webp", clear, COLOUR, whole=False)
    animated = saved(as_image(COLOUR), "WEBP", save_all=True, append_images=[as_image(GREY)], lossless=True)
    yield Encoded("animated.webp", animated, COLOUR, whole=False)
    yield Encoded("is-a-webp.jpg", saved(as_image(COLOUR), "WEBP", lossless=True), COLOUR)


def _others() -> Iterator[Encoded]:
    """What nobody names so, and what files called .jpg and .png hold all the same."""
    for mode, pixels in (("1", BLACK_OR_WHITE), ("L", GREY), ("RGB", COLOUR), ("RGBA", COLOUR), ("CMYK", COLOUR)):
        yield Encoded(f"tiff-{mode}.jpg", saved(as_image(pixels, mode), "TIFF"), pixels)
    yield Encoded("tiff-palette.png", saved(_palette_image(), "TIFF"), PALETTE)
    yield Encoded("tiff-lzw.png", saved(as_image(COLOUR), "TIFF", compression="tiff_lzw"), COLOUR)
    deep = Image.fromarray(GREY[..., 0].astype(np.uint16) * 256 + 200)
    yield Encoded("tiff-16-bits.png", saved(deep, "TIFF"), GREY, whole=False)
    yield Encoded(
        "big-endian-16-bits.png", saved(Image.fromarray(np.asarray(deep).astype(">u2")), "TIFF"), GREY, whole=False
    )
    for mode, pixels in (("L", GREY), ("RGB", COLOUR)):
        yield Encoded(f"jpeg-2000-{mode}.jpg", saved(as_image(pixels, mode), "JPEG2000"), pixels)
    yield Encoded("ico.png", saved(as_image(COLOUR), "ICO", sizes=[(SIDE, SIDE)]), COLOUR)
    ico = saved(as_image(COLOUR, "RGBA"), "ICO", sizes=[(SIDE, SIDE)], bitmap_format="bmp")
    yield Encoded("bmp-ico.png", ico, COLOUR)
    if features.check("avif"):
        yield Encoded("avif.jpg", saved(as_image(COLOUR), "AVIF", quality=100), COLOUR, 2 * _LOSSY)


def _shapes() -> Iterator[Encoded]:
    for width, height in ((13, 12), (12, 13), (18, 12), (12, 17), (14, 12)):
        pixels = picture(width, height)
        yield Encoded(f"{width}x{height}.png", saved(as_image(pixels), "PNG"), pixels)
    for width, height in ((40, 12), (12, 41)):
        pixels = picture(width, height)
        yield Encoded(f"{width}x{height}.png", saved(as_image(pixels), "PNG"), pixels, whole=False)


def refused() -> dict[str, bytes]:
    """Bytes that are no image, or none that is read, by name."""
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    jpeg, picture_png, gif = (saved(as_image(noise), form) for form in ("JPEG", "PNG", "GIF"))
    return {
        "empty.jpg": b"",
        "page.jpg": b"<!DOCTYPE html><html><body>404 Not Found</body></html>",
        "drawing.png": b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>',
        "text.png": b"%PDF-1.7\n1 0 obj\n",
        "program.jpg": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n",
        "plain.jpg": b"P6 2 2 255\n" + bytes(12),
        "heic.jpg": b"\0\0\0\x18ftypheic\0\0\0\0mif1heic",
        "cut.jpg": jpeg[: len(jpeg) // 2],
        "cut.png": picture_png[: len(picture_png) // 2],
        "cut.gif": gif[:400],
        "changed.png": picture_png[:60] + bytes(40) + picture_png[100:],
        "head-only.jpg": jpeg[:20],
        "float.png": saved(Image.fromarray(GREY[..., 0].astype(np.float32)), "TIFF"),
        "32-bits.png": saved(Image.fromarray(GREY[..., 0].astype(np.int32)), "TIFF"),
    }
