"""One launch from the person's side: the run, its request, what it taught, its receipt."""

from __future__ import annotations

import os
import re
import secrets
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainplan.planner.errors import (
    BadInputError,
    OutdatedError,
    PlanError,
    RefusedError,
    StateError,
    ThisMachineError,
)
from trainplan.planner.forecast.estimate import trained_images
from trainplan.planner.home.client import own_client
from trainplan.planner.planning.check import preflight_of
from trainplan.planner.planning.own_measurements import OwnMeasurement, load_measurements
from trainplan.planner.runs.directory.results import finished_attempt
from trainplan.planner.runs.directory.run_directory import Watcher, newest_checkpoint
from trainplan.planner.runs.directory.run_keys import RunKeys
from trainplan.planner.runs.events import Message
from trainplan.planner.runs.execution.collect import is_whole_model, partial_folder
from trainplan.planner.runs.execution.executor import Detached, Executor, Person
from trainplan.planner.runs.execution.observe import spent_by
from trainplan.planner.runs.journal.locks import RunLocks
from trainplan.planner.runs.journal.reader import recorded_job
from trainplan.planner.runs.money.spending import Spending
from trainplan.planner.runs.receipt.receipt_writer import Receipts
from trainplan.planner.runs.run import Outcome, Phase, Run, attempt_deadline
from trainplan.planner.runs.telling.notifications import Notifications
from trainplan.providers.abilities import Preparer
from trainplan.providers.base import LaunchRequest, PreflightState, RunId
from trainplan.providers.errors import PermissionDeniedError, ProviderError
from trainplan.providers.interrupts import HungUp
from trainplan.providers.registry import is_here, is_simulated
from trainplan.workloads.job_changes import differences, differences_text
from trainplan.workloads.wording import Command, Option

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from contextlib import AbstractContextManager

    from trainplan.planner.clock import Clock
    from trainplan.planner.runs.events import Event
    from trainplan.planner.runs.execution.create import MakeRequest
    from trainplan.planner.runs.journal.journal import Journal
    from trainplan.planner.runs.receipt.receipt import Receipt
    from trainplan.planner.runs.targets import Target
    from trainplan.planner.settings import Settings
    from trainplan.providers.agent.spec import File
    from trainplan.providers.base import Provider
    from trainplan.workloads.job import TrainingJob

# Without a deadline of the person's, a run may take this many times the slow end of its estimate before it ends itself.
PATIENCE_FACTOR = 3
LEAST_PATIENCE = timedelta(minutes=30)
LONGEST_PATIENCE = timedelta(days=30)
FOLLOWER_PATIENCE = timedelta(minutes=3)
"""How long `plan stop` waits for a command that follows the run and writes nothing of it into the journal. One that
works looks every 10 s, every 60 s while it waits for a placement; the rest is the time that a trainer takes to write
its checkpoint."""
_RUN_FOLDER = re.compile(r"-([0-9]{6}-[0-9a-f]{8})$")
"""How the name of a folder ends that a launch made for a model (`output_folder`)."""
LOCAL_POLL_SECONDS, POLL_SECONDS = 1.0, 10.0
RECORDS_LAG, RECORDS_KEPT = timedelta(hours=1), timedelta(days=30)
"""When a provider's record of what it did has all of it, and until when a receipt is corrected by it."""


