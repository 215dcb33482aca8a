"""The plan of the Python API: offers in order, and what there is to say about them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, overload

from trainplan.planner.api import planning
from trainplan.planner.api.calls import Python, library_call
from trainplan.planner.api.counted_images import with_counted_images
from trainplan.planner.api.job import Job
from trainplan.planner.api.job_files import with_limits
from trainplan.planner.api.names import one_of
from trainplan.planner.errors import BadInputError, ThisMachineError
from trainplan.planner.planning.build_plan import PlanQuery, nothing_left
from trainplan.planner.settings import load_settings
from trainplan.planner.throughput.values import Basis
from trainplan.pricing.money import format_usd
from trainplan.pricing.offers import Market
from trainplan.providers.registry import THIS_MACHINE
from trainplan.workloads.durations import format_estimate
from trainplan.workloads.terms import Objective
from trainplan.workloads.wording import Option, written_in

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import pandas

    from trainplan.planner.api.comparison import Comparison
    from trainplan.planner.forecast.plan import MachineEstimate, RankedOffer
    from trainplan.planner.forecast.plan import Plan as ForecastPlan
    from trainplan.planner.report.page import Page
    from trainplan.planner.settings import Settings
    from trainplan.planner.throughput.values import Throughput
    from trainplan.workloads.job import TrainingJob

_SHOWN = 15
"""Rows of a plan in a shell or a notebook."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One machine type of one provider in one region and market, with what the whole job would take and cost there.

    `rank` counts from 1, 0 for this computer beside a ranking; `row` is its number in every output: `6`, and `6.2`
    for the second-best placement of what row 6 shows. `seconds` and `usd` are expected for the whole run, prices
    before tax; the intervals are those from which the true value is missing two times of ten, as (low, high).
    `planning_usd_per_hour` is the price of an hour that `usd` counts with, which for spot
    is often above the listed one.
    `images_per_second` is of all devices together, None for a script that nobody has measured, and `basis` what it
    rests on: measured, scaled, anchored, modelled or unmeasured. `can_launch`: trainplan rents there; elsewhere it
    only estimates.
    """

    rank: int
    row: str
    provider: str
    region: str
    zones: tuple[str, ...]
    instance_type: str
    device: str
    device_count: int
    machines: int
    market: str
    seconds: float
    seconds_interval: tuple[float, float]
    usd: float
    usd_interval: tuple[float, float]
    planning_usd_per_hour: float
    images_per_second: float | None
    images_per_second_interval: tuple[float, float] | None
    basis: str
    can_launch: bool
    _plan: Plan = field(repr=False, compare=False)

    @property
    def plan(self) -> Plan:
        """The plan that it is of."""
        return self._plan

    def explain(self) -> str:
        """Where its figures come from, one paragraph each."""
        return self._plan.explain(self.row)

    def __repr__(self) -> str:
        time, low, high = format_estimate(self.seconds, *self.seconds_interval)
        cheap, dear = (format_usd(Decimal(str(end))) for end in self.usd_interval)
        cost = format_usd(Decimal(str(self.usd)))
        where = f"{_device(self)} {self.market.replace('_', ' ')}, {self.provider} {self.region} {self.instance_type}"
        if self.provider == THIS_MACHINE:
            where = f"{_device(self)}, this computer ({self.instance_type})"
        if self.basis == Basis.UNMEASURED:
            return f"<Offer {self.row}: {where}: up to {time}, up to {cost}>"
        return f"<Offer {self.row}: {where}: {time} ({low} to {high}), {cost} ({cheap} to {dear})>"


class Explanation(str):
    """A text of several lines, which a notebook and a prompt show as lines."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Lever(NamedTuple):
    """What one change of the job, or of the offer that is taken, would save.

    `offer` names the machine that then comes first; with it time in seconds and cost in USD, as they would be and by
    how much they differ. All are None where nothing fits then, and `reason` says why. `is_same_work`: the same model
    comes out. `is_within_noise`: neither difference is beyond the 80 % intervals.
    """

    name: str
    before: str
    after: str
    is_same_work: bool
    offer: str | None
    seconds: float | None
    usd: float | None
    seconds_difference: float | None
    usd_difference: float | None
    is_within_noise: bool | None
    reason: str | None


