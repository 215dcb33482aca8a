"""The columns of `plan estimate`: each is defined here once, for the table, the JSON and docs/estimate.md.

A column has a title and a cell for people, keys and values for programs, or both. Whoever adds one adds a row to
`COLUMNS`, and `pytest --update-golden` writes the texts that show it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from trainplan.planner.forecast.price_notes import is_computed, price_word
from trainplan.planner.forecast.script_work import up_to
from trainplan.planner.report.page import Cell, Column, Table, Tone
from trainplan.planner.report.queue_lines import queue_json
from trainplan.planner.report.session_lines import sessions_json, sessions_word
from trainplan.planner.throughput.values import Basis
from trainplan.pricing.devices import device_text, machines_text
from trainplan.pricing.grades import is_old
from trainplan.pricing.money import format_usd, format_usd_interval, to_micro, two_digits
from trainplan.pricing.offers import LifecycleState, Market
from trainplan.providers.registry import is_simulated
from trainplan.workloads.memory import GIB

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import date
    from decimal import Decimal

    from trainplan.planner.forecast.plan import Candidate, Estimate, MemoryNeed, RankedOffer
    from trainplan.planner.throughput.values import Throughput
    from trainplan.pricing.offers import Offer, PriceStamp, Rental

MICRO = 1_000_000
UNPROVEN_MARK = "*"
"""Behind the cost of an offer on whose device no run of the machine's image and driver is known."""


class Priced(NamedTuple):
    """A row of the JSON: a candidate, what its placement asks for (millionths of a dollar an hour), and the parts of
    its cost beside compute, in dollars. `row` is its number for people, `credit_usd` what is left of the person's
    credits at its provider."""

    row: str
    rank: int
    candidate: Candidate
    micro_usd_per_hour: int
    stamp: PriceStamp
    fixed: Mapping[str, float]
    today: date
    credit_usd: Decimal

    @property
    def credit_micro(self) -> int:
        """What a credit of the person's pays of it, in millionths of a dollar."""
        return min(self.candidate.cost_micro_usd, to_micro(self.credit_usd))

    def cost_usd(self, end: int) -> float:
        """The low (1) or the high (2) end of the cost."""
        estimate, placement, _, _ = self.candidate
        return (
            estimate.cost_micro_usd(placement.planning_micro_usd_per_hour, placement.region, end, self.stamp.spread)
            / MICRO
        )


class EstimateColumn(NamedTuple):
    """`meaning` says what it is, with its unit. `cell` is the text in the table under `title`; no title: JSON alone.

    `rank_of_need` says which columns a narrow terminal leaves out first (trainplan.planner.report.page.Column).

    `of_machine` and `of_placement` are its keys in the JSON: those that all placements of a machine type share are made
    once for thousands of rows, the others for each row.
    """

    meaning: str
    title: str = ""
    cell: Callable[[RankedOffer, date], str | Cell] | None = None
    right: bool = False
    rank_of_need: int = 0
    shrinks: bool = False
    of_machine: Mapping[str, Callable[[Estimate], Any]] = {}
    of_placement: Mapping[str, Callable[[Priced], Any]] = {}


def speed_text(throughput: Throughput) -> str:
    """`735 (600-900)`: images per second in three digits and their 80 % interval in two."""
    if throughput.basis is Basis.UNMEASURED:
        return "not measured"
    return f"{rounded(throughput.images_per_second)} ({two_digits(throughput.low)}-{two_digits(throughput.high)})"


def speed_json(throughput: Throughput) -> dict[str, Any]:
    """Throughput in images per second, with the ends of its 80 % interval."""
    return {key: value(throughput) for key, value in SPEED.items()}


SPEED: Mapping[str, Callable[[Throughput], Any]] = {
    "images_per_second": lambda throughput: _if_measured(throughput, throughput.images_per_second),
    "images_per_second_low": lambda throughput: _if_measured(throughput, throughput.low),
    "images_per_second_high": lambda throughput: _if_measured(throughput, throughput.high),
    "basis": lambda throughput: throughput.basis,
}


def _if_measured(throughput: Throughput, rate: float) -> float | None:
    return None if throughput.basis is Basis.UNMEASURED else rate


def rounded(value: float) -> str:
    """Three significant digits, as many as an estimate bears."""
    if value >= 100:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def _where(ranked: RankedOffer, _: date) -> str:
    return f"{ranked.offer.provider} {ranked.offer.region}"


def _instance(ranked: RankedOffer, _: date) -> str:
    return machines_text(ranked.offer.instance_type, ranked.candidate.estimate.machines)


