"""`plan launch`: train a job for real, from the question to the receipt."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from planner.bringing import Bringing
from planner.cli import build, options
from planner.cli.ask import confirm
from planner.cli.beside import Beside, Joined
from planner.cli.data import bring, only_providers, send_brought
from planner.cli.live import LiveView, bills_line
from planner.cli.person import hang_up_detaches, person
from planner.consent import foreign_parts, readers
from planner.creating import MakeRequest
from planner.doctoring import judge
from planner.dry_run import DryRun
from planner.errors import (
    BadInputError,
    ExitCode,
    LimitReachedError,
    RefusedError,
    TeardownUnverifiedError,
)
from planner.gather import Wanted, make_plan, nothing_left
from planner.launch import Detached, ended_error
from planner.news import News
from planner.plan import MachineEstimate, Plan
from planner.proposal import MOST_TARGETS, Proposal, further_text, here, limits_text, most_usd, rented, within
from planner.quotas import within_quotas
from planner.receipt import Receipt, receipt_text
from planner.refining import Watchful, dearer, refined
from planner.render import machine_line
from planner.run import Outcome, Run
from planner.run_keys import RunKeys
from planner.runner import Runner, request_for
from planner.settings import CLOUDS, Settings
from pricing.offers import Offer, OfferQuery
from providers.base import LaunchRequest, Provider, Resolver
from providers.errors import ProviderError
from providers.registry import names
from workloads.job import TrainingJob

LOCAL = "local"
MOST_PASSED_OVER = 10
"""Places that are looked at, one after another, for the first that would take us."""


def command(
    job_file: options.NeededJobFile,
    provider: Annotated[
        list[str] | None, typer.Option("--provider", help="local: this machine; sim: practise; repeat for more")
    ] = None,
    region: options.Regions = None,
    device: options.Devices = None,
    market: options.Markets = None,
    deadline: options.Deadline = None,
    budget: options.Budget = None,
    objective: options.Goal = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Do not go on from an earlier checkpoint")] = False,
    allow_retired: Annotated[
        bool, typer.Option("--allow-retired", help="Retired machines too, on rented ones")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the requests that would be sent")] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Do not follow the run")] = False,
    max_cost: Annotated[
        str | None,
        typer.Option("--max-cost", help="Only places where the job is planned to cost at most this, in USD"),
    ] = None,
    another: Annotated[
        bool, typer.Option("--another", help="Launch though a run of this job lives; else --yes attaches to that")
    ] = False,
    output: Annotated[Path | None, typer.Option("--output", help="Folder for the model")] = None,
    as_json: options.Json = False,
) -> None:
    """Parse, plan, ask, follow, receipt."""
    job = options.with_limits(options.read_job_file(job_file), deadline, budget, objective)
    settings = options.settings()
    wanted = _wanted(provider, region, device, options.markets(market))._replace(include_retired=allow_retired)
    made = build.providers(settings)
    given_usd = None if max_cost is None else options.max_cost(max_cost)
    proposal, brought = with_data(job, settings, wanted, made)
    most = most_usd(proposal, given_usd, assume_yes=yes)
    proposal = within(proposal, most)
    # Of the job as it was written: a folder that was sent to our own storage has an address there.
    foreign = [*foreign_parts(job), *readers(job, proposal.offers)]
    job = brought.job
    if dry_run:
        _print_requests(brought, proposal, settings, as_json)
        return
    with LiveView(sys.stderr, build.clock().now) as view, build.journal(settings) as journal:
        first_at = made(proposal.targets[0].offer.provider)
        clock = build.clock_of(first_at)
        asked = person(view, News(journal, made, build.clock()))
        runner = build.runner(journal, settings, view.show, first_at.name, asked, made)
        beside = Beside(runner, job, view, assume_yes=yes, another=another)
        try:
            beside.look()
            draft = runner.draft(job, proposal.targets, proposal.slow_end, output)
            names = list(dict.fromkeys(target.offer.provider for target in proposal.targets))
            earlier = None if fresh else runner.resumable(job, names)
            keys = RunKeys(settings.home)
            request = request_for(job, clock, client=build.client(settings).id, data=brought.files, key=keys.key)
            watchful = Watchful(made, clock.now, proposal.offers)
            told = (*brought.lines, *_limits(draft, request, first_at, clock.now()))
            view.pause_for(lambda: _ask(job.name, proposal, earlier, told, foreign, assume_yes=yes))
            if brought.is_missing:
                view.pause_for(lambda: send_brought(brought, first_at))
                # Its time begins when its data is there.
                draft = runner.draft(job, proposal.targets, proposal.slow_end, output)
            if watchful.is_stale() and proposal.plan is not None:
                proposal = still_agreed(proposal.plan, made, view)
                # Whoever agrees to a dearer first place agrees to what --yes covers around it.
                proposal = within(proposal, most_usd(proposal, given_usd, assume_yes=yes) if proposal.dearer else most)
                draft = replace(draft, targets=proposal.targets)
                watchful = Watchful(made, clock.now, proposal.offers)
            runner.prepare(request(draft, 1, draft.targets[0]))
            record = proposal.record
            run = beside.begun(
                lambda: runner.again(earlier, draft, output) if earlier else runner.record(draft, job, record)
            )
            make_request = watchful.over(request)
        except Joined as joined:
            run, runner = joined.run, build.runner(journal, settings, view.show, joined.run.provider, asked, made)
            make_request = going_on(runner, run, made, settings)
        follow(runner, run, make_request, as_json, until_launched=detach)


def _wanted(
    providers: Sequence[str] | None,
    regions: Sequence[str] | None,
    devices: Sequence[str] | None,
    markets: Sequence[str],
) -> Wanted:
    """What the options ask for; an option that is not given asks for everything."""
    return Wanted(tuple(providers or ()), tuple(regions or ()), tuple(devices or ()), tuple(markets))


def _limits(draft: Run, request: MakeRequest, first_at: Provider, now: datetime) -> list[str]:
    """What ends the run at the latest, at the first of its places."""
    first = _as_it_would_be(first_at, request(draft, 1, draft.targets[0]))
    return limits_text(draft, first_at.timers(first), now)


def going_on(runner: Runner, run: Run, made: Callable[[str], Provider], settings: Settings) -> MakeRequest:
    """Makes the further requests of a run that is in the journal, for places that cost about what was agreed to."""
    watchful = Watchful(made, build.clock_of(made(run.provider)).now)
    return watchful.over(runner.request_maker(run, client=build.client(settings).id))


def follow(runner: Runner, run: Run, request: MakeRequest, as_json: bool, *, until_launched: bool = False) -> None:
    """The run to its end and its receipt, or until the person lets go of it; leaves with the run's exit code."""
    try:
        with hang_up_detaches():
            run, receipt = runner.follow(run, request, until_launched=until_launched)
    except Detached as left:
        print_left(left.run, as_json)
        return
    except TeardownUnverifiedError:
        sys.stderr.write(f"{bills_line(runner.now(run))}\n")
        raise
    print_receipt(receipt, as_json)
    finish(run)


