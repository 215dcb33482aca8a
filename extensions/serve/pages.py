"""The pages of `plan serve`: what bills and until when, a run with its report, and the question before a stop."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from trainplan.planner.report.html import Content, Markup, bullets, document, figures, joined, section, table, tag
from trainplan.planner.report.html_chart import Line, Spot, axis_over, chart
from trainplan.planner.report.page import Cell, Column, Table, Tone
from trainplan.planner.report.run_answer import bills_text
from trainplan.planner.report.run_charts import number_text, ticks
from trainplan.planner.report.run_page import run_blocks
from trainplan.planner.runs.money.spending import month_began
from trainplan.planner.runs.report.document import bills_figures
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.pricing.money import format_usd, format_usd_per_hour
from trainplan.providers.registry import is_here, is_own, is_simulated

if TYPE_CHECKING:
    from trainplan.extensions.serve.board import Board
    from trainplan.extensions.serve.commands import Commands, Look
    from trainplan.planner.runs.journal.rows import LoggedEvent, RunSummary
    from trainplan.planner.runs.money.spending import Month

SCRIPTS = ("chart.js", "live.js")
STYLES = ("page.css", "run.css")
"""What every page of the server may have; the policy in its answers names no other."""
TITLE = "What runs and what bills"
_LIVE = (
    Column("run"), Column("job"), Column("phase"), Column("bills", right=True), Column("until at the latest"),
    Column("end it"), Column("progress"), Column("so far", right=True), Column("where"),
)  # fmt: skip
_ENDED = (Column("run"), Column("job"), Column("where"), Column("started"), Column("outcome"),
          Column("cost", right=True), Column("accuracy", right=True))  # fmt: skip
_TONES = {Phase.INTERRUPTED: Tone.WARNING, Phase.TEARING_DOWN: Tone.FAINT}
_UNTOLD = ("notified", "charged", "cleared")
"""Notes of the journal that are no news to a person."""


def overview(board: Board, commands: Commands) -> str:
    """The first page."""
    return _live_page(TITLE, overview_block(board, commands), "/events", [_month(board.month), _ended(board.ended)])


def overview_block(board: Board, commands: Commands) -> Markup:
    """The part of the first page that is sent again whenever it changes."""
    return joined(
        [
            *_bills(board.live),
            *(tag("p", line, class_="bad") for line in board.problems),
            *(tag("p", run.unverified, class_="bad") for run in board.live if run.unverified),
            _live_table(board.live, commands) if board.live else None,
            *_looked(commands.look if board.live else None),
            section("What happened lately", bullets(_events(board))),
        ],
        "\n",
    )


def run_page(run: Run, report: dict[str, Any] | str, commands: Commands) -> str:
    """A run as it is now, and below it the report of its newest state."""
    blocks: list[Content] = [tag("p", tag("a", "all runs", href="/"), class_="screen-only")]
    if isinstance(report, str):
        blocks.append(tag("p", f"there is no report: {report}", class_="bad"))
    else:
        blocks += run_blocks(report)
    title = f"Run {run.run_id}: {run.job_name}"
    return _live_page(title, run_block(run, commands), f"/events?run={run.run_id}", blocks)


def run_block(run: Run, commands: Commands) -> Markup:
    """The part of a run's page that is sent again whenever it changes."""
    row = _look_row(commands.look, run)
    is_billed = run.bills and not is_own(run.provider)
    parts = [
        run.outcome.replace("_", " ") if run.outcome else run.phase.replace("_", " "),
        str(row.get("progress", "")) if run.live else "",
        _bills_cell(run) if is_billed else "nothing of it is billed",
    ]
    stop = commands.stop_text(run.run_id)
    return joined(
        [
            tag(
                "p",
                ", ".join(filter(None, parts)),
                class_="warning" if run.bills and not is_own(run.provider) else None,
            ),
            tag("p", stop, class_="warning") if stop else None,
            tag("p", _stop_link(run), class_="screen-only") if run.live and not stop else None,
        ]
    )


def stop_question(run: Run, form_token: str) -> str:
    """Whether the run is really to be stopped. The form says what the page put into it."""
    where = run.attempt.target.where if run.attempt and run.attempt.target else run.provider
    lines: list[Content] = [
        tag("p", f"Stop run {run.run_id} of {run.job_name}?", class_="answer"),
        tag("p", f"It is {run.phase.replace('_', ' ')} at {where}, {_bills_cell(run) or 'nothing of it is billed'}."),
        tag(
            "p",
            "Its trainer writes a last checkpoint; then its machine and everything else that it created is deleted. "
            "The same plan launch goes on from the checkpoint later.",
        ),
        tag(
            "form",
            tag("input", type="hidden", name="form", value=form_token),
            tag("button", f"Stop run {run.run_id}", type="submit"),
            tag("a", "Leave it running", href=f"/runs/{run.run_id}"),
            method="post",
            action=f"/runs/{run.run_id}/stop",
        ),
    ]
    return document(f"Stop run {run.run_id}?", lines, styles=STYLES[1:], connects=True)


