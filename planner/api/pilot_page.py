"""What `plan pilot` shows: the pilots that it would run, and what they have told; and the same as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from trainplan.planner.forecast.pilots import TRY_SETTINGS_SECONDS
from trainplan.planner.forecast.script_work import known_rate
from trainplan.planner.report.page import Column, Page, Table
from trainplan.planner.runs.pilot import PilotResult, most_of
from trainplan.planner.runs.receipt.receipt_text import figure_texts
from trainplan.pricing.devices import machines_text
from trainplan.pricing.money import format_usd
from trainplan.providers.registry import is_here, is_simulated
from trainplan.workloads.durations import format_duration
from trainplan.workloads.sweep import values_text
from trainplan.workloads.terms import Objective
from trainplan.workloads.tries import possible

if TYPE_CHECKING:
    from trainplan.planner.runs.proposal.pilots import PilotPlacement, PilotProposal

_COLUMNS = (
    Column("row", right=True),
    Column("where"),
    Column("device"),
    Column("market", rank_of_need=2),
    Column("the job there (80 %)", right=True),
    Column("settles", right=True),
    Column("a pilot takes", right=True, rank_of_need=1),
    Column("costs", right=True),
    Column("at most", right=True),
)
_RESULT_COLUMNS = (
    Column("where"),
    Column("device"),
    Column("estimated (80 %)", right=True),
    Column("measured", right=True),
    Column("cost", right=True),
    Column("run", rank_of_need=1),
)


_TRY_COLUMNS = (
    Column("try", right=True),
    Column("micro-batch", right=True),
    Column("accumulate", right=True),
    Column("XLA"),
    Column("measured", right=True),
    Column("peak memory", right=True, rank_of_need=1),
    Column("took", right=True, rank_of_need=2),
    Column("ended"),
)
_RANKS_FIRST = {
    Objective.COST: "is the cheapest as estimated",
    Objective.TIME: "is the fastest as estimated",
    Objective.BALANCED: "ranks first as estimated",
}


class PilotAnswer(NamedTuple):
    """What `plan pilot` answers: what it proposed, what became of each pilot, and the placements as they rank
    afterwards (empty where no pilot was run)."""

    proposal: PilotProposal
    results: Sequence[PilotResult] = ()
    after: Sequence[PilotPlacement] = ()

    @property
    def spent_usd(self) -> Decimal:
        """What all pilots have cost."""
        return sum((result.usd for result in self.results), Decimal(0))

    @property
    def was_stopped(self) -> bool:
        """Whether a person has ended one of them."""
        return any(result.was_stopped for result in self.results)


def proposal_page(proposal: PilotProposal) -> Page:
    """What is proposed, before anybody is asked; or why nothing is."""
    first = proposal.placements[0]
    head = f"{proposal.job.name}: {_where(first)} {_RANKS_FIRST[proposal.job.objective]}: {_usd_text(first)}"
    if not proposal.pilots.indices:
        return [head, none_text(proposal), *proposal.left_out]
    rows = [_row(placement, proposal.cap_usd) for placement in proposal.chosen]
    saved, cost = _cents(proposal.pilots.saving_usd), _cents(proposal.pilots.cost_usd)
    if proposal.try_settings:
        worth = f"it tries {_tried_text(proposal)} for {TRY_SETTINGS_SECONDS} s at most"
    elif cost:
        worth = f"expected to save {format_usd(saved)} of the job for {format_usd(cost)}"
    else:
        worth = "they cost nothing" if len(rows) > 1 else "it costs nothing"
    count = f"{len(rows)} pilots" if len(rows) > 1 else "1 pilot"
    never = "it never costs" if proposal.try_settings else "all of them together never cost"
    cap = f"{never} more than {format_usd(proposal.cap_usd)}"
    simulated = "; simulated: nothing is rented, and nothing bills" if is_simulated(first.target.offer.provider) else ""
    return [head, Table(_COLUMNS, rows), f"{count}, {worth}; {cap}{simulated}", *_trial(proposal), *proposal.left_out]


def _trial(proposal: PilotProposal) -> list[str]:
    """Which trial of a sweep is trained; none of any other job."""
    trials = proposal.job.trials
    if not trials:
        return []
    return [f"a pilot trains trial {trials[0].number} of the sweep alone: {values_text(trials[0].values)}"]


def none_text(proposal: PilotProposal) -> str:
    """Why no pilot is worth its cost, in a line."""
    pilots = proposal.pilots
    if not pilots.cost_usd:
        return "no pilot is worth it: no other machine could turn out cheaper, or all speeds are measured"
    saved = format_usd(_cents(max(0.0, pilots.saving_usd)))
    return f"no pilot is worth it: it would cost {format_usd(_cents(pilots.cost_usd))} and is expected to save {saved}"


def result_page(answer: PilotAnswer) -> Page:
    """What the pilots have told, and what that changes."""
    rows = [_result_row(result) for result in answer.results]
    lines: list[Any] = [Table(_RESULT_COLUMNS, rows)] if rows else []
    lines += [f"{_where(result.placement)}: {result.why}" for result in answer.results if result.why]
    lines += [f"{_where(result.placement)}: {BOUND_TEXT}" for result in answer.results if _is_bound(result)]
    for result in answer.results:
        lines += _beside_lines(result)
        lines += try_lines(result)
    lines.append(f"spent {format_usd(answer.spent_usd)} of {format_usd(answer.proposal.cap_usd)}")
    if not answer.after or not answer.after[0].usd[0]:
        return lines  # no pilot was run, or nothing costs anything there
    before, after = answer.proposal.placements[0], answer.after[0]
    if _key(before) == _key(after):
        return [*lines, f"{_where(after)} stays the cheapest: {_usd_text(before)} as estimated, {_usd_text(after)} now"]
    return [*lines, f"{_where(after)} is the cheapest now: {_usd_text(after)}; before it was {_where(before)}"]


def try_lines(result: PilotResult) -> list[Any]:
    """What each try of settings came to, and what to write into the job file; nothing where none were tried."""
    tries, figures = result.receipt.get("tries") or [], result.receipt.get("figures") or {}
    if not tries:
        return []
    lines: list[Any] = [Table(_TRY_COLUMNS, [_try_row(row) for row in tries])]
    kept = kept_try(result)
    if kept is not None:
        lines.append(_advice(tries, kept))
    if not_tried := int(figures.get("not_tried", 0)):
        were = "1 further setting was" if not_tried == 1 else f"{not_tried} further settings were"
        why = "the time was up" if figures.get("is_time_up") else "nothing next to the fastest was faster"
        lines.append(f"{were} not tried: {why}")
    return lines


def kept_try(result: PilotResult) -> dict[str, Any] | None:
    """The try whose settings were kept; None where none was."""
    number, tries = result.receipt.get("kept"), result.receipt.get("tries") or []
    return next((row for row in tries if row["number"] == number), None)


def _advice(tries: Sequence[dict[str, Any]], kept: dict[str, Any]) -> str:
    """What to write into the job file, which says nothing of `accumulate`."""
    plain = {"accumulate": 1, "xla": tries[0]["xla"]}
    lines = [f"{name}: {str(kept[name]).lower()}" for name in plain if kept[name] != plain[name]]
    if not lines:
        return "nothing is faster than the job file as it is, beyond the spread"
    as_it_is = next((row for row in tries if plain == {name: row[name] for name in plain}), None)
    if as_it_is is None:
        compared = "as it is, the batch is estimated to fit no machine here"
    elif as_it_is["images_per_second"]:
        compared = f"{kept['images_per_second'] / as_it_is['images_per_second']:.2f} times as fast as it is"
    else:
        compared = f"as it is: {as_it_is['state'].replace('_', ' ')}"
    return f"write into the job file: {', '.join(lines)}; {compared}"


def _tried_text(proposal: PilotProposal) -> str:
    """What can be tried with the same work of each step."""
    if len({one.accumulate for one in possible(proposal.job)}) > 1:
        return "micro-batches and XLA"
    return "XLA alone, since a smaller micro-batch changes what this job trains,"


def _try_row(row: dict[str, Any]) -> list[str]:
    rate, width, peak = row["images_per_second"], row["half_width"], row["peak_memory_bytes"]
    spread = "" if width is None else f" ± {width:.1%}"
    return [
        str(row["number"]),
        f"{row['micro_batch_size']:,}",
        str(row["accumulate"]),
        "yes" if row["xla"] else "no",
        f"{_rate(rate)} images/s{spread}" if rate else "-",
        "-" if peak is None else f"{peak / 1024**3:.2f} GiB",
        f"{row['seconds']:.0f} s",
        row["state"].replace("_", " ")
        if rate
        else ": ".join(filter(None, (row["state"].replace("_", " "), row["message"]))),
    ]


def _beside_lines(result: PilotResult) -> list[str]:
    """What the pilot measured beside its rate."""
    phases = result.receipt.get("phase_seconds") or {}
    texts = figure_texts(result.receipt.get("figures") or {})
    texts += [f"{text} {phases[name]:.1f} s" for name, text in _PHASE_TEXTS.items() if name in phases]
    return [f"{_where(result.placement)}: {', '.join(texts)}"] if texts else []


_PHASE_TEXTS = {"data": "data ready in", "import": "framework", "build": "model", "compile": "first step"}
"""Phases of the trainer, and what they are called to a person."""
BOUND_TEXT = "input-bound: its host handed over images no faster than that; more processors, not a faster device, help"


def pilot_json(answer: PilotAnswer) -> dict[str, Any]:
    """The answer as planner/report/schemas/pilot.schema.json has it."""
    proposal = answer.proposal
    return {
        "job": proposal.job.name,
        "cap_usd": float(proposal.cap_usd),
        "is_worth_it": bool(proposal.pilots.indices),
        "expected_saving_usd": round(proposal.pilots.saving_usd, 6),
        "expected_cost_usd": round(proposal.pilots.cost_usd, 6),
        "candidates": [
            _placement_json(placement, proposal.cap_usd) | {"is_chosen": number in proposal.pilots.indices}
            for number, placement in enumerate(proposal.placements)
        ],
        "pilots": [_result_json(result) for result in answer.results],
        "spent_usd": round(float(answer.spent_usd), 6),
        "first_before": _first_json(proposal.placements[0]),
        "first_after": _first_json(answer.after[0]) if answer.after else None,
    }


def _row(placement: PilotPlacement, cap_usd: Decimal) -> list[str]:
    most = most_of(placement, cap_usd)
    return [
        str(placement.rank),
        _placement_text(placement),
        _device_text(placement),
        _market_text(placement),
        _usd_text(placement),
        _speed_text(placement),
        format_duration(timedelta(seconds=round(placement.seconds))),
        format_usd(placement.pilot_usd),
        "-" if most is None else format_usd(most),
    ]


NOT_MEASURED_YET = "not measured"


def _speed_text(placement: PilotPlacement) -> str:
    speed = placement.throughput
    return NOT_MEASURED_YET if known_rate(speed) is None else f"{_rate(speed.low)}-{_rate(speed.high)} images/s"


def _result_row(result: PilotResult) -> list[str]:
    speed = result.placement.throughput
    estimated = f"{_rate(speed.images_per_second)} ({_rate(speed.low)}-{_rate(speed.high)}) images/s"
    estimated = NOT_MEASURED_YET if known_rate(speed) is None else estimated
    return [
        _placement_text(result.placement),
        _device_text(result.placement),
        estimated,
        _measured_text(result),
        format_usd(result.usd),
        "-" if result.run is None else result.run.run_id,
    ]


def _measured_text(result: PilotResult) -> str:
    if result.measured is None:
        return "-"
    rate = f"{_rate(result.measured.images_per_second)} images/s"
    width = result.measured.half_width
    return rate if width is None else f"{rate} ± {width:.1%}"


def _is_bound(result: PilotResult) -> bool:
    return result.measured is not None and result.measured.input_bound


def _where(placement: PilotPlacement) -> str:
    if is_here(placement.target.offer.provider):
        return "this machine"
    return f"{_placement_text(placement)} {_device_text(placement)} ({_market_text(placement)})"


def _placement_text(placement: PilotPlacement) -> str:
    offer = placement.target.offer
    return "this machine" if is_here(offer.provider) else f"{offer.provider} {offer.region}"


def _device_text(placement: PilotPlacement) -> str:
    return machines_text(placement.target.offer.device, placement.target.offer.device_count)


def _market_text(placement: PilotPlacement) -> str:
    return placement.target.offer.market.replace("_", " ")


def _usd_text(placement: PilotPlacement) -> str:
    usd, low, high = placement.usd
    return f"{format_usd(usd)} ({format_usd(low)}-{format_usd(high)})"


def _key(placement: PilotPlacement) -> tuple[str, ...]:
    offer = placement.target.offer
    return offer.provider, offer.region, offer.instance_type, offer.market


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= _WHOLE else f"{value:.1f}"


_WHOLE = 100


def _cents(usd: float) -> Decimal:
    return Decimal(str(round(usd, 6)))


def _placement_json(placement: PilotPlacement, cap_usd: Decimal) -> dict[str, Any]:
    most, speed = most_of(placement, cap_usd), placement.throughput
    return _first_json(placement) | {
        "rank": placement.rank,
        "images_per_second": None if known_rate(speed) is None else round(speed.images_per_second, 3),
        "images_per_second_low": None if known_rate(speed) is None else round(speed.low, 3),
        "images_per_second_high": None if known_rate(speed) is None else round(speed.high, 3),
        "basis": speed.basis.value,
        "pilot_usd": round(float(placement.pilot_usd), 6),
        "pilot_seconds": round(placement.seconds, 3),
        "pilot_most_usd": None if most is None else round(float(most), 6),
    }


def _estimated(placement: PilotPlacement) -> float | None:
    rate = known_rate(placement.throughput)
    return None if rate is None else round(rate, 3)


def _first_json(placement: PilotPlacement) -> dict[str, Any]:
    offer, (usd, low, high) = placement.target.offer, placement.usd
    return {
        "provider": offer.provider,
        "region": offer.region,
        "instance_type": offer.instance_type,
        "device": offer.device,
        "device_count": offer.device_count,
        "market": str(offer.market),
        "usd": float(usd),
        "usd_low": float(low),
        "usd_high": float(high),
    }


def _result_json(result: PilotResult) -> dict[str, Any]:
    measured, offer = result.measured, result.placement.target.offer
    return {
        "run_id": None if result.run is None else result.run.run_id,
        "provider": offer.provider,
        "region": offer.region,
        "instance_type": offer.instance_type,
        "market": str(offer.market),
        "outcome": None if result.run is None or result.run.outcome is None else str(result.run.outcome),
        "why": result.why,
        "usd": round(float(result.usd), 6),
        "estimated_images_per_second": _estimated(result.placement),
        "images_per_second": None if measured is None else measured.images_per_second,
        "half_width": None if measured is None else measured.half_width,
        "is_input_bound": None if measured is None else measured.input_bound,
        "phase_seconds": result.receipt.get("phase_seconds") or {},
        **_figures_json(result),
        **_tries_json(result),
    }


def _figures_json(result: PilotResult) -> dict[str, Any]:
    figures = result.receipt.get("figures") or {}
    return {name: figures.get(name) for name in _FIGURES}


def _tries_json(result: PilotResult) -> dict[str, Any]:
    figures, kept = result.receipt.get("figures") or {}, kept_try(result)
    return {
        "tries": result.receipt.get("tries") or [],
        "kept": None if kept is None else {"accumulate": kept["accumulate"], "xla": kept["xla"]},
        "not_tried": int(figures.get("not_tried", 0)),
        "is_time_up": bool(figures.get("is_time_up")),
    }


_FIGURES = (
    "boot_seconds", "data_images_per_second", "data_half_width", "checkpoint_seconds", "checkpoint_bytes",
    "peak_memory_bytes",
)  # fmt: skip
