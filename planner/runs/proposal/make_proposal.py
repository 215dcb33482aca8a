"""Where a job is launched: its plan without the placements that this account cannot use, at live prices where there are
any."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from trainplan.planner.datasets.transfer import providers_of
from trainplan.planner.errors import RefusedError, TooSmallHereError, from_provider
from trainplan.planner.forecast.plan import ESTIMATE_ONLY_TEXT, Reason
from trainplan.planner.forecast.script_work import assumption
from trainplan.planner.planning.build_plan import (
    PlanQuery,
    check_providers,
    make_plan,
    nothing_left,
    with_listed_offers,
)
from trainplan.planner.planning.calibrate import calibrate
from trainplan.planner.planning.check import judge
from trainplan.planner.planning.own_networks import check_trained
from trainplan.planner.planning.quotas import within_quotas
from trainplan.planner.report.estimate_page import machine_line
from trainplan.planner.runs.journal.evidence import read_evidence
from trainplan.planner.runs.money.own_use import own_prices_now
from trainplan.planner.runs.proposal.live_prices import dearer, refined
from trainplan.planner.runs.proposal.proposal import MOST_TARGETS, here, limits_text, rented
from trainplan.planner.runs.queue_waits import with_queue
from trainplan.planner.settings import Settings
from trainplan.pricing.offers import OfferQuery
from trainplan.providers.abilities import Resolver
from trainplan.providers.base import Provider
from trainplan.providers.errors import ProviderError
from trainplan.providers.registry import (
    CLOUDS,
    CLUSTER,
    THIS_MACHINE,
    is_estimated_only,
    is_plug_in,
    is_proven,
    names,
    plug_in_problems,
)
from trainplan.workloads.wording import Option

if TYPE_CHECKING:
    from trainplan.planner.datasets.transfer import DataTransfer
    from trainplan.planner.forecast.plan import MachineEstimate, Plan
    from trainplan.planner.runs.execution.create import MakeRequest
    from trainplan.planner.runs.proposal.proposal import Proposal
    from trainplan.planner.runs.run import Run
    from trainplan.pricing.offers import Offer
    from trainplan.providers.base import LaunchRequest
    from trainplan.workloads.job import TrainingJob

MOST_PASSED_OVER = 10
"""Placements that are looked at, one after another, for the first that would take us."""


UNPROVEN_TEXT = "no test shows what a launch that breaks off leaves there; look into your account after the run"
"""Of a provider that launches and is not proven (tests/contract/levels.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a proposal is made with beside the job: `provider_of` gives a provider by its name, `is_used` tells whether
    somebody is signed in to one or has settings for it, `say` hears what is left out and why. `calibrates`: a processor
    nobody measured is measured first, where the job would be trained on this machine."""

    settings: Settings
    provider_of: Callable[[str], Provider]
    is_used: Callable[[str], bool]
    now: Callable[[], datetime]
    say: Callable[[str], None]
    calibrates: bool = False


def make_proposal(job: TrainingJob, query: PlanQuery, around: Surroundings) -> Proposal:
    """Where the job would be launched, at live prices where there are any.

    Raises BadInputError or NothingLeftError where it fits nowhere asked for, RefusedError where nobody is signed in
    and where nothing can be launched. BadInputError for a network that can only be estimated.
    """
    check_trained(job)
    if query.providers == (THIS_MACHINE,):
        estimate, offer = _this_machine(job, around)
        text = f"this machine: {machine_line(estimate)}{assumption(job, estimate.throughput)}"
        return here(estimate, offer, text, job.constraints.deadline)
    plan = ranked_placements(job, query, around)
    live = _first_let_in(refined(plan, around.provider_of, around.say), around)
    return rented(live, dearer(plan, live))


def ranked_placements(
    job: TrainingJob, query: PlanQuery, around: Surroundings, *, every_placement: bool = True
) -> Plan:
    """The placements where the job could be launched, ranked at the prices that are known; with `every_placement` all
    of them, else the best of each provider, device, device count and market.

    Raises what `make_proposal` raises.
    """
    query = query._replace(providers=_launchable(query.providers or job.constraints.providers, around))
    now = around.now()
    query = query._replace(
        every_placement=every_placement, limit=MOST_TARGETS, by_trainer=True,
        own_prices=own_prices_now(around.settings, now),
        evidence=read_evidence(around.settings.journal, now, around.say),
    )  # fmt: skip
    everywhere = with_listed_offers(query, around.provider_of, around.settings, around.say)
    plan = make_plan(job, everywhere, around.settings, now, around.say)
    plan, _ = with_queue(plan, everywhere, around.settings, now, (around.provider_of, around.say))
    for line in plan.own_notes:
        around.say(line)
    if query.instance_types:
        plan = _of_types(plan, query.instance_types)
    if not plan.candidates:
        raise nothing_left(plan)
    # Before live prices are asked for: they are read for the first placements alone, which have to be usable ones.
    plan = within_quotas(_let_in(plan, around), around.provider_of, around.say)
    for name in dict.fromkeys(ranked.offer.provider for ranked in plan.candidates):
        if not is_proven(name):
            around.say(f"{name}: {UNPROVEN_TEXT}")
    return plan


def _of_types(plan: Plan, instance_types: tuple[str, ...]) -> Plan:
    """The plan with machines of these types alone; where none is left, with why they are not."""
    these = tuple(ranked for ranked in plan.candidates if ranked.offer.instance_type in instance_types)
    if these:
        return plan._replace(candidates=these)
    rejections = {key: count for key, count in plan.rejections.items() if key.instance_type in instance_types}
    furthest = max((key.reason for key in rejections), key=list(Reason).index, default=plan.filtered_last)
    return plan._replace(candidates=(), rejections=rejections, filtered_last=furthest)


def make_proposal_with_data(
    job: TrainingJob, query: PlanQuery, around: Surroundings, bring: Callable[[Provider], DataTransfer]
) -> tuple[Proposal, DataTransfer]:
    """Where the job would be launched, and what its data takes to get there, as `bring` tells; where the data can be
    read there alone.

    Raises what `make_proposal` raises, and PlanError where the data is not to be had or read.
    """
    only = () if query.providers or job.constraints.providers else only_providers(job)
    proposal = make_proposal(job, query._replace(providers=only) if only else query, around)
    first = proposal.targets[0].offer.provider
    upload = bring(around.provider_of(first))
    if proposal.plan is None or not upload.bound:
        return proposal, upload
    there = tuple(ranked for ranked in proposal.plan.candidates if ranked.offer.provider == first)
    return rented(proposal.plan._replace(candidates=there), proposal.dearer), upload


def at_current_prices(shown_plan: Plan, around: Surroundings) -> Proposal:
    """The plan that was shown, at the prices of now: `dearer` where its price has to be agreed to again."""
    plan = refined(shown_plan, around.provider_of, around.say)
    return rented(plan, dearer(shown_plan, plan))


def limit_lines(draft: Run, request: MakeRequest, first_at: Provider, now: datetime) -> list[str]:
    """What ends the run at the latest, at the first of its placements."""
    first = _as_it_would_be(first_at, request(draft, 1, draft.targets[0]))
    return limits_text(draft, first_at.timers(first), now)


def only_providers(job: TrainingJob) -> tuple[str, ...]:
    """The only providers that can train the job, since its data or its secrets are there; () for any.

    Raises BadInputError.
    """
    try:
        return providers_of(job)
    except ProviderError as error:
        raise from_provider(error) from error


def _let_in(plan: Plan, around: Surroundings) -> Plan:
    """The plan without the providers that nobody is signed in to: a run would end at them.

    Raises RefusedError where none is left.
    """
    # Reversed, so that of each provider's offers the one that ranks first is kept.
    best = {ranked.offer.provider: ranked.offer for ranked in reversed(plan.candidates)}
    judged = judge(list(best.values()), around.provider_of)
    closed = {placement.offer.provider: placement for placement in judged if placement.is_closed}
    if len(closed) == len(best):
        why = "; ".join(f"{name}: {placement.why}" for name, placement in closed.items())
        raise RefusedError(why, "plan doctor shows what is missing")
    for name, placement in closed.items():
        around.say(f"{name}: left out: {placement.why}")
    return plan._replace(candidates=tuple(ranked for ranked in plan.candidates if ranked.offer.provider not in closed))


def _first_let_in(plan: Plan, around: Surroundings) -> Plan:
    """The plan without the first placements that would not take us, where others may: a region without a network, a
    machine without an image. The last of them stays, and the launch says what is wrong with it."""
    for _ in range(MOST_PASSED_OVER):
        (best,) = judge([plan.candidates[0].offer], around.provider_of)
        others = [ranked for ranked in plan.candidates if best.may_be_let_in_at(ranked.offer)]
        if not best.is_refused_here or not others:
            break
        around.say(f"{best.text}: {best.why}: passed over")
        plan = plan._replace(candidates=tuple(others))
    return plan


def _as_it_would_be(provider: Provider, request: LaunchRequest) -> LaunchRequest:
    """The request with what can be looked up for it: what stands in an account tells what ends a machine there."""
    if isinstance(provider, Resolver):
        with suppress(ProviderError):
            return provider.resolve(request)
    return request


def _launchable(asked: tuple[str, ...], around: Surroundings) -> tuple[str, ...]:
    """The providers that were asked for without those that are only estimated, which are told; without a wish, those
    that somebody is signed in to. Raises RefusedError where none is left, BadInputError for one that nobody knows."""
    if not asked:
        return _signed_in(around)
    estimated = [name for name in asked if is_estimated_only(name) and not is_plug_in(name)]
    if not estimated:
        return asked
    check_providers(estimated, around.settings, around.say)
    for name in estimated:
        around.say(f"{name}: left out: {ESTIMATE_ONLY_TEXT}")
    if len(estimated) == len(asked):
        raise RefusedError(
            f"nothing can be launched at {', '.join(estimated)} from here",
            f"{Option.PROVIDER(*names())}; plan estimate compares with {', '.join(estimated)}",
        )
    return tuple(name for name in asked if name not in estimated)


def _signed_in(around: Surroundings) -> tuple[str, ...]:
    """The clouds, and what else is set up, that a launch over all of them goes to. Raises RefusedError where nobody is
    signed in to any."""
    for line in plug_in_problems():
        around.say(f"left out: {line}")
    clouds = [
        name
        for name in names()
        if name in CLOUDS
        or (name == CLUSTER and around.is_used(name))
        or (is_plug_in(name) and around.settings.clouds.get(name))
    ]
    usable = tuple(name for name in clouds if around.is_used(name))
    if not usable:
        raise RefusedError(
            "nobody is signed in to any cloud here",
            f"plan doctor tells how; {Option.PROVIDER(THIS_MACHINE)} trains on this machine",
        )
    if len(usable) < len(clouds):
        around.say(f"not signed in, left out: {', '.join(name for name in clouds if name not in usable)}")
    return usable


def _this_machine(job: TrainingJob, around: Surroundings) -> tuple[MachineEstimate, Offer]:
    """What the job takes here, and this machine as an offer. Raises BadInputError where it does not fit."""
    provider = around.provider_of(THIS_MACHINE)
    quote = _quote(job, around)
    if around.calibrates and calibrate(job, quote, provider, around.settings, around.now, around.say):
        quote = _quote(job, around)
    if not quote.fits:
        raise TooSmallHereError(
            f"{job.name} cannot train on this machine: {quote.reason}", "a smaller global_batch_size"
        )
    offers = provider.offers(OfferQuery())
    fitting = [offer for offer in offers if (offer.device, offer.device_count) == (quote.device, quote.device_count)]
    return quote, (fitting or list(offers))[0]


def _quote(job: TrainingJob, around: Surroundings) -> MachineEstimate:
    query = PlanQuery(providers=(THIS_MACHINE,), limit=0)
    quote = make_plan(job, query, around.settings, around.now()).this_machine
    assert quote is not None
    return quote