def refusal(title: str, text: str) -> str:
    """A page that shows nothing of any run."""
    return document(title, [tag("p", text)], styles=STYLES[1:])


def _live_page(title: str, live: Markup, events: str, blocks: Sequence[Content]) -> str:
    part = tag("div", live, id_="live", data_events=events)
    state = tag("p", "without its script this page stands still: reload it", id_="state", class_="muted", role="status")
    return document(title, [part, state, *blocks], scripts=SCRIPTS, styles=STYLES[1:], connects=True)


def _bills(live: Sequence[Run]) -> list[Content]:
    """The first sentence: what bills in all, and until when at the latest."""
    billing = [run for run in live if run.bills and not is_simulated(run.provider) and not is_own(run.provider)]
    simulated = sum(is_simulated(run.provider) and run.bills for run in live)
    own = sum(is_own(run.provider) and run.live for run in live)
    if billing:
        usd = sum((run.bills_usd_per_hour for run in billing), Decimal(0))
        last = max(_until(run) for run in billing)
        runs = "1 run costs" if len(billing) == 1 else f"{len(billing)} runs cost"
        text = f"{runs} {format_usd_per_hour(usd)}, until {_local(last)} at the latest."
    else:
        text = "Nothing is being billed."
    free = [f"{simulated} simulated" if simulated else "", f"{own} on machines of your own" if own else ""]
    more = f" Free: {' and '.join(filter(None, free))}." if any(free) else ""
    note = "Costs of runs started here. Everything else in your accounts: plan burn."
    return [tag("p", f"{text}{more}", class_="answer"), tag("p", note, class_="muted")]


def _month(month: Month | None) -> Markup:
    """What the month has cost beside its budgets, and how that came about."""
    if month is None:
        return Markup()
    total = sum((cost.usd for cost in month.costs), Decimal(0))
    tiles = [(format_usd(total), f"runs that ended in {month.now:%B %Y}")]
    tiles += [(format_usd(month.may_spend_usd), "live runs may come to, at most")] if month.may_spend_usd else []
    tiles += [
        (format_usd(one.limit_usd), f"budget{f' of project {one.project}' if one.project else ' of the month'}")
        for one in month.budgets
    ]
    bars: list[Content] = [
        tag(
            "meter",
            min=0,
            max=float(one.limit_usd),
            value=float(one.spent_usd + one.may_spend_usd),
            aria_label=one.text,
        )
        for one in month.budgets
        if one.limit_usd > 0
    ]
    note = (
        None if month.budgets else tag("p", "No budget is set (budget_usd_per_month in settings.toml).", class_="muted")
    )
    return section("This month", figures(tiles), *bars, note, _month_chart(month) if total else None)


def _month_chart(month: Month) -> Markup:
    """Dollars since the first of the month, a step for each run, against the budget of all runs."""
    began = month_began(month.now)

    def day(at: datetime) -> float:
        return 1 + (at - began) / timedelta(days=1)

    sums = list(accumulate(float(cost.usd) for cost in month.costs))
    points = [(1.0, 0.0), *zip((day(cost.at) for cost in month.costs), sums, strict=True), (day(month.now), sums[-1])]
    lines = [Line("spent", points, "actual", is_step=True)]
    limits = [float(one.limit_usd) for one in month.budgets if not one.project]
    lines += [Line("budget", [(1.0, limit), (day(month.now), limit)], "bad") for limit in limits]
    spots = [
        Spot(day(cost.at), usd, f"{format_usd(cost.usd)} on {cost.at:%d %B}, {usd:.2f} USD in all", style="actual")
        for cost, usd in zip(month.costs, sums, strict=True)
    ]
    values = [0.0, sums[-1], *limits]
    x = axis_over(
        "day of the month (UTC)", [1.0, day(month.now)], ticks([1.0, day(month.now)], number_text, is_whole=True)
    )
    y = axis_over("USD", values, ticks(values, lambda value: f"${number_text(value)}"))
    return chart("What this month has cost", x, y, spots, lines)


def _live_table(live: Sequence[Run], commands: Commands) -> Markup:
    rows: list[list[str | Cell]] = []
    for run in live:
        row = _look_row(commands.look, run)
        target = run.attempt.target if run.attempt else None
        where = target.where if target and not is_here(run.provider) else run.provider
        phase = run.phase.replace("_", " ")
        tone = _TONES.get(run.phase)
        usd = row.get("usd_so_far")
        stop = commands.stop_text(run.run_id)
        rows.append(
            [
                tag("a", run.run_id, href=f"/runs/{run.run_id}", id_=f"run-{run.run_id}"),
                run.job_name,
                Cell(phase, tone) if tone else phase,
                _rate(run),
                f"{_local(_until(run))}{_clock(run)}" if run.bills else "-",
                Cell(stop, Tone.WARNING) if stop else _stop_link(run),
                str(row.get("progress", "-")),
                format_usd(Decimal(str(usd))) if isinstance(usd, int | float) else "-",
                where,
            ]
        )
    return table(Table(_LIVE, rows), "Runs that go on")


