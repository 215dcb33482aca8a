"""Small data folders: empty files by name, TFRecords as they are framed, and examples in them."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path


def files(folder: Path, *names: str, content: bytes = b"x") -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def frames(path: Path, records: Iterable[bytes]) -> Path:
    """A TFRecord file, with the checksums that TensorFlow writes and demands."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(_frame(data) for data in records))
    return path


def _frame(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + _checksum(length) + data + _checksum(data)


def _checksum(data: bytes) -> bytes:
    """The masked CRC-32C of tensorflow/tsl/lib/hash/crc32c.h."""
    value = 0xFFFFFFFF
    for byte in data:
        value = _CRC_TABLE[(value ^ byte) & 0xFF] ^ value >> 8
    value ^= 0xFFFFFFFF
    return struct.pack("<I", ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _crc_row(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value


_CRC_TABLE = [_crc_row(byte) for byte in range(256)]


def example(image: bytes, label: int, keys: tuple[str, str] = ("image/encoded", "image/class/label")) -> bytes:
    """A tf.train.Example of an encoded image and its label, as protocol buffers write it."""
    packed = _field(1, _varint(label & (1 << 64) - 1))
    return _field(1, _entry(keys[0], _field(1, _field(1, image))) + _entry(keys[1], _field(3, packed)))


def records(path: Path, labels: Iterable[int], image: bytes = b"no image") -> Path:
    """A TFRecord file with an example for each label; no two images are equal."""
    return frames(path, [example(b"%s %d" % (image, number), label) for number, label in enumerate(labels)])


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
