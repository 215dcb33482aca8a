"""Read what a plan is made from (catalog, measurements, this machine) and make it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from trainplan.planner.errors import BadInputError, NothingFitsError, NothingLeftError, ThisMachineError
from trainplan.planner.forecast.accumulation import brought_back
from trainplan.planner.forecast.advice import Findings, advice
from trainplan.planner.forecast.at_placement import at_placement
from trainplan.planner.forecast.choose import Filters, World, choose, fits, software_of, splits
from trainplan.planner.forecast.estimate import Workload
from trainplan.planner.forecast.lifecycle_notes import retired_line, unpriced_market_lines
from trainplan.planner.forecast.nearest import nearest_misses
from trainplan.planner.forecast.obtainability import Obtainabilities
from trainplan.planner.forecast.plan import ONLY_ESTIMATED, Candidate, Choice, Plan, Reason, row_numbers
from trainplan.planner.forecast.script_work import unmeasured
from trainplan.planner.planning.load import Load, load_from_here_on
from trainplan.planner.planning.measured_scripts import with_measured_work
from trainplan.planner.planning.named_devices import quote_named_devices
from trainplan.planner.planning.own_measurements import load_measurements
from trainplan.planner.planning.processor import read_cpuinfo
from trainplan.planner.planning.ranked_offers import first_of_each, in_full, in_numbers
from trainplan.planner.planning.rented_measurements import TaughtPredictor
from trainplan.planner.planning.this_machine import Processor, quote_this_machine
from trainplan.planner.throughput.network_steps import MOST_UNKNOWN
from trainplan.planner.throughput.table import MissingTableError
from trainplan.planner.throughput.values import Basis, Question, Throughput
from trainplan.pricing.catalog import Catalog, CatalogError
from trainplan.pricing.current import current_catalog
from trainplan.pricing.devices import CPU_DEVICE, UnknownDeviceError
from trainplan.pricing.free_places import free_providers
from trainplan.pricing.obtainability import Evidence, MachinePlacement, Obtainability, had_on_spot, shipped_notes
from trainplan.pricing.offers import LifecycleState, OfferQuery
from trainplan.pricing.own_prices import OwnPrices
from trainplan.pricing.own_rates import OwnRateError, WithOwnRates, check_names, current_rates
from trainplan.pricing.retired_places import retired_place
from trainplan.providers.cloud.regions import regions_of
from trainplan.providers.errors import BadRequestError, ProviderError
from trainplan.providers.hardware import this_machine
from trainplan.providers.registry import (
    CLUSTER,
    FACTORIES,
    SIMULATED,
    THIS_MACHINE,
    VENDORS,
    is_plug_in,
    lists_offers,
    rates_told_by,
    vendor,
)
from trainplan.workloads.nearest import nearest_names, other_word, same_name
from trainplan.workloads.wording import Option

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from trainplan.planner.forecast.plan import MachineEstimate
    from trainplan.planner.forecast.queue_wait import QueueWait
    from trainplan.planner.settings import Settings
    from trainplan.planner.throughput.predict import Predictor
    from trainplan.pricing.catalog import RentalPlacements
    from trainplan.pricing.cost import ProviderRates
    from trainplan.pricing.devices import Device, DeviceTable
    from trainplan.pricing.offer_source import OfferSource
    from trainplan.pricing.offers import Offer, Rental
    from trainplan.providers.base import Provider
    from trainplan.workloads.job import TrainingJob


class PlanQuery(NamedTuple):
    """What the person asked for beside the job. Options given on the command win over the job's constraints.

    With `assume_available` no spot price is held to be too low to be had. `every_placement` ranks each offer of each
    placement; `limit` is how many are looked up in full (None: all), `prices` reads the prices of all. `evidence` is
    what this home's launches met, `scores` what vendors told this account of placements, `queue_waits` what a cluster
    told of its queues. `own_prices` are the person's own that hold now (None: those of the settings, whose hours nobody
    has counted). `explain_row` is the number of the row whose operators are timed ("": no row's). `by_trainer` leaves
    out what the trainer does not use all of; `instance_types` are those that a launch may take. `nodes` are the numbers
    of machines to estimate the first offers with (empty: up to the job's `nodes`), `counts` those of accelerators of
    one (empty: any). `free_share` is what other programs leave of this machine's processors, 0 to 1 (None: it is looked
    at meanwhile). `offer_source` puts offers that a provider lists itself in the place of those of the `catalog` file.
    """

    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    markets: tuple[str, ...] = ()
    instance_types: tuple[str, ...] = ()
    include_retired: bool = False
    assume_available: bool = False
    by_trainer: bool = False
    every_placement: bool = False
    limit: int | None = None
    prices: bool = False
    own_prices: OwnPrices | None = None
    nodes: tuple[int, ...] = ()
    explain_row: str = ""
    free_share: float | None = None
    catalog: Path | None = None
    offer_source: Callable[[OfferSource], OfferSource] | None = None
    evidence: tuple[Evidence, ...] = ()
    scores: Mapping[MachinePlacement, Obtainability] = {}
    queue_waits: Mapping[MachinePlacement, QueueWait] = {}

    def in_numbers(self, nodes: Sequence[int], plan: Plan) -> PlanQuery:
        """The query for these numbers of machines (none: the query as it is) of the provider that is first in the plan:
        others that were asked for may lend one machine at a time."""
        providers = (plan.ranking[0].estimate.rental.provider,) if nodes else self.providers
        return self._replace(nodes=tuple(nodes), providers=providers)


def with_listed_offers(
    query: PlanQuery, provider_of: Callable[[str], Provider], settings: Settings, say: Callable[[str], None]
) -> PlanQuery:
    """The query with the offers that providers list themselves: those of the simulated cloud where it was asked for, of
    the person's cluster and of plug-ins where they are set up or asked for. They stand beside those of the catalog,
    where those of other providers were asked for. `say` is told of one that does not answer.

    Raises BadInputError where the cluster was asked for and none is set up, ProviderError where one that was asked for
    does not answer or cannot be used.
    """
    from trainplan.pricing.offer_source import AddedOffers, GivenOffers

    if CLUSTER in query.providers and not settings.clouds.get(CLUSTER):
        raise BadInputError("no cluster is set up", "set directory in [slurm] (docs/slurm.md)")
    offers: list[Offer] = []
    rates: list[ProviderRates] = []
    for name in query.providers or settings.clouds:
        try:
            # One that cannot be used says so when it is made.
            if name == SIMULATED or lists_offers(name) or (vendor(name) is None and is_plug_in(name)):
                offers += provider_of(name).offers(OfferQuery())
                rates.append(rates_told_by(name))
        except ProviderError as error:
            if name in query.providers:
                raise
            say(f"{name}: left out: {error.message}")
    if not rates:
        return query
    # Functions of a module with their arguments: a plan, which has its query, can be pickled.
    if SIMULATED in query.providers and {SIMULATED, THIS_MACHINE}.issuperset(query.providers):
        return query._replace(offer_source=partial(GivenOffers, offers, rates))
    return query._replace(offer_source=partial(AddedOffers.beside, offers, rates))


def make_plan(
    job: TrainingJob, query: PlanQuery, settings: Settings, now: datetime, say: Callable[[str], None] = lambda _: None
) -> Plan:
    """The whole answer for a job. Reads files only: no network, no SDK, no framework. `say` is told of damaged prices.

    Raises BadInputError for an unknown provider, region or device, ThisMachineError where the tables cannot be read.
    """
    job = with_measured_work(_sized(job, settings), load_measurements(settings.measurements), query.providers)
    try:
        with Catalog.open(query.catalog or current_catalog(settings.home, say)) as catalog:
            catalog.assume(as_listed=query.assume_available, had=had_on_spot(query.evidence, now))
            source: OfferSource = catalog if query.offer_source is None else query.offer_source(catalog)
            if settings.prices:
                query = _with_own_prices(query, settings, catalog, now)
            if query.own_prices is not None and query.own_prices.rates:
                source = WithOwnRates(source, query.own_prices.rates)
            return _plan(job, query, settings, source, now)._replace(tax_percent=settings.tax_percent)
    except (CatalogError, MissingTableError) as error:
        raise ThisMachineError(str(error), getattr(error, "hint", "install trainplan again")) from None


def _refuse_unknown(job: TrainingJob, predictor: Predictor) -> None:
    """Raises BadInputError for a network of which too much is operators that nobody knows."""
    graph = job.graph()
    share = predictor.unknown_share(graph, job.micro_batch_size) if graph.unknown else 0.0
    if share > MOST_UNKNOWN:
        raise BadInputError(
            f"{share:.0%} of a step of {graph.name} is of operators that are not known: {', '.join(graph.unknown)}",
            f"at most {MOST_UNKNOWN:.0%} may be; measure the job once (plan measure), or write them with layers of "
            "Keras (docs/own-network.md)",
        )


def _refuse_several_machines(numbers: Iterable[int], filters: Filters) -> None:
    """Raises BadInputError where services that lend one machine a session are asked for several."""
    names = sorted(filters.providers & set(free_providers()))
    most = max(numbers)
    if names and most > 1:
        lend = "lends one machine" if len(names) == 1 else "lend one machine"
        message = f"{' and '.join(names)} {lend} a session, and {most} are asked for"
        hint = f"leave out {Option.NODES} (or nodes: in the job file), or name other providers"
        raise BadInputError(message, hint, field=Option.NODES)


def _with_own_prices(query: PlanQuery, settings: Settings, catalog: Catalog, now: datetime) -> PlanQuery:
    """The query with the person's own rates, where it has none. Raises BadInputError for a provider that is unknown."""
    providers = {rate.provider for rate in settings.own_rates} | {one.provider for one in settings.own_credits}
    _checked_names("provider (prices in settings.toml)", providers, {*catalog.rates, SIMULATED, CLUSTER, THIS_MACHINE})
    check_own_names(settings, catalog)
    if query.own_prices is not None or not settings.own_rates:
        return query
    own = current_rates(settings.own_rates, now.date(), settings.accounts)
    return query._replace(own_prices=OwnPrices(rates=own.rates, lines=own.lines))


def check_own_names(settings: Settings, catalog: Catalog) -> None:
    """Raises BadInputError for an own rate of a machine type, a family or a region that its provider does not rent."""
    try:
        check_names(settings.own_rates, cache(catalog.rented))
    except OwnRateError as error:
        raise BadInputError(f"{settings.home / 'settings.toml'}: {error}", error.hint) from None


def _plan(job: TrainingJob, query: PlanQuery, settings: Settings, catalog: OfferSource, now: datetime) -> Plan:
    load_now = load_from_here_on() if query.free_share is None else partial(Load, free_share=query.free_share)
    filters = _filters(job, query, catalog)._replace(allowed=_allowed(settings, catalog, query.providers))
    _refuse_several_machines(query.nodes or (job.nodes,), filters)
    predictor = TaughtPredictor(catalog.devices, load_measurements(settings.measurements))
    try:
        _refuse_unknown(job, predictor.plain)
        own = query.own_prices or OwnPrices()
        world = _world(predictor, settings, catalog, query, now)._replace(credit_usd=own.credit_usd)
        listed = _rentals(catalog, filters, query.devices or job.constraints.devices, now)
        rented = _comparable(listed, filters, settings)
        choice = _choose(job, rented, world, filters, query)
        lines = advice(
            Findings(
                job=job,
                macs=job.graph().macs,
                choice=choice,
                machine=(machine := _quoted_here(job, settings, predictor.plain, catalog.devices, load_now)),
                on_same=_again(predictor, world),
                in_parts=_in_parts(job, rented, choice, world),
                retired=(retired := "" if choice.candidates else retired_line(rented, filters)),
                free=_free_candidates(job, listed, world, filters),
            )
        )
        lines += () if choice.candidates else _for_none(job, rented, world, filters)
        names = () if retired or job.script is not None else filters.devices  # retired ones are told as that
        named = quote_named_devices(job, (names, query.counts), choice.candidates, predictor.plain, catalog.devices)
        timed = _operator_seconds(job, query.explain_row, choice, predictor.plain, catalog.devices)
        grid = _full_grid(job, choice, world)
        groups = in_numbers(job, query.nodes, partial(first_of_each, choice.candidates, catalog, now), world)
    finally:
        predictor.close()
    return Plan(
        job=job,
        made_at=now,
        ranking=choice.candidates,
        candidates=in_full(choice.candidates[: query.limit], catalog, now),
        prices=catalog.quotes(OfferQuery(include_retired=query.include_retired), now.date()) if query.prices else {},
        rejections=choice.rejections,
        filtered_last=choice.filtered_last,
        this_machine=machine,
        advice=lines,
        offers_seen=sum(len(row.placements) + row.placements.unrankable for row in rented),
        credit_usd=own.credit_usd,
        own_notes=own.lines,
        groups=groups,
        named_devices=named,
        device_groups=_groups(choice.candidates, catalog.devices),
        operator_seconds=timed,
        grid=grid,
    )


def _for_none(job: TrainingJob, rented: Sequence[RentalPlacements], world: World, filters: Filters) -> tuple[str, ...]:
    return (*_nearest(job, rented, world, filters), *unpriced_market_lines(rented, filters))


def _quoted_here(
    job: TrainingJob,
    settings: Settings,
    predictor: Predictor,
    devices: DeviceTable,
    load_now: Callable[[], Load],
) -> MachineEstimate:
    """This computer's row."""
    load = load_now()
    quote = quote_this_machine(job, this_machine(), settings, predictor, devices, Processor(read_cpuinfo(), load))
    return replace(quote, free_share=load.free_share)


def _groups(ranking: Iterable[Candidate], devices: Mapping[str, Device]) -> dict[str, str]:
    names = {candidate.estimate.rental.device for candidate in ranking} - {CPU_DEVICE}
    return {name: devices[name].group for name in sorted(names)}


def _choose(
    job: TrainingJob, rented: Sequence[RentalPlacements], world: World, filters: Filters, query: PlanQuery
) -> Choice:
    try:
        return choose(job, rented, world, filters, every_placement=query.every_placement)
    except ValueError as error:
        hint = "" if job.data.images else "data.images is the number of images to train on; a folder is counted"
        raise BadInputError(f"{job.name}: {error}", hint) from None


def _comparable(rented: Iterable[RentalPlacements], filters: Filters, settings: Settings) -> list[RentalPlacements]:
    """What is rented by providers that were asked for by name, that are set up, or that trainplan launches at itself.

    Others are only estimated: row 1 of an estimate is what a launch of the same job rents (ADR 40).
    """
    names = {*filters.providers, *settings.clouds, *(one.name for one in VENDORS)}
    return [row for row in rented if row.rental.provider in names]


def _in_parts(job: TrainingJob, rented: Iterable[RentalPlacements], choice: Choice, world: World) -> Mapping[int, int]:
    """How many offers that the batch does not fit it would fit in so many parts."""
    return brought_back(Workload(job), rented, choice.rejections, world.devices, partial(software_of, job, world=world))


def _free_candidates(
    job: TrainingJob, listed: Iterable[RentalPlacements], world: World, filters: Filters
) -> tuple[Candidate, ...]:
    """The job where machines cost nothing, in a plan over all providers and placements; else none."""
    if filters.providers or filters.regions:
        return ()
    free = frozenset(free_providers())
    rows = [row for row in listed if row.rental.provider in free]
    return choose(job, rows, world, filters._replace(providers=free, by_trainer=True), every_placement=False).candidates


def _rentals(catalog: OfferSource, filters: Filters, typed: Iterable[str], now: datetime) -> list[RentalPlacements]:
    """All that is listed. Raises BadInputError where free places are asked for alone, and for a device
    (`typed`) that none of them has: they have so few that these can be named. One that was retired is told as that."""
    listed = catalog.rentals(OfferQuery(include_retired=True), now.date())
    if filters.devices and filters.providers and filters.providers <= set(free_providers()):
        rentals = [row.rental for row in listed if row.rental.provider in filters.providers]
        if filters.devices.isdisjoint(rental.device for rental in rentals):
            has = sorted({rental.device for rental in rentals if rental.lifecycle.state is not LifecycleState.RETIRED})
            names, places = " or ".join(sorted(typed)), " and ".join(sorted(filters.providers))
            raise BadInputError(f"there is no {names} at no cost at {places}", f"there is {' and '.join(has)}")
    return listed


def _world(
    predictor: TaughtPredictor, settings: Settings, catalog: OfferSource, query: PlanQuery, now: datetime
) -> World:
    world = World(
        devices=catalog.devices,
        rates=catalog.rates,
        throughput=_of_shares(partial(_asker, predictor=predictor, devices=catalog.devices)),
        buckets=settings.bucket_regions,
        obtainability=Obtainabilities(now, shipped_notes(), query.evidence, query.scores),
        queue_waits=query.queue_waits,
        around=predictor.around,
    )
    return world._replace(within_hours=catalog.within_hours) if isinstance(catalog, WithOwnRates) else world


def _nearest(job: TrainingJob, rented: Iterable[RentalPlacements], world: World, filters: Filters) -> tuple[str, ...]:
    """What would be let in with another deadline or budget."""
    if filters.deadline is None and filters.budget_usd is None:
        return ()
    relaxed = filters._replace(deadline=None, budget_usd=None)
    return nearest_misses(choose(job, rented, world, relaxed, every_placement=False).candidates, filters)


def _sized(job: TrainingJob, settings: Settings) -> TrainingJob:
    """The job with the size of its own data, where this computer knows it without asking anybody."""
    if job.data.name is not None or job.data.size_bytes is not None or job.script is not None:
        return job
    from trainplan.planner.datasets.store import known_bytes

    size_bytes = known_bytes(job.data, settings.home)
    return (
        job.model_copy(update={"data": job.data.model_copy(update={"size_bytes": size_bytes})}) if size_bytes else job
    )


def _again(predictor: TaughtPredictor, world: World) -> Callable[[TrainingJob, Candidate], Candidate | None]:
    """Puts a changed job on a candidate's machine and placement; None where it does not fit or cannot be predicted."""

    def again(job: TrainingJob, before: Candidate) -> Candidate | None:
        rental, work = before.estimate.rental, Workload(job, world.around)
        software = software_of(job, rental, world)
        if not splits(job, rental) or not fits(work, rental, world, software):
            return None
        ask = _of_shares(partial(_asker, predictor=predictor, devices=world.devices))
        estimated, old = world._replace(throughput=ask).estimate(work, rental), before.estimate
        if isinstance(estimated, Reason):
            return None
        elsewhere = old.search.elsewhere_micro_usd_per_hour if old.search is not None else None
        return at_placement(estimated, before.placement, old.obtainability, elsewhere, old.queue)

    return again


def _full_grid(job: TrainingJob, choice: Choice, world: World) -> Candidate | None:
    """The first candidate with every trial of the sweep trained to its end; None without a sweep, and of a script that
    was not measured there."""
    if job.sweep is None or not choice.candidates:
        return None
    first = choice.candidates[0]
    if first.estimate.throughput.basis is Basis.UNMEASURED:
        return None
    estimated, old = world.estimate(Workload(job, world.around, is_grid=True), first.estimate.rental), first.estimate
    if isinstance(estimated, Reason):
        return None
    elsewhere = old.search.elsewhere_micro_usd_per_hour if old.search is not None else None
    return at_placement(estimated, first.placement, old.obtainability, elsewhere, old.queue)


def nothing_left(plan: Plan, *, is_shown: bool = False) -> NothingLeftError:
    """The error that says which filter removed the last offers, and how many each removed.

    With `is_shown` the plan's table stands above it: what that says is not said again.
    """
    counts: dict[Reason, int] = {}
    for key, count in plan.rejections.items():
        counts[key.reason] = counts.get(key.reason, 0) + count
    last = plan.filtered_last
    if last is None:
        return NothingLeftError("there are no offers: the catalog is empty", "install trainplan again")
    rejected = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items(), key=lambda item: -item[1]))
    hint = "change a limit as the advice above has it" if plan.advice else "the list above counts them by reason"
    if not is_shown:
        idle = (reason.text for reason in ONLY_ESTIMATED if reason in counts)
        hint = "; ".join((f"rejected: {rejected}", *idle, *plan.advice))
    kind = NothingFitsError if last in (Reason.OUT_OF_MEMORY, Reason.FRACTION_TOO_SMALL) else NothingLeftError
    return kind(f"no offer fits: {last.text}", hint)


