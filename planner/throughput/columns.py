"""The columns of the table of measurements: what each one says, and which cells it takes.

`docs/measurements.md` lists them; the compiler refuses a cell that is not allowed, and `plan throughput check` reads
the same columns. Nothing but the standard library and the device table is imported: a build loads this by itself.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from datetime import date
from typing import NamedTuple

from trainplan.planner.throughput.nets import net_of
from trainplan.pricing.devices import CPU_DEVICE, DeviceTable, UnknownDeviceError
from trainplan.workloads.layers import macs

PRECISIONS = ("fp32", "tf32", "fp16", "amp_fp16", "bf16", "amp_bf16")
FASTEST_IMAGES_PER_SECOND = 100_000
"""Of one device, whatever the net: the fastest row that is shipped has 71,128 (profet-0528, LeNet-5)."""
FASTEST_SHARE_OF_PEAK = 4.0
"""Winograd's F(4x4, 3x3) does a 3x3 convolution with a quarter of the multiplications (Lavin and Gray,
arXiv:1509.09308), so a row may seem this much faster than its device's peak rate, and no more."""
_FLOP_PER_MAC = 6
"""Of a training step: two for the forward pass, four for the backward pass."""
_EARLIEST_YEAR = 2010
_DAY = re.compile(r"(\d{4})(-\d\d){0,2}|(\d{4})-(\d{4})")


class Column(NamedTuple):
    """`sqlite` is its type in the compiled table; `wrong` says why a cell is refused, "" for one that is allowed."""

    sqlite: str
    meaning: str
    allowed: str
    wrong: Callable[[str], str]


def text(meaning: str, *, is_needed: bool = False, key: bool = False) -> Column:
    """Any text; with `is_needed` it is not empty."""
    kind = "TEXT PRIMARY KEY" if key else "TEXT NOT NULL"
    return Column(
        kind, meaning, "text" if is_needed else "text, or empty", lambda cell: _empty(cell) if is_needed else ""
    )


def word(meaning: str, *words: str) -> Column:
    """Return one of `words`; "" among them is an empty cell."""
    allowed = ", ".join(f"`{one}`" if one else "empty" for one in words)
    plain = ", ".join(one or "an empty cell" for one in words)
    return Column("TEXT NOT NULL", meaning, allowed, lambda cell: "" if cell in words else f"is not one of {plain}")


def number(meaning: str, least: float, most: float, *, whole: bool = False, is_needed: bool = False) -> Column:
    """A number from `least` to `most`."""
    kind = f"{'INTEGER' if whole else 'REAL'}{' NOT NULL' if is_needed else ''}"
    what = f"{'a whole number' if whole else 'a number'} from {least:,g} to {most:,.10g}"

    def wrong(cell: str) -> str:
        if not cell and not is_needed:
            return ""
        try:
            value = int(cell) if whole else float(cell)
        except ValueError:
            return f"is not {what}"
        return "" if least <= value <= most else f"is not {what}"

    return Column(kind, meaning, what if is_needed else f"{what}, or empty", wrong)


def _empty(cell: str) -> str:
    return "" if cell.strip() else "is empty"


def _wrong_day(cell: str) -> str:
    if not cell:
        return ""
    wrong = "is not a day as 2024-02-29, a month as 2024-02, a year as 2024 or years as 2020-2024, up to this year"
    if not _DAY.fullmatch(cell):
        return wrong
    years = [int(year) for year in re.findall(r"\d{4}", cell)]
    try:
        date.fromisoformat(f"{cell}-01-01"[:10] if len(years) == 1 else f"{years[1]}-01-01")
    except ValueError:
        return wrong
    return "" if _EARLIEST_YEAR <= years[0] <= years[-1] <= time.gmtime().tm_year else wrong


