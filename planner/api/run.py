"""Runs of the Python API: launched, followed, looked at, stopped."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainplan.planner.api import build
from trainplan.planner.api.after_run import after_run
from trainplan.planner.api.calls import in_python, library_call
from trainplan.planner.api.data_steps import check_at_launch
from trainplan.planner.api.event_lines import Lines, bills_line
from trainplan.planner.api.following import stopped, to_follow
from trainplan.planner.api.job_files import with_limits
from trainplan.planner.api.launching import Choices, Desk, Limits, begin, offered
from trainplan.planner.api.plan import Offer, Plan
from trainplan.planner.api.standing import standing_of
from trainplan.planner.errors import (
    BadInputError,
    LimitReachedError,
    PlanError,
    RefusedError,
    ThisMachineError,
    UnknownRunError,
)
from trainplan.planner.planning.build_plan import PlanQuery
from trainplan.planner.runs.execution.executor import CtrlC, Detached, ended_error
from trainplan.planner.runs.execution.nobody import Nobody
from trainplan.planner.runs.predictions import Prediction, image_paths, kept_model, predictions
from trainplan.planner.runs.run import Outcome, Phase
from trainplan.planner.runs.runner import FollowerSilentError
from trainplan.planner.settings import load_settings
from trainplan.pricing.money import written_amount
from trainplan.providers.base import RunId
from trainplan.providers.registry import THIS_MACHINE
from trainplan.workloads.terminal_text import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trainplan.planner.runs.journal.journal import Journal
    from trainplan.planner.runs.run import Run as JournalRun
    from trainplan.planner.runs.runner import Runner
    from trainplan.planner.settings import Settings
    from trainplan.workloads.job import TrainingJob

MODEL = "model.keras"
"""The trained model in the folder of a run."""
_HISTORY = (
    "epoch", "step", "loss", "accuracy", "validation_loss", "validation_accuracy", "validation_top5", "learning_rate",
    "seconds", "attempt",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """How a run stands.

    `phase` is planned, launching, booting, running, collecting, tearing_down, interrupted or done; `outcome` how it
    ended (None: it has not): succeeded, stopped, deadline, budget, interrupted, no_capacity, refused or failed, with a
    `message`. `step` of `total_steps` is the newest optimizer step, `usd` what it has cost so far, `usd_per_hour` what
    bills at this moment, `ends_by` when it ends itself at the latest. `trouble` says why it could not be looked at.
    """

    run_id: str
    job_name: str
    provider: str
    phase: str
    outcome: str | None
    message: str | None
    step: int | None
    total_steps: int | None
    usd: float
    usd_per_hour: float
    ends_by: datetime
    trouble: str | None

    @property
    def is_done(self) -> bool:
        """Whether it has ended and nothing of it is left to delete."""
        return self.phase == Phase.DONE


class Run:
    """A run of this home, by its id or the beginning of it. `launch` and `runs` give them.

    Only `launch` rents anything. A run goes on when Python ends: it is ended by its deadline and its budget, on the
    rented machine and at the provider. `Run("260101-1a2b")` finds it again in another session.
    """

    __slots__ = ("_run_id",)

    def __init__(self, run_id: str) -> None:
        """Raises UnknownRunError where no run has that id, BadInputError where several begin with it."""
        with library_call(), _journal() as (journal, _):
            if not isinstance(run_id, str):
                raise UnknownRunError(f"the id of a run is expected, not {run_id!r}", "runs() has them all")
            self._run_id = journal.run(run_id).run_id

    @property
    def id(self) -> str:
        """Its id, by which `plan status`, `plan logs` and `plan report` know it."""
        return self._run_id

    @property
    def model_path(self) -> Path | None:
        """The trained model on this computer (`keras.models.load_model` reads it); None before it is here."""
        path = self.folder / MODEL
        return path if path.is_file() else None

    @property
    def folder(self) -> Path:
        """The folder of its model, its curves and its metrics; it is made when the model comes."""
        with library_call(), _journal() as (journal, _):
            return Path(journal.run(self._run_id).model_folder)

    def status(self) -> RunStatus:
        """Look at the run, bring it up to date, and say how it stands. Trouble with its provider is in the answer."""
        with library_call(), _journal() as (journal, settings):
            client, factory = build.client(settings), build.providers(settings)
            standing = standing_of(journal.run(self._run_id), journal, settings, client, factory)
        run, progress = standing.run, standing.progress
        return RunStatus(
            run_id=run.run_id,
            job_name=run.job_name,
            provider=run.provider,
            phase=str(run.phase),
            outcome=None if run.outcome is None else str(run.outcome),
            message=run.message,
            step=progress.step,
            total_steps=progress.total_steps or run.total_steps,
            usd=standing.usd,
            usd_per_hour=float(run.bills_usd_per_hour),
            ends_by=run.deadline,
            trouble=None if standing.error is None else standing.error.message,
        )

    def wait(self, *, quiet: bool = False) -> RunStatus:
        """Follow the run until it has ended, its model is at home and nothing of it is left; how it stands then.

        Lines on what happens go to standard error. Interrupting it (Ctrl-C, or the button of a notebook) raises
        KeyboardInterrupt and leaves the run running; `stop` ends it. Raises TrainingFailedError, LimitReachedError,
        NoCapacityError or RefusedError where the run was not trained to its end, TeardownUnverifiedError where it is
        not confirmed that nothing is left.
        """
        with library_call(), _journal() as (journal, settings):
            run, factory = journal.run(self._run_id), build.providers(settings)
            lines = Lines(build.clock().now, quiet=quiet)
            runner = build.runner(journal, settings, lines.show, run.provider, _Interrupted(), factory)
            request = build.further_requests(runner, run, factory, settings)
            ready = to_follow(run, runner, journal)
            if ready is not None:
                try:
                    run, receipt = runner.follow(ready, request)
                except Detached as left:
                    _tell([bills_line(left.run)])
                    raise KeyboardInterrupt from None
                after_run(run, receipt, journal, settings)
            _refuse_failure(journal.run(self._run_id))
        return self.status()

    def stop(self, *, quiet: bool = False) -> RunStatus:
        """End the run: its trainer is asked for a last checkpoint, and everything is deleted. How it stands then.

        Launching the same job again goes on from the checkpoint. Raises TeardownUnverifiedError where it is not
        confirmed that nothing is left.
        """
        with library_call(), _journal() as (journal, settings):
            run = journal.run(self._run_id)
            if run.phase is not Phase.DONE:
                lines = Lines(build.clock().now, quiet=quiet)
                runner = build.runner(journal, settings, lines.show, run.provider, _Interrupted())
                _stop(run, runner)
        return self.status()

    def history(self) -> dict[str, list[Any]]:
        """Its epochs as columns of equal length: `pandas.DataFrame(run.history())` is a table of them.

        epoch, step, loss, accuracy, validation_loss, validation_accuracy, validation_top5 (shares of 1),
        learning_rate, seconds, attempt; None where an epoch has no such figure. An epoch that was trained again after
        an interruption counts as it was last trained.
        """
        from trainplan.planner.runs.report.document import Sources, run_document

        with library_call(), _journal() as (journal, settings):
            run = journal.run(self._run_id)
            store, why = build.store_of(run, settings)
            epochs = run_document(run, Sources(journal, store, build.clock().now(), why))["epochs"]
        return {name: [epoch.get(name) for epoch in epochs] for name in _HISTORY}

    def predict(self, *images: str | os.PathLike[str]) -> list[Prediction]:
        """What its model says of images, or of all images in folders, read as the run read its own.

        Asked in a process of its own, which needs the framework (the extra train-cpu). Raises BadInputError where there
        is no model yet or no image, ThisMachineError where the framework is missing.
        """
        folder = self.folder
        with library_call():
            paths = image_paths(Path(os.fspath(image)) for image in images)
            return predictions(kept_model(folder), paths, lambda line: _tell([line]))

    def receipt(self) -> dict[str, Any] | None:
        """What it took and cost beside what was estimated (docs/output.md); None while it has not ended."""
        with library_call(), _journal() as (journal, _):
            return journal.receipt(self._run_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and self._run_id == other._run_id

    def __hash__(self) -> int:
        return hash(self._run_id)

    def __repr__(self) -> str:
        try:
            with library_call(), _journal() as (journal, _):
                run = journal.run(self._run_id)
        except (
            PlanError
        ):  # it is another home's, say: an object is shown wherever it is, and `status` says what is wrong
            return f"<Run {self._run_id}>"
        return f"<Run {run.run_id}: {run.job_name} at {run.provider}, {run.outcome or run.phase}>"


def runs() -> list[Run]:
    """The runs of this home, the newest first; `Run.status` looks at how one stands.

    One that this version cannot read is told on standard error and left out.
    """
    with library_call(), _journal() as (journal, _):
        return [_run(run.run_id) for run in journal.runs(lambda text: _tell([text]))]


def launch(  # noqa: PLR0913  each is a choice of the person's
    offer: Offer | Plan,
    *,
    max_cost_usd: float | Decimal,
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

    What will happen is shown, and asked, at a terminal or in a notebook; `yes=True` agrees in code. Where nobody can
    be asked, nothing is launched. A run of the same job that lives is attached to (`another=True` launches beside it);
    an earlier one that was ended early goes on from its checkpoint (`fresh=True` starts again). `model_folder` is
    where the model goes (None: a folder named after job and run in the current one).

    Raises RefusedError where nobody is signed in or the vendor refuses, DeclinedError where the answer is no,
    BadInputError where nobody can be asked, NothingLeftError where it would cost more, and what `Run.wait` raises
    where the run has ended before it had a machine.
    """
    choices = Choices(
        fresh=fresh, another=another, output=None if model_folder is None else Path(os.fspath(model_folder))
    )
    with library_call(budget="max_cost_usd"):
        if not isinstance(offer, Offer | Plan):
            raise BadInputError(f"an offer is expected, not {offer!r}", "estimate(job)[0] is one")
        plan = offer if isinstance(offer, Plan) else offer.plan
        cap_usd = _cap(max_cost_usd)
        told: list[str] = []
        job = check_at_launch(_capped(plan.job._training_job, cap_usd), told)
        query = _query(offer, plan._asked.query)
        settings = load_settings(os.environ)
        around = build.surroundings(settings, calibrates=True)
        proposed = offered(job, query, around, Limits(cap_usd, is_agreed=yes))
        if cap_usd == 0 and any(target.payable_usd_per_hour > 0 for target in proposed.proposal.targets):
            where = proposed.proposal.targets[0].where
            raise RefusedError(f"{where} bills by the hour, and max_cost_usd is 0", "give a cap above 0")
        person, lines = _Interrupted(), Lines(build.clock().now, told, quiet=quiet)
        with build.journal(settings) as journal:
            desk = Desk(around=around, journal=journal, view=lines, person=person, show=_tell)
            begun = begin(proposed, choices, desk)
            run = begun.run
            if not begun.has_ended:
                try:
                    run, receipt = begun.runner.follow(run, begun.make_request, until_launched=True)
                    after_run(run, receipt, journal, settings, begun.images)
                except Detached as left:
                    run = left.run
                    if person.was_asked or run.phase not in (Phase.BOOTING, Phase.RUNNING):
                        _tell([bills_line(run)])
                        raise KeyboardInterrupt from None
            if run.phase is Phase.DONE:
                _refuse_failure(run)
    return _run(run.run_id)


