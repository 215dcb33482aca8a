"""The table of a sweep in words: its winner, its trials in order, and the section of report.md."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from trainplan.workloads.sweep import ACCURACY, Goal, SweepTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import JsonValue

    from trainplan.workloads.sweep import Result, Rung, TableRow


def goal(table: SweepTable) -> Goal:
    """What its trials are ranked by."""
    return Goal(table.measure, table.more_is_better)


def winner_text(table: SweepTable) -> str:
    """`trial 4 of 9 (learning_rate 0.03, momentum 0.9): accuracy 91.20% after epoch 90`, or that none has a result."""
    best = next((row for row in table.trials if row.trial == table.best), None)
    if best is None:
        return f"no trial of {len(table.trials)} has a result"
    values = ", ".join(f"{key.rpartition('.')[2]} {value_text(value)}" for key, value in best.values.items())
    newest = max((one for one in best.results if not one.failure), key=lambda one: one.epochs, default=None)
    text = f"trial {best.trial} of {len(table.trials)} ({values})"
    if newest is None or newest.value(goal(table)) is None:  # a simulated one has no figures
        return text
    after = "" if table.is_of_script else f" after epoch {newest.epochs}"
    return f"{text}: {table.measure} {result_text(newest, goal(table))}{after}"


def ranked(table: SweepTable) -> Sequence[TableRow]:
    """The trials by the furthest rung that they have figures of, and there the best first."""

    def order(row: TableRow) -> tuple[float, ...]:
        good = [result for result in row.results if not result.failure]
        if not good:
            return (0.0, float(row.trial))
        newest = max(good, key=lambda result: result.epochs)
        return (-float(newest.epochs), *newest.order(goal(table)))

    return sorted(table.trials, key=order)


def keys_of(table: SweepTable) -> list[str]:
    """The keys that its trials have values of."""
    return list(dict.fromkeys(key for row in table.trials for key in row.values))


def rung_text(rung: Rung, table: SweepTable) -> str:
    """`epoch 3`; of a script, whose epochs nobody knows, `1/9`, and `whole` for the last."""
    if not table.is_of_script:
        return f"epoch {rung.epochs}"
    return f"{rung.epochs}/{table.rungs[-1].epochs}" if rung is not table.rungs[-1] else "whole"


def result_at(row: TableRow, epochs: int) -> Result | None:
    """What a trial was worth after so many epochs; None where it was not trained so far."""
    return next((result for result in row.results if result.epochs == epochs), None)


def result_text(result: Result | None, goal: Goal) -> str:
    """The figure that ranks a trial; "" without a result."""
    if result is None:
        return ""
    value = result.value(goal)
    if value is None:
        return "failed" if result.failure else "-"
    if result.figure is not None:
        return f"{value:.6g}"
    return f"{value:.2%}" if goal == ACCURACY else f"{value:.4f}"


def cells_of(row: TableRow, table: SweepTable) -> list[str]:
    """Number, values and results of a trial, as texts."""
    return [
        str(row.trial),
        *(value_text(row.values.get(key)) for key in keys_of(table)),
        *(result_text(result_at(row, rung.epochs), goal(table)) for rung in table.rungs),
    ]


def value_text(value: JsonValue) -> str:
    """A value of a job as a table has it."""
    return value if isinstance(value, str) else json.dumps(value)


def report_with_trials(report: str, table: SweepTable) -> str:
    """report.md of the best trial with the sweep: its winner below the title, its trials at the end."""
    title, _, rest = report.partition("\n")
    keys = (key.rpartition(".")[2] for key in keys_of(table))
    head = ["trial", *keys, *(rung_text(rung, table) for rung in table.rungs)]
    rows = [head, ["---"] * len(head), *(cells_of(row, table) for row in ranked(table))]
    lines = [f"## Trials of the sweep: {table.measure}", ""]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    so_far = " so far" if table.ended_early else ""
    winner = f"Best of the sweep{so_far}: {winner_text(table)}; its trials are at the end."
    return "\n".join([title, "", winner, rest.rstrip("\n"), "", *lines, ""])
