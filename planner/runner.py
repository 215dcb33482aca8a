"""One launch from the person's side: the run, its request, what it taught, its receipt."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from planner.errors import BadInputError, PlanError, RefusedError, ThisMachineError
from planner.events import Said
from planner.launch import Executor, MakeRequest
from planner.machine_quote import shape_of
from planner.measurements import OwnMeasurement, add_measurement, load_measurements
from planner.progress import Story, story_of
from planner.receipt import Ending, Receipt, added_up, estimate_record, measurement_of, write_receipt
from planner.run import Outcome, Phase, Run
from providers.base import LaunchRequest, PreflightState, Preparer, RunId
from workloads.job import job_from_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from decimal import Decimal

    from planner.clock import Clock
    from planner.events import Event
    from planner.journal import Journal
    from planner.plan import MachineEstimate
    from planner.settings import Settings
    from pricing.offers import Offer
    from providers.base import Provider
    from workloads.job import TrainingJob

# Without a deadline of the person's, a run may take this many times the slow end of its estimate before it ends itself.
PATIENCE_FACTOR = 3
LEAST_PATIENCE = timedelta(minutes=30)
LONGEST_PATIENCE = timedelta(days=30)


class Runner:
    """Launches, follows and finishes runs of one provider on behalf of a command."""

    def __init__(
        self, provider: Provider, journal: Journal, settings: Settings, clock: Clock, listen: Callable[[Event], None]
    ) -> None:
        self._provider = provider
        self._journal = journal
        self._settings = settings
        self._clock = clock
        self._listen = listen

    def resumable(self, job: TrainingJob) -> Run | None:
        """The run of this very job that was ended early and left a complete checkpoint."""
        run = self._journal.newest_of(job.digest(), self._provider.name)
        if run is None or run.outcome is None or not run.outcome.resumable or run.phase is not Phase.DONE:
            return None
        paths = self._provider.store(run.run_id).list("checkpoints")
        return run if any(path.endswith("/complete.json") for path in paths) else None

    def draft(self, job: TrainingJob, offer: Offer, quote: MachineEstimate | None, output: Path | None) -> Run:
        """A run as it would be; nothing is recorded and nothing exists for it yet.

        Raises BadInputError where the model could not be put into `output`.
        """
        now = self._clock.now()
        run_id = RunId(f"{now:%y%m%d}-{secrets.token_hex(4)}")
        return Run(
            run_id=run_id,
            job_name=job.name,
            job_digest=job.digest(),
            provider=self._provider.name,
            phase=Phase.PLANNED,
            created_at=now,
            deadline=deadline_of(job, offer, quote, now),
            usd_per_hour=offer.usd_per_hour,
            model_folder=str(output_folder(output, job.name, run_id)),
        )

    def record(self, run: Run, job: TrainingJob, quote: MachineEstimate | None) -> None:
        """The run in the journal, before anything is created for it."""
        self._journal.add_run(run, job.to_json(), estimate_record(quote), self._clock.now())

    def again(self, run: Run, deadline: datetime, output: Path | None) -> Run:
        """An ended run made ready for its next attempt, under a new deadline and, where given, for another folder."""
        folder = str(output_folder(output, run.job_name, run.run_id)) if output else run.model_folder
        return replace(run, deadline=deadline, model_folder=folder, outcome=None, message=None, stop_asked=None)

    def prepare(self, request: LaunchRequest) -> None:
        """Look whether the launch will be let in, and make ready what takes long. Raises PlanError."""
        preflight = self._provider.preflight(request.offer)
        for check in preflight.checks:
            if check.state is PreflightState.REFUSED:
                raise refused(self._provider.name)(f"{check.name}: {check.detail}", check.fix)
        if isinstance(self._provider, Preparer):
            self._provider.prepare(request, lambda line: self._listen(Said(line)))

    def follow(self, run: Run, make_request: MakeRequest) -> tuple[Run, Receipt]:
        """To the end and the receipt, which the journal keeps; a finished run's throughput is kept too."""
        fresh = run.phase in (Phase.PLANNED, Phase.DONE)
        asked_at = self._clock.now() if fresh else self._journal.asked_at(run.run_id)
        with self._receipt_of_failure(run, asked_at):
            run = self._executor().follow(run, make_request)
        return run, self._receipt(run, asked_at)

    def measure(self, run: Run, make_request: MakeRequest) -> tuple[Run, OwnMeasurement | None]:
        """A measuring run (one without a model folder) to its end, and what it measured."""
        run, _ = self.follow(run, make_request)
        kept = load_measurements(self._settings.measurements)
        return run, next((row for row in reversed(kept) if row.run_id == run.run_id), None)

    def settle(self, run: Run) -> Run:
        """Bring a run that nobody may be following to where it stands now; see Executor.settle."""
        asked_at = self._journal.asked_at(run.run_id) if run.attempts else run.created_at
        with self._receipt_of_failure(run, asked_at):
            settled = self._executor().settle(run)
        if settled.phase is Phase.DONE:
            self._receipt(settled, asked_at)
        return settled

    def stop(self, run: Run) -> tuple[Run, Receipt]:
        """Ask a run to end, and see it to its end."""
        now = self._clock.now()
        self._journal.ask_to_stop(run.run_id, now)
        return self.follow(replace(run, stop_asked=run.stop_asked or now), request_none)

    def _executor(self) -> Executor:
        return Executor(self._provider, self._journal, self._clock, self._listen)

    @contextmanager
    def _receipt_of_failure(self, run: Run, asked_at: datetime) -> Iterator[None]:
        """A run that is ended by an error has a receipt too."""
        try:
            yield
        except PlanError:
            ended = self._journal.run(run.run_id)
            if ended.phase is Phase.DONE:
                self._receipt(ended, asked_at)
            raise

    def _receipt(self, run: Run, asked_at: datetime) -> Receipt:
        """The receipt of the run as it ended; the one that another command has written of it stays as it is."""
        before = self._journal.receipt(run.run_id)
        if before is not None and before["attempts"] == len(run.attempts):
            return Receipt(**before)
        folder = run.model_folder or None if run.outcome is Outcome.SUCCEEDED else None
        ending = Ending(asked_at=asked_at, ended_at=self._clock.now(), model_folder=folder)
        story = Story()
        if run.attempts:
            story = story_of(self._provider.store(run.run_id), run.attempts[-1].number)
        receipt = write_receipt(run, story, self._journal.estimate(run.run_id), ending)
        receipt = added_up(receipt, before) if before else receipt
        self._journal.save_receipt(run.run_id, receipt.to_json(), ending.ended_at)
        self._learn(run, story, ending)
        return receipt

    def _learn(self, run: Run, story: Story, ending: Ending) -> None:
        if run.provider != "local" or run.outcome is not Outcome.SUCCEEDED:
            return
        from providers.local.machine import this_machine

        job = job_from_json(self._journal.job_json(run.run_id))
        machine, batch = this_machine().fingerprint, job.global_batch_size
        row = measurement_of(run, story, ending, machine, shape_of(job), batch=batch)
        if row is not None:
            add_measurement(self._settings.measurements, row)