def check_providers(names: Iterable[str], settings: Settings, say: Callable[[str], None]) -> None:
    """Raises BadInputError for a provider that the catalog lacks, ThisMachineError where the catalog cannot be read."""
    try:
        with Catalog.open(current_catalog(settings.home, say)) as catalog:
            _checked_names("provider", names, {*catalog.rates, THIS_MACHINE}, (SIMULATED, CLUSTER))
    except CatalogError as error:
        raise ThisMachineError(str(error), "install trainplan again") from None


def _filters(job: TrainingJob, query: PlanQuery, catalog: OfferSource) -> Filters:
    limits = job.constraints
    providers = query.providers or limits.providers
    for name in providers:
        if name not in catalog.rates and name not in FACTORIES and vendor(name) is not None:
            raise BadInputError(
                f"no prices of {name!r} are known",
                f"[{name}] in settings.toml sets it up; its package names its `rates`",
            )
    return Filters(
        providers=_checked_names("provider", providers, {*catalog.rates, THIS_MACHINE}, (SIMULATED, CLUSTER)),
        regions=_checked_names("region", query.regions or limits.regions, catalog.regions),
        devices=_device_names(query.devices or limits.devices, catalog.devices),
        counts=frozenset(query.counts),
        markets=frozenset(query.markets or limits.markets),
        include_retired=query.include_retired,
        by_trainer=query.by_trainer,
        deadline=limits.deadline,
        budget_usd=job.budget_usd,
    )


