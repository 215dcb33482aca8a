"""A launch from Python: `trainplan.launch`."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.planner.api import build
from trainplan.planner.api.after_run import after_run
from trainplan.planner.api.calls import library_call
from trainplan.planner.api.data_steps import check_at_launch
from trainplan.planner.api.job_files import with_limits
from trainplan.planner.api.launching import Begun, Choices, Limits, begin, instead_of_pilots, offered
from trainplan.planner.api.piloting import cap_of, limits_after_pilots
from trainplan.planner.api.plan import Offer, Plan
from trainplan.planner.api.python_desk import Interrupted, leave_running, python_desk, python_pilots
from trainplan.planner.api.run import Run, recorded_run, refuse_failure
from trainplan.planner.errors import BadInputError, RefusedError
from trainplan.planner.planning.build_plan import PlanQuery
from trainplan.planner.runs.execution.executor import Detached
from trainplan.planner.runs.run import Phase
from trainplan.planner.settings import load_settings
from trainplan.pricing.money import written_amount
from trainplan.providers.registry import THIS_MACHINE
from trainplan.workloads.wording import Option

if TYPE_CHECKING:
    from trainplan.planner.api.launching import Desk, Offered
    from trainplan.planner.api.living_run import Known
    from trainplan.planner.api.piloting import PilotDesk
    from trainplan.planner.runs.proposal.pilots import Cap
    from trainplan.planner.runs.run import Run as JournalRun
    from trainplan.workloads.job import TrainingJob


def launch(  # noqa: PLR0913  each is a choice of the person's
    offer: Offer | Plan,
    *,
    max_cost_usd: float | Decimal,
    pilots_usd: float | Decimal | None = None,
    yes: bool = False,
    fresh: bool = False,
    another: bool = False,
    model_folder: str | os.PathLike[str] | None = None,
    quiet: bool = False,
) -> Run:
    """Train the job for real; returns once it has a machine. `Run.wait` follows it to its end.

    An offer is launched on its machine type, in its region and market; a plan in the order of its rows, the next one
    where the one before has no room. `max_cost_usd` is the most that the whole run may cost: it goes nowhere where it
    is planned to cost more, and ends with a checkpoint when that is spent (the cents until its machine is deleted come
    on top, and tax). 0: only where nothing bills.

    `pilots_usd`: first run the pilots of the plan that are worth it, which cost at most this beside the run. The
    machine that ranks first then is measured by the run itself, which leaves for a cheaper one while `Run.wait` follows
    it (docs/pilots.md).

    What will happen is shown, and asked, at a terminal or in a notebook; `yes=True` agrees in code. Where nobody can
    be asked, nothing is launched. A run of the same job that lives is attached to (`another=True` launches beside it);
    an earlier one that was ended early goes on from its checkpoint (`fresh=True` starts again). `model_folder` is
    where the model goes (None: a folder named after job and run in the current one).

    Raises RefusedError where nobody is signed in or the vendor refuses, DeclinedError where the answer is no,
    BadInputError where nobody can be asked, NothingLeftError where it would cost more, and what `Run.wait` raises
    where the run has ended before it had a machine.
    """
    output = None if model_folder is None else Path(os.fspath(model_folder))
    choices = Choices(fresh=fresh, another=another, output=output)
    with library_call(is_launch=True):
        query, cap_usd, told = launch_query(offer), _cap(max_cost_usd), list[str]()
        job = check_at_launch(_capped(_plan_of(offer).job._training_job, cap_usd), told)
        around = build.surroundings(load_settings(os.environ), calibrates=True)
        limits = Limits(cap_usd, is_agreed=yes)
        known: Known | None = None
        if pilots_usd is not None:
            cap = _pilots_cap(pilots_usd, cap_usd)
            with python_desk(around, told, quiet=quiet) as opened:
                found = instead_of_pilots(offered(job, query, around, limits), choices, opened)
                if isinstance(found, Begun):
                    return recorded_run(_launched(found, opened).run_id)
            known = found
            limits = _after_pilots(job, query, limits, cap, python_pilots(around, is_agreed=yes, quiet=quiet))
        proposed = offered(job, query, around, limits, known)
        _refuse_bill(proposed, cap_usd)
        with python_desk(around, told, quiet=quiet) as opened:
            run = _launched(begin(proposed, choices, opened), opened)
    return recorded_run(run.run_id)


def launch_query(offer: Offer | Plan) -> PlanQuery:
    """Where a launch looks: where the plan looked, or at this one machine type in its region and market.

    Raises BadInputError for what is neither.
    """
    asked = _plan_of(offer)._asked.wanted
    if isinstance(offer, Plan):
        return asked._replace(every_placement=False)
    where = PlanQuery(include_retired=asked.include_retired, assume_available=asked.assume_available)
    if offer.provider == THIS_MACHINE:
        return where._replace(providers=(THIS_MACHINE,))
    return where._replace(
        providers=(offer.provider,),
        regions=(offer.region,),
        devices=(offer.device,),
        markets=(offer.market,),
        instance_types=(offer.instance_type,),
    )


def _plan_of(offer: Offer | Plan) -> Plan:
    if not isinstance(offer, Offer | Plan):
        raise BadInputError(f"an offer is expected, not {offer!r}", "estimate(job)[0] is one")
    return offer if isinstance(offer, Plan) else offer.plan


def _pilots_cap(pilots_usd: float | Decimal, cap_usd: Decimal) -> Cap:
    cap = cap_of(Option.PILOT, str(pilots_usd))
    if cap_usd == 0:
        raise BadInputError(
            f"{Option.PILOT}: with {Option.MAX_COST(0)} the run goes only where nothing bills, and there is nothing "
            "to save",
            "leave it out, or give a cap above 0",
        )
    return cap


def _after_pilots(job: TrainingJob, query: PlanQuery, limits: Limits, cap: Cap, desk: PilotDesk) -> Limits:
    try:
        return limits_after_pilots(job, query, cap, limits, desk)
    except Detached as left:
        leave_running(left.run)


def _launched(begun: Begun, desk: Desk) -> JournalRun:
    """The run, once it has a machine, or has ended without one. Raises the error of one that has failed."""
    run, person = begun.run, desk.person
    if not begun.has_ended:
        try:
            run, receipt = begun.runner.follow(run, begun.make_request, until_launched=True)
            after_run(run, receipt, desk.journal, desk.around.settings, begun.images)
        except Detached as left:
            run = left.run
            was_asked = isinstance(person, Interrupted) and person.was_asked
            if was_asked or run.phase not in (Phase.BOOTING, Phase.RUNNING):
                leave_running(run)
    if run.phase is Phase.DONE:
        refuse_failure(run)
    return run


def _cap(value: float | Decimal) -> Decimal:
    cap_usd = written_amount(value)
    if cap_usd is None:
        raise BadInputError(f"max_cost_usd: {value!r} is not an amount of dollars", "for example max_cost_usd=3")
    return cap_usd


def _capped(job: TrainingJob, cap_usd: Decimal) -> TrainingJob:
    """The job with the cap as its budget, where it has no lower one."""
    own = job.budget_usd
    if not cap_usd or (own is not None and own <= cap_usd):
        return job
    return with_limits(job, None, str(cap_usd), None)


def _refuse_bill(proposed: Offered, cap_usd: Decimal) -> None:
    targets = proposed.proposal.targets
    if cap_usd == 0 and any(target.payable_usd_per_hour > 0 for target in targets):
        raise RefusedError(f"{targets[0].where} bills by the hour, and max_cost_usd is 0", "give a cap above 0")
