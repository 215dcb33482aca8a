"""From a row with the columns of the collected facts (what people hand to `plan throughput check`) to a Measurement."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from planner.throughput.names import device_name
from planner.throughput.values import Measurement, Parallelism, Quality

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

REQUIRED_COLUMNS = ("id", "model", "image_size", "device", "images_per_second")
_MODEL_NAMES = {"vgg11 (VGG-A)": "vgg11", "tinyvgg (cifar10)": "tinyvgg", "googlenet_v1": "googlenetv1"}


class BadRowError(ValueError):
    """A row that cannot be read; the message names the column."""


def measurement_from_row(
    row: Mapping[str, str], find: Callable[[str], str | None], sources: Mapping[str, str]
) -> Measurement:
    """The measurement a row states. Columns it does not know are ignored, missing optional ones are unstated.

    `find` gives the canonical name of a device's spelling, None where it is not known;
    `sources` the short name of a source by its address without the commit.

    Raises BadRowError naming the column that cannot be read.
    """
    notes = row.get("notes") or ""
    memory_gb = _number(row, "device_memory_gb")
    return Measurement(
        id=_text(row, "id"),
        model=model_key(_text(row, "model")),
        image_size_px=_required_count(row, "image_size"),
        parameters_million=_number(row, "params_m"),
        device=device_name(_text(row, "device"), memory_gb, find),
        device_count=_count(row, "n_devices") or 1,
        node_count=_count(row, "n_nodes") or 1,
        device_memory_gb=memory_gb,
        interconnect=row.get("interconnect") or "",
        precision=(row.get("precision") or "fp32").strip().lower(),
        xla={"yes": True, "no": False}.get(row.get("xla") or ""),
        batch_per_device=_count(row, "batch_per_device"),
        framework=row.get("framework") or "",
        framework_version=row.get("framework_version") or "",
        images_per_second=_rate(row),
        spread=_spread(notes),
        optimizer_step="no optimizer step" not in notes,
        parallelism=_parallelism(notes),
        layout=_layout(notes),
        mode=_mode(row, notes),
        quality=_quality(notes),
        source=source_key(row, sources),
        measured_on=row.get("source_date") or "",
    )


def model_key(name: str) -> str:
    """The project's key of a model as a source names it."""
    stripped = name.strip()
    return _MODEL_NAMES.get(stripped, stripped.lower().replace("-", "_").replace("vgg_", "vgg"))


def source_key(row: Mapping[str, str], sources: Mapping[str, str]) -> str:
    """A short name of where a row comes from: by its address, else the family of its id, as in `profet-0237`."""
    address = (row.get("source_repo_or_url") or "").partition("@")[0]
    return sources.get(address) or row["id"].rpartition("-")[0] or row["id"]


def _text(row: Mapping[str, str], column: str) -> str:
    value = (row.get(column) or "").strip()
    if not value:
        raise BadRowError(f"{column} is empty")
    return value


def _number(row: Mapping[str, str], column: str) -> float | None:
    value = (row.get(column) or "").strip()
    if not value:
        return None
    try:
        return float(value)
    except ValueError as error:
        raise BadRowError(f"{column} is not a number: {value!r}") from error


def _count(row: Mapping[str, str], column: str) -> int | None:
    number = _number(row, column)
    if number is None:
        return None
    if not 1 <= number <= 10**7 or number != int(number):
        raise BadRowError(f"{column} is not a positive whole number: {row[column]!r}")
    return int(number)


def _required_count(row: Mapping[str, str], column: str) -> int:
    number = _count(row, column)
    if number is None:
        raise BadRowError(f"{column} is empty")
    return number


def _rate(row: Mapping[str, str]) -> float:
    rate = _number(row, "images_per_second")
    if rate is None or not 0 < rate < float("inf"):
        raise BadRowError(f"images_per_second is not a positive number: {row.get('images_per_second')!r}")
    return rate


def _quality(notes: str) -> Quality:
    found = re.match(r"Q=([ABC])", notes)
    return Quality(found[1]) if found else Quality.B


def _spread(notes: str) -> float | None:
    found = re.search(r"\(max-min\)/median=([\d.]+)", notes)
    return float(found[1].rstrip(".")) if found else None


def _parallelism(notes: str) -> Parallelism:
    if "nn.DataParallel" in notes:
        return Parallelism.DATA_PARALLEL
    if "parameter_server" in notes:
        return Parallelism.PARAMETER_SERVER
    if "replicated" in notes:
        return Parallelism.REPLICATED
    return Parallelism.UNSTATED


def _layout(notes: str) -> str:
    found = re.search(r"memory layout (NHWC|NCHW)", notes)
    return found[1] if found else ""


def _mode(row: Mapping[str, str], notes: str) -> str:
    mode = (row.get("mode") or "train").strip().lower()
    return "inference" if mode == "inference" or "forward only" in notes else mode
