"""`plan throughput check`: hold the predictor against measurements it has not seen."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from trainplan.planner.cli import options
from trainplan.planner.cli.output_file import PLOT
from trainplan.planner.cli.screen import show
from trainplan.planner.errors import BadInputError, ThisMachineError
from trainplan.planner.report.page import Column, Page, Table
from trainplan.planner.throughput.check import Cause, Checked, as_json, causes, check, worst
from trainplan.planner.throughput.names import finder
from trainplan.planner.throughput.predict import Predictor
from trainplan.planner.throughput.rows import OLDER_NAMES, NumberedRow
from trainplan.planner.throughput.table import SHIPPED_TABLE, MissingTableError, open_table
from trainplan.planner.throughput.values import Throughput
from trainplan.pricing.catalog import Catalog, CatalogError
from trainplan.workloads.regular_file import hint_of, regular_text

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

PAGE_HINT = "docs/measurements.md has what each column takes"
MAX_BYTES = 100_000_000
NEEDED_COLUMNS = ("id", "model", "device", "image_size_px", "images_per_second")
MOST_SHOWN = 5
"""Lines and values that the text shows of one cause; the JSON has all."""
_COLUMNS = (
    Column(""),
    Column("rows", right=True),
    Column("mean error", right=True),
    Column("median", right=True),
    Column("in the 80 % interval", right=True),
)
_WORST_COLUMNS = (
    Column("row"),
    Column("stated", right=True),
    Column("predicted", right=True),
    Column("80 % interval", right=True),
)


@group.callback()
def _group() -> None:
    """Compare the predictor with measurements."""


@group.command("check", help="Predict each row of a CSV of measurements, and show how far off that is")
def check_command(
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="Columns: docs/measurements.md")],
    plot: Annotated[Path | None, typer.Option("--plot", help="Also draw predicted against measured, as PNG")] = None,
    as_json_text: options.Json = False,
) -> None:
    """Read, predict, print; rows of the shipped table are predicted without themselves."""
    PLOT.refuse_other(plot)
    checked = _checked(_rows(file))
    if plot is not None:
        from trainplan.planner.cli.plot import draw_check

        draw_check(checked, file.name, plot)
    result = as_json(checked)
    if as_json_text:
        sys.stdout.write(json.dumps(result) + "\n")
    else:
        show(_page(result, checked))
    if checked and all(row.fault is not None for row in checked):
        raise BadInputError(f"no row of {file} can be read: {_cause_text(causes(checked)[0])}", PAGE_HINT)


def _rows(file: Path) -> list[NumberedRow]:
    """Raises BadInputError for a file that is not such a table."""
    try:
        if file.stat().st_size > MAX_BYTES:
            raise BadInputError(f"{file} is larger than {MAX_BYTES // 1_000_000} MB", "is this the right file?")
        # Spreadsheets write a byte order mark, which would become part of the first column's name.
        text = regular_text(file)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise BadInputError(f"cannot read {file}: {reason}", hint_of(error, "")) from None
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        header = [name.strip() for name in next(reader, ())]
        _check_header(file, header)
        rows, line = [], reader.line_num + 1
        for cells in reader:
            if cells:
                rows.append(_row(line, header, cells))
            line = reader.line_num + 1
    except csv.Error as error:
        raise BadInputError(f"{file}:{reader.line_num}: {error}", "is this a CSV file?") from None
    return rows


def _check_header(file: Path, header: list[str]) -> None:
    """Raises BadInputError for a file that is another table, naming the column that it lacks."""
    names = {OLDER_NAMES.get(name, name) for name in header}
    missing_names = [name for name in NEEDED_COLUMNS if name not in names]
    if missing_names:
        hint = f"needed: {', '.join(NEEDED_COLUMNS)}; all columns, and their older names: docs/measurements.md"
        raise BadInputError(f"{file} has no column {missing_names[0]!r} in its line 1", hint)
    twice = sorted(name for name, count in Counter(header).items() if name and count > 1)
    if twice:
        raise BadInputError(f"{file} has the column {twice[0]!r} twice", "leave one of them out")


def _row(line: int, header: list[str], cells: list[str]) -> NumberedRow:
    wrong = ""
    if len(cells) != len(header):
        wrong = f"has another number of cells than the header, which has {len(header)}"
        wrong += ": a cell with a comma needs quotes" if len(cells) > len(header) else ""
    return NumberedRow(line, dict(zip(header, cells, strict=False)), wrong)


def _checked(rows: list[NumberedRow]) -> list[Checked]:
    try:
        with Catalog.open() as catalog, closing(open_table(SHIPPED_TABLE)) as shipped:
            predictor = Predictor.open(catalog.devices)
            try:
                return check(rows, predictor, shipped, finder(catalog.devices))
            finally:
                predictor.close()
    except (CatalogError, MissingTableError) as error:
        raise ThisMachineError(str(error), getattr(error, "hint", "install trainplan again")) from None


def _page(result: dict[str, object], checked: list[Checked]) -> Page:
    summary = result["summary"]
    assert isinstance(summary, dict)
    rows = [_line("all", summary)]
    for name in ("by_basis", "by_device", "by_framework"):
        rows += [_line(f"{name.removeprefix('by_')} {key}", figures) for key, figures in summary[name].items()]
    reasons = ", ".join(f"{count} {reason}" for reason, count in summary["unpredicted_by_reason"].items())
    left_out = f"; not predicted: {reasons}" if reasons else ""
    lines = [f"unreadable: {_cause_text(cause)}" for cause in causes(checked)]
    seen = f"{summary['seen']} rows are in the shipped table{left_out}"
    return [Table(_COLUMNS, rows), "", seen, *lines, *_worst_rows(checked)]


def _worst_rows(checked: list[Checked]) -> Page:
    """A table of the rows that are farthest off, under its title; nothing where no row is predicted."""
    rows = [
        (
            row.id or f"line {row.line}",
            f"{row.images_per_second:,.1f}",
            f"{row.answer.images_per_second:,.1f}",
            f"{row.answer.low:,.1f} to {row.answer.high:,.1f}",
        )
        for row in worst(checked)
        if isinstance(row.answer, Throughput) and row.images_per_second is not None
    ]
    return ["", "farthest off, in images/s:", "", Table(_WORST_COLUMNS, rows)] if rows else []


def _cause_text(cause: Cause) -> str:
    """`3 rows (lines 5, 9, 12): images_per_second is not a positive number: 'n/a', '-'`."""
    lines = f"line {cause.lines[0]}" if len(cause.lines) == 1 else f"lines {_first(map(str, cause.lines))}"
    count = "1 row" if len(cause.lines) == 1 else f"{len(cause.lines):,} rows"
    values = f": {_first(map(repr, cause.values))}" if cause.values else ""
    return f"{count} ({lines}): {f'{cause.column} ' if cause.column else ''}{cause.why}{values}"


def _first(words: Iterable[str]) -> str:
    """The first of them, and how many more there are."""
    every = list(words)
    more = f" and {len(every) - MOST_SHOWN:,} more" if len(every) > MOST_SHOWN else ""
    return ", ".join(every[:MOST_SHOWN]) + more


def _line(name: str, figures: dict[str, object]) -> tuple[str, ...]:
    shares = (figures[key] for key in ("mape", "median_ape", "coverage"))
    return name, str(figures["n"]), *("-" if share is None else f"{share:.1%}" for share in shares)