COLUMNS: dict[str, Column] = {
    "id": text("names the row for good: the source, a dash and a number", is_needed=True, key=True),
    "source": text("a row of `sources.csv`", is_needed=True),
    "source_section": text("where in the source: file, heading, line"),
    "model": text("the net: `vgg11` to `vgg19`, with `_bn` for batch norm, or another's name", is_needed=True),
    "parameters_million": number("parameters of the net in millions, where the source states them", 0.001, 1e6),
    "image_size_px": number("side of the square images", 1, 10_000, whole=True, is_needed=True),
    "mode": word("what was timed; inference predicts nothing", "train", "inference"),
    "device": text("a name of `plan devices`, `cpu`, or a `[[not_a_device]]` of `devices.toml`", is_needed=True),
    "device_as_stated": text("the device as the source spells it", is_needed=True),
    "device_memory_gb": number("memory of one device, as the source states it", 0.1, 10_000),
    "interconnect": text("what joins the devices, as the source states it"),
    "device_count": number("devices in all", 1, 100_000, whole=True, is_needed=True),
    "node_count": number("machines in all", 1, 100_000, whole=True, is_needed=True),
    "precision": word("arithmetic of the step", *PRECISIONS),
    "xla": word("whether XLA compiled it", "yes", "no", "unknown"),
    "batch_per_device": number("images of one step on one device; else a row predicts nothing", 1, 1e6, whole=True),
    "framework": text("what trained"),
    "framework_version": text("its version, and those of CUDA and cuDNN"),
    "data": word("whether images were read, or made up beforehand", "synthetic", "real"),
    "images_per_second": number(
        f"images a second over all devices; at most {FASTEST_IMAGES_PER_SECOND:,} for each device",
        0.001, 1e10, is_needed=True,
    ),
    "spread_fraction": number("(largest - smallest) / median over repeats, where stated", 0, 100),
    "optimizer_step": word("whether the step updates the weights", "yes", "no"),
    "parallelism": word(
        "how several devices share a step",
        *("", "replicated", "horovod", "mirrored", "ddp", "kvstore", "parameter_server", "data_parallel"),
    ),
    "layout": word("order of an image's axes in memory", "", "NCHW", "NHWC"),
    "quality": word("A: raw log or fully stated; B: partly stated; C: kept, never used to predict", "A", "B", "C"),
    "measured_on": Column(
        "TEXT NOT NULL", "when, as closely as the source tells", "day, month, year, years, or empty", _wrong_day
    ),
    "note": text("anything else"),
}  # fmt: skip
"""Every column of `measurements.csv`, in order."""


def wrong_with(row: Mapping[str, str], devices: DeviceTable) -> str:
    """What is wrong with a row, its column first; "" for a row that can be true."""
    for name, column in COLUMNS.items():
        if reason := column.wrong(row[name]):
            return f"{name} {row[name]!r} {reason}"
    return _wrong_device(row["device"], devices) or _wrong_rate(row, devices)


def _wrong_device(name: str, devices: DeviceTable) -> str:
    if name == CPU_DEVICE or name in devices or devices.why_not(name):
        return ""
    try:
        return f"device {name!r} is a spelling: write {devices.find(name).name!r}"
    except UnknownDeviceError as error:
        return f"device {name!r} is not in pricing/data/devices.toml; {error.hint}"


def _wrong_rate(row: Mapping[str, str], devices: DeviceTable) -> str:
    each = float(row["images_per_second"]) / int(row["device_count"])
    stated = f"images_per_second {row['images_per_second']!r}"
    if each > FASTEST_IMAGES_PER_SECOND:
        return f"{stated} is more than {FASTEST_IMAGES_PER_SECOND:,} for each device: nothing trains as fast"
    parameters = float(row["parameters_million"]) if row["parameters_million"] else None
    net = net_of(row["model"], int(row["image_size_px"]), parameters) if row["mode"] == "train" else None
    rates = devices[row["device"]].peak_tflops if row["device"] in devices else ()
    peak_tflops = max((rate for rate in rates if rate is not None), default=None)
    if net is None or peak_tflops is None:
        return ""
    most = FASTEST_SHARE_OF_PEAK * peak_tflops * 1e12 / (_FLOP_PER_MAC * macs(net))
    if each <= most:
        return ""
    bound = f"{FASTEST_SHARE_OF_PEAK:g} times the peak rate of {row['device']}"
    return f"{stated} is more than {most:,.0f} for each device, which is {bound}"