def _allowed(settings: Settings, catalog: OfferSource, asked: Collection[str]) -> dict[str, frozenset[str]]:
    """The regions that the settings name, by provider that is asked for. Raises BadInputError for a name that no offer
    has."""
    try:
        regions_by_cloud = {name: regions_of(options, name) for name, options in settings.clouds.items()}
    except BadRequestError as error:
        raise BadInputError(error.message, error.hint) from None
    what = "region (setting `regions`)"
    return {
        name: _checked_names(what, regions, catalog.regions)
        for name, regions in regions_by_cloud.items()
        if regions and (not asked or name in asked)
    }


def _checked_names(
    kind: str, values: Iterable[str], names: Iterable[str], names_elsewhere: Iterable[str] = ()
) -> frozenset[str]:
    """The values as the names have them: `EAST US` is eastus. `names_elsewhere`, of other queries, are listed too.

    Raises BadInputError for a value that is none of the names.
    """
    allowed = set(names)
    return frozenset(
        value if value in allowed else same_name(value, allowed) or _unknown(kind, value, allowed, names_elsewhere)
        for value in values
    )


def _unknown(kind: str, value: str, allowed: set[str], names_elsewhere: Iterable[str]) -> NoReturn:
    if kind == "provider" and (retired := retired_place(value)) is not None:
        raise BadInputError(retired.text, f"take {retired.instead}")
    known = sorted({*allowed, *names_elsewhere} - {value})
    begins = [name for name in known if name.startswith(value.lower())]
    near = [name for name in known if name == other_word(value)] or nearest_names(value, known)
    if begins and (kind.startswith("region") or not near):
        hint = f"did you mean {_listed(begins)}?"
    else:
        hint = f"did you mean {near[0]}?" if near else f"known: {_listed(known)}"
    raise BadInputError(f"there is no {kind} {value!r}", hint)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return f"{', '.join(names[:_MOST_NAMES])}{f' and {more} more' if more > 0 else ''}"


