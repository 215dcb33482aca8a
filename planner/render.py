"""What a person reads: the estimate as an aligned table, with what was rejected and why."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from planner.plan import REASON_TEXTS, Reason
from planner.price_notes import is_trusted, price_notes, price_text
from planner.spot import CostAndTime, spot_verdict
from pricing.cost import run_cost
from pricing.money import UsdPerHour, format_usd, format_usd_per_hour, to_micro
from pricing.offers import LifecycleState, Market
from providers.launchable import table as table_of_images
from workloads.durations import format_duration
from workloads.layers import macs, parameters

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date
    from decimal import Decimal

    from planner.doctoring import Judged
    from planner.plan import MachineEstimate, Plan, RankedOffer
    from planner.throughput.values import Throughput
    from pricing.offers import Offer


class Column(NamedTuple):
    title: str
    right: bool = False


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> str:
    """Rows aligned under their titles, two blanks apart; nothing is cut off."""
    cells = [[column.title for column in columns], *rows]
    widths = [max(len(row[index]) for row in cells) for index in range(len(columns))]
    lines = []
    for row in cells:
        padded = [
            text.rjust(width) if column.right else text.ljust(width)
            for text, width, column in zip(row, widths, columns, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


ESTIMATE_COLUMNS = (
    Column("#", right=True),
    Column("where"),
    Column("instance"),
    Column("device"),
    Column("market"),
    Column("images/s (80 %)", right=True),
    Column("basis"),
    Column("time", right=True),
    Column("cost (80 %)", right=True),
    Column("$/h", right=True),
    Column("price"),
)


def estimate_table(plan: Plan, checked: Mapping[int, Judged] | None = None) -> str:
    """The whole answer: what is asked, the ranking, this machine, what was rejected and why.

    `checked` tells by rank which rows the account could launch.
    """
    parts, today = [_heading(plan)], plan.made_at.date()
    if plan.candidates and checked is None:
        parts.append(table(ESTIMATE_COLUMNS, [_row(ranked, today) for ranked in plan.candidates]))
    elif plan.candidates and checked is not None:
        rows = [(*_row(ranked, today), _launchable(checked.get(ranked.rank))) for ranked in plan.candidates]
        parts.append(table((*ESTIMATE_COLUMNS, Column("launch")), rows))
        parts.append("\n".join(_why_not(checked)))
    parts.append("\n".join(_under(plan)))
    return "\n\n".join(part for part in parts if part)


def _launchable(judged: Judged | None) -> str:
    return _LAUNCHABLE[judged.state] if judged else "-"


def _why_not(checked: Mapping[int, Judged]) -> list[str]:
    """What stands in the way, once for all rows that share it."""
    rows: dict[str, list[int]] = {}
    for rank, judged in checked.items():
        if judged.state != "ok":
            rows.setdefault(f"{_LAUNCHABLE[judged.state]}: {judged.why}", []).append(rank)
    return [
        f"{'row' if len(ranks) == 1 else 'rows'} {', '.join(map(str, sorted(ranks)))}: {text}"
        for text, ranks in sorted(rows.items(), key=lambda known: min(known[1]))
    ]


_LAUNCHABLE = {"ok": "ok", "refused": "no", "unknown": "unknown"}


def _heading(plan: Plan) -> str:
    job = plan.job
    net = job.net()
    data = job.data.name or job.data.path or job.data.url
    return (
        f"{job.name}: {net.name} ({parameters(net) / 1e6:.1f} M parameters, {2 * macs(net) / 1e9:.2f} GFLOPs forward) "
        f"on {data} at {job.image_size} px, {job.epochs} epochs, batch {job.global_batch_size}, {job.precision}"
        f"{', xla' if job.xla else ''}, {job.framework}"
    )


def _row(ranked: RankedOffer, today: date) -> tuple[str, ...]:
    offer, estimate = ranked.offer, ranked.candidate.estimate
    return (
        str(ranked.rank),
        f"{offer.provider} {offer.region}",
        f"{offer.instance_type}{_state_mark(offer)}",
        device_text(offer.device, offer.device_count, float(offer.device_fraction), offer.vcpus),
        "spot" if offer.market is Market.SPOT else "on demand",
        _speed(estimate.throughput),
        f"{estimate.throughput.basis}{' input-bound' if estimate.input_bound else ''}",
        format_duration(estimate.time.total),
        f"{format_usd(ranked.cost_usd)} ({_span(ranked.cost_low_usd, ranked.cost_high_usd)})",
        _rate(offer),
        price_text(offer, today),
    )


def device_text(device: str, count: int, fraction: float, vcpus: int | None) -> str:
    """`T4`, `4 x V100`, `1/8 L4`, `8 vCPU`."""
    if device == "cpu":
        return f"{vcpus} vCPU" if vcpus else "cpu"
    if fraction < 1:
        return f"1/{round(1 / fraction)} {device}"
    return device if count == 1 else f"{count} x {device}"


def _state_mark(offer: Offer) -> str:
    state = offer.lifecycle.state
    return "" if state is LifecycleState.ACTIVE else f" ({state})"


def _speed(throughput: Throughput) -> str:
    return f"{_rounded(throughput.images_per_second)} ({_rounded(throughput.low)}-{_rounded(throughput.high)})"


def _rounded(value: float) -> str:
    """Three significant digits, as many as an estimate bears."""
    if value >= 100:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def _span(low: Decimal, high: Decimal) -> str:
    return f"{format_usd(low).removeprefix('$')}-{format_usd(high).removeprefix('$')}"


def _rate(offer: Offer) -> str:
    """The planning price, and the source's own beside it where the two differ."""
    planning = offer.planning_usd_per_hour
    if planning is None or planning == offer.usd_per_hour:
        return f"{offer.usd_per_hour:.3f}"
    return f"{planning:.3f} ({'list' if offer.own_rate else 'raw'} {offer.usd_per_hour:.3f})"


