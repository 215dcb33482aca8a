"""The protocol of providers/base.py over a Slurm cluster."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from trainplan.providers.base import (
    Check,
    Instance,
    InstanceRef,
    LaunchRequest,
    OwnedResource,
    Preflight,
    ProviderSettings,
    RunId,
    Timers,
    VendorRequest,
)
from trainplan.providers.cloud.trainer_wheel import wheel_bytes
from trainplan.providers.errors import (
    BadRequestError,
    CredentialsError,
    IncompleteListingError,
    InstanceNotFoundError,
    ProviderError,
    TransientError,
)
from trainplan.providers.slurm.api import Completed, Shell, ShellHere, ShellOverSsh, Streams
from trainplan.providers.slurm.doctor import doctor, preflight
from trainplan.providers.slurm.errors import error_of
from trainplan.providers.slurm.offers import SINFO, node_groups, offers
from trainplan.providers.slurm.queue import queue_answers
from trainplan.providers.slurm.reply import SACCT_OF_JOB, SQUEUE, SlurmJob, Traces, instance, owned, slurm_jobs
from trainplan.providers.slurm.request import (
    GRACE_SECONDS,
    SBATCH,
    AttemptName,
    SlurmResolution,
    attempt_name,
    run_dir,
    sbatch_request,
)
from trainplan.providers.slurm.settings import PROVIDER, SlurmSettings, parse_settings
from trainplan.providers.slurm.store import ShellStore

if TYPE_CHECKING:
    from trainplan.pricing.offers import Offer, OfferQuery
    from trainplan.providers.abilities import QueueAnswer, QueueQuestion
    from trainplan.workloads.job import TrainingJob

WHEEL = "trainer.whl"
_LOG_LINES = 1000
_LOG_BYTES = 4 * 1024 * 1024
_SECONDS_PER_MINUTE = 60


def make(settings: ProviderSettings) -> SlurmProvider:
    """The cluster that the settings name; no command is run yet. Raises BadRequestError for a wrong setting."""
    mine = parse_settings(settings.options)
    shell: Shell = ShellOverSsh(mine.login, settings.environment) if mine.login else ShellHere(settings.environment)
    return SlurmProvider(settings=mine, shell=shell, now=settings.now, device=_device)


def _device(spelling: str) -> tuple[str, float | None] | None:
    """The canonical device of a GRES kind or a node's feature, with its memory in GiB."""
    from trainplan.pricing.catalog import find_device
    from trainplan.pricing.devices import UnknownDeviceError

    try:
        device = find_device(spelling)
    except UnknownDeviceError:
        return None
    return device.name, device.memory_gib