def _rate(run: Run) -> str | Cell:
    if not run.bills or is_own(run.provider):
        return "-"
    text = format_usd_per_hour(run.bills_usd_per_hour)
    return Cell(text, Tone.FAINT if is_simulated(run.provider) else Tone.WARNING)


def _bills_cell(run: Run) -> str:
    """As on the page of its report."""
    attempt = run.attempt
    return bills_text(
        {
            "run": {"simulated": is_simulated(run.provider)},
            "bills": bills_figures(run),
            "attempts": [{"ended_at": attempt.ended_at if attempt else None}],
        }
    )


def _stop_link(run: Run) -> Markup:
    label = f"Stop run {run.run_id}"
    return tag("a", "stop…", href=f"/runs/{run.run_id}/stop", aria_label=label, id_=f"stop-{run.run_id}")


def _look_row(look: Look | None, run: Run) -> dict[str, Any]:
    return look.rows.get(run.run_id, {}) if look else {}


def _looked(look: Look | None) -> list[Content]:
    if look is None:
        return []
    lines: list[Content] = [tag("p", f"Progress and cost as of {_local(look.at, seconds=True)}.", class_="muted")]
    if look.error:
        lines.append(tag("p", f"The last look failed: {look.error}", class_="bad"))
    return lines


def _events(board: Board) -> list[Content]:
    runs: dict[str, Run | RunSummary] = {run.run_id: run for run in board.live}
    runs.update((run.run_id, run) for run in board.ended)
    lines: list[Content] = []
    for run_id, event in board.events:
        if event.kind in _UNTOLD or event.detail in _UNTOLD:
            continue
        run = runs.get(run_id)
        what = f"{run.job_name if run else 'run'} {run_id}: {_event_text(event)}"
        text = f"{_local(event.at, seconds=True)}{_clock(run)} {what}"
        lines.append(Cell(text, Tone.WARNING) if event.kind == Phase.INTERRUPTED else text)
    return lines


_EVENTS = {
    "asking": "asked for a machine", "stop asked": "asked to stop", "told to stop": "its trainer was asked to stop",
    "receipt": "receipt written", "booting": "the machine starts", "running": "training",
    "collecting": "fetching its model",
    "tearing_down": "deleting what was created", "done": "ended", "planned": "planned", "launching": "launching",
    "interrupted": "the machine was taken back",
}  # fmt: skip
"""Kinds of events of the journal, in words for people. Others stand as they are."""


def _event_text(event: LoggedEvent) -> str:
    text = _EVENTS.get(event.kind, event.kind.replace("_", " "))
    return f"{text} ({event.detail})" if event.detail else text


def _ended(runs: Sequence[RunSummary]) -> Markup:
    rows: list[list[str | Cell]] = []
    for run in runs:
        usd, accuracy = run.receipt.get("actual_usd"), run.receipt.get("accuracy")
        outcome = (run.outcome or "").replace("_", " ")
        rows.append(
            [
                tag("a", run.run_id, href=f"/runs/{run.run_id}"),
                run.job_name,
                f"{run.provider} (simulated)" if is_simulated(run.provider) else run.provider,
                _local(run.created_at),
                outcome if run.outcome is Outcome.SUCCEEDED else Cell(outcome, Tone.WARNING),
                _cost(usd, is_at_most=bool(run.receipt.get("at_most"))),
                f"{accuracy:.1%}" if isinstance(accuracy, int | float) else "-",
            ]
        )
    return section("Runs that have ended", table(Table(_ENDED, rows), "Runs that have ended")) if rows else Markup()


def _cost(usd: object, *, is_at_most: bool) -> str:
    at_most = "at most " if is_at_most else ""
    return f"{at_most}{format_usd(Decimal(str(usd)))}" if isinstance(usd, int | float) else "-"


def _until(run: Run) -> datetime:
    attempt = run.attempt
    return min(attempt.deadline or run.deadline, run.deadline) if attempt else run.deadline


def _clock(run: Run | RunSummary | None) -> str:
    """Stands behind an instant of a run whose provider's clock runs ahead of this computer's."""
    return " (simulated time)" if run is not None and is_simulated(run.provider) else ""


def _local(at: datetime, *, seconds: bool = False) -> str:
    return f"{at.astimezone():{'%Y-%m-%d %H:%M:%S' if seconds else '%Y-%m-%d %H:%M'}}"
