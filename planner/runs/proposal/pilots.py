"""Which pilots a job is proposed, before anybody is asked: where, what each costs, and the most that it may cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner.errors import BadInputError, NothingFitsError, NothingLeftError, PlanError, TooSmallHereError
from trainplan.planner.forecast.pilots import (
    LEAST_STEPS,
    MOST_TRAIN_SECONDS,
    TRY_SETTINGS_SECONDS,
    Choice,
    Pilots,
    choice_of,
    pilot_seconds,
    spread_of,
    train_seconds,
    worthwhile,
)
from trainplan.planner.forecast.script_work import known_rate
from trainplan.planner.runs.decision.next_action import TIMER_GRACE
from trainplan.planner.runs.proposal.live_prices import refined
from trainplan.planner.runs.proposal.make_proposal import Surroundings, make_proposal, ranked_placements
from trainplan.planner.runs.proposal.proposal import targets_of
from trainplan.planner.runs.runner import total_steps
from trainplan.planner.runs.targets import MOST_ABOVE, Target, agreed
from trainplan.planner.throughput.values import Basis, Throughput
from trainplan.providers.registry import THIS_MACHINE
from trainplan.workloads.job import TrainingJob
from trainplan.workloads.sweep import rungs_for, whole_trainings
from trainplan.workloads.terms import Objective
from trainplan.workloads.tries import possible
from trainplan.workloads.wording import Option

if TYPE_CHECKING:
    from trainplan.planner.forecast.plan import RankedOffer
    from trainplan.planner.planning.build_plan import PlanQuery

ROWS = 30
"""Of the ranking: what ranks behind them hardly becomes the cheapest."""
LONGER = 2
"""How many times what it is expected to take a pilot may last, where the cap allows it."""
LEAST_LIMIT = timedelta(minutes=10)
STEPS_OF_A_SCRIPT = 1_000_000
"""More than a pilot of a script trains: it ends by its time, since nobody knows what a step of it takes."""
LEAST_LONGER = 1.25
"""Where the cap does not allow that much, there is none: most such pilots would be ended before they tell anything."""


class Cap(NamedTuple):
    """The most that all pilots together may cost, and the option that says it."""

    usd: Decimal
    option: Option


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotPlacement:
    """One machine that a pilot can be run on: its rank in the plan, and the zones where it is asked for.

    `choice` is what it is weighed by. `throughput` is the estimate of its speed, and `usd` (expected, low, high) that
    of the whole job there. A pilot is expected to take `seconds` and to cost `pilot_usd`, and trains `steps` at most;
    with `try_settings` it tries micro-batches and XLA, and each try trains that.
    `images` are those to which `throughput` belongs: of the whole job, as far as they are known, or of one training of
    a sweep over a script.
    """

    rank: int
    targets: tuple[Target, ...]
    choice: Choice
    throughput: Throughput
    usd: tuple[Decimal, Decimal, Decimal]
    seconds: float
    pilot_usd: Decimal
    steps: int
    images: float = 1
    try_settings: bool = False

    @property
    def target(self) -> Target:
        """The first of its zones."""
        return self.targets[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotProposal:
    """The placements in the order of the plan, and the pilots that are worth it, which together never cost more than
    the cap. `left_out` says why others cannot be run within it. `try_settings`: one pilot was asked for, whatever it is
    worth, which tries micro-batches and XLA; `job` has the parts that it begins with. Of a sweep over a script a pilot
    trains the first trial (`piloted`)."""

    job: TrainingJob
    cap_usd: Decimal
    placements: tuple[PilotPlacement, ...]
    pilots: Pilots
    left_out: tuple[str, ...] = ()
    try_settings: bool = False

    @property
    def piloted(self) -> TrainingJob:
        """What a pilot trains."""
        return self.job.trials[0].job if self.job.sweep is not None else self.job

    @property
    def chosen(self) -> list[PilotPlacement]:
        """The placements to pilot, the most worthwhile first."""
        return [self.placements[number] for number in self.pilots.indices]


def propose_pilots(job: TrainingJob, query: PlanQuery, around: Surroundings, cap: Cap, most: int) -> PilotProposal:
    """The pilots that are worth their cost, of at most `most` and within the cap.

    Raises BadInputError for a job that is not ranked by its cost, and where the cap is too small for any pilot that
    could be worth it; and what `make_proposal` raises.
    """
    if job.objective is not Objective.COST:
        raise BadInputError(
            f"pilots are weighed in dollars, and the objective of {job.name} is {job.objective}", "objective: cost"
        )
    _check_measurable(job)
    placements = pilot_placements(job, query, around)
    left_out, affordable = [], []
    for placement in placements:
        least_usd = _least_usd(placement)
        is_let = limit_within(placement, cap.usd) is not None
        affordable.append(placement if is_let else replace(placement, choice=placement.choice._replace(pilot_usd=None)))
        if not is_let:
            left_out.append(f"{placement.target.where}: a pilot may cost up to ${least_usd:.2f} there")
    pilots = worthwhile([placement.choice for placement in affordable], most, float(cap.usd))
    wanted = worthwhile([placement.choice for placement in placements], most)
    if not pilots.indices and wanted.indices and not any(placement.choice.settles for placement in affordable):
        raise _not_enough(cap, placements)
    return PilotProposal(
        job=job,
        cap_usd=cap.usd,
        placements=tuple(affordable),
        pilots=pilots,
        left_out=tuple(left_out if wanted.indices else ()),
    )


def propose_tries(job: TrainingJob, query: PlanQuery, around: Surroundings, cap: Cap) -> PilotProposal:
    """One pilot that tries micro-batches and XLA, on the machine that ranks first of those that the cap allows.

    Raises BadInputError for a job that says itself in how many parts a batch is trained, or trains on several machines,
    and where the cap is too small; and what `make_proposal` raises.
    """
    _check_measurable(job)
    if job.script is not None:
        raise BadInputError(f"{job.script} decides itself how a batch is trained", f"leave out {Option.BATCH('auto')}")
    if job.sweep is not None:
        raise BadInputError(f"{Option.BATCH('auto')} is for one training, and the job has a sweep", "leave sweep out")
    if job.accumulate > 1:
        raise BadInputError(
            f"{job.name} trains each batch in {job.accumulate} parts already (accumulate): {Option.BATCH('auto')} "
            "finds it out",
            f"leave accumulate out of the job file, or leave out {Option.BATCH('auto')}",
        )
    if job.nodes > 1:
        raise BadInputError(f"{Option.BATCH('auto')} is for one machine", "leave nodes out of the job file")
    begun, placements = _where_it_fits(job, query, around)
    placements = [_trying(placement) for placement in placements]
    lets = [limit_within(placement, cap.usd) is not None for placement in placements]
    if not any(lets):
        raise _not_enough(cap, placements)
    number = lets.index(True)
    left_out = [
        f"{placement.target.where}: it may cost up to ${_least_usd(placement):.2f} there"
        for placement in placements[:number]
    ]
    return PilotProposal(
        job=begun,
        cap_usd=cap.usd,
        placements=tuple(placements),
        pilots=Pilots((number,), 0.0, float(placements[number].pilot_usd)),
        left_out=tuple(left_out),
        try_settings=True,
    )


def _where_it_fits(
    job: TrainingJob, query: PlanQuery, around: Surroundings
) -> tuple[TrainingJob, list[PilotPlacement]]:
    """The placements of the job with the fewest parts of a batch that fit somewhere, and that job."""
    first: PlanError | None = None
    for parts in dict.fromkeys(settings.accumulate for settings in possible(job)):
        begun = job if parts == 1 else job.model_copy(update={"accumulate": parts})
        try:
            return begun, pilot_placements(begun, query, around)
        except (NothingFitsError, TooSmallHereError) as error:
            first = first or error
        except NothingLeftError as error:
            raise first or error from None  # what is left cannot train a batch in parts
    assert first is not None  # there is at least the batch in one part
    raise first


def _trying(placement: PilotPlacement) -> PilotPlacement:
    """The placement with a pilot that tries settings for as long as it may."""
    seconds = placement.seconds + TRY_SETTINGS_SECONDS
    usd = _usd(placement.target, timedelta(seconds=seconds), placement.target.payable_usd_per_hour)
    return replace(placement, seconds=seconds, pilot_usd=usd, try_settings=True)


def _check_measurable(job: TrainingJob) -> None:
    """Raises BadInputError for what a pilot would train without measuring it."""
    if job.read_script is not None and not job.read_script.may_report:
        raise BadInputError(
            f"{Path(str(job.script)).name} reports nothing, so a pilot cannot measure it",
            "trainplan_run.report(step, images=..., total_steps=...) in its training loop reports (docs/own-script.md)",
        )
    if job.container is not None:
        raise BadInputError(
            f"{job.name} has a container of its own: nobody knows how that is measured", "plan launch launches it"
        )


def _not_enough(cap: Cap, placements: Sequence[PilotPlacement]) -> BadInputError:
    least = min(map(_least_usd, placements))
    return BadInputError(
        f"${cap.usd} are not enough for any pilot: the cheapest may cost up to ${least:.2f}, with what its machine "
        "bills until a timer has ended it",
        f"{cap.option(_rounded_up(least))}",
        field=cap.option,
    )


def pilot_placements(job: TrainingJob, query: PlanQuery, around: Surroundings) -> list[PilotPlacement]:
    """The machines that the job could be launched on, in the order of the plan. Raises what `make_proposal` raises."""
    if query.providers == (THIS_MACHINE,):
        return [_here(job, query, around)]
    plan = ranked_placements(job, query, around, every_placement=False)
    plan = plan._replace(candidates=plan.candidates[:ROWS])
    plan = refined(plan, around.provider_of, around.say)
    return [_rented(ranked, plan.job) for ranked in first_of_each_speed(plan.candidates)]


def first_of_each_speed(candidates: Sequence[RankedOffer]) -> list[RankedOffer]:
    """Of offers with the same devices that are predicted to train alike, the one that ranks first: what a pilot tells
    of it holds for the others, which stay dearer."""
    first: dict[tuple[str, int, Fraction, float | str], RankedOffer] = {}
    for ranked in candidates:
        offer, speed = ranked.offer, ranked.candidate.estimate.throughput
        rate = known_rate(speed)
        alike = offer.instance_type if rate is None else round(rate, 3)
        key = (offer.device, offer.device_count, offer.device_fraction, alike)
        first.setdefault(key, ranked)
    return list(first.values())


def most_usd(target: Target, limit: timedelta) -> Decimal:
    """The most that a pilot of such a limit can cost: to the end of what its machine's timers may take beyond it, at
    the highest price that can come to be payable there without a question."""
    lasting = limit + TIMER_GRACE
    rate = target.ceiling_usd_per_hour * (1 + MOST_ABOVE)
    return _usd(target, lasting, rate)


def limit_within(placement: PilotPlacement, left_usd: Decimal) -> timedelta | None:
    """How long a pilot may last so that it cannot cost more than what is left; None where that is too short."""
    wanted = max(LEAST_LIMIT, timedelta(seconds=LONGER * placement.seconds))
    target, billing = placement.target, placement.target.offer.billing
    if most_usd(target, wanted) <= left_usd:
        return wanted
    per_hour = target.ceiling_usd_per_hour * (1 + MOST_ABOVE) + target.disk_usd_per_hour + target.address_usd_per_hour
    seconds = (left_usd - target.traffic_usd) * 3600 / per_hour - int(TIMER_GRACE.total_seconds())
    limit = timedelta(seconds=int(seconds.to_integral_value(ROUND_FLOOR)) - billing.increment_seconds)
    if limit < timedelta(seconds=LEAST_LONGER * placement.seconds) or most_usd(target, limit) > left_usd:
        return None
    return limit


def bounded(target: Target, limit: timedelta) -> tuple[Target, Decimal]:
    """The target with what such a pilot pays beside its machine, and the budget that ends it at its limit."""
    beside = most_usd(target, limit) - target.ceiling_usd_per_hour * (1 + MOST_ABOVE) * _billed_hours(
        target, limit + TIMER_GRACE
    )
    target = replace(target, fixed_usd=beside, seconds=None, usd=None, low_usd=None, high_usd=None)
    return target, target.ceiling_usd_per_hour * _billed_hours(target, limit) + beside


def _least_usd(placement: PilotPlacement) -> Decimal:
    return most_usd(placement.target, timedelta(seconds=math.ceil(LEAST_LONGER * placement.seconds) + 1))


def _rounded_up(usd: Decimal) -> Decimal:
    cent = Decimal("0.01")
    return (usd + cent).quantize(cent)


def _usd(target: Target, lasting: timedelta, usd_per_hour: Decimal) -> Decimal:
    """What a pilot costs at a price of all its machines; minimum billing, disk, address and data traffic included."""
    hours = Decimal(lasting / timedelta(hours=1))
    beside = (target.disk_usd_per_hour + target.address_usd_per_hour) * hours
    return usd_per_hour * _billed_hours(target, lasting) + beside + target.traffic_usd


def _billed_hours(target: Target, lasting: timedelta) -> Decimal:
    return Decimal(target.offer.billing.billed_seconds(lasting)) / 3600


def _rented(ranked: RankedOffer, job: TrainingJob) -> PilotPlacement:
    targets = tuple(targets_of(ranked))
    seconds = pilot_seconds(ranked, job.global_batch_size)
    rate = targets[0].machines * agreed(ranked.offer)
    pilot_usd = _usd(targets[0], timedelta(seconds=seconds), rate)
    throughput = ranked.candidate.estimate.throughput
    return PilotPlacement(
        rank=ranked.rank,
        targets=targets,
        choice=choice_of(ranked, pilot_usd),
        throughput=throughput,
        usd=(ranked.cost_usd, ranked.cost_low_usd, ranked.cost_high_usd),
        seconds=seconds,
        pilot_usd=pilot_usd,
        steps=_steps(throughput, job),
        images=_images(throughput, job),
    )


def _here(job: TrainingJob, query: PlanQuery, around: Surroundings) -> PilotPlacement:
    proposal = make_proposal(job, query, around)
    quote, target = proposal.quote, proposal.targets[0]
    if quote is None or quote.throughput is None or quote.time is None:
        raise BadInputError(f"nothing can be predicted of {job.name} on this machine", "plan measure measures it")
    setup, after = quote.time.setup.total_seconds(), quote.time.after.total_seconds()
    seconds = setup + train_seconds(quote.throughput, job.global_batch_size) + after
    whole_usd = float(quote.cost_usd or 0)
    pilot_usd = _usd(target, timedelta(seconds=seconds), target.payable_usd_per_hour)
    fixed = whole_usd * (1 - quote.time.train / quote.time.total)
    choice = Choice(whole_usd, fixed, spread_of(quote.throughput), float(pilot_usd))
    times = (quote.time.total, quote.time.low, quote.time.high)
    expected, low, high = (Decimal(str(round(whole_usd * (time / times[0]), 6))) for time in times)
    return PilotPlacement(
        rank=1, targets=(target,), choice=choice, throughput=quote.throughput, usd=(expected, low, high),
        seconds=seconds, pilot_usd=pilot_usd, steps=_steps(quote.throughput, job),
        images=_images(quote.throughput, job),
    )  # fmt: skip


def _images(throughput: Throughput, job: TrainingJob) -> float:
    images = job.train_images or 1
    if job.script is None or job.sweep is None or throughput.basis is not Basis.UNMEASURED:
        return images
    return images / whole_trainings(rungs_for(job))  # all of them together take until the deadline


def _steps(throughput: Throughput, job: TrainingJob) -> int:
    """The most steps of a pilot, which ends sooner once its rate is steady. Fewer than the job has: a pilot never
    trains it to the end."""
    if job.script is not None:
        return STEPS_OF_A_SCRIPT
    batch = job.global_batch_size
    steps = 1 + max(LEAST_STEPS, math.ceil(MOST_TRAIN_SECONDS * throughput.high / batch))
    return min(steps, max(2, (total_steps(job) or steps + 1) - 1))