def with_data(
    job: TrainingJob, settings: Settings, wanted: Wanted, made: Callable[[str], Provider]
) -> tuple[Proposal, Bringing]:
    """Where the job would be launched, and what its data takes to get there; where the data can be read there alone.

    Raises what `propose` raises, and PlanError where the data is not to be had or read.
    """
    only = () if wanted.providers or job.constraints.providers else only_providers(job)
    proposal = propose(job, settings, wanted._replace(providers=only) if only else wanted, made)
    first = proposal.targets[0].offer.provider
    brought = bring(job, made(first), settings)
    if proposal.plan is None or not brought.bound:
        return proposal, brought
    there = tuple(ranked for ranked in proposal.plan.candidates if ranked.offer.provider == first)
    return rented(proposal.plan._replace(candidates=there), proposal.dearer), brought


def propose(job: TrainingJob, settings: Settings, wanted: Wanted, made: Callable[[str], Provider]) -> Proposal:
    """Where the job would be launched, at live prices where there are any.

    Raises BadInputError or NothingLeftError where it fits nowhere asked for, RefusedError where nobody is signed in.
    """
    if wanted.providers == (LOCAL,):
        estimate, offer = this_machine_offer(job, settings, made(LOCAL))
        return here(estimate, offer, f"this machine: {machine_line(estimate)}")
    if not wanted.providers and not job.constraints.providers:
        wanted = wanted._replace(providers=_signed_in(settings))
    everywhere = wanted._replace(every_place=True, limit=MOST_TARGETS, given=build.given(wanted.providers, settings))
    plan = make_plan(job, everywhere, settings, build.clock().now(), _tell)
    if not plan.candidates:
        raise nothing_left(plan)
    plan = within_quotas(_let_in(plan, made), made, _tell)
    now = _first_let_in(refined(plan, made, _tell), made)
    return rented(now, dearer(plan, now))


