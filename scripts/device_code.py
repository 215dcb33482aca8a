"""Which GPUs a wheel has code for, read out of the wheel itself.

NVIDIA's compilers put the code for GPUs into an ELF file as *fat binaries*, in the sections `.nv_fatbin` and
`__nv_relfatbin`: a header of 16 bytes (magic number, version, size of the header, size of what follows), then for each
GPU generation an entry (kind, size of its header and of its code, and the generation as 10 times the compute
capability). NVIDIA does not publish the layout. What is used here is what open readers agree on (ZLUDA, cuMetal; read
2026-11-26), and was held against a wheel whose maker states its generations: TensorFlow 2.21.0 (build_info.py: sm_60,
sm_70, sm_80, sm_89, compute_90) shows these, and sm_90 in some libraries. Whatever deviates from it is an error, never
a guess.
"""

from __future__ import annotations

import mmap
import re
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    Bytes = bytes | mmap.mmap

MOST_BYTES = 4 << 30
"""Of one unpacked file: the largest known, TensorFlow's, has 1.1 GB."""
_SECTIONS = (".nv_fatbin", "__nv_relfatbin")
_ELF_64_LITTLE = b"\x7fELF\x02\x01"
_ELF_HEADER, _SECTION_HEADER = 64, struct.Struct("<IIQQQQIIQQ")
_NO_BITS, _COMPRESSED = 8, 0x800
_MAGIC = 0xBA55ED50
_FAT_HEADER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQIIHHI")
_PTX, _COMPILED = 1, 2