_MOST_NAMES = 20
"""Names that are listed where none is near the one that was typed."""


def _device_names(names_or_patterns: Iterable[str], devices: DeviceTable) -> frozenset[str]:
    names: set[str] = set()
    for name in names_or_patterns:
        if name.lower() == CPU_DEVICE:
            names.add(CPU_DEVICE)
            continue
        try:
            names.update(device.name for device in devices.find_all(name))
        except UnknownDeviceError as error:
            raise BadInputError(str(error), error.hint) from None
    return frozenset(names)


def share_of(whole: Throughput, fraction: float) -> Throughput:
    """The throughput of a part of a device: its share of the whole one's. No part was ever measured."""
    return replace(
        whole,
        images_per_second=whole.images_per_second * fraction,
        low=whole.low * fraction,
        high=whole.high * fraction,
        basis=Basis.MODELLED,
        note=f"a {fraction:.3g} share of the whole device's throughput: no part of one was measured",
    )


def _of_shares(
    asker: Callable[[TrainingJob], Callable[[Rental], Throughput | Reason]],
) -> Callable[[TrainingJob, Rental], Throughput | Reason]:
    """The speeds of a job, of the same with a share of its batch, and of the trials of its sweep; the asker of each is
    made once."""
    askers: dict[tuple[object, ...], tuple[TrainingJob, Callable[[Rental], Throughput | Reason]]] = {}

    def throughput(share: TrainingJob, rental: Rental) -> Throughput | Reason:
        # By the id of its net, which shares of a batch have in common: each entry holds the job that has the net.
        key = (share.global_batch_size, share.accumulate, share.precision, share.xla, id(share.model))
        return (askers.get(key) or askers.setdefault(key, (share, asker(share))))[1](rental)

    return throughput


