"""The parts of a launch on a rented machine that all clouds share: everything but the cloud's own create."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from trainplan.pricing.catalog import find_device
from trainplan.providers.base import RunId, VendorRequest
from trainplan.providers.cloud.agent_archive import AGENT, agent_bytes
from trainplan.providers.cloud.data_files import (
    Finds,
    data_on_the_machine,
    is_weights,
    model_on_the_machine,
    no_files,
    weights_files,
)
from trainplan.providers.cloud.image_digest import digest_of, mirrored
from trainplan.providers.cloud.images import Hardware, Launchable, launchable
from trainplan.providers.cloud.machine import (
    SPEC,
    CloudContext,
    MachinePart,
    StoredObject,
    boot_allowance,
    machine_part,
)
from trainplan.providers.cloud.regions import OPTION as REGIONS
from trainplan.providers.cloud.secrets import references
from trainplan.providers.cloud.trainer_wheel import WHEEL, wheel_bytes
from trainplan.providers.errors import AnotherVersionError, BadRequestError
from trainplan.providers.stores.bucket import DATA
from trainplan.providers.stores.store import ObjectStore
from trainplan.providers.values import Resolution
from trainplan.workloads.pretrained import weights_address, weights_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trainplan.pricing.offers import Offer
    from trainplan.providers.agent.spec import File
    from trainplan.providers.base import LaunchRequest, ProviderSettings
    from trainplan.workloads.job import TrainingJob
from typing import TypeVar

from trainplan.workloads.wording import Option

if TYPE_CHECKING:
    from trainplan.providers.base import LaunchRequest


Own = TypeVar("Own", bound=Resolution)


def resolution_of(request: LaunchRequest, kind: type[Own]) -> Own:
    """The request's resolution, of the cloud that asks. Raises BadRequestError for a request that was not resolved."""
    if isinstance(request.resolution, kind):
        return request.resolution
    raise BadRequestError(
        f"run {request.run_id}: what its machine needs at {request.offer.provider} was not looked up",
        hint="launch the job again",
    )


PUT = "PutObject"
CONTROL = "control"
STOP = f"{CONTROL}/stop"
# The journal has only the SHA-256 of these two: the same version of trainplan builds the same bytes (`_content`).
_OURS: Mapping[str, Callable[[], bytes]] = {AGENT: agent_bytes, WHEEL: wheel_bytes}


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineResolution(Resolution):
    """What a launch on any cloud looks up; each cloud has a subclass with its own fields.

    `run_uri` and `run_region` are of the run directory; a machine that does not train by its `boot_deadline` ends
    itself. `image_digest` is the public image's (`sha256:…`), "" where no registry had to be asked.
    """

    run_uri: str
    run_region: str
    boot_deadline: datetime
    image_digest: str = ""


