"""What an estimate and a plan are: estimates, candidates, rejections with their reasons."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner.forecast.allowances import Allowances
from trainplan.planner.forecast.feeding import Feed
from trainplan.planner.forecast.obtainability import ExpectedSearch
from trainplan.planner.forecast.queue_wait import QueueWait
from trainplan.planner.forecast.side_costs import SideCosts
from trainplan.planner.forecast.spot import SpotTime
from trainplan.planner.forecast.times import RunTime
from trainplan.planner.throughput.machines import Network
from trainplan.planner.throughput.values import Throughput
from trainplan.pricing.money import from_micro, to_micro
from trainplan.pricing.obtainability import UNKNOWN, Obtainability
from trainplan.pricing.offers import Offer, Placement, Rental
from trainplan.pricing.offers import Quote as PlacementPrice
from trainplan.pricing.planning import AS_LISTED, PriceSpread
from trainplan.providers.cloud.images import table
from trainplan.providers.registry import is_estimated_only
from trainplan.workloads.memory import GIB, is_tight
from trainplan.workloads.runtimes import ChosenSoftware
from trainplan.workloads.wording import Command, Option, Text

if TYPE_CHECKING:
    from trainplan.pricing.cost import RunCost
    from trainplan.pricing.devices import UsableMemory
    from trainplan.pricing.free_places import FreePlace
    from trainplan.workloads.job import TrainingJob


class StepBytes(NamedTuple):
    """What a step takes of a device's memory where it is there, and the least that it runs in, if slower."""

    allocated: int
    least: int


class MemoryNeed(NamedTuple):
    """What `images` at once need of one device (or core of a TPU chip that is two), and what is usable of it."""

    images: int
    step: StepBytes
    usable: UsableMemory

    @property
    def fits(self) -> bool:
        """Whether the most that a framework has been seen to get is enough for the least that a step takes."""
        return self.step.least <= self.usable.high_gib * GIB

    @property
    def is_tight(self) -> bool:
        """Whether it fits, but for so little that a driver or framework that takes more would stop it."""
        return self.fits and is_tight(self.step.allocated, self.usable.high_gib)

    @property
    def usable_text(self) -> str:
        """`13.3 to 13.6 GiB`, or `7.0 GiB` where one figure is known."""
        low, high, _ = self.usable
        return f"{high:.1f} GiB" if f"{low:.1f}" == f"{high:.1f}" else f"{low:.1f} to {high:.1f} GiB"


class Sessions(NamedTuple):
    """Those of a free place: `needed` as expected, with the ends of the 80 % interval; `weeks` in
    which they fit, as expected."""

    needed: int
    low: int
    high: int
    weeks: int
    place: FreePlace


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A number of equal machines that train one job together, at the placement of the offer in `rank`.

    `row` is the number of that offer for people.
    `left_out` says why such a number cannot be used; then the rest is None. `is_worth_it`: time times cost is lower
    than that of every smaller number; None for one machine.
    """

    rank: int
    machines: int
    rental: Rental
    region: str
    network: Network
    estimate: Estimate | None = None
    cost_micro_usd: tuple[int, int, int] | None = None
    is_worth_it: bool | None = None
    left_out: str = ""
    row: str = ""

    @property
    def devices(self) -> int:
        """Accelerators of all machines."""
        return self.machines * self.rental.device_count

    @property
    def balance(self) -> float:
        """Time times expected cost, by which numbers are compared (as the objective `balanced`); the time alone where
        machines cost nothing, as on a person's own cluster."""
        if self.estimate is None or self.cost_micro_usd is None:
            return math.inf
        return self.estimate.time.total.total_seconds() * max(1, self.cost_micro_usd[0])

    def compared_with(self, other: Group) -> tuple[float, float]:
        """Its time and its cost over those of another number; infinite where either cannot be used."""
        if not (self.estimate and other.estimate and self.cost_micro_usd and other.cost_micro_usd):
            return math.inf, math.inf
        time = self.estimate.time.total / other.estimate.time.total
        return time, self.cost_micro_usd[0] / max(1, other.cost_micro_usd[0])


