"""Device code is read out of wheels, or it is said that it cannot be: no guess, no traceback, no hang."""

from __future__ import annotations

import contextlib
import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scripts.device_code import (
    DeviceCode,
    DeviceCodeError,
    code_in_library,
    code_in_wheel,
    lowest_of,
    spelled,
    tenfold,
)

PTX, COMPILED, FOR_A_LINK = 1, 2, 8


def entry(kind: int, capability: int, code: bytes = b"code" * 4) -> bytes:
    """As fat binaries have them: a header of 64 bytes, then the code."""
    header = struct.pack("<HHIQIIHHI", kind, 0x101, 64, len(code), 0, 0, 0, 0, capability)
    return header.ljust(64, b"\0") + code


def fat_binary(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def library(sections: dict[str, bytes], flags: int = 0, kind: int = 1) -> bytes:
    """A 64-bit ELF file with these sections, and one of their names."""
    names, content, rows = b"\0", b"", [bytes(64)]
    for name, data in sections.items():
        rows.append(struct.pack("<IIQQQQIIQQ", len(names), kind, flags, 0, 64 + len(content), len(data), 0, 0, 1, 0))
        names, content = names + name.encode() + b"\0", content + data
    start = len(names)
    names += b".shstrtab\0"
    rows.append(struct.pack("<IIQQQQIIQQ", start, 3, 0, 0, 64 + len(content), len(names), 0, 0, 1, 0))
    head = b"\x7fELF\x02\x01".ljust(0x28, b"\0") + struct.pack("<Q", 64 + len(content) + len(names))
    head = head.ljust(0x3A, b"\0") + struct.pack("<HHH", 64, len(rows), len(rows) - 1)
    return head + content + names + b"".join(rows)


GOOD = library(
    {
        ".text": b"machine code",
        ".nv_fatbin": fat_binary(entry(COMPILED, 75), entry(PTX, 90)) + bytes(8) + fat_binary(entry(COMPILED, 120)),
        "__nv_relfatbin": fat_binary(entry(FOR_A_LINK, 35), entry(COMPILED, 70)),
    }
)


def test_every_generation_is_read() -> None:
    assert code_in_library(GOOD) == DeviceCode(frozenset({70, 75, 120}), frozenset({90}))
    assert code_in_library(library({".text": b"machine code", ".nv_fatbin": b""})) is None


@pytest.mark.parametrize(
    ("capability", "runs"), [(60, False), (70, True), (72, True), (75, True), (80, False), (90, True), (100, True)]
)
def test_compiled_code_runs_on_its_major_version_and_ptx_on_all_that_is_newer(capability: int, runs: bool) -> None:
    assert DeviceCode(frozenset({70}), frozenset({90})).runs_on(capability) is runs


def test_the_worst_file_counts() -> None:
    """As in cuDNN 9.28, where one library of six has code for Pascal, and the others begin at Turing."""
    code = {"a.so": DeviceCode(frozenset({50, 75})), "b.so": DeviceCode(frozenset({75}), frozenset({120}))}
    assert lowest_of(code) == 75
    assert [spelled(75), spelled(120), tenfold("7.5"), tenfold("12.0")] == ["7.5", "12.0", 75, 120]


def broken(section: bytes) -> bytes:
    return library({".nv_fatbin": section})


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (GOOD[:50], "ends within its ELF header"),
        (GOOD[:-1], "table of sections"),
        (broken(b"no fat binary at all"), "no fat binary at byte 0"),
        (broken(fat_binary(entry(COMPILED, 75)) + b"rest"), "ends within a fat binary"),
        (broken(fat_binary(entry(COMPILED, 75))[:-8]), "no fat binary at byte 0"),
        (broken(fat_binary(entry(COMPILED, 75)[:20])), "ends within an entry"),
        (broken(fat_binary(entry(COMPILED, 0))), "an entry that cannot be"),
        (broken(fat_binary(struct.pack("<HHIQIIHHI", 2, 1, 0, 0, 0, 0, 0, 0, 75))), "an entry that cannot be"),
        (broken(fat_binary(struct.pack("<HHIQIIHHI", 2, 1, 64, 2**63, 0, 0, 0, 0, 75))), "an entry that cannot be"),
        (broken(struct.pack("<IHHQ", 0xBA55ED50, 1, 0, 0)), "no fat binary at byte 0"),
        (broken(struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 2**63)), "no fat binary at byte 0"),
        (broken(fat_binary(entry(FOR_A_LINK, 75))), "no code of a known kind"),
        (broken(bytes(64)), "no code of a known kind"),
        (library({".nv_fatbin": fat_binary(entry(COMPILED, 75))}, flags=0x800), "is compressed"),
    ],
)
def test_code_that_cannot_be_read_is_an_error(data: bytes, what: str) -> None:
    with pytest.raises(DeviceCodeError, match=what):
        code_in_library(data)


@given(at=st.integers(0, len(GOOD) - 1), value=st.integers(0, 255), cut=st.integers(0, 40))
@example(at=0x3E, value=0, cut=0)
def test_no_damage_ends_in_anything_else(at: int, value: int, cut: int) -> None:
    damaged = GOOD[:at] + bytes([value]) + GOOD[at + 1 : len(GOOD) - cut]
    with contextlib.suppress(DeviceCodeError):
        code_in_library(damaged)


def wheel(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"a/{name}.so", data)
    return path


def test_a_wheel_is_read_file_by_file(tmp_path: Path) -> None:
    path = wheel(tmp_path / "a-1-py3-none-any.whl", good=GOOD, plain=library({".text": b"x"}), text=b"import a", no=b"")
    assert {name: lowest_of({name: code}) for name, code in code_in_wheel(path).items()} == {"a/good.so": 70}


def test_a_wheel_that_cannot_be_read_is_named_with_its_file(tmp_path: Path) -> None:
    with pytest.raises(DeviceCodeError, match=r"a-1\.whl: a/bad\.so: the file's table of sections"):
        code_in_wheel(wheel(tmp_path / "a-1.whl", good=GOOD, bad=GOOD[:-1]))
    whole = (tmp_path / "a-1.whl").read_bytes()
    (tmp_path / "cut.whl").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DeviceCodeError, match=r"cut\.whl: no wheel that can be unpacked"):
        code_in_wheel(tmp_path / "cut.whl")
    at = whole.index(b"a/good.so") + 30
    (tmp_path / "damaged.whl").write_bytes(whole[:at] + b"damage" + whole[at + 6 :])
    with pytest.raises(DeviceCodeError, match=r"damaged\.whl"):
        code_in_wheel(tmp_path / "damaged.whl")
