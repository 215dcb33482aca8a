"""The seam over this machine: offers, and one of two hosts (container or process) for each attempt."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainplan.providers.base import (
    Check,
    Instance,
    InstanceRef,
    LaunchRequest,
    OwnedResource,
    Preflight,
    PreflightState,
    ProviderSettings,
    RunId,
    RunStore,
    Timers,
    VendorRequest,
)
from trainplan.providers.errors import (
    BadRequestError,
    IncompleteListingError,
    InstanceNotFoundError,
    MachineError,
    ProviderError,
    TransientError,
)
from trainplan.providers.hardware import HostHardware, MeasuredSpeed, available_memory_bytes, this_machine
from trainplan.providers.local.api import Engine, EngineName
from trainplan.providers.local.command import Runner, SystemRunner
from trainplan.providers.local.containers import IMAGE, ContainerHost
from trainplan.providers.local.engine import CliEngine, probe
from trainplan.providers.local.here import Here, Host, LocalResource, free_bytes
from trainplan.providers.local.offers import PROVIDER, REGION, OwnPrice, offers
from trainplan.providers.local.process import ProcessHost
from trainplan.providers.local.records import PROCESS, AttemptLocation, attempt_key, location_of
from trainplan.providers.local.settings import EngineChoice, parse_settings
from trainplan.workloads.passed_variables import passed_variables
from trainplan.workloads.processor_time import ProcessorTime, busy_seconds, others_share
from trainplan.workloads.terms import Framework

if TYPE_CHECKING:
    from trainplan.pricing.offers import Offer, OfferQuery
    from trainplan.workloads.job import TrainingJob


def make(settings: ProviderSettings) -> LocalProvider:
    """Return this machine as a provider, without looking at it yet. Raises BadRequestError for a wrong option."""
    look = _Look()
    here = Here(
        home=settings.home,
        settings=parse_settings(settings.options),
        environment=settings.environment,
        machine=lambda: look.machine,
        device_name=_device_name,
        free_bytes=free_bytes,
        memory_bytes=available_memory_bytes,
    )
    return LocalProvider(here, ProcessHost(here=here), engines_of(SystemRunner()), settings.now)


class _Look:
    @cached_property
    def machine(self) -> HostHardware:
        return this_machine()


def engines_of(runner: Runner) -> Callable[[EngineName], Engine | None]:
    """Finds an engine by its name, once; None: it does not answer."""
    entries: dict[EngineName, Engine | None] = {}

    def find(name: EngineName) -> Engine | None:
        if name not in entries:
            info = probe(name, runner)
            entries[name] = CliEngine(info, runner) if info else None
        return entries[name]

    return find


@dataclass(frozen=True)
class LocalProvider:
    """`find_engine` gives an engine that answers, or None; `image` replaces the trainer image in every container."""

    here: Here
    process: ProcessHost
    find_engine: Callable[[EngineName], Engine | None]
    now: Callable[[], datetime]
    image: str | None = None
    unable: set[str] = field(default_factory=set)
    """The engines that could not build or fetch an image, as far as this process has tried."""

    @property
    def name(self) -> str:
        return PROVIDER

    @property
    def listing_lag(self) -> timedelta:
        return timedelta(0)

    @property
    def token_memory(self) -> timedelta:
        """A container's name is known until the container is removed, which a run of a day ago may have been."""
        return timedelta(hours=24)

    @property
    def machine(self) -> HostHardware:
        """What this machine is; its `fingerprint` is what measurements taken here are kept under."""
        return self.here.machine()

    def can_measure_speed(self, job: TrainingJob) -> bool:
        """Whether this Python has the job's framework: what has it only in a container is not measured."""
        return self.process.installed(job.framework)

    def measure_speed(self, job: TrainingJob) -> MeasuredSpeed | None:
        """Trains the job for two seconds on the processor, in a process of this Python; None where it fails."""
        return measure_speed(job, self.process.program, self.here.environment)

    def server_time_offset(self) -> timedelta | None:
        """Return None, not known (trainplan.providers.abilities.ServerTime): this computer may have slept, its clock
        may have been set. The supervisor beside each trainer keeps the deadline.
        """
        return None

    def offers(self, query: OfferQuery) -> Sequence[Offer]:
        price = OwnPrice(usd_per_hour=self.here.settings.usd_per_hour, as_of=self.now().date())
        return tuple(offer for offer in offers(self.machine, price, self.here.device_name) if query.wants(offer))

    def preflight(self, offer: Offer) -> Preflight:
        return self._preflight(offer, None)

    def preflight_for(self, offer: Offer, job: TrainingJob) -> Preflight:
        """Whether this job would be let in (trainplan.providers.abilities.JobChecker): a process needs its
        framework."""
        return self._preflight(offer, job.framework)

    def _preflight(self, offer: Offer, framework: Framework | None) -> Preflight:
        try:
            hosts = self._hosts()
            self.here.gpus(offer)
        except MachineError as error:
            refused = Check(name="machine", state=PreflightState.REFUSED, detail=error.message, fix=error.hint)
            return Preflight(checks=(refused,))
        checks: list[Check] = []
        for number, host in enumerate(hosts):
            engine = Check(name="engine", state=PreflightState.OK, detail=_host_text(host))
            of_host = (engine, *host.checks(offer, framework))
            cannot_build = [one for one in of_host if one.name == IMAGE and one.state is PreflightState.REFUSED]
            if not cannot_build or number == len(hosts) - 1:
                return Preflight(checks=(*checks, *of_host))
            fix = _goes_on(hosts[number + 1])
            checks += [replace(one, state=PreflightState.UNKNOWN, fix=fix) for one in cannot_build]
        return Preflight(checks=tuple(checks))

    def prepare(self, request: LaunchRequest, report: Callable[[str], None]) -> None:
        """Builds or fetches the image of the run where it is missing (trainplan.providers.abilities.Preparer).

        Where the person leaves the choice, what cannot build it is followed by what else there is.
        """
        if (host := self._host_of_attempt(request)) is not None:
            host.prepare(request, report)
            return
        hosts = self._hosts()
        for number, host in enumerate(hosts):
            try:
                host.prepare(request, report)
            except MachineError as error:
                self.unable.add(host.name)
                if number == len(hosts) - 1:
                    raise MachineError(error.message, hint=self._with_others(error.hint, request)) from error
                report(f"{error.message}; {_goes_on(hosts[number + 1])}")
            else:
                return

    def requests(self, request: LaunchRequest) -> Sequence[VendorRequest]:
        return self._host_of(request).requests(request)

    def timers(self, request: LaunchRequest) -> Timers:
        return Timers(machine=request.deadline, cloud=None)

    def launch(self, request: LaunchRequest) -> Instance:
        host = self._host_of(request)
        location = AttemptLocation(host=host.name, key=attempt_key(request.run_id, request.attempt))
        self.here.records.keep(location)
        try:
            return host.launch(request)
        except (MachineError, BadRequestError):
            with contextlib.suppress(ProviderError):
                host.delete(location)  # what was half made is of no use, and nobody would look for it
            raise

    def get(self, ref: InstanceRef) -> Instance:
        location = location_of(ref.id)
        return self._at(location).get(location)

    def list_owned(self, run_id: RunId | None = None) -> Sequence[OwnedResource]:
        resources: list[OwnedResource] = []
        silent: list[TransientError] = []
        for find in self._everywhere():
            try:
                resources += [
                    self._owned(holder)
                    for holder in find().list_resources()
                    if run_id in (None, holder.location.key.run_id)
                ]
            except TransientError as error:
                silent.append(error)
        if silent:
            raise IncompleteListingError(
                silent[0].message,
                resources=tuple(resources),
                unanswered=tuple(error.message for error in silent),
                hint=silent[0].hint,
            )
        return resources

    def stop(self, ref: InstanceRef) -> None:
        location = location_of(ref.id)
        self._at(location).stop(location)

    def delete(self, ref: InstanceRef | OwnedResource) -> None:
        try:
            location = location_of(ref.id)
        except InstanceNotFoundError:
            return
        self._at(location).delete(location)

    def logs(self, ref: InstanceRef) -> Iterator[str]:
        location = location_of(ref.id)
        yield from self._at(location).logs(location)

    def store(self, run_id: RunId) -> RunStore:
        return self.here.store(run_id)

    def _host_of(self, request: LaunchRequest) -> Host:
        """Where the attempt already is, so that it never runs twice; else where the settings put it: of several, the
        first that has the image, else the first that has not failed to build it."""
        if (host := self._host_of_attempt(request)) is not None:
            return host
        hosts = self._hosts()
        if len(hosts) == 1:
            return hosts[0]
        ready = (host for host in hosts if isinstance(host, ContainerHost) and host.has_image(request))
        able = (host for host in hosts if host.name not in self.unable)
        return next(ready, None) or next(able, hosts[0])

    def _host_of_attempt(self, request: LaunchRequest) -> Host | None:
        key = attempt_key(request.run_id, request.attempt)
        text = self.here.records.host_of(key)
        return self._at(AttemptLocation(host=text, key=key)) if text else None

    def _hosts(self) -> Sequence[Host]:
        """What can run an attempt, in the order in which it is tried: one, unless the person leaves the choice.
        Raises MachineError."""
        choice = self.here.settings.engine
        if choice is EngineChoice.PROCESS:
            return (self.process,)
        names = tuple(EngineName) if choice is EngineChoice.AUTO else (EngineName(choice),)
        engines = {engine.name: engine for engine in map(self.find_engine, names) if engine}
        if not engines and choice is not EngineChoice.AUTO:
            hint = f"see `{choice} info`, or set engine to auto or process"
            raise MachineError(f"{choice} does not answer", hint=hint)
        hosts: list[Host] = [self._containers(engine) for engine in engines.values()]
        if choice is EngineChoice.AUTO and (not hosts or any(map(self.process.installed, Framework))):
            hosts.append(self.process)
        return hosts

    def _with_others(self, hint: str, request: LaunchRequest) -> str:
        """The hint with what else of this machine would train the job, and was not tried."""
        names = [name for name in EngineName if name not in self.unable and self.find_engine(name)]
        process = [PROCESS] if self.process.installed(request.job.framework) else []
        others = " or ".join([*names, *process] if self.here.settings.engine is not EngineChoice.AUTO else [])
        return f"{hint}; or set engine to {others}, which would do here" if others else hint

    def _at(self, location: AttemptLocation) -> Host:
        if location.host == PROCESS:
            return self.process
        engine = self.find_engine(EngineName(location.host))
        if engine is None:
            raise TransientError(
                f"{location.host}, which runs {location.key.name}, does not answer",
                hint=f"start it: `{location.host} info`",
            )
        return self._containers(engine)

    def _everywhere(self) -> Iterator[Callable[[], Host]]:
        """Finds each host that there is, or that an attempt of ours is in: then it raises TransientError where that
        one does not answer."""
        yield lambda: self.process
        locations = {location.host: location for location in self.here.records.locations()}
        for name in EngineName:
            engine = self.find_engine(name)
            if engine is not None and engine.name is name:
                yield partial(self._containers, engine)
            elif name in locations:
                yield partial(self._at, locations[name])

    def _containers(self, engine: Engine) -> ContainerHost:
        return ContainerHost(here=self.here, engine=engine, image=self.image)

    def _owned(self, holder: LocalResource) -> OwnedResource:
        return OwnedResource(
            provider=PROVIDER,
            region=REGION,
            kind=holder.kind,
            id=holder.location.ref.id,
            run_id=holder.location.key.run_id,
            created_at=holder.created_at,
            usd_per_hour=self.here.settings.usd_per_hour if holder.running else None,
            attempt=holder.location.key.attempt,
            client=holder.client,
            deadline=holder.deadline,
        )


