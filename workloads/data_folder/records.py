"""TFRecord files read without TensorFlow: their frames, and the features of each tf.train.Example in them."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainplan.workloads.data_folder.crc32c import masked_crc32c
from trainplan.workloads.data_folder.hold_out import chosen_by_content, rank
from trainplan.workloads.data_folder.values import DataFolderError

_HEADER = struct.Struct("<QI")
"""Length of the data, and a checksum of the length; the data and its checksum follow."""
_FOOTER = struct.Struct("<I")
_NOT_RECORDS = "is cut short or is not an uncompressed TFRecord file; write it again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """What the features of an image are called: its encoded bytes, and its label."""

    image: str
    label: str


KEYS = (
    Keys(image="image/encoded", label="image/class/label"),
    Keys(image="image", label="label"),
    Keys(image="image", label="class"),
)
"""ImageNet's, which most scripts write; those of TensorFlow Datasets; those of Kaggle's competitions for TPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordEntry:
    """One record: its number in the file (from 0), its label, where its data lies in the file, and where in that its
    encoded image.

    `checksum` are the four bytes that the file has for those of the record.
    """

    number: int
    label: int
    data: tuple[int, int]
    image: tuple[int, int]
    checksum: bytes


def count_records(file: Path) -> int:
    """Records in a TFRecord file, from its frames alone.

    Raises DataFolderError where a frame runs past the end: the file is cut short, compressed or no TFRecord.
    """
    return sum(1 for _ in _frames(file))


def keys_of(file: Path) -> Keys | None:
    """The keys of the file's first record; None for a file without a record.

    Raises DataFolderError where the record is no tf.train.Example or has neither pair of keys.
    """
    with _mapped(file) as data:
        for begin, end in _spans(data, file):
            return _keys(_features(data, begin, end, file), file)
    return None


def read_records(file: Path, keys: Keys) -> Iterator[RecordEntry]:
    """Every record of the file; of the images only where they lie is read. Raises DataFolderError."""
    with _mapped(file) as data:
        for number, (begin, end) in enumerate(_spans(data, file)):
            features = _features(data, begin, end, file)
            if keys.image not in features or keys.label not in features:
                gap = keys.image if keys.image not in features else keys.label
                raise DataFolderError(f"record {number} of {file} has no feature {gap}; write the file again")
            image = _image(data, features[keys.image])
            label = _label(data, features[keys.label])
            if image is None or label is None:
                raise DataFolderError(
                    f"record {number} of {file} needs one text of bytes as {keys.image} and one whole number as "
                    f"{keys.label}; write the file again"
                )
            checksum = bytes(data[end : end + _FOOTER.size])
            yield RecordEntry(number=number, label=label, data=(begin, end), image=image, checksum=checksum)


def held_out_of(records: Sequence[RecordEntry]) -> list[bool]:
    """Whether each record is held out, of files without a hold-out of their own: by the checksum of its bytes.

    The checksum stands in the file, so that no image is read for it.
    """
    ranks = [rank(record.checksum) for record in records]
    return chosen_by_content(ranks, [record.label for record in records])


def bytes_of(file: Path, record: RecordEntry) -> bytes:
    """The encoded image of a record. Raises OSError, and DataFolderError where a checksum of the record does not fit: a
    run would end there."""
    begin, end = record.data
    with file.open("rb") as opened:
        opened.seek(begin - _HEADER.size)
        frame = opened.read(_HEADER.size + end - begin + _FOOTER.size)
    if not _is_whole(frame):
        raise DataFolderError("its checksum does not fit, so its bytes have changed since it was written")
    return frame[record.image[0] - begin + _HEADER.size : record.image[1] - begin + _HEADER.size]


def damaged_record(file: Path, offset: int) -> int | None:
    """The number of the damaged record whose frame or data begins at `offset`; None where there is none.

    A file cut short, or a length that leads nowhere, counts as damage of the record behind the last whole one.
    """
    number = -1
    with _mapped(file) as data:
        try:
            for number, (begin, end) in enumerate(_spans(data, file)):
                if offset in (begin, begin - _HEADER.size):
                    return None if _is_whole(data[begin - _HEADER.size : end + _FOOTER.size]) else number
        except DataFolderError:
            return number + 1
    return None


def _is_whole(frame: bytes) -> bool:
    """Whether both checksums fit."""
    header, data = frame[: _HEADER.size], frame[_HEADER.size : -_FOOTER.size]
    _, length_checksum = _HEADER.unpack(header)
    (checksum,) = _FOOTER.unpack(frame[-_FOOTER.size :])
    return bool(masked_crc32c(header[: -_FOOTER.size]) == length_checksum and masked_crc32c(data) == checksum)