def _under(plan: Plan) -> list[str]:
    lines: list[str] = []
    if plan.candidates:
        more = len(plan.ranking) - len(plan.candidates)
        if more > 0:
            lines.append(
                f"{more} more {'rows' if more > 1 else 'row'}: --limit N, or --all for every offer of every place"
            )
        lines.extend(price_notes(plan))
        lines.extend(_data_lines(plan))
        lines.extend(_spot_verdicts(plan))
        lines.extend(_unproven_lines(plan))
    if plan.this_machine:
        lines.append(f"this machine: {machine_line(plan.this_machine)}")
    lines.extend(f"advice: {line}" for line in plan.advice)
    counts = rejection_counts(plan)
    if counts:
        lines.append(f"rejected, of {plan.offers_seen:,} offers:")
        lines.extend(f"  {count:>6,}  {REASON_TEXTS[reason]} [{reason}]" for reason, count in counts)
    return lines


def _data_lines(plan: Plan) -> list[str]:
    """What is counted of data that is no known set."""
    if plan.job.data.name is not None:
        return []
    from planner.bringing import data_line

    return [f"data: {data_line(plan.job)}"]


def _spot_verdicts(plan: Plan) -> list[str]:
    """The rows on spot that are not worth the bother, against on demand in the same place.

    Only where the spot price is taken at its word: of the others nobody knows.
    """
    lines = []
    for ranked in plan.candidates:
        estimate, offer = ranked.candidate.estimate, ranked.offer
        rate = offer.on_demand_usd_per_hour
        if estimate.spot is None or rate is None or not is_trusted(offer):
            continue
        steady = estimate.steady.total
        on_demand = to_micro(run_cost(UsdPerHour(rate), steady, estimate.usage, estimate.rates).total)
        here = CostAndTime(ranked.candidate.cost_micro_usd, estimate.time.total.total_seconds())
        verdict = spot_verdict(CostAndTime(on_demand, steady.total_seconds()), here)
        if verdict:
            lines.append(f"row {ranked.rank}: {verdict} than on demand")
    return lines


def _unproven_lines(plan: Plan) -> list[str]:
    """One line for each reason, with the rows that it is about."""
    rows: dict[str, list[str]] = {}
    for ranked in plan.candidates:
        if ranked.candidate.estimate.unproven:
            rows.setdefault(unproven_text(ranked), []).append(str(ranked.rank))
    return [f"{'row' if len(ranks) == 1 else 'rows'} {', '.join(ranks)}: {text}" for text, ranks in rows.items()]


def unproven_text(ranked: RankedOffer) -> str:
    """That nobody is known to have run the machine's image and driver on this device, why, and what it does to the
    rank."""
    factor = table_of_images().unproven_cost_factor
    why = ranked.candidate.estimate.unproven
    return f"image and driver are unproven on it, so it is ranked at {factor:g} times its cost: {why}"


def machine_line(machine: MachineEstimate) -> str:
    """What a job takes here, in one line."""
    what = f"{machine.name}, {device_text(machine.device, machine.device_count, 1.0, None)}"
    if machine.time is None or machine.throughput is None or machine.cost_usd is None:
        return f"{what}: no ({machine.reason})"
    return (
        f"{what}: {_speed(machine.throughput)} images/s, {machine.throughput.basis}, "
        f"{format_duration(machine.time.total)}, {format_usd(machine.cost_usd)} "
        f"(at {format_usd_per_hour(machine.usd_per_hour)})"
    )


def rejection_counts(plan: Plan) -> list[tuple[Reason, int]]:
    """Offers by the reason that ruled them out, in the order the filters come."""
    counts: Counter[Reason] = Counter()
    for key, count in plan.rejections.items():
        counts[key.reason] += count
    return [(reason, counts[reason]) for reason in Reason if counts[reason]]
