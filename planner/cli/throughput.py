"""`plan throughput check`: hold the predictor against measurements it has not seen."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from planner.cli import options
from planner.cli.screen import show
from planner.errors import BadInputError, ThisMachineError
from planner.report.page import Column, Page, Table
from planner.throughput.check import Checked, as_json, check
from planner.throughput.predict import Predictor
from planner.throughput.table import SHIPPED_TABLE, MissingTableError, open_table
from pricing.catalog import Catalog, CatalogError
from pricing.devices import DeviceTable, UnknownDeviceError

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

MAX_BYTES = 100_000_000
NEEDED_COLUMNS = ("id", "model", "device", "images_per_second")
_COLUMNS = (
    Column(""),
    Column("rows", right=True),
    Column("mean error", right=True),
    Column("median", right=True),
    Column("in the 80 % interval", right=True),
)


@group.callback()
def _group() -> None:
    """Compare the predictor with measurements."""


@group.command("check", help="Predict each row of a CSV of measurements, and say how far off that is")
def check_command(
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="Columns: docs/measurements.md")],
    plot: Annotated[Path | None, typer.Option("--plot", help="Also draw predicted against measured, as PNG")] = None,
    as_json_text: options.Json = False,
) -> None:
    """Read, predict, print; rows of the shipped table are predicted without themselves."""
    checked = _checked(_rows(file))
    if plot is not None:
        from planner.cli.plot import draw_check

        draw_check(checked, file.name, plot)
    result = as_json(checked)
    if as_json_text:
        sys.stdout.write(json.dumps(result) + "\n")
    else:
        show(_page(result))


def _rows(file: Path) -> list[dict[str, str]]:
    """Raises BadInputError for a file that is not such a table."""
    try:
        if file.stat().st_size > MAX_BYTES:
            raise BadInputError(f"{file} is larger than {MAX_BYTES // 1_000_000} MB", "is this the right file?")
        # Spreadsheets write a byte order mark, which would become part of the first column's name.
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise BadInputError(f"cannot read {file}: {reason}") from None
    reader = csv.DictReader(io.StringIO(text, newline=""))
    missing_names = [name for name in NEEDED_COLUMNS if name not in (reader.fieldnames or ())]
    if missing_names:
        hint = f"needed: {', '.join(NEEDED_COLUMNS)}; all columns: docs/measurements.md"
        raise BadInputError(f"{file} has no column {missing_names[0]!r}", hint)
    try:
        # DictReader keeps the cells beyond the header under None.
        return [{key: value or "" for key, value in row.items() if key is not None} for row in reader]
    except csv.Error as error:
        raise BadInputError(f"{file}:{reader.line_num}: {error}", "is this a CSV file?") from None


def _checked(rows: list[dict[str, str]]) -> list[Checked]:
    try:
        with Catalog.open() as catalog, closing(open_table(SHIPPED_TABLE)) as shipped:
            predictor = Predictor.open(catalog.devices)
            try:
                return check(rows, predictor, shipped, _finder(catalog.devices))
            finally:
                predictor.close()
    except (CatalogError, MissingTableError) as error:
        raise ThisMachineError(str(error), getattr(error, "hint", "install trainplan again")) from None


def _finder(devices: DeviceTable) -> Callable[[str], str | None]:
    def find(spelling: str) -> str | None:
        try:
            return devices.find(spelling).name
        except UnknownDeviceError:
            return None

    return find


def _page(result: dict[str, object]) -> Page:
    summary = result["summary"]
    assert isinstance(summary, dict)
    rows = [_line("all", summary)]
    for name in ("by_basis", "by_device", "by_framework"):
        rows += [_line(f"{name.removeprefix('by_')} {key}", figures) for key, figures in summary[name].items()]
    reasons = ", ".join(f"{count} {reason}" for reason, count in summary["unpredicted_by_reason"].items())
    left_out = f"; not predicted: {reasons}" if reasons else ""
    return [Table(_COLUMNS, rows), "", f"{summary['seen']} rows are in the shipped table{left_out}"]


def _line(name: str, figures: dict[str, object]) -> tuple[str, ...]:
    shares = (figures[key] for key in ("mape", "median_ape", "coverage"))
    return name, str(figures["n"]), *("-" if share is None else f"{share:.1%}" for share in shares)