class _Interrupted(Nobody):
    """Interrupting Python leaves the run running, wherever it is: `Run.stop` ends one."""

    def __init__(self) -> None:
        self.was_asked = False

    def pressed_ctrl_c(self, run: JournalRun, times: int) -> CtrlC:  # noqa: ARG002  it means the same each time
        self.was_asked = True
        return CtrlC.DETACH


@contextmanager
def _journal() -> Iterator[tuple[Journal, Settings]]:
    settings = load_settings(os.environ)
    with build.journal(settings) as journal:
        yield journal, settings


def _run(run_id: str) -> Run:
    """A run that is known to be in the journal."""
    run = Run.__new__(Run)
    run._run_id = RunId(run_id)
    return run


def _tell(lines: Sequence[str]) -> None:
    sys.stderr.writelines(f"{in_python(visible(line))}\n" for line in lines)


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


def _query(offer: Offer | Plan, asked: PlanQuery) -> PlanQuery:
    """Where the launch looks: where the plan looked, or at this one machine type in its region and market."""
    where = PlanQuery(include_retired=asked.include_retired, assume_available=asked.assume_available)
    if isinstance(offer, Plan):
        names = {name: getattr(asked, name) for name in ("providers", "regions", "devices", "markets")}
        return where._replace(**names)
    if offer.provider == THIS_MACHINE:
        return where._replace(providers=(THIS_MACHINE,))
    return where._replace(
        providers=(offer.provider,),
        regions=(offer.region,),
        devices=(offer.device,),
        markets=(offer.market,),
        instance_types=(offer.instance_type,),
    )


def _stop(run: JournalRun, runner: Runner) -> None:
    try:
        stopped(run, runner)
    except Detached as left:
        _tell([bills_line(left.run)])
        raise KeyboardInterrupt from None
    except FollowerSilentError:
        raise ThisMachineError(
            f"another process follows run {run.run_id} and does not respond",
            f"plan stop {run.run_id} ends its machines",
        ) from None


def _refuse_failure(run: JournalRun) -> None:
    """Raises the error of a run that was not trained to its end; one that somebody stopped is none."""
    if run.outcome in (Outcome.SUCCEEDED, Outcome.STOPPED):
        return
    error = ended_error(run)
    if isinstance(error, LimitReachedError):
        error.hint = "launch it again to go on from its newest checkpoint; fresh=True starts anew"
    raise error
