"""What `plan estimate` makes of the document that --json prints: that text, the page of --html, --levers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from trainplan.planner.cli import typed
from trainplan.planner.cli.output_file import write_page
from trainplan.planner.cli.screen import show
from trainplan.planner.report.estimate_json import Beside, estimate_document

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trainplan.planner.cli.document_form import DocumentForm
    from trainplan.planner.cli.job_options import AskedJob
    from trainplan.planner.forecast.plan import Plan
    from trainplan.planner.planning.check import Judged
    from trainplan.workloads.job import TrainingJob


def answer_with_document(
    plan: Plan,
    judged: Mapping[str, Judged] | None,
    form: DocumentForm,
    asked_job: AskedJob,
    plan_of: Callable[[TrainingJob, Sequence[int]], Plan],
) -> None:
    """Print and write what is wanted of it; `plan_of` plans a changed job as `plan` was. Raises ThisMachineError."""
    document = _document(plan, judged, form, asked_job, plan_of)
    if form.html is not None:
        from trainplan.planner.report.estimate_html import estimate_html

        write_page(estimate_html(document), form.html)
    if form.as_json:
        import json

        sys.stdout.write(json.dumps(document) + "\n")
        return
    if form.levers:
        from trainplan.planner.report.estimate_page import job_line
        from trainplan.planner.report.levers import levers_page

        show(
            [*asked_job.page, *levers_page(document["levers"], job_line(plan.job))],
            wide=form.wide,
            as_markdown=form.as_markdown,
        )
    if form.html is not None:
        from trainplan.planner.report.estimate_html import answer

        count = len(document["candidates"])
        text = f"{form.html}: {count:,} {'offer' if count == 1 else 'offers'}, {form.html.stat().st_size / 1e3:,.0f} kB"
        show([answer(document), text] if not form.levers else [text])


def _document(
    plan: Plan,
    judged: Mapping[str, Judged] | None,
    form: DocumentForm,
    asked_job: AskedJob,
    plan_of: Callable[[TrainingJob, Sequence[int]], Plan],
) -> dict[str, Any]:
    from trainplan.planner.throughput.table import cited

    levers = None
    if form.levers or form.html is not None:
        from trainplan.planner.report.levers import lever_rows

        levers = lever_rows(plan, plan_of)
    return estimate_document(plan, Beside(judged, form.limit, asked_job.differences, typed.whole(), cited, levers))