def _question(
    job: TrainingJob, device: str, device_count: int, vcpus: int | None, devices: Mapping[str, Device]
) -> Question:
    return Question(
        net=job.net() if job.is_layer_list else job.graph(),
        device=device,
        device_count=device_count,
        interconnect=None if device == CPU_DEVICE else devices[device].interconnect,
        vcpus=vcpus,
        batch_per_device=job.micro_batch_size // device_count,
        precision=job.precision,
        xla=job.xla,
        framework=job.framework,
    )


def _operator_seconds(
    job: TrainingJob, row: str, choice: Choice, predictor: Predictor, devices: Mapping[str, Device]
) -> tuple[float, ...]:
    """Seconds of each operator on a device of the row that is to be explained; none where there is no such row."""
    numbered = zip(row_numbers(choice.candidates), choice.candidates, strict=True)
    explained = next((one for number, one in numbered if number == row), None) if row else None
    if explained is None:
        return ()
    rental = explained.estimate.rental
    return predictor.operator_seconds(_question(job, rental.device, rental.device_count, rental.vcpus, devices))


def _asker(
    job: TrainingJob, predictor: TaughtPredictor, devices: Mapping[str, Device]
) -> Callable[[Rental], Throughput | Reason]:
    if job.script is not None:
        return lambda rental: predictor.there(job, rental) or unmeasured(job)

    # By what of a rental matters: a question holds the whole net, and hashing that for each rental takes longer.
    @cache
    def answer_for(device: str, device_count: int, vcpus: int | None) -> Throughput | Reason:
        answer = predictor.predict(_question(job, device, device_count, vcpus, devices))
        return answer if isinstance(answer, Throughput) else Reason.NO_THROUGHPUT

    def ask(rental: Rental) -> Throughput | Reason:
        measured = predictor.there(job, rental)
        if measured is not None:
            return measured
        vcpus = rental.vcpus if rental.device == CPU_DEVICE else None
        answer = answer_for(rental.device, rental.device_count, vcpus)
        if isinstance(answer, Reason) or rental.device_fraction == 1:
            return answer
        return share_of(answer, float(rental.device_fraction))

    return ask
