"""The table of a sweep: its trials, the best first, with what each was worth after each rung."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from trainplan.planner.report.page import Column, Page, Table
from trainplan.workloads.sweep import ACCURACY, Goal, SweepTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import JsonValue

    from trainplan.workloads.sweep import Result, Rung, TableRow


def sweep_page(table: SweepTable, title: str) -> Page:
    """`title` names the run and how it stands."""
    keys = list(dict.fromkeys(key for row in table.trials for key in row.values))
    columns = [
        Column("trial", right=True),
        *(Column(key.rpartition(".")[2], right=True, shrinks=True) for key in keys),
        *(Column(_rung_text(rung, table), right=True, rank_of_need=len(table.rungs) - place)
          for place, rung in enumerate(table.rungs)),
        Column("end"),
    ]  # fmt: skip
    rows = [
        [
            str(row.trial),
            *(_value(row.values.get(key)) for key in keys),
            *(_figure(_at(row, rung.epochs), _goal(table)) for rung in table.rungs),
            _end(row, table),
        ]
        for row in ranked(table)
    ]
    return [*([title] if title else []), Table(columns, rows), *_below(table)]


def table_of_json(sweep: Mapping[str, Any], *, is_of_script: bool) -> SweepTable:
    """The table that `sweep_json` has written."""
    trials = [
        {**row, "results": [{**one, "trial": row["trial"], "failure": one["failure"] or ""} for one in row["results"]]}
        for row in sweep["trials"]
    ]
    fields = {key: value for key, value in sweep.items() if key != "run_id"}
    return SweepTable.model_validate({**fields, "trials": trials, "job_digest": "", "is_of_script": is_of_script})


def winner_text(table: SweepTable) -> str:
    """`trial 4 of 9 (learning_rate 0.03, momentum 0.9): accuracy 91.20% after epoch 90`, or that none has a result."""
    best = next((row for row in table.trials if row.trial == table.best), None)
    if best is None:
        return f"no trial of {len(table.trials)} has a result"
    values = ", ".join(f"{key.rpartition('.')[2]} {_value(value)}" for key, value in best.values.items())
    newest = max((one for one in best.results if not one.failure), key=lambda one: one.epochs, default=None)
    text = f"trial {best.trial} of {len(table.trials)} ({values})"
    if newest is None or newest.value(_goal(table)) is None:  # a simulated one has no figures
        return text
    after = "" if table.is_of_script else f" after epoch {newest.epochs}"
    return f"{text}: {table.measure} {_figure(newest, _goal(table))}{after}"


def ranked(table: SweepTable) -> Sequence[TableRow]:
    """The trials by the furthest rung that they have figures of, and there the best first."""

    def order(row: TableRow) -> tuple[float, ...]:
        good = [result for result in row.results if not result.failure]
        if not good:
            return (0.0, float(row.trial))
        newest = max(good, key=lambda result: result.epochs)
        return (-float(newest.epochs), *newest.order(_goal(table)))

    return sorted(table.trials, key=order)


def sweep_json(table: SweepTable, run_id: str) -> dict[str, Any]:
    """The table for programs, with the trials in the order of the page."""
    return {
        "run_id": run_id,
        "measure": table.measure,
        "more_is_better": table.more_is_better,
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
                    {**result.model_dump(exclude={"trial", "reached", "failure"}), "failure": result.failure or None}
                    for result in row.results
                ],
            }
            for row in ranked(table)
        ],
    }


def _goal(table: SweepTable) -> Goal:
    return Goal(table.measure, table.more_is_better)


def _rung_text(rung: Rung, table: SweepTable) -> str:
    """`epoch 3`; of a script, whose epochs nobody knows, `1/9`, and `whole` for the last."""
    if not table.is_of_script:
        return f"epoch {rung.epochs}"
    return f"{rung.epochs}/{table.rungs[-1].epochs}" if rung is not table.rungs[-1] else "whole"


def _below(table: SweepTable) -> list[str]:
    done = sum(len(row.results) for row in table.trials)
    if table.is_of_script:
        most = "most" if table.more_is_better else "least"
        trainings = table.epochs / table.rungs[-1].epochs
        lines = [
            f"{table.measure} as the script reported it after each rung, the {most} is the best; {trainings:.2g} whole "
            f"trainings are planned, the full grid has {len(table.trials)}"
        ]
    else:
        planned = f"{table.epochs:,} epochs are planned, the full grid has {table.grid_epochs:,}"
        lines = [f"{table.measure} on the test images after each rung; {planned}"]
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


def _figure(result: Result | None, goal: Goal) -> str:
    if result is None:
        return ""
    value = result.value(goal)
    if value is None:
        return "failed" if result.failure else "-"
    if result.figure is not None:
        return f"{value:.6g}"
    return f"{value:.2%}" if goal == ACCURACY else f"{value:.4f}"


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
