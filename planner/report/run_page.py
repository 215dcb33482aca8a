"""The page of a run, of its document alone: page and JSON cannot differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainplan.planner.report.html import (
    Content,
    Markup,
    bullets,
    document,
    joined,
    pairs,
    paragraphs,
    scroll_class,
    section,
    table,
    tag,
)
from trainplan.planner.report.page import Cell, Column, Table, Tone
from trainplan.planner.report.run_answer import (
    RunDocument,
    answer,
    bills_text,
    ended_early,
    estimate_texts,
    estimated,
    local_text,
    off_text,
    rate_text,
    seconds_text,
    trials_of,
    usd_text,
)
from trainplan.planner.report.run_charts import epoch_charts, learning_rates, time_charts
from trainplan.planner.report.sweep_page import sweep_page
from trainplan.workloads.sweep_text import winner_text
from trainplan.workloads.wording import Command, Option

SCRIPTS = ("chart.js",)
MOST_CELLS = 30
"""Classes up to which the whole matrix is drawn; of more, the most frequent mistakes are named."""
MOST_TOLD = 8
"""Interruptions that are told one by one above the table of machines, which has them all."""
_MOST_MISTAKES = 15
_SHADES = 8
_SIMULATED_TIME = "times are simulated: that cloud's clock runs ahead of this computer's"
_MACHINES = (
    Column("attempt", right=True), Column("where"), Column("price", right=True), Column("cost", right=True),
    Column("asked for"), Column("ended"), Column("how it ended"), Column("kept step", right=True),
    Column("steps again", right=True),
)  # fmt: skip
_CLASSES = (
    Column("class"), Column("test images", right=True), Column("named so", right=True),
    Column("accuracy", right=True), Column("precision", right=True),
)  # fmt: skip


def run_page(report: RunDocument) -> str:
    """The whole page in one file."""
    return document(
        f"Run {report['run']['run_id']}: {report['run']['job_name']}",
        run_blocks(report),
        scripts=SCRIPTS,
        styles=["run.css"],
    )


def run_blocks(report: RunDocument) -> list[Content]:
    """What stands on the page, from the answer to how it was made."""
    return [
        *_answer(report),
        section("Estimate and actual", _compared(report)),
        section("Training", _charts(epoch_charts(report)), _constant_rate(report)),
        section("Time and money", _charts(time_charts(report))),
        section("Machines", *_interruptions(report), _machines(report)),
        section("Trials", *_trials(report)),
        section("Test images", *_held_out(report)),
        section("Receipt", _receipt(report)),
        section("What the trainer warned of", bullets(report["warnings"])),
        section("What this report lacks", bullets(report["gaps"])),
        section("The job", _job(report["job"])),
        section("What happened", _events(report)),
        section("How this was made", _made(report)),
    ]


def _answer(report: RunDocument) -> list[Content]:
    run, bills = report["run"], bills_text(report)
    lines: list[Content] = [tag("p", answer(report), class_="answer")]
    if run["simulated"]:
        lines.append(tag("p", _SIMULATED_TIME, class_="muted"))
    if bills:
        lines.append(tag("p", bills, class_=None if run["simulated"] else "warning"))
    if run["unverified"]:
        lines.append(tag("p", run["unverified"], class_="bad"))
    if run["message"]:
        lines.append(tag("p", run["message"], class_="warning"))
    if run["stop_asked"] and not run["outcome"]:
        lines.append(tag("p", f"asked to stop at {local_text(run['stop_asked'])}", class_="muted"))
    return lines


def _charts(charts: Sequence[Markup]) -> Content:
    """Charts beside each other, where the page is wide enough for it."""
    return tag("div", *charts, class_="charts") if charts else None


def _constant_rate(report: RunDocument) -> Content:
    rates = learning_rates(report)
    return tag("p", f"learning rate {next(iter(rates)):g} in every epoch", class_="muted") if len(rates) == 1 else None


def _compared(report: RunDocument) -> Markup:
    actual, bounds = report["actual"], report["estimate"] or {}
    ends = (bounds.get("low_seconds"), bounds.get("high_seconds"))
    seconds = estimated(report, "seconds")
    within = " to ".join(estimate_texts(seconds, *ends)[1:])
    basis = (report["receipt"] or {}).get("basis") or bounds.get("basis")
    whole = ("images_per_second",) if ended_early(report) else ("seconds", "usd", "images_per_second")
    rows = [
        [
            name,
            text(estimated(report, key)) if key != "seconds" else estimate_texts(seconds, *ends)[0],
            rests_on,
            text(actual[key]),
            off_text(estimated(report, key), actual[key]) if key in whole else "ended early",
        ]
        for name, key, text, rests_on in (
            ("time", "seconds", seconds_text, f"80 % interval at launch: {within}" if all(ends) else "-"),
            ("cost", "usd", usd_text, "-"),
            ("images/s", "images_per_second", rate_text, basis or "-"),
        )
    ]
    so_far = "actual" if report["run"]["outcome"] else "so far"
    columns = [
        Column("figure"), Column("estimated", right=True), Column("rests on"),
        Column(so_far, right=True), Column("difference", right=True),
    ]  # fmt: skip
    return table(Table(columns, rows), "Estimate and actual")


def _machines(report: RunDocument) -> Content:
    rows: list[Sequence[Content]] = []
    for one in report["attempts"]:
        spot = one["market"] == "spot"
        end = _end_text(one)
        interrupted = any(stop["attempt"] == one["number"] for stop in report["interruptions"])
        rows.append(
            [
                str(one["number"]),
                Cell(one["where"], Tone.SPOT) if spot else one["where"],
                f"{usd_text(one['usd_per_hour'])}/h",
                usd_text(one["usd"]),
                local_text(one["asked_at"]),
                local_text(one["ended_at"]),
                Cell(end, Tone.WARNING) if interrupted else end,
                _count(one["step"]),
                _count(one["lost_steps"]),
            ]
        )
    return table(_table(_MACHINES, rows), "Machines") if rows else tag("p", "none was asked for", class_="muted")


def _interruptions(report: RunDocument) -> list[Content]:
    stops = report["interruptions"]
    if not stops:
        return []
    lost = sum(stop["lost_steps"] or 0 for stop in stops)
    times = "once" if len(stops) == 1 else f"{len(stops):,} times"
    again = f"; {lost:,} steps were trained again" if lost else ""
    blocks: list[Content] = [tag("p", f"interrupted {times}{again}", class_="warning")]
    return [*blocks, bullets([_interruption(stop, report) for stop in stops])] if len(stops) <= MOST_TOLD else blocks


def _interruption(stop: dict[str, Any], report: RunDocument) -> str:
    where = {one["number"]: one["where"] for one in report["attempts"]}
    onward = f"; the run went on at {where[stop['next']]}" if stop["next"] in where else ""
    return f"{local_text(stop['at'])}: {stop['where']} ended: {_end_text(stop)}{onward}"


def _end_text(one: dict[str, Any]) -> str:
    """`reclaimed (spot took it back)`: how an attempt ended, and why; a dash for one that has not."""
    end, reason = one["end"], one["reason"]
    return end or "-" if not reason or reason == end else f"{end or 'ended'} ({reason})"


def _held_out(report: RunDocument) -> list[Content]:
    held_out = report["held_out"]
    if held_out is None:
        return []
    of = f"on {held_out['images']:,} test images" if held_out["images"] else "on test images"
    parts = [
        f"accuracy {held_out['accuracy']:.2%}" if held_out["accuracy"] is not None else "",
        f"top-5 {held_out['top5']:.2%}" if held_out["top5"] is not None else "",
        f"always guessing the commonest class: {held_out['most_frequent']:.2%}" if held_out["most_frequent"] else "",
        f"weights of epoch {held_out['best_epoch']}, the best validation" if held_out["best_epoch"] else "",
    ]
    blocks: list[Content] = [tag("p", f"{', '.join(filter(None, parts)) or 'tested'} {of}")]
    if held_out["classes"] is None:
        return blocks
    classes, names = held_out["classes"], [one["name"] for one in held_out["classes"]]
    order = sorted(classes, key=lambda one: (2.0 if one["accuracy"] is None else one["accuracy"], one["name"]))
    rows = [
        [one["name"], _count(one["images"]), _count(one["right"]), _share(one["accuracy"]), _share(one["precision"])]
        for one in order
    ]
    blocks.append(tag("h3", "Classes, the lowest accuracy first"))
    blocks.append(tag("div", table(_table(_CLASSES, rows), "Classes"), class_="long"))
    if len(names) <= MOST_CELLS:
        blocks += [tag("h3", "Which class was taken for which"), _matrix(classes, held_out["confusion"])]
    mistakes = sorted((pair for pair in held_out["confusion"] if pair[0] != pair[1]), key=lambda pair: -pair[2])
    if mistakes:
        lines = [f"{names[true]} taken for {names[named]}: {count:,}" for true, named, count in mistakes]
        blocks += [tag("h3", "The most frequent mistakes"), bullets(lines[:_MOST_MISTAKES])]
    return blocks


def _trials(report: RunDocument) -> list[Content]:
    """The table of a sweep, with the winner above it."""
    trials = trials_of(report)
    if trials is None:
        return []
    shown, *lines = sweep_page(trials, "")
    assert isinstance(shown, Table)
    return [
        tag("p", winner_text(trials)),
        table(shown, "Trials, the best first"),
        bullets([line for line in lines if isinstance(line, str)]),
    ]


def _matrix(classes: Sequence[dict[str, Any]], pairs_of_classes: Sequence[Sequence[int]]) -> Markup:
    """A square of counts; the darker, the larger the share of the images of that class."""
    counts = {(true, named): count for true, named, count in pairs_of_classes}
    head = joined([tag("td"), *(tag("th", one["name"], scope="col") for one in classes)])
    rows = []
    for true, one in enumerate(classes):
        cells = [
            _matrix_cell(counts.get((true, named), 0), one["images"], true == named) for named in range(len(classes))
        ]
        rows.append(tag("tr", tag("th", one["name"], scope="row"), *cells))
    caption = "Rows: the class of the image. Columns: the class that the model named."
    inner = tag("table", tag("caption", caption), tag("thead", tag("tr", head)), tag("tbody", *rows), class_="matrix")
    box = tag("div", inner, class_=scroll_class(len(classes) // 2), tabindex="0", role="region", aria_label=caption)
    return joined([box, tag("p", caption, class_="muted")])


def _matrix_cell(count: int, images: int, is_right: bool) -> Markup:
    shade = -(-count * _SHADES // images) if images else 0
    kind = f"{'right' if is_right else 'wrong'}-{shade}" if shade else None
    return tag("td", f"{count:,}" if count else "", class_=kind)


def _receipt(report: RunDocument) -> Content:
    receipt = report["receipt"]
    if receipt is None:
        return None
    parts = [f"{name} {usd_text(usd)}" for name, usd in receipt.get("usd_by_resource", {}).items() if usd]
    phases = [f"{name} {seconds:,.0f} s" for name, seconds in receipt.get("phase_seconds", {}).items()]
    credit_usd = receipt.get("credit_usd")
    # Of a net of our trainer, only a pilot has such figures, which its rows above are made of.
    reported = receipt.get("figures", {}) if (report["job"] or {}).get("script") else {}
    rows: list[tuple[str, str | None]] = [
        ("outcome", receipt.get("outcome")),
        ("cost", usd_text(receipt.get("actual_usd")) + (" at most" if receipt.get("at_most") else "")),
        ("billed", ", ".join(parts)),
        ("list price", usd_text(receipt["list_usd"]) if receipt.get("list_usd") is not None else ""),
        ("own rate", receipt.get("own_rate")),
        ("paid by credit", usd_text(credit_usd) if credit_usd is not None else ""),
        ("best", receipt.get("sweep")),
        ("steps", "" if report["sweep"] else _steps(receipt)),
        ("steps trained again", _count(receipt["lost_steps"]) if receipt.get("lost_steps") else ""),
        ("reported", ", ".join(f"{name} {value:.6g}" for name, value in reported.items())),
        ("given pixels", _pixels(report["job"])),
        ("trained on", ", ".join(filter(None, [receipt.get("device"), receipt.get("framework")]))),
        ("seconds of phases", ", ".join(phases)),
        ("model", receipt.get("model_folder")),
        ("stays stored", _stored(receipt)),
    ]
    return pairs([(name, value) for name, value in rows if value])


def _steps(receipt: Mapping[str, Any]) -> str:
    early = receipt.get("early_end_epoch")
    end = f", ended early after epoch {early:,}" if isinstance(early, int) else ""
    return f"{_count(receipt.get('steps'))} of {_count(receipt.get('total_steps'))}{end}"


def _pixels(job: Any) -> str:
    """The values of pixels that a network of the person's own was given; "" of any other."""
    for key in ("model", "read", "pixel_range"):
        job = job.get(key) if isinstance(job, dict) else None
    return " to ".join(map(str, job)) if isinstance(job, (list, tuple)) else ""