class Levers(list[Lever]):
    """Levers, which a shell and a notebook show as the table of `plan estimate --levers`."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], job_line: str) -> None:
        super().__init__(_lever(row) for row in rows)
        self._rows = rows
        self._job_line = job_line

    def _page(self) -> Page:
        from trainplan.planner.report.levers import levers_page

        return levers_page(self._rows, self._job_line)

    def __repr__(self) -> str:
        from trainplan.planner.report.plain_text import plain_text

        return plain_text(self._page())

    def _repr_html_(self) -> str:
        from trainplan.planner.report.notebook_cell import cell, page_blocks

        return cell(*page_blocks(self._page(), "what a change would save"))


class Plan(Sequence[Offer]):
    """The offers of a job, the best first: `plan[0]` is row 1 of its table. `estimate` makes it.

    It shows as a table in a shell and in a notebook. `to_dict` has every placement of every offer.
    """

    def __init__(self, job: Job, forecast: ForecastPlan, asked: _Asked) -> None:
        """Only for this package: `estimate` makes plans."""
        self._job = job
        self._forecast = forecast
        self._asked = asked
        self._offers = tuple(_offer(ranked, self) for ranked in forecast.candidates)
        machine = forecast.this_machine
        self._this_machine = _machine_offer(machine, self) if machine is not None and machine.time is not None else None
        if not self._offers and self._this_machine is not None and asked.query.providers == (THIS_MACHINE,):
            self._offers = (self._this_machine,)

    @overload
    def __getitem__(self, index: int) -> Offer: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Offer]: ...
    def __getitem__(self, index: int | slice) -> Offer | Sequence[Offer]:
        try:
            return self._offers[index]
        except IndexError:
            raise IndexError(f"there is no plan[{index}]: the plan has {len(self)} offers, from plan[0] on") from None

    def __len__(self) -> int:
        return len(self._offers)

    @property
    def job(self) -> Job:
        """The job with the limits that it was estimated with."""
        return self._job

    @property
    def made_at(self) -> datetime:
        """When it was made: prices are those of then."""
        return self._forecast.made_at

    @property
    def advice(self) -> tuple[str, ...]:
        """What would make the job faster or cheaper, or what is to be known, in sentences."""
        return self._forecast.advice

    @property
    def this_machine(self) -> Offer | None:
        """What the job takes on this computer; None where it does not fit it or nothing can be estimated."""
        return self._this_machine

    @property
    def front(self) -> tuple[Offer, ...]:
        """The offers that can be launched and that no other beats in both time and cost, the fastest first."""
        best: list[Offer] = []
        launchable = (offer for offer in self._offers if offer.can_launch)
        for offer in sorted(launchable, key=lambda offer: (offer.seconds, offer.usd)):
            if not best or offer.usd < best[-1].usd:
                best.append(offer)
        return tuple(best)

    def explain(self, row: int | str = 1) -> str:
        """Where the figures of a row come from, one paragraph each; row 0 is this computer. Raises BadInputError."""
        from trainplan.planner.report.estimate_page import machine_line
        from trainplan.planner.report.explain import explain

        machine = self._forecast.this_machine
        is_here = str(row) == "0" or not self._forecast.candidates
        if self._this_machine is not None and machine is not None and is_here:
            return Explanation(f"this machine: {machine_line(machine)}")
        with library_call():
            ranks = {ranked.number: ranked.rank for ranked in self._forecast.candidates}
            rank = ranks.get(str(row))
            if rank is None:
                raise BadInputError(f"there is no row {row}: the plan has {len(self)}", "rows count from 1")
            timed = self._asked.planned(self._asked.query._replace(limit=rank, explain_row=str(row)))
        return Explanation(explain(timed, timed.candidates[rank - 1]))

    def anew(self) -> Plan:
        """The same question again, as of now: with the prices, measurements and refusals that this home knows by then.

        Raises NothingLeftError where no offer is left any more.
        """
        with library_call():
            return plan_of(self._asked.training_job, self._asked.wanted, self._asked.settings)

    def levers(self) -> list[Lever]:
        """What one change of the job or of the offer would save, same work first. Takes a plan for each change."""
        from trainplan.planner.report.estimate_page import job_line

        return Levers(self._lever_rows, job_line(self._forecast.job))

    def compare(self, other: Plan) -> Comparison:
        """This plan beside one of another job, or of the same with other limits.

        The job of the other is estimated anew, as this one was: at its time, for the same providers and markets.
        Raises BadInputError for what is no plan.
        """
        from trainplan.planner.api.comparison import Comparison
        from trainplan.planner.report.compare import Side, compare

        with library_call():
            if not isinstance(other, Plan):
                raise BadInputError(f"a plan is expected, not {other!r}", "estimate(job) is one")
        first = self._in_detail
        with library_call():
            second = self._asked.planned(self._detailed_query, other._asked.training_job)
        return Comparison(compare(Side("this plan", first), Side("the other plan", second)))

    def to_dataframe(self) -> pandas.DataFrame:
        """Its offers as a table of pandas, a row each: times in seconds, money in USD, ends of intervals in columns.

        Raises ThisMachineError where pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            with library_call():
                raise ThisMachineError(
                    "pandas is not installed in this Python", "python -m pip install pandas; to_dict() needs nothing"
                ) from None
        return pandas.DataFrame([_record(offer) for offer in self], columns=[*_record(None)])

    def to_dict(self) -> dict[str, Any]:
        """The document that `plan estimate --json` prints (docs/output.md): every placement of every offer."""
        return {**self._document}

    @cached_property
    def _in_detail(self) -> ForecastPlan:
        with library_call():
            return self._asked.planned(self._detailed_query)

    @property
    def _detailed_query(self) -> PlanQuery:
        return self._asked.query._replace(every_placement=True, limit=0, prices=True)

    @cached_property
    def _document(self) -> dict[str, Any]:
        from trainplan.planner.report.estimate_json import Beside, estimate_document
        from trainplan.planner.throughput.table import cited

        return estimate_document(self._in_detail, Beside(command="trainplan.estimate", cited=cited))

    @cached_property
    def _lever_rows(self) -> list[dict[str, Any]]:
        from trainplan.planner.report.levers import lever_rows

        query = self._detailed_query

        def plan_of(changed: TrainingJob, nodes: Sequence[int]) -> ForecastPlan:
            return self._asked.planned(query.in_numbers(nodes, detailed), changed)

        detailed = self._in_detail
        with library_call():
            return lever_rows(detailed, plan_of)

    def __repr__(self) -> str:
        from trainplan.planner.report.estimate_page import job_line, mark_lines, ranking_table
        from trainplan.planner.report.plain_text import plain_text

        head = job_line(self._forecast.job)
        if not self._forecast.candidates:
            return f"{head}\n{self.explain()}" if self._this_machine else f"{head}\nno offer fits"
        few = self._forecast._replace(candidates=self._forecast.candidates[:_SHOWN])
        more = len(self) - len(few.candidates)
        rest = [f"and {more} more"] if more > 0 else []
        return plain_text([head, ranking_table(few, None), *rest, *mark_lines(few)])

    def _repr_html_(self) -> str:
        from trainplan.planner.report.estimate_html import estimate_cell

        with written_in(Python()):
            return estimate_cell(self._document, _SHOWN)


