"""`plan devices`: the accelerators that are known, with their rates and where those were read."""

from __future__ import annotations

import json
import sys

from trainplan.planner.cli import options
from trainplan.planner.cli.screen import show
from trainplan.planner.errors import ThisMachineError
from trainplan.planner.report.page import Column, Table
from trainplan.pricing.catalog import Catalog, CatalogError
from trainplan.pricing.devices import Device

_COLUMNS = (
    Column("device"),
    Column("generation", rank_of_need=1),
    Column("memory GiB", right=True),
    Column("GB/s", right=True),
    Column("fp32", right=True),
    Column("tf32", right=True),
    Column("fp16", right=True),
    Column("bf16", right=True),
    Column("links", rank_of_need=3),
    Column("verified", rank_of_need=2),
)


def command(wide: options.Wide = False, as_json: options.Json = False) -> None:
    """Print the table; rates are dense peaks in TFLOP/s."""
    try:
        with Catalog.open() as catalog:
            devices = list(catalog.devices.values())
    except CatalogError as error:
        raise ThisMachineError(str(error), error.hint) from None
    if as_json:
        sys.stdout.write(json.dumps([_json(device) for device in devices]) + "\n")
        return
    note = "peak rates dense, in TFLOP/s; GPUs of two-GPU boards count as halves, TPUs as chips"
    show([Table(_COLUMNS, [_row(device) for device in devices]), "", note], wide=wide)


def _row(device: Device) -> tuple[str, ...]:
    peaks = device.peak_tflops
    return (
        device.name,
        device.architecture,
        *(_number(value) for value in (device.memory_gib, device.memory_bandwidth_gb_s)),
        *(_number(value) for value in (peaks.fp32, peaks.tf32, peaks.amp_fp16, peaks.amp_bf16)),
        device.interconnect,
        device.verified,
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def _json(device: Device) -> dict[str, object]:
    peaks = device.peak_tflops
    return {
        "name": device.name,
        "architecture": device.architecture,
        "memory_gib": device.memory_gib,
        "usable_memory_mib": device.usable_memory_mib,
        "usable_memory_source": device.usable_memory_source,
        "memory_bandwidth_gb_s": device.memory_bandwidth_gb_s,
        "peak_tflops": {
            "fp32": peaks.fp32,
            "tf32": peaks.tf32,
            "amp_fp16": peaks.amp_fp16,
            "amp_bf16": peaks.amp_bf16,
        },
        "interconnect": device.interconnect,
        "aliases": list(device.aliases),
        "source": device.source,
        "verified": device.verified,
    }