def _frames(file: Path) -> Iterator[int]:
    size = file.stat().st_size
    with file.open("rb", buffering=0) as opened:  # A buffer would read 8 KiB for each header of 12 bytes.
        position = 0
        while position < size:
            header = opened.read(_HEADER.size)
            if len(header) == _HEADER.size:
                position += _HEADER.size + _HEADER.unpack(header)[0] + _FOOTER.size
            if len(header) < _HEADER.size or position > size:
                raise DataFolderError(f"{file} {_NOT_RECORDS}")
            opened.seek(position)
            yield position


class _mapped:
    """The file's bytes, of which only the pages that are looked at are read; b"" for an empty file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __enter__(self) -> mmap.mmap | bytes:
        self._opened = self._file.open("rb")
        if not self._file.stat().st_size:
            return b""
        return mmap.mmap(self._opened.fileno(), 0, access=mmap.ACCESS_READ)

    def __exit__(self, *error: object) -> None:
        # The map is closed with the last reference to it.
        self._opened.close()


def _spans(data: mmap.mmap | bytes, file: Path) -> Iterator[tuple[int, int]]:
    position = 0
    while position < len(data):
        begin = position + _HEADER.size
        if begin > len(data):
            raise DataFolderError(f"{file} {_NOT_RECORDS}")
        end = begin + _HEADER.unpack_from(data, position)[0]
        if end + _FOOTER.size > len(data):
            raise DataFolderError(f"{file} {_NOT_RECORDS}")
        yield begin, end
        position = end + _FOOTER.size


def _keys(features: dict[str, _Field], file: Path) -> Keys:
    for keys in KEYS:
        if keys.image in features and keys.label in features:
            return keys
    name = ", or ".join(f"{keys.image} and {keys.label}" for keys in KEYS)
    there = ", ".join(sorted(features)[:8]) or "none"
    raise DataFolderError(f"the records of {file} have the features {there}; needed are {name}")


# --- protocol buffers: https://protobuf.dev/programming-guides/encoding/, read 2026-11-23 ----------------------------

_Field = tuple[int, int]
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_BYTES_LIST, _INT64_LIST = 1, 3
"""Fields of tf.train.Feature (tensorflow/core/example/feature.proto)."""


class _BadMessageError(ValueError):
    pass


def _features(data: mmap.mmap | bytes, begin: int, end: int, file: Path) -> dict[str, _Field]:
    """Return by name where the value of each feature of a tf.train.Example lies."""
    entries: dict[str, _Field] = {}
    try:
        for number, features in _fields(data, begin, end):
            for _, entry in _fields(data, *features) if number == 1 else ():
                parts = dict(_fields(data, *entry))
                if 1 in parts and 2 in parts:
                    entries[bytes(data[slice(*parts[1])]).decode("utf-8", "replace")] = parts[2]
    except (_BadMessageError, IndexError) as error:
        raise DataFolderError(
            f"{file} does not hold tf.train.Example records; write an image's bytes and its label as such"
        ) from error
    return entries


def _fields(data: mmap.mmap | bytes, begin: int, end: int) -> Iterator[tuple[int, _Field]]:
    """(number, where its content lies) of every field of a message; of a number, where it begins."""
    position = begin
    while position < end:
        tag, position = _varint(data, position)
        kind = tag & 7
        if kind == _BYTES:
            length, position = _varint(data, position)
            after = position + length
        elif kind == _VARINT:
            _, after = _varint(data, position)
        elif kind in (_FIXED_64, _FIXED_32):
            after = position + (8 if kind == _FIXED_64 else 4)
        else:
            raise _BadMessageError
        if after > end:
            raise _BadMessageError
        yield tag >> 3, (position, after)
        position = after


def _varint(data: mmap.mmap | bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise _BadMessageError


def _image(data: mmap.mmap | bytes, feature: _Field) -> _Field | None:
    values = [value for number, pair in _fields(data, *feature) if number == _BYTES_LIST
              for _, value in _fields(data, *pair)]  # fmt: skip
    return values[0] if len(values) == 1 else None


def _label(data: mmap.mmap | bytes, feature: _Field) -> int | None:
    """A signed 64-bit number, packed or not."""
    pairs = [pair for number, pair in _fields(data, *feature) if number == _INT64_LIST]
    if len(pairs) != 1:
        return None
    begin, end = pairs[0]
    tag, position = _varint(data, begin)
    if tag & 7 == _BYTES:
        _, position = _varint(data, position)
    value, after = _varint(data, position)
    if after != end:
        return None
    return value - (1 << 64) if value >= 1 << 63 else value