class DeviceCodeError(ValueError):
    """Device code that cannot be read; names the wheel, the file in it and what is wrong."""


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """What GPUs a file has code for: compute capabilities times 10, of compiled code and of PTX."""

    compiled: frozenset[int] = frozenset()
    ptx: frozenset[int] = frozenset()

    @property
    def lowest(self) -> int:
        """The lowest compute capability, times 10, that any code is for."""
        return min(self.compiled | self.ptx)

    def runs_on(self, capability: int) -> bool:
        """Whether a GPU of this compute capability (times 10) runs it: compiled code runs on the same major version
        from its minor one up, PTX is compiled by the driver for all that is newer (CUDA C++ Programming Guide,
        "Binary compatibility" and "PTX compatibility")."""
        compiled = any(code // 10 == capability // 10 and code <= capability for code in self.compiled)
        return compiled or any(code <= capability for code in self.ptx)


def code_in_wheel(path: Path) -> dict[str, DeviceCode]:
    """Each file of a wheel that holds device code, by its name there. Raises DeviceCodeError, and OSError."""
    try:
        with zipfile.ZipFile(path) as wheel:
            code = {entry.filename: _code_of_member(wheel, entry) for entry in wheel.infolist()}
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise DeviceCodeError(f"{path.name}: no wheel that can be unpacked: {error}") from error
    except DeviceCodeError as error:
        raise DeviceCodeError(f"{path.name}: {error}") from error
    return {name: found for name, found in code.items() if found is not None}


def _code_of_member(wheel: zipfile.ZipFile, entry: zipfile.ZipInfo) -> DeviceCode | None:
    with wheel.open(entry) as packed:
        if packed.read(len(_ELF_64_LITTLE)) != _ELF_64_LITTLE:
            return None
    if entry.file_size > MOST_BYTES:
        raise DeviceCodeError(f"{entry.filename}: {entry.file_size:,} bytes unpacked, more than any library has")
    with wheel.open(entry) as packed, tempfile.TemporaryFile() as file:
        shutil.copyfileobj(packed, file, 1 << 20)
        file.flush()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                return code_in_library(data)
            except DeviceCodeError as error:
                raise DeviceCodeError(f"{entry.filename}: {error}") from error


def code_in_library(data: Bytes) -> DeviceCode | None:
    """The device code of a shared library for 64-bit Linux; None where it has none. Raises DeviceCodeError."""
    found = None
    for section in _sections(data):
        if section.name in _SECTIONS and section.size:
            code = _code_in_section(data, section)
            found = code if found is None else DeviceCode(found.compiled | code.compiled, found.ptx | code.ptx)
    return found


class _Section(NamedTuple):
    name: str
    start: int
    size: int


def _sections(data: Bytes) -> Iterator[_Section]:
    """The sections that have bytes in the file."""
    if len(data) < _ELF_HEADER:
        raise DeviceCodeError("the file ends within its ELF header")
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count, of_names = struct.unpack_from("<HHH", data, 0x3A)
    if not table and not count:
        return
    if size != _SECTION_HEADER.size or not of_names < count or table + count * size > len(data):
        raise DeviceCodeError("the file's table of sections cannot be read")
    rows = [_SECTION_HEADER.unpack_from(data, table + number * size) for number in range(count)]
    names = rows[of_names][4]
    for name_at, kind, flags, _, start, length, *_ in rows:
        if kind == _NO_BITS:
            continue
        name = _text_at(data, names + name_at)
        if name in _SECTIONS and (start + length > len(data) or flags & _COMPRESSED):
            raise DeviceCodeError(f"section {name} is compressed or goes beyond the end of the file")
        yield _Section(name, start, length)


def _text_at(data: Bytes, start: int) -> str:
    end = data.find(b"\0", start, start + 256)
    if end < 0:
        raise DeviceCodeError("a section has no readable name")
    return data[start:end].decode("latin-1")


def _code_in_section(data: Bytes, section: _Section) -> DeviceCode:
    found: dict[int, set[int]] = {_PTX: set(), _COMPILED: set()}
    at, end = section.start, section.start + section.size
    while (at := _next_fat_binary(data, at, end)) < end:
        if end - at < _FAT_HEADER.size:
            raise DeviceCodeError(f"section {section.name} ends within a fat binary")
        magic, _, header, size = _FAT_HEADER.unpack_from(data, at)
        if magic != _MAGIC or header < _FAT_HEADER.size or at + header + size > end:
            raise DeviceCodeError(f"section {section.name} has no fat binary at byte {at - section.start:,}")
        for kind, capability in _entries(data, at + header, at + header + size):
            # Other kinds, such as code for a later link, do not run by themselves.
            found.get(kind, set()).add(capability)
        at += header + size
    if not found[_PTX] | found[_COMPILED]:
        raise DeviceCodeError(f"section {section.name} has no code of a known kind")
    return DeviceCode(frozenset(found[_COMPILED]), frozenset(found[_PTX]))


_NOT_NULL = re.compile(rb"[^\0]")


def _next_fat_binary(data: Bytes, at: int, end: int) -> int:
    """Where the next begins: between two may be zeros, so that each begins at a multiple of 8."""
    found = _NOT_NULL.search(data, at, end)
    return end if found is None else at + (found.start() - at) // 8 * 8


def _entries(data: Bytes, at: int, end: int) -> Iterator[tuple[int, int]]:
    """Kind and compute capability, times 10, of each entry of a fat binary."""
    while at < end:
        if end - at < _ENTRY.size:
            raise DeviceCodeError("a fat binary ends within an entry")
        kind, _, header, size, _, _, _, _, capability = _ENTRY.unpack_from(data, at)
        if header < _ENTRY.size or at + header + size > end or not 10 <= capability < 1000:
            raise DeviceCodeError(f"a fat binary has an entry that cannot be: capability {capability}, {size:,} bytes")
        yield kind, capability
        at += header + size


def lowest_of(code: Mapping[str, DeviceCode]) -> int:
    """The compute capability, times 10, from which every one of these files has code: that of the worst of them."""
    return max(file.lowest for file in code.values())


def spelled(capability: int) -> str:
    """`7.5` for 75."""
    return f"{capability // 10}.{capability % 10}"


def tenfold(capability: str) -> int:
    """75 for `7.5`."""
    major, _, minor = capability.partition(".")
    return 10 * int(major) + int(minor or 0)
