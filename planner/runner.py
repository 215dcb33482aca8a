"""One launch from the person's side: the run, its request, what it taught, its receipt."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.errors import BadInputError, PlanError, RefusedError, ThisMachineError
from planner.estimate import trained_images
from planner.events import Said
from planner.launch import Detached, Executor, HungUp, Person
from planner.locks import RunLocks
from planner.machine_quote import shape_of
from planner.measurements import OwnMeasurement, add_measurement, load_measurements
from planner.progress import Story, story_of
from planner.receipt import Ending, Receipt, measurement_of, write_receipt
from planner.run import Outcome, Phase, Run, attempt_deadline
from planner.stored import Stays, rates_of, stays
from planner.watch import Watcher, newest_checkpoint
from providers.base import LaunchRequest, PreflightState, Preparer, RunId
from providers.errors import ProviderError
from workloads.job import job_from_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from planner.clock import Clock
    from planner.creating import MakeRequest
    from planner.events import Event
    from planner.journal import Journal
    from planner.settings import Settings
    from planner.targets import Target
    from providers.agent.spec import File
    from providers.base import Provider
    from workloads.job import TrainingJob

# Without a deadline of the person's, a run may take this many times the slow end of its estimate before it ends itself.
PATIENCE_FACTOR = 3
LEAST_PATIENCE = timedelta(minutes=30)
LONGEST_PATIENCE = timedelta(days=30)
LOCAL_POLL_SECONDS, POLL_SECONDS = 1.0, 10.0


class Runner:
    """Launches, follows and finishes runs on behalf of a command. `provider` gives the one of a name."""

    def __init__(
        self,
        provider: Callable[[str], Provider],
        journal: Journal,
        settings: Settings,
        clock: Clock,
        listen: Callable[[Event], None],
        person: Person,
    ) -> None:
        self._provider_of = provider
        self._journal = journal
        self._settings = settings
        self._clock = clock
        self._listen = listen
        self._person = person
        self._locks = RunLocks(settings.home / "locks")

    def resumable(self, job: TrainingJob, providers: Sequence[str]) -> Run | None:
        """The run of this very job that was ended early, at one of the providers, and left a complete checkpoint."""
        for name in providers:
            run = self._journal.newest_of(job.digest(), name)
            if run is None or run.outcome is None or not run.outcome.resumable or run.phase is not Phase.DONE:
                continue
            if newest_checkpoint(self._provider_of(name).store(run.run_id)) is not None:
                return run
        return None

    def draft(
        self, job: TrainingJob, targets: Sequence[Target], slow_end: timedelta | None, output: Path | None
    ) -> Run:
        """A run as it would be; nothing is recorded and nothing exists for it yet.

        `slow_end` is the slow end of its estimate, None where there is none. Raises BadInputError where the model
        could not be put into `output`.
        """
        now = self._clock.now()
        run_id = RunId(f"{now:%y%m%d}-{secrets.token_hex(4)}")
        return Run(
            run_id=run_id,
            job_name=job.name,
            job_digest=job.digest(),
            provider=targets[0].offer.provider,
            phase=Phase.PLANNED,
            created_at=now,
            deadline=deadline_of(job, slow_end, now),
            model_folder=str(output_folder(output, job.name, run_id)),
            targets=tuple(targets),
            budget_usd=job.constraints.budget_usd,
            on_slow=job.on_slow,
            deadline_given=job.constraints.deadline is not None,
            checkpoint_seconds=job.checkpoint_every.total_seconds(),
            total_steps=total_steps(job),
        )

    def record(self, run: Run, job: TrainingJob, estimate: dict[str, Any]) -> None:
        """The run in the journal, before anything is created for it; nobody else acts on it until it is followed."""
        self._locks.keep(run.run_id)
        self._journal.add_run(run, job.to_json(), estimate, self._clock.now())

    def again(self, run: Run, draft: Run, output: Path | None) -> Run:
        """An ended run made ready for its next attempt: under the limits and in the places of a new draft.

        One that another process has taken on in the meantime is as that process has it.
        """
        if not self._locks.keep(run.run_id):
            return self._journal.run(run.run_id)
        folder = str(output_folder(output, run.job_name, run.run_id)) if output else run.model_folder
        self._journal.go_on(run.run_id, self._clock.now())
        return replace(
            run, deadline=draft.deadline, deadline_given=draft.deadline_given, budget_usd=draft.budget_usd,
            targets=draft.targets, on_slow=draft.on_slow, moving=None,
            model_folder=folder, outcome=None, message=None, stop_asked=None, slow=None,
        )  # fmt: skip

    def prepare(self, request: LaunchRequest) -> None:
        """Look whether the launch will be let in, and make ready what takes long. Raises PlanError."""
        provider = self._provider_of(request.offer.provider)
        preflight = provider.preflight(request.offer)
        for check in preflight.checks:
            if check.state is PreflightState.REFUSED and check.name == "quota":
                self._listen(Said(f"{check.detail}: the launch will look further"))  # another place may have enough
            elif check.state is PreflightState.REFUSED:
                raise refused(provider.name)(f"{check.name}: {check.detail}", check.fix)
        if isinstance(provider, Preparer):
            provider.prepare(request, lambda line: self._listen(Said(line)))

    def follow(self, run: Run, make_request: MakeRequest, *, until_launched: bool = False) -> tuple[Run, Receipt]:
        """To the end and the receipt, which the journal keeps; a finished run's throughput is kept too.

        Raises Detached where the person lets go of it, or `until_launched` once there is an instance.
        """
        with self._locks.holding(run.run_id) as mine:
            if mine:
                with self._receipt_of_failure(run.run_id):
                    run = self._executor(run).follow(run, make_request, until_launched=until_launched)
                return run, self._receipt(run)
        try:
            return self._look_on(run, make_request)
        except (KeyboardInterrupt, HungUp):
            raise Detached(self._journal.run(run.run_id)) from None

    def now(self, run: Run) -> Run:
        """The run as the journal has it."""
        return self._journal.run(run.run_id)

    def measure(self, run: Run, make_request: MakeRequest) -> tuple[Run, OwnMeasurement | None]:
        """A measuring run (one without a model folder) to its end, and what it measured."""
        run, _ = self.follow(run, make_request)
        kept = load_measurements(self._settings.measurements)
        return run, next((row for row in reversed(kept) if row.run_id == run.run_id), None)

    def settle(self, run: Run) -> Run:
        """Bring a run that nobody is following to where it stands now (see Executor.settle); else only read it."""
        with self._locks.holding(run.run_id) as mine:
            if not mine:
                return self._journal.run(run.run_id)
            with self._receipt_of_failure(run.run_id):
                settled = self._executor(run).settle(self._journal.run(run.run_id))
            if settled.phase is Phase.DONE:
                self._receipt(settled)
        return settled

    def stop(self, run: Run) -> tuple[Run, Receipt]:
        """Ask a run to end, and see it to its end, whoever follows it."""
        self._journal.ask_to_stop(run.run_id, self._clock.now())
        return self.follow(self._journal.run(run.run_id), request_none)

    def request_maker(self, run: Run, *, client: str) -> MakeRequest:
        """Builds the requests of a run that is in the journal."""
        return request_for(job_from_json(self._journal.job_json(run.run_id)), self._clock, client=client)

    def _executor(self, run: Run) -> Executor:
        poll = LOCAL_POLL_SECONDS if run.provider == "local" else POLL_SECONDS
        return Executor(self._provider_of, self._journal, self._clock, self._listen, self._person, poll_seconds=poll)

    def _look_on(self, run: Run, make_request: MakeRequest) -> tuple[Run, Receipt]:
        """Another process acts on the run: show what it does, and take over should it die."""
        self._listen(Said(f"another plan follows run {run.run_id}; looking on"))
        watcher: Watcher | None = None
        while True:
            run = self._journal.run(run.run_id)
            if run.phase is Phase.DONE and self._journal.receipt(run.run_id):
                return run, self._receipt(run)
            if run.attempt and (watcher is None or watcher.attempt != run.attempt.number):
                store = self._provider_of(run.provider).store(run.run_id)
                watcher = Watcher(store, run.attempt.number, self._listen)
            self._show(watcher, run)
            self._clock.sleep(LOCAL_POLL_SECONDS)
            with self._locks.holding(run.run_id) as mine:
                pass
            if mine and self._journal.run(run.run_id).phase is not Phase.DONE:
                return self.follow(self._journal.run(run.run_id), make_request)
            if mine:
                return (run := self._journal.run(run.run_id)), self._receipt(run)

    def _show(self, watcher: Watcher | None, run: Run) -> None:
        if watcher is None:
            return
        try:
            watcher.look(lambda: run.cost_usd(self._clock.now()))
        except ProviderError:
            return  # whoever acts on the run says what is the matter

    @contextmanager
    def _receipt_of_failure(self, run_id: RunId) -> Iterator[None]:
        """A run that is ended by an error has a receipt too."""
        try:
            yield
        except PlanError:
            ended = self._journal.run(run_id)
            if ended.phase is Phase.DONE:
                self._receipt(ended)
            raise

    def _receipt(self, run: Run) -> Receipt:
        """The receipt of the run as it ended; the one that another command has written of it stays as it is."""
        before = self._journal.receipt(run.run_id)
        if before is not None and before["attempts"] == len(run.attempts):
            return Receipt(**before)
        began = run.attempts[before["attempts"] if before else 0 :]
        asked_at = began[0].asked_at if began and began[0].asked_at else run.created_at
        folder = run.model_folder or None if run.outcome is Outcome.SUCCEEDED else None
        ended_at = self._clock.now()
        ending = Ending(asked_at=asked_at, ended_at=ended_at, model_folder=folder, stays=self._stays(run))
        story = self._story(run)
        receipt = write_receipt(run, story, self._journal.estimate(run.run_id), ending, before)
        self._journal.save_receipt(run.run_id, receipt.to_json(), ending.ended_at)
        self._learn(run, story, ending)
        return receipt

    def _story(self, run: Run) -> Story:
        """What the newest attempt that said anything has said; a store that does not answer has nothing to tell."""
        story = Story()
        try:
            for attempt in reversed(run.attempts):
                story = story_of(self._provider_of(run.provider).store(run.run_id), attempt.number)
                if story.start is not None:
                    break
        except ProviderError as error:
            self._listen(Said(f"the receipt lacks what the trainer said: {error.message}"))
        return story

    def _stays(self, run: Run) -> Stays | None:
        """What is left in storage; None where nobody charges for it, or nobody can tell."""
        rates = rates_of(run.provider, self._settings.home)
        if rates is None:
            return None
        data = job_from_json(self._journal.job_json(run.run_id)).data
        try:
            return stays(self._provider_of(run.provider).store(run.run_id), data, rates)
        except ProviderError as error:
            self._listen(Said(f"the receipt lacks what stays stored: {error.message}"))
            return None

    def _learn(self, run: Run, story: Story, ending: Ending) -> None:
        if run.provider != "local" or run.outcome is not Outcome.SUCCEEDED:
            return
        from providers.local.machine import this_machine

        job = job_from_json(self._journal.job_json(run.run_id))
        machine, batch = this_machine().fingerprint, job.global_batch_size
        row = measurement_of(run, story, ending, machine, shape_of(job), batch=batch)
        if row is not None:
            add_measurement(self._settings.measurements, row)


def total_steps(job: TrainingJob) -> int | None:
    """Optimizer steps of all epochs; None where the job does not tell how many images an epoch has."""
    try:
        return trained_images(job) // job.global_batch_size
    except ValueError:
        return None


def request_none(run: Run, number: int, target: Target) -> LaunchRequest:
    """For runs that are only followed: they launch nothing."""
    raise BadInputError(
        f"attempt {number} of run {run.run_id} was never launched in {target.where}", "plan attach goes on with it"
    )


def request_for(
    job: TrainingJob, clock: Clock, *, client: str = "", max_steps: int | None = None, data: tuple[File, ...] = ()
) -> MakeRequest:
    """Builds the request of an attempt; `client` is the label of this computer.

    `data` is what a rented machine fetches; where it is left open, its provider looks it up.
    """

    def make(run: Run, number: int, target: Target) -> LaunchRequest:
        return LaunchRequest(
            run_id=run.run_id,
            attempt=number,
            offer=target.offer,
            job_json=job.to_json(),
            deadline=attempt_deadline(run, target, clock.now()),
            max_steps=max_steps,
            vcpus=target.offer.vcpus,
            memory_gib=target.offer.memory_gib,
            zone=target.zone,
            client=client,
            data=data,
        )

    return make


def deadline_of(job: TrainingJob, slow_end: timedelta | None, now: datetime) -> datetime:
    """When the run ends itself: the job's deadline; without one, three times the slow end of its estimate."""
    given = job.constraints.deadline
    if given is None:
        given = max(LEAST_PATIENCE, slow_end * PATIENCE_FACTOR) if slow_end is not None else LONGEST_PATIENCE
    return now + min(given, LONGEST_PATIENCE)


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