class _Asked(NamedTuple):
    """What a plan was asked for, completed with what this home knows, and when."""

    training_job: TrainingJob
    wanted: PlanQuery
    """As it was asked; `query` is completed."""
    query: PlanQuery
    settings: Settings
    now: datetime

    def planned(self, query: PlanQuery, training_job: TrainingJob | None = None) -> ForecastPlan:
        """The answer to another query of the same time, or for a changed job."""
        return planning.planned(training_job or self.training_job, query, self.settings, self.now)[0]


def estimate(  # noqa: PLR0913  a search has as many limits as people have
    job: Job,
    *,
    deadline: str | timedelta | None = None,
    budget_usd: float | Decimal | None = None,
    objective: str | None = None,
    providers: Sequence[str] = (),
    regions: Sequence[str] = (),
    devices: Sequence[str] = (),
    device_counts: Sequence[int] = (),
    markets: Sequence[str] = (),
    include_retired: bool = False,
    assume_available: bool = False,
    every_placement: bool = False,
) -> Plan:
    """What a job takes and costs everywhere that it could run; nothing is rented, and no account is asked.

    `deadline` (`"8h"`) and `budget_usd` are limits of the whole run, `objective` is `cost`, `time` or `balanced`: what
    is given stands in the place of what the job says. `providers`, `regions`, `devices`, `device_counts`
    (accelerators of a machine) and `markets` (`on_demand`, `spot`) narrow the search; empty means any.
    `providers=["local"]` estimates this computer.
    `assume_available` uses spot prices as listed, even far below those of other regions; `every_placement` has a row
    for each region and zone.

    Raises BadInputError for a limit or a name that nothing has, NothingLeftError where no offer is left.
    """
    with library_call():
        if not isinstance(job, Job):
            raise BadInputError(f"a Job is expected, not {job!r}", "Job.read(path) reads one")
        settings = load_settings(os.environ)
        budget = None if budget_usd is None else str(budget_usd)
        wanted = None if objective is None else Objective(one_of(Option.OBJECTIVE, str(objective), list(Objective)))
        training_job = with_limits(with_counted_images(job._training_job), deadline, budget, wanted)
        query = PlanQuery(
            providers=tuple(name.strip().lower() for name in _several(Option.PROVIDER, providers)),
            regions=_several(Option.REGION, regions),
            devices=_several(Option.DEVICE, devices),
            counts=tuple(device_counts),
            markets=tuple(one_of(Option.MARKET, name, list(Market)) for name in _several(Option.MARKET, markets)),
            include_retired=include_retired,
            assume_available=assume_available,
            every_placement=every_placement,
        )
        return plan_of(training_job, query, settings)