def _host_text(host: Host) -> str:
    return "a process of this Python" if host.name == PROCESS else f"{host.name} answers"


def _goes_on(host: Host) -> str:
    return f"{'a process of this Python' if host.name == PROCESS else host.name} is used instead"


def _device_name(spelling: str) -> str | None:
    from trainplan.pricing.catalog import find_device
    from trainplan.pricing.devices import UnknownDeviceError

    try:
        return find_device(spelling).name
    except UnknownDeviceError:
        return None


SECONDS = 2.0
"""Of training behind the first step, which compiles."""
# Import, compilation and the steps took 5 to 15 s with TensorFlow 2.21 on 2 busy cores of an AMD EPYC (Zen 4),
# 2026-11-23; an allowance for slower disks and processors. Nobody waits longer for a better estimate.
PATIENCE_SECONDS = 60.0
_MOST_STEPS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopwatch:
    """What a measurement reads: seconds of a clock, of all programs on the processors (None: not told), and of our own
    children; `processors` are those that the system has."""

    now: Callable[[], float] = time.monotonic
    busy: Callable[[], float | None] = busy_seconds
    own: Callable[[], float] = lambda: sum(os.times()[2:4])
    processors: int = os.cpu_count() or 1


def measure_speed(
    job: TrainingJob,
    program: tuple[str, ...],
    environment: Mapping[str, str],
    seconds: float = SECONDS,
    stopwatch: Stopwatch | None = None,
) -> MeasuredSpeed | None:
    """Trains the job for `seconds` by the trainer's command `program`; None where that fails, or takes too long.

    Nothing of it stays: neither a model nor a run.
    """
    watch = stopwatch or Stopwatch()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "job.json").write_text(job.to_json(), encoding="utf-8")
        arguments = ("--job", str(folder / "job.json"), "--run-dir", name, "--attempt", "1")
        limits = ("--max-steps", str(_MOST_STEPS), "--max-seconds", f"{seconds:g}")
        before = ProcessorTime(watch.now(), watch.busy(), watch.own())
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [*program, *arguments, *limits],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=PATIENCE_SECONDS,
                env={**passed_variables(environment), "CUDA_VISIBLE_DEVICES": "-1"},
            )
        after = ProcessorTime(watch.now(), watch.busy(), watch.own())
        events = _events(folder / "attempts" / "1" / "progress.jsonl")
    start, end = events.get("start"), events.get("end")
    if start is None or end is None or not end.get("images_per_second", 0) > 0:
        return None
    return MeasuredSpeed(
        images_per_second=float(end["images_per_second"]),
        others=others_share(before, after, watch.processors) or 0.0,
        framework=f"{start['framework']} {start['framework_version']}",
    )


def _events(path: Path) -> dict[str, dict[str, Any]]:
    """The last event of each name that the trainer has told; a line that cannot be read is passed over."""
    events: dict[str, dict[str, Any]] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return events
    for line in lines:
        with suppress(ValueError, TypeError, KeyError):
            event = dict(json.loads(line))
            events[str(event["event"])] = event
    return events