class FollowerSilentError(Exception):
    """Another process holds the run and does not act on it: it hangs, or was suspended."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.run_id)
        self.run = run


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
        self.journal = journal
        self.settings = settings
        self._clock = clock
        self.wall = clock
        """This computer's clock, where `clock` is that of a simulated cloud."""
        self._listen = listen
        self._person = person
        self._locks = RunLocks(settings.home / "locks")
        self._keys = RunKeys(settings.home)
        self._receipts = Receipts(provider, journal, settings, clock, listen, self._keys.vouching)
        self._notifications = Notifications(settings, journal, clock, listen)
        self.spending = Spending(
            journal, settings.budget_usd_per_month, clock, self._locks, settings.project_budgets_usd_per_month
        )

    def resumable(self, job: TrainingJob, providers: Sequence[str]) -> Run | None:
        """The run of this very job that was ended early, at one of the providers, and left a complete checkpoint."""
        for name in providers:
            run = self.journal.newest_of(job.digest(), name)
            if run is None:
                continue
            if not self.owns(run):
                owner = own_client(self.settings).whose(run.client)
                self._listen(Message(f"run {run.run_id} of this job is of {owner}: it is left to that client"))
                continue
            if run.outcome is None or not run.outcome.resumable or run.phase is not Phase.DONE:
                continue
            if newest_checkpoint(self._provider_of(name).store(run.run_id)) is not None:
                return run
        return None

    def results_of(self, job: TrainingJob) -> Run | None:
        """The newest run of this very job, where it has ended and its complete output still lies in its store. Raises
        ProviderError where that store does not answer: nobody knows then whether the job is trained already."""
        run = self.journal.ended_of(job.digest())
        return run if run is not None and self.owns(run) and self.has_results(run) else None

    def has_results(self, run: Run) -> bool:
        """Whether an ended run has left a complete output in its store that nobody has brought home. Raises
        ProviderError where that does not answer, and RunKeyError."""
        is_open = run.phase is Phase.DONE and run.outcome is not Outcome.SUCCEEDED and not run.has_results_settled
        if not is_open or not any(attempt.had_instance for attempt in run.attempts):
            return False
        store = self._provider_of(run.provider).store(run.run_id)
        return finished_attempt(run, store, self._keys.vouching) is not None

    def bring_home(self, run: Run) -> Run:
        """An ended run with results in its store, made ready for `follow`, which collects them. As the journal has it
        where another process acts on it. Raises RefusedError for another client's."""
        self._must_own(run)
        with self._locks.holding(run.run_id) as has_lock:
            run = self.journal.run(run.run_id)
            if has_lock and self.has_results(run):
                self.journal.want_results(run.run_id, self._clock.now())
                run = replace(run, outcome=None, message=None, results_given_up=False).moved(Phase.COLLECTING)
                self.journal.save(run, self._clock.now(), "its results are in the store")
        return run

    def unrecorded_model(self, job: TrainingJob, folder: Path, *, simulated: bool) -> Path | None:
        """The folder below this one with the trained model of this very job, of a run that the journal has no record
        of: its record was lost. None where there is none."""
        for path in sorted(folder.glob(f"{escape(job.name)}-*")):
            found = _RUN_FOLDER.search(path.name)
            if found is None or self.journal.has(RunId(found[1])):
                continue
            if is_whole_model(path, job.digest(), simulated=simulated):
                return path
        return None

    def trained(self, job: TrainingJob, *, simulated: bool) -> Run | None:
        """The newest run of this very job that has succeeded and whose model is still at home; of simulated runs, or of
        others. None where there is none."""
        runs = self.journal.succeeded_of(job.digest())
        return next(
            (run for run in runs if is_simulated(run.provider) is simulated and Path(run.model_folder).is_dir()), None
        )

    def waiting(self, job: TrainingJob, providers: Sequence[str]) -> str:
        """A line of a run that a launch of this changed job leaves behind: one of a job of the same name that was ended
        early and has a checkpoint. "" where none has, or where it cannot be read: a launch does not hang on it."""
        for name in providers:
            run = self.journal.newest_beside(job.name, job.digest(), name)
            if run is None or not self.owns(run) or run.phase is not Phase.DONE:
                continue
            if run.outcome is None or not run.outcome.resumable:
                continue
            with suppress(ProviderError, StateError):
                step = newest_checkpoint(self._provider_of(name).store(run.run_id))
                if step is not None:
                    return _left_behind(run, step, recorded_job(self.journal, run.run_id), job)
        return ""

    def living(self, job: TrainingJob, beside: Collection[RunId] = ()) -> Run | None:
        """The newest run of this very job that is not done, at any provider and whoever launched it; `beside` are those
        to be passed over."""
        return next((run for run in self.journal.live_of(job.digest()) if run.run_id not in beside), None)

    def deciding(self, job: TrainingJob) -> AbstractContextManager[None]:
        """Keeps other launches of this job waiting, between the look for a living run and the record of a new one."""
        return self._locks.deciding(job.digest())

    def draft(
        self, job: TrainingJob, targets: Sequence[Target], slow_end: timedelta | None, output: Path | None
    ) -> Run:
        """A run as it would be; nothing is recorded and nothing exists for it yet.

        `slow_end` is the slow end of its estimate, None where there is none. Raises BadInputError where the model
        could not be put into `output`.
        """
        now, provider = self._clock.now(), targets[0].offer.provider
        launched_at = self.wall.now() if is_simulated(provider) else None
        run_id = RunId(f"{launched_at or now:%y%m%d}-{secrets.token_hex(4)}")
        return Run(
            run_id=run_id,
            job_name=job.name,
            job_digest=job.digest(),
            provider=provider,
            phase=Phase.PLANNED,
            created_at=now,
            launched_at=launched_at,
            deadline=deadline_of(job, slow_end, now),
            model_folder=str(output_folder(output, job.name, run_id)),
            targets=tuple(targets),
            budget_usd=job.budget_usd,
            on_slow=job.on_slow,
            project=job.project,
            deadline_given=job.constraints.deadline is not None,
            checkpoint_seconds=job.checkpoint_every.total_seconds(),
            total_steps=total_steps(job),
        )

    def record(self, run: Run, job: TrainingJob, estimate: dict[str, Any]) -> Run:
        """The run in the journal, before anything is created for it; nobody else acts on it until it is followed.

        Raises RefusedError where the run could pass the month's budget, BadInputError where another run's model goes to
        its folder.
        """
        with self._folder_taken(run.model_folder, run.run_id), self.spending.launching(run):
            self._locks.keep(run.run_id)
            self.journal.add_run(run, job.to_json(), estimate, self._clock.now())
        return run

    def refuse_taken(self, folder: Path, run_id: RunId) -> None:
        """Raises BadInputError where another run's model goes to this folder, or is in it: one would replace the
        other's files."""
        for other in self.journal.with_model_in(str(folder)):
            if other.run_id != run_id and (other.live or _has_files(folder)):
                verb = "goes to" if other.live else "is in"
                raise BadInputError(
                    f"the model of run {other.run_id} {verb} {folder}",
                    f"choose another {Option.OUTPUT}",
                    field=Option.OUTPUT,
                )

    @contextmanager
    def _folder_taken(self, model_folder: str, run_id: RunId) -> Iterator[None]:
        """The block writes down where a run's model goes. Two launches at once would each look before the other has
        written, so that they take turns."""
        if not model_folder:  # a measuring run
            yield
            return
        with self._locks.deciding("model-folders"):
            self.refuse_taken(Path(model_folder), run_id)
            yield

    def again(self, run: Run, draft: Run, output: Path | None) -> Run:
        """An ended run made ready for its next attempt: under the limits and in the placements of a new draft.

        One that another process has taken on in the meantime is as that process has it. Raises RefusedError for
        another client's.
        """
        self._must_own(run)
        has_lock = self._locks.keep(run.run_id)
        # What was read before the lock may be over: another command has launched the run, or brought its results home.
        run = self.journal.run(run.run_id)
        if not has_lock:
            return run
        if run.phase is not Phase.DONE or run.outcome is None or not run.outcome.resumable:
            self._locks.let_go(run.run_id)
            return run
        folder = str(output_folder(output, run.job_name, run.run_id)) if output else run.model_folder
        now = self._clock.now()
        next_run = replace(
            run, deadline=draft.deadline, deadline_given=draft.deadline_given, budget_usd=draft.budget_usd,
            targets=draft.targets, on_slow=draft.on_slow, moving=None, measures_first=draft.measures_first,
            model_folder=folder, outcome=None, message=None, stop_asked=None, slow=None, again_at=now,
            has_results_settled=False, results_given_up=False,
        )  # fmt: skip
        try:
            with self._folder_taken(folder, run.run_id), self.spending.launching(next_run):
                self.journal.go_on(run.run_id, now)
        except PlanError:
            self._locks.let_go(run.run_id)
            raise
        return next_run

    def prepare(self, request: LaunchRequest) -> None:
        """Look whether the launch will be let in, and make ready what takes long. Raises PlanError."""
        provider = self._provider_of(request.offer.provider)
        preflight = preflight_of(provider, request.offer, request.job)
        for check in preflight.checks:
            if check.state is PreflightState.REFUSED and check.name == "quota":
                self._listen(
                    Message(f"{check.detail}: the launch will look further")
                )  # another placement may have enough
            elif check.state is PreflightState.REFUSED:
                raise refused(provider.name)(f"{check.name}: {check.detail}", check.fix)
        if isinstance(provider, Preparer):
            provider.prepare(request, lambda line: self._listen(Message(line)))

    def follow(
        self,
        run: Run,
        make_request: MakeRequest,
        *,
        until_launched: bool = False,
        patience: timedelta | None = None,
    ) -> tuple[Run, Receipt]:
        """Follow the run to its end and receipt, which the journal stores with a finished run's throughput. Raises
        Detached where the person lets go of it, or `until_launched` once there is an instance; RefusedError where it is
        another client's; FollowerSilentError where another process holds it, and the journal does not move for as long
        as the `patience`. A signal lets go of the run at any step: what it left undone, another command does.
        """
        self._must_own(run)
        try:
            return self._followed(run, make_request, until_launched=until_launched, patience=patience)
        except OutdatedError:
            return (run := self.journal.run(run.run_id)), self._receipts.write(run)
        except (KeyboardInterrupt, HungUp):
            raise Detached(self.journal.run(run.run_id)) from None

    def _followed(
        self, run: Run, make_request: MakeRequest, *, until_launched: bool, patience: timedelta | None
    ) -> tuple[Run, Receipt]:
        is_again = self._locks.keeps(run.run_id)
        with self._notifications.sent(), self._locks.holding(run.run_id) as has_lock:
            if has_lock:
                # What was read before the lock may be over. A run that is made ready to go on is so in memory alone.
                run = run if is_again else self.journal.run(run.run_id)
                if is_again or run.live:
                    with self._receipts.of_failure(run.run_id):
                        run = self._executor(run).follow(run, make_request, until_launched=until_launched)
                return run, self._receipts.write(run)
        return self._look_on(run, make_request, until_launched=until_launched, patience=patience)

    def now(self, run: Run) -> Run:
        """The run as the journal has it."""
        return self.journal.run(run.run_id)

    def measure(self, run: Run, make_request: MakeRequest) -> tuple[Run, OwnMeasurement | None]:
        """A measuring run (one without a model folder) to its end, and what it measured."""
        run, _ = self.follow(run, make_request)
        own_measurements = load_measurements(self.settings.measurements)
        return run, next((row for row in reversed(own_measurements) if row.run_id == run.run_id), None)

    def settle(self, run: Run) -> Run:
        """Bring a run that nobody is following to where it stands now (see Executor.settle); else only read it.

        Raises RefusedError where it is another client's.
        """
        self._must_own(run)
        with self._notifications.sent(), self._locks.holding(run.run_id) as has_lock:
            if not has_lock:
                return self.with_end(self.journal.run(run.run_id))
            with self._receipts.of_failure(run.run_id):
                run = self._executor(run).settle(self.journal.run(run.run_id))
            if run.phase is Phase.DONE:
                self._receipts.write(run)
            self._notifications.look(run)
        return run

    def ask_again(self, run: Run, written_at: datetime) -> None:
        """Ask the providers' records once more when the machines of an ended run ended, whose receipt of `written_at`
        has "at most": they are behind by minutes. Raises ProviderError where a record does not answer, and PlanError: a
        later command asks again."""
        age = self._clock.now() - written_at
        if age < RECORDS_LAG or not self.owns(run):
            return
        with self._locks.holding(run.run_id) as has_lock:
            run = self.journal.run(run.run_id)
            if has_lock and run.phase is Phase.DONE:
                self._receipts.correct(self._with_told_ends(run) if age < RECORDS_KEPT else run)

    def _with_told_ends(self, run: Run) -> Run:
        """Raises ProviderError."""
        try:
            return self._executor(run).finisher.asked_again(run)
        except PermissionDeniedError:
            return run  # it would say so again

    def with_end(self, run: Run) -> Run:
        """The run as it is recorded, with the end of its machine where that has ended and nobody has written it down:
        it costs no more since then. Writes nothing."""
        return self._executor(run).with_end(run) if run.live else run

    def stop(self, run: Run) -> tuple[Run, Receipt]:
        """Ask a run to end, and see it to its end, whoever follows it.

        Raises RefusedError for another client's, FollowerSilentError where another process holds it and does not react.
        """
        self._must_own(run)
        self.journal.ask_to_stop(run.run_id, self._clock.now())
        return self.follow(self.journal.run(run.run_id), request_none, patience=FOLLOWER_PATIENCE)

    def give_up_results(self, run: Run) -> None:
        """Note that the run is not to wait for its store any more. Raises RefusedError for another client's."""
        self._must_own(run)
        self.journal.give_up_results(run.run_id, self._clock.now())

    def owns(self, run: Run) -> bool:
        """Whether this home acts on the run: a copied journal has the runs of the home that it was copied from."""
        return run.client is None or run.taken_over or own_client(self.settings).owns(run)

    def take_over(self, run: Run) -> Run:
        """The run as this home's own from now on, as a person wants it; its client is to let go of it."""
        self.journal.take_over(run.run_id, self._clock.now())
        return self.journal.run(run.run_id)

    def whose(self, run: Run) -> str:
        """The client that launched the run, in words."""
        return own_client(self.settings).whose(run.client)

    def _must_own(self, run: Run) -> None:
        if self.owns(run):
            return
        owner = own_client(self.settings).whose(run.client)
        raise RefusedError(
            f"run {run.run_id} was launched by {owner}, not by this home: it is left alone",
            f"if that client is gone: {Command('attach', run.run_id, Option.CLIENT('any'))} takes the run over, "
            f"{Command('stop', run.run_id, Option.CLIENT('any'))} ends it",
        )

    def request_maker(self, run: Run, *, client: str) -> MakeRequest:
        """Builds the requests of a run that is in the journal."""
        job = recorded_job(self.journal, run.run_id)
        return request_for(job, self._clock, client=client, key=self._keys.key)

    def _executor(self, run: Run) -> Executor:
        poll = LOCAL_POLL_SECONDS if is_here(run.provider) else POLL_SECONDS
        hear = self._notifications.over(run)
        executor = Executor(self._provider_of, self.journal, self._clock, hear, self._person, poll_seconds=poll)
        executor.finisher.vouching = self._keys.vouching
        return executor

    def _look_on(
        self, run: Run, make_request: MakeRequest, *, until_launched: bool = False, patience: timedelta | None = None
    ) -> tuple[Run, Receipt]:
        """Another process acts on the run: show what it does, and take over should it die.

        A run that is done may be being launched again: while somebody holds its lock, its receipt is not the last.
        Raises FollowerSilentError where the journal does not move for as long as the `patience`.
        """
        self._listen(Message(f"another plan follows run {run.run_id}; looking on"))
        watcher: Watcher | None = None
        newest, moved_at = 0, self._clock.now()
        while True:
            run = self.journal.run(run.run_id)
            if until_launched and run.phase in (Phase.BOOTING, Phase.RUNNING):
                raise Detached(run)
            if (event := self.journal.newest_event(run.run_id)) != newest:
                newest, moved_at = event, self._clock.now()
            elif patience is not None and self._clock.now() - moved_at > patience:
                raise FollowerSilentError(run)
            if run.attempt and (watcher is None or watcher.attempt != run.attempt.number):
                store = self._provider_of(run.provider).store(run.run_id)
                watcher = Watcher(store, run.attempt.number, self._listen)
            self._show(watcher, run)
            self._clock.sleep(LOCAL_POLL_SECONDS)
            # Taken only to learn whether its holder is still there: `follow` takes it again itself.
            with self._locks.holding(run.run_id) as has_lock:
                pass
            if has_lock and self.journal.run(run.run_id).phase is not Phase.DONE:
                return self.follow(
                    self.journal.run(run.run_id), make_request, until_launched=until_launched, patience=patience
                )
            if has_lock:
                return (run := self.journal.run(run.run_id)), self._receipts.write(run)

    def _show(self, watcher: Watcher | None, run: Run) -> None:
        if watcher is None:
            return
        try:
            watcher.look(spent_by(run, watcher, self._clock.now))
        except ProviderError:
            return  # whoever acts on the run says what is the matter


