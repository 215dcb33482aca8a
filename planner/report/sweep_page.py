"""The table of a sweep: its trials, the best first, with what each was worth after each rung."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from planner.report.page import Column, Page, Table
from workloads.terms import Measure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import JsonValue

    from workloads.sweep import Result, SweepTable, TableRow


def sweep_page(table: SweepTable, title: str) -> Page:
    """`title` names the run and how it stands."""
    keys = list(dict.fromkeys(key for row in table.trials for key in row.values))
    columns = [
        Column("trial", right=True),
        *(Column(key.rpartition(".")[2], right=True, shrinks=True) for key in keys),
        *(Column(f"epoch {rung.epochs}", right=True, rank_of_need=len(table.rungs) - place)
          for place, rung in enumerate(table.rungs)),
        Column("end"),
    ]  # fmt: skip
    rows = [
        [
            str(row.trial),
            *(_value(row.values.get(key)) for key in keys),
            *(_figure(_at(row, rung.epochs), table.measure) for rung in table.rungs),
            _end(row, table),
        ]
        for row in ranked(table)
    ]
    return [title, Table(columns, rows), *_below(table)]


def ranked(table: SweepTable) -> Sequence[TableRow]:
    """The trials by the furthest rung that they have figures of, and there the best first."""

    def order(row: TableRow) -> tuple[float, ...]:
        good = [result for result in row.results if not result.failure]
        if not good:
            return (0.0, float(row.trial))
        newest = max(good, key=lambda result: result.epochs)
        return (-float(newest.epochs), *newest.order(table.measure))

    return sorted(table.trials, key=order)


def sweep_json(table: SweepTable, run_id: str) -> dict[str, Any]:
    """The table for programs, with the trials in the order of the page."""
    values = table.model_dump(mode="json")
    return {
        "run_id": run_id,
        "measure": values["measure"],
        "rungs": [rung._asdict() for rung in table.rungs],
        "epochs": table.epochs,
        "grid_epochs": table.grid_epochs,
        "best": table.best,
        "ended_early": table.ended_early,
        "trials": [
            {
                "trial": row.trial,
                "values": row.values,
                "results": [
                    {**result.model_dump(exclude={"trial", "failure"}), "failure": result.failure or None}
                    for result in row.results
                ],
            }
            for row in ranked(table)
        ],
    }


def _below(table: SweepTable) -> list[str]:
    what = "accuracy on the held-out images" if table.measure is Measure.ACCURACY else "loss on the held-out images"
    done = sum(len(row.results) for row in table.trials)
    lines = [f"{what} after each rung; {table.epochs:,} epochs are planned, the full grid has {table.grid_epochs:,}"]
    if table.best is not None and table.ended_early:
        lines.append(f"best so far: trial {table.best}, whose model is the run's; it ended before its last rung")
    elif table.best is not None:
        lines.append(f"best: trial {table.best}, whose model is the run's")
    elif done:
        lines.append(f"{done} of {sum(rung.trials for rung in table.rungs)} trials of all rungs are done")
    else:
        lines.append("no trial is done yet")
    return lines


def _at(row: TableRow, epochs: int) -> Result | None:
    return next((result for result in row.results if result.epochs == epochs), None)


def _figure(result: Result | None, measure: Measure) -> str:
    if result is None:
        return ""
    value = result.accuracy if measure is Measure.ACCURACY else result.loss
    if value is None:
        return "failed" if result.failure else "-"
    return f"{value:.2%}" if measure is Measure.ACCURACY else f"{value:.4f}"


def _end(row: TableRow, table: SweepTable) -> str:
    if row.trial == table.best:
        return "best"
    if any(result.failure for result in row.results):
        return "failed"
    furthest = max((result.epochs for result in row.results), default=0)
    further = [rung for rung in table.rungs if rung.epochs > furthest]
    is_over = further and sum(_at(one, further[0].epochs) is not None for one in table.trials) == further[0].trials
    is_over = is_over or (table.best is not None and not table.ended_early)
    return "dropped" if is_over and furthest else "-"


def _value(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value)