def _device(ranked: RankedOffer, _: date) -> str:
    offer = ranked.offer
    return device_text(offer.device, offer.device_count, float(offer.device_fraction), offer.vcpus)


def _basis(ranked: RankedOffer, _: date) -> str:
    estimate = ranked.candidate.estimate
    return f"{estimate.throughput.basis}{' input-bound' if estimate.input_bound else ''}"


def _time(ranked: RankedOffer, _: date) -> str:
    estimate = ranked.candidate.estimate
    return up_to(estimate.time.text, estimate.throughput.basis)


def _cost(ranked: RankedOffer, _: date) -> str:
    """The mark stands where the offer is ranked at more than its cost: rows below it may cost less."""
    mark = UNPROVEN_MARK if ranked.candidate.estimate.unproven else ""
    if ranked.candidate.estimate.throughput.basis is Basis.UNMEASURED:
        return f"up to {format_usd(ranked.cost_usd)}{mark}"
    text = format_usd_interval(ranked.cost_usd, ranked.cost_low_usd, ranked.cost_high_usd)
    return text.replace(" ", f"{mark} ", 1)


def _rate(ranked: RankedOffer, _: date) -> str:
    """The planning price; the source's own is in `--explain`."""
    planning = ranked.offer.planning_usd_per_hour
    return f"{ranked.offer.usd_per_hour if planning is None else planning:.3f}"


def _price(ranked: RankedOffer, _: date) -> str | Cell:
    word = price_word(ranked.offer)
    return Cell(word, Tone.FAINT) if is_computed(ranked.offer) else word


def _lifecycle(rental: Rental) -> dict[str, Any]:
    life = rental.lifecycle
    return {
        "state": life.state,
        "date": life.date.isoformat() if life.date else None,
        "successor": life.successor,
    }


def _memory(need: MemoryNeed | None) -> dict[str, Any] | None:
    if need is None:
        return None
    return {
        "needed_gib": round(need.step.allocated / GIB, 3),
        "least_gib": round(need.step.least / GIB, 3),
        "usable_low_gib": round(need.usable.low_gib, 3),
        "usable_high_gib": round(need.usable.high_gib, 3),
        "tight": need.is_tight,
        "source": need.usable.source,
    }


def _cost_parts(row: Priced) -> dict[str, float]:
    estimate, placement, cost, _ = row.candidate
    elsewhere = estimate.elsewhere_micro_usd(placement.planning_micro_usd_per_hour)
    compute = cost - estimate.side.micro_usd(placement.region) - elsewhere
    return {"compute": compute / MICRO, **row.fixed, "elsewhere": elsewhere / MICRO}


def _market(ranked: RankedOffer, _: date) -> str | Cell:
    """The market, and the one word that matters most of what is to be known first."""
    return market_cell(ranked.offer.market, _remarks(ranked.candidate.estimate, ranked.offer))


def market_cell(market: str, remarks: Sequence[str]) -> str | Cell:
    """`spot, tight`: a market as the JSON names it, with the first of the remarks and its tone."""
    text = "spot" if market == Market.SPOT else "on demand"
    for word in remarks:
        return Cell(f"{text}, {word}", _TONES.get(word, Tone.WARNING))
    return Cell(text, Tone.SPOT) if market == Market.SPOT else text


ESTIMATE_ONLY = "estimate only"
_TONES = {ESTIMATE_ONLY: Tone.FAINT, "computed": Tone.FAINT, str(LifecycleState.RETIRED): Tone.BAD}
"""The tones of remarks that are no warning."""


def _remarks(estimate: Estimate, price: Offer | PriceStamp) -> list[str]:
    """What sets a row apart, the gravest first."""
    rental, search, memory = estimate.rental, estimate.search, estimate.memory
    words = {
        "simulated": is_simulated(rental.provider),
        str(LifecycleState.RETIRED): rental.lifecycle.state is LifecycleState.RETIRED,
        sessions_word(estimate): estimate.sessions is not None,
        ESTIMATE_ONLY: bool(estimate.estimate_only_text),
        str(rental.lifecycle.state): rental.lifecycle.state is not LifecycleState.ACTIVE,
        str(estimate.obtainability.grade): search is not None,
        "tight": memory is not None and memory.is_tight,
        "input-bound": estimate.input_bound,
        "computed": is_computed(price),
    }
    return [word for word, holds in words.items() if holds]


def _obtainability(estimate: Estimate) -> dict[str, Any] | None:
    known, search = estimate.obtainability, estimate.search
    if not known.is_known:
        return None
    return {
        "grade": known.grade,
        "ground": known.ground,
        "as_of": known.as_of.isoformat() if known.as_of else None,
        "source": known.source,
        "requests": search.requests if search else 1.0,
        "waiting_seconds": search.waiting.total_seconds() if search else 0.0,
        "refused": search.refused if search else 0.0,
    }