@dataclass(frozen=True)
class SlurmProvider:
    """`device` leads a spelling to a canonical device and its memory in GiB, or None."""

    settings: SlurmSettings
    shell: Shell
    now: Callable[[], datetime]
    device: Callable[[str], tuple[str, float | None] | None]

    @property
    def name(self) -> str:
        return PROVIDER

    @property
    def listing_lag(self) -> timedelta:
        """slurmctld answers from its own memory: a job is in every list as soon as sbatch has returned."""
        return timedelta(0)

    @property
    def token_memory(self) -> timedelta:
        """The run directory remembers an attempt as long as it is there; a day is what is counted on."""
        return timedelta(hours=24)

    def offers(self, query: OfferQuery) -> Sequence[Offer]:
        if not self.settings.directory:
            return ()
        groups = node_groups(self._checked(self.shell.run(SINFO), "the partitions cannot be read").text)
        made = offers(groups, self.settings, self.now().date(), self._device_name)
        return tuple(offer for offer in map(self._with_memory, made) if query.wants(offer))

    def preflight(self, offer: Offer) -> Preflight:
        return Preflight(checks=tuple(preflight(self.shell, self.settings, offer)))

    def preflight_for(self, offer: Offer, job: TrainingJob) -> Preflight:
        """Whether a job on its number of nodes would be let in (trainplan.providers.abilities.JobChecker)."""
        return Preflight(checks=tuple(preflight(self.shell, self.settings, offer, job.nodes)))

    def doctor(self) -> Sequence[Check]:
        """The lines of `plan doctor` (trainplan.providers.abilities.Doctor)."""
        return doctor(self.shell, self.settings)

    def queue_answers(self, questions: Sequence[QueueQuestion]) -> Sequence[QueueAnswer]:
        """How long jobs wait (trainplan.providers.abilities.QueueTeller)."""
        return queue_answers(self.shell, self._set_up(), questions)

    def resolve(self, request: LaunchRequest) -> LaunchRequest:
        """Looks up how long the partition lets a job run (trainplan.providers.abilities.Resolver)."""
        text = self._checked(self.shell.run(SINFO), "the partitions cannot be read").text
        limits = [group.time_limit_minutes for group in node_groups(text) if group.partition == request.offer.region]
        lasting = (request.deadline - self.now()).total_seconds() + 2 * GRACE_SECONDS
        wanted = max(1, math.ceil(lasting / _SECONDS_PER_MINUTE))
        return replace(
            request,
            resolution=SlurmResolution(time_minutes=min([wanted, *(limit for limit in limits if limit is not None)])),
        )

    def resolution_type(self, offer: Offer) -> type[SlurmResolution]:
        del offer
        return SlurmResolution

    def requests(self, request: LaunchRequest) -> Sequence[VendorRequest]:
        return (sbatch_request(request, self._set_up()),)

    def timers(self, request: LaunchRequest) -> Timers:
        return Timers(machine=request.deadline, cloud=None)

    def launch(self, request: LaunchRequest) -> Instance:
        name = AttemptName(run_id=request.run_id, attempt=request.attempt)
        settings = self._set_up()
        if (there := self._instance(name)) is not None:
            return there
        calls = request.calls or self.requests(request if request.resolution else self.resolve(request))
        store = self.store(request.run_id)
        store.put("job.json", request.job.to_json().encode())
        if WHEEL not in store.has((WHEEL,)):
            store.put(WHEEL, wheel_bytes())
        for call in calls:
            parameters: Any = call.parameters
            # The log's folder must be there when the job begins: Slurm opens the log.
            store.put(f"attempts/{request.attempt}/log/sbatch.txt", "\n".join(parameters["arguments"]).encode())
            streams = Streams(data=parameters["script"].encode())
            completed = self.shell.run((SBATCH, *parameters["arguments"]), streams)
            number = self._checked(completed, f"{settings.directory}: the job was not accepted").text.strip()
            store.put(f"attempts/{request.attempt}/slurm-submitted", f"{number}\n".encode())
        self.leave_the_oldest(request.run_id, request.attempt)
        made = self._instance(name)
        if made is None:
            raise TransientError(f"{name.text}: Slurm accepted the job and does not show it", hint="look again")
        return made

    def leave_the_oldest(self, run_id: RunId, attempt: int) -> None:
        """Cancel all jobs of an attempt but the oldest: two clients may have submitted at once, and each does this."""
        self._cancel([job for job in self._jobs(AttemptName(run_id=run_id, attempt=attempt)) if job.lives][1:])

    def get(self, ref: InstanceRef) -> Instance:
        name = attempt_name(ref.id)
        there = self._instance(name) if name is not None else None
        if there is None:
            raise InstanceNotFoundError(f"the cluster has no job {ref.id}")
        return there

    def list_owned(self, run_id: RunId | None = None) -> Sequence[OwnedResource]:
        if not self.settings.directory:
            return []
        try:
            jobs = self._jobs()
        except CredentialsError:
            raise
        except ProviderError as error:
            raise IncompleteListingError(
                error.message, resources=(), unanswered=(error.message,), hint=error.hint or "look again"
            ) from error
        living: dict[AttemptName, SlurmJob] = {}
        for job in jobs:
            if job.lives and run_id in (None, job.name.run_id):
                living.setdefault(job.name, job)
        return [owned(job, self.settings.usd_per_device_hour) for job in living.values()]

    def stop(self, ref: InstanceRef) -> None:
        name = attempt_name(ref.id)
        if name is None or (there := self._instance(name)) is None or there.end is not None:
            return
        # A job that begins, or begins again, after this looks for the file; one that trains gets TERM from its script.
        self.store(name.run_id).put(f"attempts/{name.attempt}/stop", b"")
        waiting = [job for job in self._jobs(name) if job.waits]
        self._cancel(waiting)

    def delete(self, ref: InstanceRef | OwnedResource) -> None:
        name = attempt_name(ref.id)
        if name is None or not self.settings.directory:
            return
        traces, store = self._traces(name), self.store(name.run_id)
        # First the mark, so that neither a requeue nor a repeated launch begins it again.
        if not traces.has_ended and (traces.was_submitted or self._jobs(name)):
            store.put(f"attempts/{name.attempt}/slurm-end", b"137\n")
        living = [job for job in self._jobs() if job.lives and job.name.run_id == name.run_id]
        self._cancel([job for job in living if job.name == name])
        if all(job.name == name for job in living):
            for path in (WHEEL, "trainer"):  # another attempt brings it again
                store.delete(path)

    def logs(self, ref: InstanceRef) -> Iterator[str]:
        name = attempt_name(ref.id)
        if name is None:
            return
        store = self.store(name.run_id)
        path = f"attempts/{name.attempt}/log/trainer.log"
        size = store.sizes(path).get(path, 0)
        with contextlib.suppress(KeyError):
            text = store.get(path, start=max(0, size - _LOG_BYTES)).decode("utf-8", "replace")
            yield from text.splitlines()[-_LOG_LINES:]

    def store(self, run_id: RunId) -> ShellStore:
        return ShellStore(self.shell, run_dir(self._set_up(), run_id))

    def _set_up(self) -> SlurmSettings:
        if not self.settings.directory:
            raise BadRequestError("no cluster is set up", hint="set directory in [slurm]; docs/slurm.md says how")
        return self.settings

    def _instance(self, name: AttemptName) -> Instance | None:
        """Traces are read after the jobs: a job that ends in between has left its exit code."""
        jobs = self._jobs(name)
        traces = self._traces(name)
        if not jobs and (traces.has_begun or traces.was_submitted):
            # A row of a job that lives is of one that slurmctld has lost: nothing ends it any more.
            recorded = self.shell.run((*SACCT_OF_JOB, f"--name={name.text}"))
            jobs = [job for job in slurm_jobs(recorded.text) if not job.lives] if recorded.exit_code == 0 else []
        return instance(name, jobs, traces)

    def _jobs(self, name: AttemptName | None = None) -> list[SlurmJob]:
        words = (*SQUEUE, f"--name={name.text}") if name else SQUEUE
        return slurm_jobs(self._checked(self.shell.run(words), "the jobs cannot be listed").text)

    def _traces(self, name: AttemptName) -> Traces:
        store = self.store(name.run_id)
        folder = f"attempts/{name.attempt}"
        there = store.has([f"{folder}/{file}" for file in ("slurm-job", "stop", "slurm-end", "slurm-submitted")])

        def number(file: str) -> int | None:
            with contextlib.suppress(KeyError, ValueError):
                return int(store.get(f"{folder}/{file}"))
            return None

        has_begun = f"{folder}/slurm-job" in there
        exit_code = number("slurm-end") if f"{folder}/slurm-end" in there else None
        began = number("slurm-began") if has_begun else None
        return Traces(
            has_begun=has_begun,
            began_at=None if began is None else datetime.fromtimestamp(began, UTC),
            asked_to_stop=f"{folder}/stop" in there,
            exit_code=exit_code,
            was_submitted=f"{folder}/slurm-submitted" in there,
        )

    def _cancel(self, jobs: Sequence[SlurmJob]) -> None:
        if jobs:
            words = ("scancel", *(str(job.number) for job in jobs))
            self._checked(self.shell.run(words), "the job cannot be cancelled")

    def _checked(self, completed: Completed, what: str) -> Completed:
        if completed.exit_code:
            raise error_of(completed, what)
        return completed

    def _device_name(self, spelling: str) -> str | None:
        device = self.device(spelling)
        return device[0] if device else None

    def _with_memory(self, offer: Offer) -> Offer:
        device = self.device(offer.device)
        return replace(offer, device_memory_gib=device[1]) if device else offer