class Reason(StrEnum):
    """Why an offer is no candidate; the list is closed."""

    PROVIDER = "provider_not_wanted"
    DEVICE = "device_not_wanted"
    COUNT = "count_not_wanted"
    MARKET = "market_not_wanted"
    RETIRED = "retired"
    NOT_OFFERED = "not_offered"
    REGION = "region_not_wanted"
    CANNOT_RUN = "no_known_software"
    MULTI_HOST = "several_hosts"
    NO_CHECKPOINTS = "no_checkpoints"
    SCRIPT_ON_ONE_DEVICE = "script_on_one_device"
    NO_DEVICE_DATA = "no_device_data"
    NO_BF16 = "no_bf16"
    ONE_DEVICE = "one_device_only"
    BATCH_NOT_DIVISIBLE = "batch_not_divisible"
    CANNOT_ACCUMULATE = "cannot_accumulate"
    OUT_OF_MEMORY = "out_of_memory"
    FRACTION_TOO_SMALL = "fraction_too_small"
    DISK_TOO_SMALL = "disk_too_small"
    STORAGE_TOO_SMALL = "storage_too_small"
    SESSION_TOO_SHORT = "session_too_short"
    NO_THROUGHPUT = "no_throughput"
    NO_PRICE = "no_planning_price"
    TOO_SLOW = "too_slow"
    OVER_DEADLINE = "over_deadline"
    OVER_BUDGET = "over_budget"

    @property
    def text(self) -> str:
        """It in words."""
        return str(REASON_TEXTS[self])


ONLY_ESTIMATED = (Reason.ONE_DEVICE, Reason.MULTI_HOST)
"""Why a launch leaves out what an estimate shows."""
REASON_TEXTS: dict[Reason, str | Text] = {
    Reason.RETIRED: Text("retired by the vendor (", Option.INCLUDE_RETIRED, " shows them)"),
    Reason.NOT_OFFERED: Text("not offered there, or not to everybody (", Option.INCLUDE_RETIRED, " shows them)"),
    Reason.PROVIDER: "not among the providers you asked for",
    Reason.REGION: "not among the regions you asked for, or not in the setting `regions`",
    Reason.DEVICE: "not among the devices you asked for",
    Reason.COUNT: "not of as many accelerators as you asked for",
    Reason.MARKET: "not among the markets you asked for",
    Reason.CANNOT_RUN: "no known combination of driver, container and host can train on it",
    Reason.MULTI_HOST: "a slice of several hosts, of which a launch starts one: start the trainer on each "
    "(docs/training.md, several processes)",
    Reason.NO_CHECKPOINTS: "on spot a script without checkpoints begins anew (checkpoints: true: it has them)",
    Reason.SCRIPT_ON_ONE_DEVICE: "a script trains on one device, and this has more (a TPU v2 or v3 chip is two)",
    Reason.NO_DEVICE_DATA: "the speed of its device is unknown",
    Reason.NO_BF16: "its GPU has no bf16, which came with Ampere: precision: amp_fp16 runs on it",
    Reason.ONE_DEVICE: Text(
        "the trainer uses one device with PyTorch: framework: tensorflow or jax uses them all, or start a script of "
        "your own there with torchrun; on Slurm ",
        Command("export", Option.TO("sbatch")),
        " starts a process for each",
    ),
    Reason.BATCH_NOT_DIVISIBLE: "the batch does not split evenly over its devices (a TPU v2 or v3 chip is two)",
    Reason.CANNOT_ACCUMULATE: "only TensorFlow 2.16 or newer trains a batch in parts (accumulate)",
    Reason.OUT_OF_MEMORY: "the batch does not fit its memory",
    Reason.FRACTION_TOO_SMALL: "the fraction of a device it holds is too small for the batch",
    Reason.DISK_TOO_SMALL: "the data needs a larger disk than can be attached to it (64 TiB)",
    Reason.STORAGE_TOO_SMALL: "the data or checkpoints take more than this free place keeps (docs/free-places.md)",
    Reason.SESSION_TOO_SHORT: "a session there ends before the first step",
    Reason.NO_THROUGHPUT: "no throughput can be predicted for it",
    Reason.NO_PRICE: "no price to plan with",
    Reason.TOO_SLOW: "longer than 30 days",
    Reason.OVER_DEADLINE: "past the deadline",
    Reason.OVER_BUDGET: "over the budget",
}


