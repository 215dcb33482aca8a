"""Training in a container of Docker or Podman."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trainplan.pricing.devices import CPU_DEVICE
from trainplan.providers.base import (
    LABEL_CLIENT,
    LABEL_RUN,
    Check,
    Instance,
    LaunchRequest,
    PreflightState,
    VendorRequest,
)
from trainplan.providers.errors import InstanceNotFoundError, MachineError
from trainplan.providers.local.api import Container, ContainerSpec, ContainerStatus, Engine
from trainplan.providers.local.here import LOG_LINES, Here, LocalResource, room_checks
from trainplan.providers.local.image import (
    LEAST_CAPABILITY_OF_NEW_CUDNN,
    Accelerator,
    TrainerImage,
    choose_base,
    ensure,
    rehearse,
)
from trainplan.providers.local.outside import Outside, look_outside
from trainplan.providers.local.records import AttemptLocation, attempt_key
from trainplan.providers.local.settings import flags_of
from trainplan.providers.local.translate import (
    Setting,
    container_spec,
    deadline_of,
    instance,
    is_ours,
    job_in_container,
)
from trainplan.workloads.job import Framework

if TYPE_CHECKING:
    from trainplan.pricing.offers import Offer

IMAGE = "image"
"""The name of the check that tells whether the engine has the trainer image, or can build it."""
_LIMITS = {"memory": "memory", "pids": "processes"}
_MISSING_HINT = "`plan launch` builds it; `plan doctor local` tells why it cannot"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerHost:
    """`image` is used for every run in place of the trainer image that this installation builds; None: that one."""

    here: Here
    engine: Engine
    image: str | None = None

    @property
    def name(self) -> str:
        return self.engine.name

    def checks(self, offer: Offer, framework: Framework | None) -> Sequence[Check]:
        """The lines of a preflight: the image of the trainer, for a job that is not known yet the one of TensorFlow."""
        image = self._trainer_image(framework or Framework.TENSORFLOW, offer)
        if self.engine.has_image(image.tag):
            built = Check(name=IMAGE, state=PreflightState.OK, detail=image.tag)
            return (*self._limit_checks(), built, *room_checks(self.here))
        check = Check(
            name=IMAGE,
            state=PreflightState.UNKNOWN,
            detail=f"{image.tag} is not built yet; {self.engine.name} builds with the settings of this machine",
            fix="launch builds it, which takes a minute or two",
        )
        try:
            rehearse(image, self.engine, flags=self._flags, outside=self._outside)
        except MachineError as error:
            check = replace(check, state=PreflightState.REFUSED, detail=error.message, fix=error.hint)
        return (*self._limit_checks(), check, *room_checks(self.here, image.size_bytes))

    def _limit_checks(self) -> tuple[Check, ...]:
        """A line where nothing keeps a container from taking all of the machine."""
        gaps = [text for name, text in _LIMITS.items() if name not in self.engine.limits]
        if not gaps:
            return ()
        detail = f"{self.engine.name} holds a container to no limit of {' and '.join(gaps)}: the system does not let it"
        return (Check(name="limits", state=PreflightState.OK, detail=detail),)

    def has_image(self, request: LaunchRequest) -> bool:
        """Whether the image of the attempt is here. Raises MachineError."""
        return self.engine.has_image(self._image(request))

    def prepare(self, request: LaunchRequest, report: Callable[[str], None]) -> None:
        if self.has_image(request):
            return
        if own := request.job.container:
            self.engine.pull(own, report)
            return
        image = self._trainer_image(request.job.framework, request.offer)
        free = self.here.free_bytes(self.here.home)
        if free < image.size_bytes:
            raise MachineError(
                f"{free / 1e9:.1f} GB free; the trainer image takes about {image.size_bytes / 1e9:.0f} GB",
                hint=f"free some space: {self.name} system df",
            )
        ensure(image, self.engine, report, flags=self._flags, outside=self._outside)

    def requests(self, request: LaunchRequest) -> Sequence[VendorRequest]:
        spec = self._spec(request)
        words = list(self.engine.create_arguments(spec))
        return (
            VendorRequest(service=self.name, operation="create", parameters={"arguments": words}),
            VendorRequest(service=self.name, operation="start", parameters={"arguments": ["start", spec.name]}),
        )

    def launch(self, request: LaunchRequest) -> Instance:
        location = AttemptLocation(host=self.name, key=attempt_key(request.run_id, request.attempt))
        container = self._ours(location) or self._created(request, location)
        if container.status is ContainerStatus.CREATED:
            self.engine.start(container.name)
        return self.get(location)

    def get(self, location: AttemptLocation) -> Instance:
        container = self._ours(location)
        if container is None:
            raise InstanceNotFoundError(f"{self.name} has no container {location.key.name}")
        asked = self.here.records.asked_to_stop(location.key)
        return instance(location, container, asked_to_stop=asked, output=lambda: "\n".join(self.logs(location)))

    def list_resources(self) -> Iterator[LocalResource]:
        """The containers of runs on this machine. Raises MachineError."""
        for container in self.engine.containers(LABEL_RUN):
            if key := is_ours(container):
                running = container.status is ContainerStatus.RUNNING
                location = AttemptLocation(host=self.name, key=key)
                yield LocalResource(
                    location=location,
                    kind="container",
                    created_at=container.created_at,
                    running=running,
                    client=container.labels.get(LABEL_CLIENT, ""),
                    deadline=deadline_of(container),
                )

    def stop(self, location: AttemptLocation) -> None:
        container = self._ours(location)
        was_asked = self.here.records.asked_to_stop(location.key)
        if container is None or container.status is not ContainerStatus.RUNNING or was_asked:
            return
        self.engine.signal(container.name, "TERM")
        self.here.records.ask_to_stop(location.key)

    def delete(self, location: AttemptLocation) -> None:
        if self._ours(location) is not None:
            self.engine.remove(location.key.name)
        self.here.records.forget(location.key)

    def logs(self, location: AttemptLocation) -> Sequence[str]:
        return self.engine.logs(location.key.name, LOG_LINES)

    def _ours(self, location: AttemptLocation) -> Container | None:
        container = self.engine.container(location.key.name)
        return container if container is not None and is_ours(container) == location.key else None

    def _created(self, request: LaunchRequest, location: AttemptLocation) -> Container:
        spec = self._spec(request)
        if not self.engine.has_image(spec.image):
            raise MachineError(f"the image {spec.image} is not there", hint=_MISSING_HINT)
        self.here.make_room(request, job_in_container(request.job))
        try:
            self.engine.create(spec)
        except MachineError:
            container = self._ours(location)  # somebody else may have been faster with the same attempt
            if container is None:
                raise
            return container
        container = self._ours(location)
        if container is None:
            raise MachineError(f"{self.name} made {spec.name}, and it is gone again", hint="launch it again")
        return container

    def _spec(self, request: LaunchRequest) -> ContainerSpec:
        gpus = self.here.gpus(request.offer)
        # A quota over all processors limits nothing, and costs the scheduler its work.
        if request.vcpus is not None and request.vcpus >= self.here.machine().vcpus:
            request = replace(request, vcpus=None)
        setting = Setting(gpus=gpus, outside=self._outside, memory_gib=self.here.machine().memory_gib)
        return container_spec(request, self._image(request), self.here.folders(request.run_id), setting)

    @property
    def _outside(self) -> Outside:
        return look_outside(self.here.environment)

    @property
    def _flags(self) -> tuple[str, ...]:
        return flags_of(self.here.settings, self.engine.name)

    def _image(self, request: LaunchRequest) -> str:
        own = request.job.container or self.image
        return own or self._trainer_image(request.job.framework, request.offer).tag

    def _trainer_image(self, framework: Framework, offer: Offer) -> TrainerImage:
        return TrainerImage(
            framework=framework,
            accelerator=self._accelerator(offer),
            base=choose_base(self.here.settings, self.engine),
        )

    def _accelerator(self, offer: Offer) -> Accelerator:
        if offer.device == CPU_DEVICE:
            return Accelerator.CPU
        wanted = self.here.gpus(offer)
        capabilities = [gpu.capability for gpu in self.here.machine().gpus if gpu.index in wanted and gpu.capability]
        is_old = any(tuple(map(int, one.split("."))) < LEAST_CAPABILITY_OF_NEW_CUDNN for one in capabilities)
        return Accelerator.VOLTA if is_old else Accelerator.NVIDIA