@dataclass(frozen=True)
class Rented:
    """What a provider of rented machines is built with.

    `store` gives a run's directory; `service` names its vendor's store in calls; `region` is where the run
    directories are. `mirrors` are registries asked before the public ones. `endpoints` are addresses that the
    machine uses instead of the vendor's (trainplan.providers.cloud.bootstrap.Boot), `digest` asks registries.
    `own_image` is a machine image of the person's own, "" for the documented ones. `files` looks up what a job's data
    consists of.
    """

    cloud: str
    service: str
    store: Callable[[RunId], ObjectStore]
    region: Callable[[], str]
    now: Callable[[], datetime]
    mirrors: tuple[str, ...] = ()
    endpoints: Mapping[str, str] = field(default_factory=dict)
    digest: Callable[[Sequence[str]], str] = digest_of
    own_image: str = ""
    files: Finds = no_files

    def with_data(self, request: LaunchRequest) -> LaunchRequest:
        """The request with the files that its machine will download. `resolve` begins with it. Raises ProviderError."""
        if request.job.script is not None:  # it fetches its data by itself
            return request
        weights = weights_file(request.job)
        if weights is not None:
            raise BadRequestError(
                f"model.weights: {weights} is a file of this computer, which no rented machine can read",
                hint=(
                    "copy it to a bucket and write its address, launch this job with "
                    f"{Option.PROVIDER('local')}, or begin with "
                    "weights: imagenet"
                ),
            )
        address = weights_address(request.job)
        has_weights = address is None or any(is_weights(file, address) for file in request.data)
        if request.data and has_weights:
            return request
        ours = self.store(request.run_id).beside(DATA)
        data = request.data or self.files(request.job.data, ours)
        if address is not None and not has_weights:
            data = (*data, *weights_files(address, self.files, ours))
        return replace(request, data=data)

    def resolve(self, request: LaunchRequest) -> MachineResolution:
        """Look up what the request leaves open. Creates nothing. Raises ProviderError."""
        part = self.launchable(request)
        # A tag of an image can change; the digest fixes what this run and a repeat of its request will pull.
        is_open = part.software is not None and part.software.container.digest is None
        return MachineResolution(
            image_digest=self.digest(part.images) if is_open else "",
            run_uri=self.store(request.run_id).uri,
            run_region=self.region(),
            boot_deadline=(self.now() + boot_allowance(request.data)).replace(microsecond=0),
        )

    def launchable(self, request: LaunchRequest) -> Launchable:
        """The machine image or container in which the job runs on this offer. Raises BadRequestError."""
        image = launchable(request.job, hardware(request.offer), self.own_image)
        return replace(image, images=mirrored(image.images, self.mirrors)) if image.software else image

    def machine(
        self, request: LaunchRequest, end: Mapping[str, str], identity: str = "", data_disk_gib: int = 0
    ) -> MachinePart:
        """Pure, for a request that was resolved; `end` is how the machine ends itself (trainplan.providers.agent.end),
        `identity` which managed identity it is (Azure), `data_disk_gib` the size of a blank disk for the data (0: it
        has none).

        Raises BadRequestError.
        """
        resolution = resolution_of(request, MachineResolution)
        part = self.launchable(request)
        job = job_on_the_machine(request.job, part, request.data)
        context = CloudContext(
            cloud=self.cloud,
            run_uri=resolution.run_uri,
            region=resolution.run_region,
            boot_deadline=resolution.boot_deadline,
            image_digest=resolution.image_digest,
            end=end,
            secrets=references(job, self.cloud),
            data=request.data,
            endpoints=self.endpoints,
            identity=identity,
            data_disk_gib=data_disk_gib,
        )
        return machine_part(replace(request, job=job), part, context)

    def puts(self, part: MachinePart) -> tuple[VendorRequest, ...]:
        """The calls that write the part's objects, in order. They precede the create, since the machine reads them at
        boot."""
        return tuple(self._put_call(part, stored) for stored in part.objects)

    def put(self, run_id: RunId, call: VendorRequest) -> None:
        """Carry out one of `puts`, as it was recorded. Raises ProviderError."""
        parameters: Mapping[str, Any] = call.parameters
        store = self.store(run_id)
        if parameters["Path"].endswith(f"/{SPEC}"):
            # A stop file of an earlier attempt would stop this machine as soon as it trains, so it is deleted. A stop
            # of this attempt is not lost: the journal keeps it, and every look writes the file again.
            store.delete(CONTROL)
        store.put(parameters["Path"], _content(parameters))

    def is_put(self, call: VendorRequest) -> bool:
        """Whether a recorded call puts an object into the run directory."""
        return (call.service, call.operation) == (self.service, PUT)

    def ask_to_stop(self, run_id: RunId) -> None:
        """Write the stop file. The machine reads it, writes a checkpoint and ends."""
        self.store(run_id).put(STOP, b"stop\n")

    def _put_call(self, part: MachinePart, stored: StoredObject) -> VendorRequest:
        name = stored.path.rpartition("/")[2]
        parameters: dict[str, object] = {
            "RunDirectory": part.boot.run_uri,
            "Path": stored.path,
            "SHA256": stored.sha256,
            "Bytes": len(stored.data),
        }
        if name not in _OURS:
            parameters["Body"] = base64.b64encode(stored.data).decode()
        return VendorRequest(service=self.service, operation=PUT, parameters=parameters)


def hardware(offer: Offer) -> Hardware:
    """The hardware of an offer, as the table of images (`providers/cloud/images.py`) is searched for it."""
    if offer.device == "cpu":
        return Hardware(offer.provider, "cpu", "cpu", offer.cpu_architecture)
    device = find_device(offer.device)
    return Hardware(
        provider=offer.provider,
        device=device.name,
        architecture=str(device.architecture),
        host=offer.cpu_architecture,
        capability=device.compute_capability,
        family=offer.family,
    )


def job_on_the_machine(job: TrainingJob, part: Launchable, files: Iterable[File]) -> TrainingJob:
    """The job as the rented machine's trainer reads it: its framework is the one that runs there, `files` are there."""
    if job.script is not None:  # where it lies on the person's computer concerns nobody else
        return job.model_copy(
            update={"framework": part.framework, "script": PurePath(job.script).name, "requirements": None}
        )
    model, data = model_on_the_machine(job, files), data_on_the_machine(job.data)
    return job.model_copy(update={"framework": part.framework, "model": model, "data": data})


def mirrors_of(settings: ProviderSettings) -> tuple[str, ...]:
    """The option `mirrors`: registries that have the public images, in order, separated by commas."""
    return tuple(name.strip() for name in settings.options.get("mirrors", "").split(",") if name.strip())


def known_options(settings: ProviderSettings, vendor: str, names: Sequence[str]) -> Mapping[str, str]:
    """The options of the settings. Raises BadRequestError for an option that this vendor does not have."""
    found_names = (*names, REGIONS)
    for name in settings.options:
        if name not in found_names:
            raise BadRequestError(f"{vendor}: there is no setting {name!r}", hint=f"known: {', '.join(found_names)}")
    return settings.options


def _content(parameters: Mapping[str, Any]) -> bytes:
    name = parameters["Path"].rpartition("/")[2]
    body = parameters.get("Body")
    data = base64.b64decode(body) if isinstance(body, str) else _OURS[name]()
    if hashlib.sha256(data).hexdigest() != parameters["SHA256"]:
        raise AnotherVersionError(
            f"{parameters['Path']}: this is another version of trainplan than the one that began the launch",
            hint="launch the job again with this version",
        )
    return data