ESTIMATE_ONLY_TEXT = "nothing can be launched there from here: its offers are estimated only"
"""Of a provider that is not launched at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What holds for a rental wherever it is had: throughput, time, and cost but for the price of the placement.

    `throughput` is what is left of `computed` after feeding, `feed` what the host can hand over (None: not known).
    `memory` is what a step needs of a device beside what is usable of it (None: not known). `unproven` says why nobody
    is known to have run the machine's image and driver on its device ("": somebody has).
    `around` is what the run takes around its training, `plain` the time of the work alone, `steady` with the writing of
    checkpoints, `time` with what interruptions add on spot, which `spot` tells apart. `software` is what it would train
    with. `only_estimated` is why nothing is launched on it (None: a launch uses all of it).

    `billed_seconds` is a triple: expected, low, high. The ends are P10 and P90: of the throughput, and on spot of the
    interruptions too. `side` is what is paid beside the machine, by the region that it is in.

    Where something is known of the `obtainability` of a placement, the placement has an estimate of its own: `search`
    is what asking there adds to `time` and cost (None: it counts as obtained at once). `queue` is the wait in the queue
    of a cluster, which adds to `time` alone (None: there is no queue, or nothing is known of it). `sessions` are those
    of a free place, whose further beginnings and waits are in `time` (None: it ends when it is done).

    Of several `machines` that train together, `rental`, `computed`, `feed` and prices an hour are one machine's,
    `throughput`, times and costs those of all; `alone` is the same job on one of them, wherever it is (None: this is
    of one machine). `kinds` counts the speeds that the trials of a sweep have: `throughput` is that of all together.
    """

    rental: Rental
    computed: Throughput
    feed: Feed | None
    throughput: Throughput
    around: Allowances
    plain: RunTime
    steady: RunTime
    time: RunTime
    spot: SpotTime | None
    billed_seconds: tuple[int, int, int]
    side: SideCosts
    input_bound: bool = False
    software: ChosenSoftware | None = None
    memory: MemoryNeed | None = None
    unproven: str = ""
    only_estimated: Reason | None = None
    obtainability: Obtainability = UNKNOWN
    search: ExpectedSearch | None = None
    queue: QueueWait | None = None
    sessions: Sessions | None = None
    machines: int = 1
    alone: Estimate | None = None
    kinds: int = 1

    @property
    def estimate_only_text(self) -> str:
        """Why nothing is launched on the machine from here; "" where it is."""
        if is_estimated_only(self.rental.provider):
            return ESTIMATE_ONLY_TEXT
        return "" if self.only_estimated is None else self.only_estimated.text

    def fixed(self, region: str) -> RunCost:
        """What is paid beside the machine in a region, in its parts, as expected."""
        return self.side.parts(region)

    def cost_micro_usd(
        self, rate_micro_usd_per_hour: int, region: str, which: int = 0, spread: PriceSpread = AS_LISTED
    ) -> int:
        """Whole-run cost at a machine's rate in a region, in millionths of a dollar; `which` 0 expected, 1 low, 2 high.

        The ends of the time and those of the price (`spread`) are independent: their logarithms add up in squares.
        """
        seconds: float = self.billed_seconds[which]
        price = (1.0, *spread)[which]
        if price != 1.0:
            apart = math.hypot(math.log(seconds / self.billed_seconds[0]), math.log(price))
            seconds = self.billed_seconds[0] * math.exp(-apart if which == 1 else apart)
        compute = self.machines * rate_micro_usd_per_hour * int(seconds) // 3600
        return compute + self.side.micro_usd(region, which) + self.elsewhere_micro_usd(rate_micro_usd_per_hour, which)

    def elsewhere_micro_usd(self, rate_micro_usd_per_hour: int, which: int = 0) -> int:
        """What of the cost, in millionths of a dollar, is due to going elsewhere where the placement refuses; `which`
        as above."""
        if self.search is None:
            return 0
        return self.machines * self.search.added_micro_usd(rate_micro_usd_per_hour, self.billed_seconds[which], which)