COLUMNS = (
    EstimateColumn(
        "number of the row, the same in every output: `6` is the best placement of its provider, device, device count "
        "and market, `6.2` the second-best; `rank`: position among all placements, from 1",
        "#", lambda ranked, _: ranked.number, right=True,
        of_placement={"row": lambda row: row.row, "rank": lambda row: row.rank},
    ),
    EstimateColumn(
        "provider and region; `zone`: null for the whole region",
        "where", _where, shrinks=True,
        of_machine={"provider": lambda estimate: estimate.rental.provider},
        of_placement={
            "region": lambda row: row.candidate.placement.region,
            "zone": lambda row: row.stamp.zones[0] if row.stamp.zones else None,
        },
    ),
    EstimateColumn(
        "the vendor's name of the machine; `machines`: how many a launch takes (more than one on a Slurm cluster)",
        "instance", _instance, rank_of_need=1,
        of_machine={
            "instance_type": lambda estimate: estimate.rental.instance_type,
            "machines": lambda estimate: estimate.machines,
        },
    ),
    EstimateColumn(
        "accelerators, or vCPUs; `device_fraction`: the share of one that is rented; `vcpus`: of the machine, null "
        "where that is not known", "device", _device,
        of_machine={
            "device": lambda estimate: estimate.rental.device,
            "device_count": lambda estimate: estimate.rental.device_count,
            "device_fraction": lambda estimate: float(estimate.rental.device_fraction),
            "vcpus": lambda estimate: estimate.rental.vcpus,
        },
    ),
    EstimateColumn(
        "`on_demand` or `spot`; in the table with the word that matters most: `simulated`, `3 sessions` (where "
        "machines cost nothing), `estimate only` (nothing is launched there), the state where it is not active, "
        "`uncertain` or `poor` (it may not be obtained), "
        "`tight` (memory), `input-bound` (its host feeds slower than it computes), `computed` (the price); "
        "`remarks`: all such words, the gravest first",
        "market", _market, shrinks=True,
        of_machine={"market": lambda estimate: estimate.rental.market},
        of_placement={"remarks": lambda row: _remarks(row.candidate.estimate, row.stamp)},
    ),
    EstimateColumn(
        "how likely it is obtained: `grade` (good, uncertain, poor), `ground`, `as_of`, `source`; what is expected of "
        "it: `requests` (create requests), `waiting_seconds`, and the chance `refused` that the run goes elsewhere; "
        "null where it is not known",
        of_machine={"obtainability": _obtainability},
    ),
    EstimateColumn(
        "the wait in the queue of your own cluster, which is counted in the time: `waiting_seconds`, its ends "
        "`waiting_low_seconds` and `waiting_high_seconds`, and `ground`, what they rest on; null where none is counted",
        of_machine={"queue": queue_json},
    ),
    EstimateColumn(
        "where machines cost nothing: the sessions `needed`, with `needed_low` and `needed_high`, and `weeks` that "
        "they take; hours of a session (`session_hours` at most, `planned_hours` counted on) and of a week "
        "(`weekly_hours`); what nobody publishes (`assumed`), `as_of`, `source`; null elsewhere",
        of_machine={"sessions": sessions_json},
    ),
    EstimateColumn(
        "`state` (active, legacy, deprecated, retired), `date` of its end, `successor`: what to rent instead",
        of_machine={"lifecycle": lambda estimate: _lifecycle(estimate.rental)},
    ),
    EstimateColumn(
        "the ground for its being offered there",
        of_machine={"availability": lambda estimate: estimate.rental.availability.source},
    ),
    EstimateColumn(
        "images per second over all devices, with the ends of the 80 % interval", "images/s (80 %)",
        lambda ranked, _: speed_text(ranked.candidate.estimate.throughput), right=True, rank_of_need=3,
        of_machine={
            # `value=value` binds each key's own function: a closure would see the last one.
            key: lambda estimate, value=value: value(estimate.throughput)  # type: ignore[misc]
            for key, value in SPEED.items() if key != "basis"
        },
    ),
    EstimateColumn(
        "`measured`, `scaled`, `anchored` or `modelled`; `unmeasured`: a script that nobody has measured, whose time "
        "and cost are those of its deadline; `input_bound`: its host feeds slower than it computes",
        "basis",
        _basis,
        rank_of_need=4,
        of_machine={
            "basis": lambda estimate: estimate.throughput.basis,
            "input_bound": lambda estimate: estimate.input_bound,
        },
    ),
    EstimateColumn(
        "the measurements that the speed rests on, by their ids (those of the shipped table are in `measurements`), or "
        "a sentence where there are none",
        of_machine={"speed_evidence": lambda estimate: list(estimate.computed.evidence)},
    ),
    EstimateColumn(
        "seconds to the first step, of the epochs, after the last one (until the machine is deleted) and in "
        "all, with the ends of the 80 % interval", "time",
        _time, right=True,
        of_machine={
            "setup_seconds": lambda estimate: estimate.time.setup.total_seconds(),
            "train_seconds": lambda estimate: estimate.time.train.total_seconds(),
            "end_seconds": lambda estimate: estimate.time.after.total_seconds(),
            "total_seconds": lambda estimate: estimate.time.total.total_seconds(),
            "total_low_seconds": lambda estimate: estimate.time.low.total_seconds(),
            "total_high_seconds": lambda estimate: estimate.time.high.total_seconds(),
        },
    ),
    EstimateColumn("true: what does not fit is among the rejections", of_machine={"fits": lambda _: True}),
    EstimateColumn(
        "GiB that a step takes of one device where they are free, the least that it runs in, and what is usable; "
        "null where that is not known",
        of_machine={"memory": lambda estimate: _memory(estimate.memory)},
    ),
    EstimateColumn(
        "why nobody is known to have run the machine's image and driver on its device; null where somebody has",
        of_machine={"unproven": lambda estimate: estimate.unproven or None},
    ),
    EstimateColumn(
        "the whole run in USD, with both ends; `cost_parts`: compute, disk, address, transfer, "
        "between_regions, and `elsewhere`: what going to another region adds where the placement may refuse; in the "
        "table with a `*` where the offer is ranked at more than its cost, since nobody is known to have run it "
        "(`unproven`)",
        "cost (80 %)", _cost, right=True,
        of_placement={
            "cost_usd": lambda row: row.candidate.cost_micro_usd / MICRO,
            "cost_low_usd": lambda row: row.cost_usd(1),
            "cost_high_usd": lambda row: row.cost_usd(2),
            "cost_parts": _cost_parts,
        },
    ),
    EstimateColumn(
        "`credit_usd`: what the person's credits pay of it; `paid_usd`: the rest (in the table where there is one)",
        of_placement={
            "credit_usd": lambda row: row.credit_micro / MICRO,
            "paid_usd": lambda row: (row.candidate.cost_micro_usd - row.credit_micro) / MICRO,
        },
    ),
    EstimateColumn(
        "USD an hour: the source's own price, and what is planned with, which is the one in the table", "$/h", _rate,
        right=True, rank_of_need=2,
        of_placement={
            "usd_per_hour": lambda row: row.micro_usd_per_hour / MICRO,
            "planning_usd_per_hour": lambda row: row.candidate.placement.planning_micro_usd_per_hour / MICRO,
        },
    ),
    EstimateColumn(
        "how the price was obtained, and when; `price_grade`; `price_old`: over a month; `planned_as`: what the "
        "planning price rests on; `price_source`: where it was read; `own_rate`: the person's own, in words",
        "price", _price, rank_of_need=5,
        of_placement={
            "price_grade": lambda row: row.stamp.price_grade,
            "price_as_of": lambda row: row.stamp.price_as_of.isoformat() if row.stamp.price_as_of else None,
            "price_old": lambda row: is_old(row.stamp.price_as_of, row.today),
            "planned_as": lambda row: row.stamp.planned_as,
            "price_source": lambda row: row.stamp.source,
            "own_rate": lambda row: row.stamp.own_rate or None,
        },
    ),
)  # fmt: skip
"""In the order of the table."""
TABLE = tuple(column for column in COLUMNS if column.cell is not None)
LAUNCHABLE = "launchable"
"""With `--check`, and always where nothing is launched from here: `state` and `reason`; null: not asked."""
OF_MACHINE = {key: value for column in COLUMNS for key, value in column.of_machine.items()}
OF_PLACEMENT = {key: value for column in COLUMNS for key, value in column.of_placement.items()}


def cells(ranked: RankedOffer, today: date) -> tuple[str | Cell, ...]:
    """A row of the table."""
    return tuple(column.cell(ranked, today) for column in TABLE if column.cell is not None)


def table_of(ranked_offers: Sequence[RankedOffer], today: date) -> Table:
    """The table of these rows."""
    columns = [Column(column.title, column.right, column.rank_of_need, column.shrinks) for column in TABLE]
    return Table(columns, [cells(ranked, today) for ranked in ranked_offers])