def total_steps(job: TrainingJob) -> int | None:
    """Optimizer steps of all epochs; None where the job does not tell: of a script its reports do."""
    if job.script is not None:
        return None
    try:
        return trained_images(job) // job.global_batch_size
    except ValueError:
        return None


def request_none(run: Run, number: int, target: Target) -> LaunchRequest:
    """Refuse to make a request: the run is only followed and launches nothing. Raises BadInputError."""
    raise BadInputError(
        f"attempt {number} of run {run.run_id} was never launched in {target.where}", "plan attach continues it"
    )


def request_for(
    job: TrainingJob,
    clock: Clock,
    *,
    client: str = "",
    data: tuple[File, ...] = (),
    key: Callable[[Run], str] = lambda _: "",
) -> MakeRequest:
    """Builds the request of an attempt; `client` is the label of this computer, `key` tells the key of a run.

    `data` is what a rented machine fetches; where it is left open, its provider looks it up.
    """

    def make(run: Run, number: int, target: Target) -> LaunchRequest:
        return LaunchRequest(
            run_id=run.run_id,
            attempt=number,
            offer=target.offer,
            job=job,
            deadline=attempt_deadline(run, target, clock.now()),
            max_steps=run.max_steps,
            until_steady=run.until_steady,
            try_settings=run.try_settings,
            vcpus=target.offer.vcpus,
            memory_gib=target.offer.memory_gib,
            zone=target.zone,
            client=client,
            data=data,
            run_key=key(run),
            expected=target.expected,
        )

    return make