def request_none(run: Run, number: int) -> LaunchRequest:
    """For runs that are only followed: they launch nothing."""
    raise BadInputError(f"attempt {number} of run {run.run_id} was never launched", "plan status ends it")


def request_for(job: TrainingJob, offer: Offer, max_steps: int | None = None) -> MakeRequest:
    """Builds the request of an attempt."""

    def make(run: Run, number: int) -> LaunchRequest:
        return LaunchRequest(
            run_id=run.run_id,
            attempt=number,
            offer=offer,
            job_json=job.to_json(),
            deadline=run.deadline,
            max_steps=max_steps,
            vcpus=offer.vcpus,
            memory_gib=offer.memory_gib,
        )

    return make


def deadline_of(job: TrainingJob, offer: Offer, quote: MachineEstimate | None, now: datetime) -> datetime:
    """When the instance ends itself: the job's deadline or what its budget buys, whichever is sooner; without
    either, three times the slow end of the estimate."""
    limits = [limit for limit in (job.constraints.deadline, _affordable(job, offer.usd_per_hour)) if limit is not None]
    if not limits:
        slow = quote.time.high * PATIENCE_FACTOR if quote and quote.time else LONGEST_PATIENCE
        limits = [max(LEAST_PATIENCE, slow)]
    return now + min(*limits, LONGEST_PATIENCE)


def _affordable(job: TrainingJob, usd_per_hour: Decimal) -> timedelta | None:
    budget = job.constraints.budget_usd
    if budget is None or not usd_per_hour:
        return None
    if budget >= usd_per_hour * (LONGEST_PATIENCE // timedelta(hours=1)):
        return LONGEST_PATIENCE  # far cheaper, and the hours would be more than a timedelta holds
    return timedelta(hours=float(budget / usd_per_hour))


def refused(provider: str) -> type[RefusedError] | type[ThisMachineError]:
    """The class of a refused preflight: this machine's own lacks are its own exit code."""
    return ThisMachineError if provider == "local" else RefusedError


def output_folder(given: Path | None, job_name: str, run_id: str) -> Path:
    """Where the model goes. Raises BadInputError where something is in the way that is not a folder."""
    folder = (given or Path(f"{job_name}-{run_id}")).absolute()
    if folder.exists() and not folder.is_dir():
        raise BadInputError(f"{folder} is there and is not a folder", "choose another --output")
    if given is not None and folder.is_dir() and any(folder.iterdir()):
        raise BadInputError(f"{folder} is not empty", "choose another --output")
    return folder