def plan_of(training_job: TrainingJob, wanted: PlanQuery, settings: Settings) -> Plan:
    """The plan of a job that has its limits, as of now. Raises NothingLeftError and BadInputError."""
    query, now = planning.completed(wanted, settings)
    forecast, query = planning.planned(training_job, query, settings, now)
    if not forecast.ranking and not planning.is_answered_here(forecast, query):
        raise nothing_left(forecast)
    if forecast.this_machine is not None:  # what else keeps it busy changes, and the answers of a plan do not
        query = query._replace(free_share=forecast.this_machine.free_share)
    return Plan(Job(training_job), forecast, _Asked(training_job, wanted, query, settings, now))


def _several(name: Option, values: object) -> tuple[str, ...]:
    """The names. Raises BadInputError for one text, which is a sequence of letters, and for what is no name."""
    if isinstance(values, str):
        message = f"{name}: {values!r} is one text, and a list of names is expected"
        raise BadInputError(message, f"write [{values!r}]", field=name)
    names = tuple(values) if isinstance(values, Iterable) else (values,)
    if wrong := [value for value in names if not isinstance(value, str)]:
        raise BadInputError(f"{name}: {wrong[0]!r} is not a name", "leave it out for any", field=name)
    return names


def _offer(ranked: RankedOffer, plan: Plan) -> Offer:
    estimate, offer = ranked.candidate.estimate, ranked.offer
    speed = estimate.throughput
    return Offer(
        rank=ranked.rank,
        row=ranked.number,
        provider=offer.provider,
        region=offer.region,
        zones=tuple(offer.zones),
        instance_type=offer.instance_type,
        device=offer.device,
        device_count=offer.device_count,
        machines=estimate.machines,
        market=str(offer.market),
        seconds=estimate.time.total.total_seconds(),
        seconds_interval=(estimate.time.low.total_seconds(), estimate.time.high.total_seconds()),
        usd=float(ranked.cost_usd),
        usd_interval=(float(ranked.cost_low_usd), float(ranked.cost_high_usd)),
        planning_usd_per_hour=float(offer.planning_usd_per_hour or offer.usd_per_hour),
        **_speed(speed),
        can_launch=not estimate.estimate_only_text,
        _plan=plan,
    )