def deadline_of(job: TrainingJob, slow_end: timedelta | None, now: datetime) -> datetime:
    """When the run ends itself: the job's deadline; without one, three times the slow end of its estimate."""
    duration = job.constraints.deadline
    if duration is None:
        duration = max(LEAST_PATIENCE, slow_end * PATIENCE_FACTOR) if slow_end is not None else LONGEST_PATIENCE
    return now + min(duration, LONGEST_PATIENCE)


def refused(provider: str) -> type[RefusedError] | type[ThisMachineError]:
    """The class of a refused preflight: this machine's own lacks are its own exit code."""
    return ThisMachineError if is_here(provider) else RefusedError


def output_folder(path: Path | None, job_name: str, run_id: str) -> Path:
    """Where the model goes, without links. Raises BadInputError where that is no folder, and can be none."""
    folder = (path or Path(f"{job_name}-{run_id}")).absolute()
    try:
        folder = folder.resolve()
        if (folder.exists() or folder.is_symlink()) and not folder.is_dir():
            raise BadInputError(
                f"{folder} is there and is not a folder", f"choose another {Option.OUTPUT}", field=Option.OUTPUT
            )
        if path is not None and folder.is_dir() and any(folder.iterdir()):
            raise BadInputError(f"{folder} is not empty", f"choose another {Option.OUTPUT}", field=Option.OUTPUT)
        partial_folder(folder).exists()  # its name may be too long where that of the folder is not
    except (OSError, ValueError, RuntimeError) as error:  # a name too long, say, or links in a circle
        raise BadInputError(
            f"{str(folder)!r} cannot be a folder: {error}", f"choose another {Option.OUTPUT}", field=Option.OUTPUT
        ) from None
    return folder


def refuse_unwritable(folder: Path) -> None:
    """Raises BadInputError where a model could not be put into this folder once it is trained."""
    paths = (folder, *folder.parents)
    there = next((path for path in paths if os.access(path, os.F_OK)), folder)
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise BadInputError(
            f"the model is to go to {folder}, and nothing can be written to {there}",
            f"choose another {Option.OUTPUT}",
            field=Option.OUTPUT,
        )


def _has_files(folder: Path) -> bool:
    """Whether anything is in a folder; one that cannot be read may have something."""
    try:
        return folder.is_dir() and any(folder.iterdir())
    except OSError:
        return True


def _left_behind(run: Run, step: int, before: TrainingJob, job: TrainingJob) -> str:
    of_training = [row for row in differences(before, job) if row.key.partition(".")[0] not in _NOT_TRAINED]
    changed = differences_text(of_training) or "its data"
    return f"run {run.run_id} waits at step {step:,}; the job has changed ({changed}), so that this run begins anew"


_NOT_TRAINED = ("project", "constraints", "objective", "on_slow", "checkpoint_every", "nodes")
"""Keys in which a job may change and still go on (TrainingJob.digest)."""
