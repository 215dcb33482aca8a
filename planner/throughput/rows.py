"""From a row of a CSV that a person hands to `plan throughput check` to a Measurement: the columns are those of the
project's own table (`planner/throughput/columns.py`), or the older names of some of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from trainplan.planner.throughput.columns import PRECISIONS
from trainplan.planner.throughput.names import device_name
from trainplan.planner.throughput.values import Measurement, Parallelism, Quality

Kind = TypeVar("Kind", Parallelism, Quality)
OLDER_NAMES = {
    "image_size": "image_size_px",
    "params_m": "parameters_million",
    "n_devices": "device_count",
    "n_nodes": "node_count",
    "source_date": "measured_on",
    "notes": "note",
}
"""What columns were called before; read where the new name is not there."""
_MODEL_NAMES = {"vgg11 (VGG-A)": "vgg11", "tinyvgg (cifar10)": "tinyvgg", "googlenet_v1": "googlenetv1"}


class NumberedRow(NamedTuple):
    """The cells of a row by column, and the line of the file in which it begins; `wrong` says why its cells cannot be
    told apart ("": they can)."""

    line: int
    cells: Mapping[str, str]
    wrong: str = ""


class BadRowError(ValueError):
    """A row that cannot be read: `why` its `column` cannot, and the `value` in it. `column` is empty where the cells of
    the row cannot be told apart."""

    def __init__(self, column: str, why: str, value: str = "") -> None:
        super().__init__(f"{column} {why}: {value!r}" if value else f"{column} {why}".strip())
        self.column = column
        self.why = why
        self.value = value


def measurement_from_row(
    row: Mapping[str, str], find: Callable[[str], str | None], sources: Mapping[str, str]
) -> Measurement:
    """The measurement a row states. Columns it does not know are ignored, missing optional ones are unstated; what a
    row says in words of its note counts where it has no column for it.

    `find` gives the canonical name of a device's spelling, None where it is not known;
    `sources` the short name of a source by its address without the commit.

    Raises BadRowError naming the column that cannot be read.
    """
    row = _renamed(row)
    note = row.get("note") or ""
    memory_gb = _number(row, "device_memory_gb")
    return Measurement(
        id=_text(row, "id"),
        model=model_key(_text(row, "model")),
        image_size_px=_required_count(row, "image_size_px"),
        parameters_million=_number(row, "parameters_million"),
        device=device_name(_text(row, "device"), memory_gb, find),
        device_count=_count(row, "device_count") or 1,
        node_count=_count(row, "node_count") or 1,
        device_memory_gb=memory_gb,
        interconnect=row.get("interconnect") or "",
        precision=_word(row, "precision", PRECISIONS) or "fp32",
        xla={"yes": True, "no": False}.get(_word(row, "xla", ("yes", "no", "unknown"))),
        batch_per_device=_count(row, "batch_per_device"),
        framework=row.get("framework") or "",
        framework_version=row.get("framework_version") or "",
        images_per_second=_rate(row),
        spread=_number(row, "spread_fraction") if "spread_fraction" in row else _spread(note),
        optimizer_step=row["optimizer_step"] != "no" if "optimizer_step" in row else "no optimizer step" not in note,
        parallelism=_one_of(Parallelism, row, "parallelism") or _parallelism(note),
        layout=row["layout"] if "layout" in row else _layout(note),
        mode=_mode(row, note),
        quality=_one_of(Quality, row, "quality") or _quality(note),
        source=row.get("source") or source_key(row, sources),
        measured_on=row.get("measured_on") or "",
    )


def _renamed(row: Mapping[str, str]) -> dict[str, str]:
    newer = {OLDER_NAMES[name]: cell for name, cell in row.items() if name in OLDER_NAMES}
    return {**newer, **{name: cell for name, cell in row.items() if name not in OLDER_NAMES}}


def _one_of(kinds: type[Kind], row: Mapping[str, str], column: str) -> Kind | None:
    """The value of a column with few of them; None where the row has no such cell."""
    cell = (row.get(column) or "").strip()
    if not cell:
        return None
    try:
        return kinds(cell)
    except ValueError as error:
        kinds_text = ", ".join(kind for kind in kinds if kind)
        raise BadRowError(column, f"is not one of {kinds_text}", cell) from error


def _word(row: Mapping[str, str], column: str, words: tuple[str, ...]) -> str:
    cell = (row.get(column) or "").strip().lower()
    if cell and cell not in words:
        raise BadRowError(column, f"is not one of {', '.join(words)}", cell)
    return cell


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
        raise BadRowError(column, "is empty")
    return value


def _number(row: Mapping[str, str], column: str) -> float | None:
    value = (row.get(column) or "").strip()
    if not value:
        return None
    try:
        return float(value)
    except ValueError as error:
        raise BadRowError(column, "is not a number", value) from error


def _count(row: Mapping[str, str], column: str) -> int | None:
    number = _number(row, column)
    if number is None:
        return None
    if not 1 <= number <= 10**7 or number != int(number):
        raise BadRowError(column, "is not a whole number from 1 to 10,000,000", row[column].strip())
    return int(number)


def _required_count(row: Mapping[str, str], column: str) -> int:
    number = _count(row, column)
    if number is None:
        raise BadRowError(column, "is empty")
    return number


def _rate(row: Mapping[str, str]) -> float:
    rate = _number(row, "images_per_second")
    if rate is None or not 0 < rate < float("inf"):
        value = (row.get("images_per_second") or "").strip()
        raise BadRowError("images_per_second", "is not a positive number" if value else "is empty", value)
    return rate


def _quality(notes: str) -> Quality:
    match = re.match(r"Q=([ABC])", notes)
    return Quality(match[1]) if match else Quality.B


def _spread(notes: str) -> float | None:
    match = re.search(r"\(max-min\)/median=([\d.]+)", notes)
    return float(match[1].rstrip(".")) if match else None


def _parallelism(notes: str) -> Parallelism:
    if "nn.DataParallel" in notes:
        return Parallelism.DATA_PARALLEL
    if "parameter_server" in notes:
        return Parallelism.PARAMETER_SERVER
    if "replicated" in notes:
        return Parallelism.REPLICATED
    return Parallelism.UNSTATED


def _layout(notes: str) -> str:
    match = re.search(r"memory layout (NHWC|NCHW)", notes)
    return match[1] if match else ""


def _mode(row: Mapping[str, str], notes: str) -> str:
    mode = (row.get("mode") or "train").strip().lower()
    return "inference" if mode == "inference" or "forward only" in notes else mode