def _stored(receipt: dict[str, Any]) -> str:
    if receipt.get("stored_bytes") is None:
        return ""
    month = receipt.get("stored_usd_per_month")
    cost = f", {usd_text(month)} a month" if month is not None else ""
    return f"{receipt['stored_bytes'] / 1e6:,.1f} MB{cost}; {Command('cleanup', Option.STORED)} removes it"


def _job(job: Any) -> Content:
    return _folded("every key", pairs(_flat(job))) if isinstance(job, dict) else None


def _folded(title: str, content: Content) -> Markup:
    """What few ask for, opened by a click or a key."""
    return tag("details", tag("summary", title), content)


def _flat(values: dict[str, Any], prefix: str = "") -> list[tuple[str, Content]]:
    """`model.preset: vgg16` for each value that is set."""
    rows: list[tuple[str, Content]] = []
    for key, value in values.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{key}.")
        elif value not in (None, [], ""):
            rows.append((f"{prefix}{key}", _value_text(value)))
    return rows


def _value_text(value: Any) -> str:
    """As a job file has it."""
    if isinstance(value, list):
        return ", ".join(map(_value_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _events(report: RunDocument) -> Content:
    columns = (Column("when"), Column("what"), Column("detail"))
    rows = [[local_text(one["at"]), one["kind"].replace("_", " "), one["detail"]] for one in report["events"]]
    return (
        _folded(
            f"{len(rows):,} {'note' if len(rows) == 1 else 'notes'} of the journal",
            table(Table(columns, rows), "What happened"),
        )
        if rows
        else None
    )


def _made(report: RunDocument) -> Markup:
    made = report["made_by"]
    return paragraphs(
        [
            joined([tag("code", made["command"]), f", trainplan {made['version']}, {local_text(report['made_at'])}."]),
            "Money is USD at list prices or your own rates, before tax. Times are those of this computer's zone. "
            "An interval should hold the true value in four cases of five.",
        ]
    )


def _table(columns: Sequence[Column], rows: Sequence[Sequence[Content]]) -> Table:
    return Table(columns, [[cell if cell is not None else "" for cell in row] for row in rows])


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