def still_agreed(shown: Plan, made: Callable[[str], Provider], view: LiveView) -> Proposal:
    """What was shown at the prices of now, since the answer took its time; what is dearer is asked about again."""
    plan = refined(shown, made, _tell)
    again = rented(plan, dearer(shown, plan))
    if again.dearer:
        view.pause_for(lambda: _ask_price(again.dearer))
    return again


def _let_in(plan: Plan, made: Callable[[str], Provider]) -> Plan:
    """The plan without the providers that nobody is signed in to: a run would end at them.

    Raises RefusedError where none is left.
    """
    best = {ranked.offer.provider: ranked.offer for ranked in reversed(plan.candidates)}
    closed = {known.offer.provider: known for known in judge(list(best.values()), made) if known.is_closed}
    if len(closed) == len(best):
        why = "; ".join(f"{name}: {known.why}" for name, known in closed.items())
        raise RefusedError(why, "plan doctor tells what is missing")
    for name, known in closed.items():
        _tell(f"{name}: left out: {known.why}")
    return plan._replace(candidates=tuple(ranked for ranked in plan.candidates if ranked.offer.provider not in closed))


def _first_let_in(plan: Plan, made: Callable[[str], Provider]) -> Plan:
    """The plan without the first places that would not take us, where others may: a region without a network, a machine
    without an image. The last of them stays, and the launch says what is wrong with it."""
    for _ in range(MOST_PASSED_OVER):
        (best,) = judge([plan.candidates[0].offer], made)
        others = [ranked for ranked in plan.candidates if best.may_be_let_in_at(ranked.offer)]
        if not best.is_refused_here or not others:
            break
        _tell(f"{best.text}: {best.why}: passed over")
        plan = plan._replace(candidates=tuple(others))
    return plan


def _as_it_would_be(asked: Provider, request: LaunchRequest) -> LaunchRequest:
    """The request with what can be looked up for it: what stands in an account tells what ends a machine there."""
    if isinstance(asked, Resolver):
        with suppress(ProviderError):
            return asked.resolve(request)
    return request


def _signed_in(settings: Settings) -> tuple[str, ...]:
    """The clouds that a launch over all of them goes to. Raises RefusedError where nobody is signed in to any."""
    clouds = [name for name in names() if name in CLOUDS]
    usable = tuple(name for name in clouds if build.is_used(name, settings))
    if not usable:
        raise RefusedError(
            "nobody is signed in to any cloud here", "plan doctor tells how; --provider local trains on this machine"
        )
    if len(usable) < len(clouds):
        _tell(f"not signed in, left out: {', '.join(name for name in clouds if name not in usable)}")
    return usable


def this_machine_offer(job: TrainingJob, settings: Settings, asked: Provider) -> tuple[MachineEstimate, Offer]:
    """What the job takes here, and this machine as an offer. Raises BadInputError where it does not fit."""
    wanted = Wanted(providers=(LOCAL,), limit=0)
    quote = make_plan(job, wanted, settings, build.clock().now()).this_machine
    assert quote is not None
    if not quote.fits:
        raise BadInputError(f"{job.name} cannot train on this machine: {quote.reason}", "a smaller global_batch_size")
    offers = asked.offers(OfferQuery())
    fitting = [offer for offer in offers if (offer.device, offer.device_count) == (quote.device, quote.device_count)]
    return quote, (fitting or list(offers))[0]