COVERED_SHARE = 1e-9
"""What a cost that a credit covers counts for in the ranking: next to nothing, and still in its order."""


class Candidate(NamedTuple):
    """An estimate at a placement; a tuple since thousands are made per command. `is_covered`: a credit of the person's
    pays for all of it, also at the high end of its time."""

    estimate: Estimate
    placement: Placement
    cost_micro_usd: int
    is_covered: bool = False

    @property
    def kind(self) -> tuple[str, str, int, str]:
        """What a table has one row of: provider, device, number of devices, market."""
        rental = self.estimate.rental
        return rental.provider, rental.device, rental.device_count, rental.market

    @property
    def ranked_micro_usd(self) -> float:
        """The cost by which it is ranked: that of an unproven combination is multiplied, so that a proven one at about
        the same cost goes first. What a credit covers costs the person nothing: it goes before everything else, and
        among such the cheapest goes first."""
        if self.is_covered:
            return self._cost_with_risk * COVERED_SHARE
        return self._cost_with_risk

    @property
    def _cost_with_risk(self) -> float:
        if not self.estimate.unproven:
            return self.cost_micro_usd
        return self.cost_micro_usd * table().unproven_cost_factor


def paid_by_credit(candidates: Iterable[Candidate], credit_usd: Mapping[str, Decimal]) -> list[Candidate]:
    """The candidates, each marked where a credit covers it; `credit_usd` is what is left, by provider."""
    credit_micro = {provider: to_micro(usd) for provider, usd in credit_usd.items()}
    return [
        one._replace(
            is_covered=one.estimate.cost_micro_usd(one.placement.planning_micro_usd_per_hour, one.placement.region, 2)
            <= credit_micro[one.estimate.rental.provider]
        )
        if one.estimate.rental.provider in credit_micro
        else one
        for one in candidates
    ]


class RejectionKey(NamedTuple):
    """What rejected offers are counted by."""

    provider: str
    instance_type: str
    market: str
    reason: Reason


class Choice(NamedTuple):
    """Candidates in order and what was rejected, counted in offers. `filtered_last` is the filter after which
    nothing was left, where nothing is."""

    candidates: tuple[Candidate, ...]
    rejections: dict[RejectionKey, int]
    filtered_last: Reason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineEstimate:
    """This machine beside the ranking: what it would take here; `fits` tells whether memory is enough, `load` in words
    what else keeps its processors busy ("": nothing), `free_share` the share of them, 0 to 1, that this leaves."""

    name: str
    device: str
    device_count: int
    throughput: Throughput | None
    time: RunTime | None
    usd_per_hour: Decimal
    cost_usd: Decimal | None
    fits: bool
    reason: str = ""
    load: str = ""
    free_share: float = 1.0


def row_numbers(ranking: Iterable[Candidate]) -> Iterator[str]:
    """The number of each candidate in tables, pages, documents and for --explain: `6` for the first placement of a
    provider's device, device count and market, and `6.2` for the second. So a row keeps its number wherever every
    placement is shown.
    """
    kinds: dict[tuple[str, str, int, str], tuple[int, int]] = {}
    for candidate in ranking:
        kind = candidate.kind
        row, placements = kinds.get(kind, (len(kinds) + 1, 0))
        kinds[kind] = row, placements + 1
        yield f"{row}.{placements + 1}" if placements else str(row)


