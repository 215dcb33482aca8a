"""How the exports of a model are printed."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from trainplan.planner.cli.screen import show
from trainplan.planner.datasets.storage_costs import format_bytes
from trainplan.planner.errors import ThisMachineError
from trainplan.planner.report.page import Column, Table
from trainplan.planner.runs.exports import Export

_COLUMNS = (
    Column("format"),
    Column("size", right=True),
    Column("top-1", right=True),
    Column("of model.keras", right=True),
    Column("agrees", right=True, rank_of_need=2),
    Column("ms an image", right=True, rank_of_need=1),
    Column("file", shrinks=True),
)


def print_exports(exports: Sequence[Export], as_json: bool) -> None:
    """The exports on stdout. Raises ThisMachineError where one of them has failed."""
    kept = [export for export in exports if not export.error]
    if as_json:
        sys.stdout.write(json.dumps({"exports": [_json(export) for export in exports]}) + "\n")
    elif kept:
        show([Table(_COLUMNS, [_row(export) for export in kept]), *_edge_tpu_lines(kept)])
    failed = [export.format for export in exports if export.error]
    if failed:
        raise ThisMachineError(
            f"{len(failed)} of {len(exports)} exports are not kept: {', '.join(failed)}",
            "what is wrong with each is above; the run and model.keras are as they were",
        )


def _row(export: Export) -> tuple[str, ...]:
    assert export.record is not None
    assert export.folder is not None
    check = export.record.check
    return (
        export.format,
        format_bytes(export.record.size_bytes),
        f"{check.top1_after:.1%}",
        f"{check.top1_before:.1%}",
        f"{check.agreement:.1%}",
        f"{check.milliseconds_per_image:.3g}",
        str(export.folder / export.record.file),
    )


def _edge_tpu_lines(exports: Sequence[Export]) -> list[str]:
    lines: list[str] = []
    for export in exports:
        if export.record is None or export.record.edge_tpu is None:
            continue
        board = export.record.edge_tpu
        known = "; ".join(board.refused) or "none of its operations is known to be refused"
        lines.append(f"Coral: not compiled here. {board.compiler}: {known}. It compiles with: {board.command}")
    return lines


def _json(export: Export) -> dict[str, object]:
    return {
        "format": export.format,
        "folder": None if export.folder is None else str(export.folder),
        "record": None if export.record is None else export.record.model_dump(mode="json"),
        "error": export.error or None,
    }