def _machine_offer(machine: MachineEstimate, plan: Plan) -> Offer:
    """This computer as an offer: what an hour of it costs is what the settings say."""
    time = machine.time
    assert time is not None
    usd_per_hour = float(machine.usd_per_hour)
    low_seconds, high_seconds = time.low.total_seconds(), time.high.total_seconds()
    return Offer(
        rank=0 if plan._forecast.candidates else 1,
        row="0" if plan._forecast.candidates else "1",
        provider=THIS_MACHINE,
        region=THIS_MACHINE,
        zones=(),
        instance_type=machine.name,
        device=machine.device,
        device_count=machine.device_count,
        machines=1,
        market=str(Market.ON_DEMAND),
        seconds=time.total.total_seconds(),
        seconds_interval=(low_seconds, high_seconds),
        usd=float(machine.cost_usd or 0),
        usd_interval=(usd_per_hour * low_seconds / 3600, usd_per_hour * high_seconds / 3600),
        planning_usd_per_hour=usd_per_hour,
        **_speed(machine.throughput),
        can_launch=machine.fits,
        _plan=plan,
    )


def _speed(speed: Throughput | None) -> _Speed:
    if speed is None or speed.basis is Basis.UNMEASURED:
        return _Speed(images_per_second=None, images_per_second_interval=None, basis=str(Basis.UNMEASURED))
    return _Speed(
        images_per_second=speed.images_per_second,
        images_per_second_interval=(speed.low, speed.high),
        basis=str(speed.basis),
    )


def _record(offer: Offer | None) -> dict[str, Any]:
    """The offer's fields by column; for None the columns alone."""
    record: dict[str, Any] = {}
    for name in Offer.__dataclass_fields__:
        value = None if offer is None else getattr(offer, name)
        if name.endswith("_interval"):
            quantity = name.removesuffix("_interval")
            record[f"{quantity}_low"], record[f"{quantity}_high"] = value or (None, None)
        elif name == "zones":
            record[name] = ", ".join(value or ())
        elif not name.startswith("_"):
            record[name] = value
    return record


class _Speed(TypedDict):
    images_per_second: float | None
    images_per_second_interval: tuple[float, float] | None
    basis: str


def _lever(row: Mapping[str, Any]) -> Lever:
    after, difference, noise = row["after"], row["difference"], row["within_noise"]
    offer = None
    if after is not None:
        offer = f"{after['device_count']} x {after['device']}, {after['provider']} {after['region']}"
    return Lever(
        name=row["lever"],
        before=row["from"],
        after=row["to"],
        is_same_work=row["same_work"],
        offer=offer,
        seconds=after and after["total_seconds"],
        usd=after and after["cost_usd"],
        seconds_difference=difference and difference["total_seconds"]["absolute"],
        usd_difference=difference and difference["cost_usd"]["absolute"],
        is_within_noise=None if noise is None else all(noise.values()),
        reason=row["reason"],
    )


def _device(offer: Offer) -> str:
    return offer.device if offer.device_count == 1 else f"{offer.device_count} x {offer.device}"