class RankedOffer(NamedTuple):
    """A candidate in its rank, with everything there is to say about its offer. `row` is its number for people."""

    rank: int
    candidate: Candidate
    offer: Offer
    row: str = ""

    @property
    def number(self) -> str:
        """Its number wherever a person sees it (see `row_numbers`); its rank where each kind has one placement."""
        return self.row or str(self.rank)

    @property
    def cost_usd(self) -> Decimal:
        """The expected cost in USD."""
        return from_micro(self.candidate.cost_micro_usd)

    @property
    def cost_low_usd(self) -> Decimal:
        """The low end of the interval of the cost."""
        return self._at(1)

    @property
    def cost_high_usd(self) -> Decimal:
        """The high end of the interval of the cost."""
        return self._at(2)

    @property
    def compute_usd(self) -> Decimal:
        """The cost without disk, address and transfer, and without what going elsewhere would add."""
        estimate, placement, cost, _ = self.candidate
        return from_micro(cost - estimate.side.micro_usd(placement.region)) - self.elsewhere_usd

    @property
    def elsewhere_usd(self) -> Decimal:
        """What going elsewhere adds to the expected cost, where the placement may refuse."""
        estimate, placement, _, _ = self.candidate
        return from_micro(estimate.elsewhere_micro_usd(placement.planning_micro_usd_per_hour))

    @property
    def fixed(self) -> RunCost:
        """What is paid beside the machine, in its parts."""
        return self.candidate.estimate.fixed(self.candidate.placement.region)

    def _at(self, which: int) -> Decimal:
        rate, region, _ = self.candidate.placement
        return from_micro(self.candidate.estimate.cost_micro_usd(rate, region, which, self.offer.price_spread))


class Plan(NamedTuple):
    """The answer to `plan estimate`: everything that a table, JSON or a launch needs.

    `ranking` has every candidate in order, `candidates` the first of them in full. `prices` holds the prices of the
    ranking's placements by row id, where they were asked for. `offers_seen` counts a row and a market each. `own_notes`
    are lines on the person's own prices, for instance which of them have ended; `credit_usd` is what is left of the
    person's credits, by provider. `groups` are the first offers in several numbers of machines, where these were
    asked for. `named_devices` are the devices that the person named and that no candidate has. `device_groups` has the
    group of each device of the ranking: `--device` takes it for all of the group. `operator_seconds` are those of each
    operator of the network on a device of the row that is explained, forward and backward. `grid` is the first
    candidate with every trial of the job's sweep trained to its end; None without a sweep. `tax_percent` is what the
    person pays on top of every price, 0 where the settings do not say.
    """

    job: TrainingJob
    made_at: datetime
    ranking: tuple[Candidate, ...]
    candidates: tuple[RankedOffer, ...]
    prices: Mapping[int, PlacementPrice]
    rejections: dict[RejectionKey, int]
    filtered_last: Reason | None
    this_machine: MachineEstimate | None
    advice: tuple[str, ...]
    offers_seen: int
    own_notes: tuple[str, ...] = ()
    credit_usd: Mapping[str, Decimal] = {}
    groups: tuple[Group, ...] = ()
    named_devices: tuple[MachineEstimate, ...] = ()
    device_groups: Mapping[str, str] = {}
    operator_seconds: tuple[float, ...] = ()
    grid: Candidate | None = None
    tax_percent: Decimal = Decimal(0)

    def credit_of(self, ranked: RankedOffer) -> Decimal:
        """What a credit of the person's pays of an offer's cost."""
        return min(self.credit_usd.get(ranked.offer.provider, Decimal(0)), ranked.cost_usd)
