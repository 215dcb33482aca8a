"""Small data folders: empty files by name, TFRecords as they are framed, and examples in them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def files(folder: Path, *names: str, content: bytes = b"x") -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def frames(path: Path, records: Iterable[bytes]) -> Path:
    """A TFRecord file; its checksums are zero, and nothing without TensorFlow looks at them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(struct.pack("<QI", len(data), 0) + data + bytes(4) for data in records))
    return path


def example(image: bytes, label: int, keys: tuple[str, str] = ("image/encoded", "image/class/label")) -> bytes:
    """A tf.train.Example of an encoded image and its label, as protocol buffers write it."""
    packed = _field(1, _varint(label & (1 << 64) - 1))
    return _field(1, _entry(keys[0], _field(1, _field(1, image))) + _entry(keys[1], _field(3, packed)))


def records(path: Path, labels: Iterable[int], image: bytes = b"no image") -> Path:
    """A TFRecord file with an example for each label."""
    return frames(path, [example(image, label) for label in labels])


def _entry(key: str, feature: bytes) -> bytes:
    return _field(1, _field(1, key.encode()) + _field(2, feature))


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    parts = []
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])
