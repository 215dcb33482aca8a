"""The table of devices as text: what each field is, and typed rows out of it (used to compile, never at run time)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from trainplan.pricing.devices import Architecture, Device, DeviceTable, PeakTflops, Verified
from trainplan.pricing.table_text import TableError

Kind = TypeVar("Kind", bound=StrEnum)

NEEDED_FIELDS = {
    "name": "one name, as `--device` takes it",
    "group": "what a person may ask for to mean every variant",
    "aliases": "every spelling under which it occurs, [] for none",
    "architecture": "the generation of the silicon",
    "peak_tflops": "dense peak rates in 10^12 FLOP/s, { fp32 = ... }",
    "source": "where the figures were read",
    "verified": "yes, part or no",
}
"""What every device has, and what that is."""
_NOT_OF_A_PROCESSOR = {"memory_gib": "the memory of one device, the figure of its data sheet"}
_OF_A_GPU = {"compute_capability": "as in NVIDIA's list of CUDA GPUs"}
_OF_A_TPU = {"tpu_generation": "v2, v3, ..."}
OTHERS = (
    *("memory_bandwidth_gb_s", "interconnect", "interconnect_gb_s", "tdp_w", "unverified", "note"),
    *("usable_memory_mib", "usable_memory_source"),
)
FIELDS = (*NEEDED_FIELDS, *_NOT_OF_A_PROCESSOR, *_OF_A_GPU, *_OF_A_TPU, *OTHERS)


def read_devices(path: Path) -> tuple[DeviceTable, dict[str, str]]:
    """Devices, and the spellings that are no device, each with the reason, from devices.toml. Raises TableError naming
    file, line, device and field."""
    not_devices = {}
    for location, entry in toml_rows(path, "not_a_device"):
        _refuse_missing(location, entry, {"spelling": "the name that is no device", "reason": "why it is none"})
        not_devices[entry["spelling"]] = entry["reason"]
    devices = [_device(location, entry) for location, entry in toml_rows(path, "device")]
    table = DeviceTable(devices, not_devices)
    for device in devices:
        for spelling in (device.name, *device.aliases):
            if table.find(spelling) is not device:
                raise TableError(f"{path.name}: {spelling!r} means {device.name} and {table.find(spelling).name}")
    return table, not_devices


def toml_rows(path: Path, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each `[[name]]` of a file, with `file:line` of its beginning. Raises TableError for what is no TOML."""
    text = path.read_text(encoding="utf-8")
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TableError(f"{path.name}: {error}") from error
    header = re.compile(rf"\s*\[\[\s*{re.escape(name)}\s*\]\]\s*(#.*)?")
    lines = [number for number, line in enumerate(text.splitlines(), start=1) if header.fullmatch(line)]
    entries = content.get(name, [])
    if len(lines) != len(entries):
        raise TableError(f"{path.name}: write each [[{name}]] on a line of its own, so that errors can name the line")
    for line, entry in zip(lines, entries, strict=True):
        yield f"{path.name}:{line}", entry


def required_field(location: str, entry: dict[str, Any], field: str, what: str) -> Any:
    """A field that has to be there. Raises TableError."""
    if field not in entry:
        raise TableError(f"{location}: {entry.get('name', 'this row')!r} has no {field}: {what}")
    return entry[field]


def _refuse_missing(location: str, entry: dict[str, Any], fields: dict[str, str]) -> None:
    for field, what in fields.items():
        required_field(location, entry, field, what)


def _device(location: str, entry: dict[str, Any]) -> Device:
    _refuse_missing(location, entry, NEEDED_FIELDS)
    if unknown := [field for field in entry if field not in FIELDS]:
        raise TableError(f"{location}: {entry['name']!r}: no field is called {unknown[0]}; known: {', '.join(FIELDS)}")
    values = dict(entry)
    architecture = _member(location, entry, "architecture", Architecture)
    _refuse_missing(location, entry, _needed_of(architecture))
    try:
        return Device(
            architecture=architecture,
            peak_tflops=PeakTflops(**values.pop("peak_tflops")),
            verified=_member(location, entry, "verified", Verified),
            aliases=tuple(values.pop("aliases")),
            unverified=tuple(values.pop("unverified", ())),
            usable_memory_mib=_low_and_high(values.pop("usable_memory_mib", None)),
            **{field: value for field, value in values.items() if field not in ("architecture", "verified")},
        )
    except (TypeError, ValueError) as error:
        raise TableError(f"{location}: {entry['name']!r}: {error}") from error


def _needed_of(architecture: Architecture) -> dict[str, str]:
    """What a device of this kind has besides."""
    if architecture is Architecture.CPU:
        return {}
    return _NOT_OF_A_PROCESSOR | (_OF_A_TPU if architecture is Architecture.TPU else _OF_A_GPU)


def _member(location: str, entry: dict[str, Any], field: str, kinds: type[Kind]) -> Kind:
    try:
        return kinds(entry[field])
    except ValueError as error:
        what = f"{field} {entry[field]!r} is not one of {', '.join(kinds)}"
        raise TableError(f"{location}: {entry['name']!r}: {what}") from error


def _low_and_high(bounds: list[float] | None) -> tuple[float, float] | None:
    if bounds is None:
        return None
    low, high = bounds
    if not 0 < low <= high:
        raise ValueError(f"usable_memory_mib is the least and the most, not {bounds}")
    return low, high