def print_receipt(receipt: Receipt, as_json: bool) -> None:
    sys.stdout.write((json.dumps(receipt.to_json()) if as_json else receipt_text(receipt)) + "\n")


def print_left(run: Run, as_json: bool) -> None:
    """The last line of a run that goes on: what bills, until when, and what ends it."""
    if as_json:
        sys.stdout.write(json.dumps({"run_id": run.run_id, "phase": run.phase, "provider": run.provider}) + "\n")
    sys.stderr.write(f"{bills_line(run)}\nplan attach {run.run_id} follows it again\n")


def finish(run: Run) -> None:
    """Leave with the run's exit code: nothing for a success, an error that says how to go on for the rest."""
    if run.outcome is Outcome.SUCCEEDED:
        return
    again = "plan launch JOB.yaml goes on from the newest checkpoint, --fresh starts anew"
    if run.outcome is Outcome.STOPPED:
        sys.stderr.write(f"stopped; {again}\n")
        raise typer.Exit(int(ExitCode.INTERRUPTED))
    error = ended_error(run)
    raise type(error)(error.message, again if isinstance(error, LimitReachedError) else error.hint)


def _ask(
    title: str,
    proposal: Proposal,
    earlier: Run | None,
    limits: Sequence[str],
    foreign: Sequence[str],
    *,
    assume_yes: bool,
) -> None:
    """Show what would be launched, and return where somebody agrees. `foreign` are the job's parts made elsewhere."""
    sys.stderr.write(f"{title} on {proposal.text}\n")
    for line in filter(None, (further_text(proposal), proposal.left_out)):
        sys.stderr.write(f"{line}\n")
    for line in limits:
        sys.stderr.write(f"{line}\n")
    if earlier is not None:
        sys.stderr.write(f"going on with run {earlier.run_id} from its newest checkpoint (--fresh starts anew)\n")
    for line in foreign:
        sys.stderr.write(f"{line}\n")
    if proposal.dearer:
        _ask_price(proposal.dearer)
        return
    if assume_yes:
        return
    question = "launch with the image, data and secrets above?" if foreign else "launch?"
    hint = "--yes launches without asking"
    confirm(question, default=not foreign, hint=hint, left_alone="nothing was launched")


def _ask_price(dearer: str) -> None:
    """A price that is well above the one that was shown is agreed to by a person, whatever was typed."""
    hint = "--yes does not cover that: launch from a terminal, or plan prices refresh and plan estimate first"
    question = f"{dearer}. Launch at this price?"
    nobody = RefusedError(dearer, hint)
    confirm(question, default=False, hint=hint, left_alone="nothing was launched", nobody=nobody)


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _print_requests(brought: Bringing, proposal: Proposal, settings: Settings, as_json: bool) -> None:
    first_at = build.provider(proposal.targets[0].offer.provider, settings)
    clock = build.clock_of(first_at)
    with build.journal(settings) as journal:
        runner = build.runner(journal, settings, lambda _: None, first_at.name)
        draft = runner.draft(brought.job, proposal.targets, proposal.slow_end, None)
        dry = DryRun(build.providers(settings), clock, journal.refusals(clock.now()))
    request = request_for(brought.job, clock, client=build.client(settings).id, data=brought.files)
    target, sent = dry.calls(draft, request)
    sys.stderr.write(f"would be sent to {target.where}:\n")
    if as_json:
        rows = [
            {"service": row.service, "operation": row.operation, "parameters": dict(row.parameters)} for row in sent
        ]
        sys.stdout.write(json.dumps(rows, default=str) + "\n")
        return
    for row in sent:
        sys.stdout.write(f"{row.service} {row.operation}\n{json.dumps(dict(row.parameters), indent=2, default=str)}\n")
