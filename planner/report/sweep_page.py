"""The table of a sweep: its trials, the best first, with what each was worth after each rung."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainplan.planner.report.page import Column, Page, Table
from trainplan.workloads.sweep import SweepTable
from trainplan.workloads.sweep_text import cells_of, keys_of, ranked, result_at, rung_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainplan.workloads.sweep import TableRow


def sweep_page(table: SweepTable, title: str) -> Page:
    """`title` names the run and how it stands."""
    keys = keys_of(table)
    columns = [
        Column("trial", right=True),
        *(Column(key.rpartition(".")[2], right=True, shrinks=True) for key in keys),
        *(Column(rung_text(rung, table), right=True, rank_of_need=len(table.rungs) - place)
          for place, rung in enumerate(table.rungs)),
        Column("end"),
    ]  # fmt: skip
    rows = [[*cells_of(row, table), _end(row, table)] for row in ranked(table)]
    return [*([title] if title else []), Table(columns, rows), *_below(table)]


def table_of_json(sweep: Mapping[str, Any], *, is_of_script: bool) -> SweepTable:
    """The table that `sweep_json` has written."""
    trials = [
        {**row, "results": [{**one, "trial": row["trial"], "failure": one["failure"] or ""} for one in row["results"]]}
        for row in sweep["trials"]
    ]
    fields = {key: value for key, value in sweep.items() if key != "run_id"}
    return SweepTable.model_validate({**fields, "trials": trials, "job_digest": "", "is_of_script": is_of_script})


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


def _end(row: TableRow, table: SweepTable) -> str:
    if row.trial == table.best:
        return "best"
    if any(result.failure for result in row.results):
        return "failed"
    furthest = max((result.epochs for result in row.results), default=0)
    further = [rung for rung in table.rungs if rung.epochs > furthest]
    is_over = (
        further and sum(result_at(one, further[0].epochs) is not None for one in table.trials) == further[0].trials
    )
    is_over = is_over or (table.best is not None and not table.ended_early)
    return "dropped" if is_over and furthest else "-"
