"""What a machine that is rented for a job is made of: its own image, the container, and what is installed into it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trainplan.providers.errors import BadRequestError
from trainplan.workloads.runtimes import Runtime, runtime_of, why_not
from trainplan.workloads.terms import Framework

if TYPE_CHECKING:
    from trainplan.workloads.job import TrainingJob

OWN_DISK_GIB = 100
"""The least disk under an image of the person's own: the container with TensorFlow and CUDA takes a tenth of it."""
_TABLE = Path(__file__).parent / "data" / "machines.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A public image. `references` are name:tag in the order of registries; `digest` None: resolved before launch."""

    name: str
    python: str
    references: tuple[str, ...]
    digest: str | None
    download_mb: int
    source: str
    as_of: date


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """What is installed into a container: files of pinned requirements by name.

    `download_mb` is in 10^6 bytes, None where it was not measured.
    """

    name: str
    framework: str
    kind: str
    container: Container
    requirements: tuple[str, ...]
    source: str
    as_of: date
    download_mb: int | None = None
    cuda: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostImage:
    """The machine's own image at a provider; with kind `none` there is none, and `reason` says why.

    `image` is looked up as `kind` says (see machines.toml). `driver` is NVIDIA's branch in it, "" where there is none
    or it was not read; with `installs_driver` the machine installs that branch itself. `docker`: whether it brings
    Docker. `proven`: documented or reported for these devices. `families` are the only families of machines that the
    row is for, empty for every one.
    """

    provider: str
    architectures: frozenset[str]
    hosts: frozenset[str]
    kind: str
    source: str
    as_of: date
    devices: frozenset[str] = frozenset()
    families: frozenset[str] = frozenset()
    image: str = ""
    driver: str = ""
    installs_driver: bool = False
    docker: bool = False
    least_disk_gib: int = 0
    proven: bool = False
    reason: str = ""


class Table(NamedTuple):
    """`unproven_cost_factor`: what the cost on a host with `proven` false is multiplied by where offers are ranked."""

    unproven_cost_factor: float
    containers: dict[str, Container]
    software: dict[str, Software]
    hosts: tuple[HostImage, ...]


class Hardware(NamedTuple):
    """What is rented. `architecture` and `capability` are the device's, `host` is the processor of its machine,
    `family` the vendor's name of the machine's family ("": not known)."""

    provider: str
    device: str
    architecture: str
    host: str
    capability: str | None = None
    family: str = ""

    @property
    def kind(self) -> str:
        """`cpu`, `gpu` or `tpu`, as the agent names it."""
        return self.architecture if self.architecture in ("cpu", "tpu") else "gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launchable:
    """What a launch on that hardware needs. `software` is None where the job brings its own image.

    `images` are references in the order they are tried: by tag for a public image, by digest for the person's own.
    """

    hardware: Hardware
    framework: Framework
    runtime: Runtime | None
    host: HostImage
    software: Software | None
    images: tuple[str, ...]

    @property
    def download_mb(self) -> int | None:
        """What is fetched before the first step, but for the data, in 10^6 bytes; None where it is not known."""
        software = self.software
        if software is None or software.download_mb is None:
            return None
        return software.container.download_mb + software.download_mb

    @property
    def unproven(self) -> tuple[str, ...]:
        """What nobody has seen working, in words; empty where all of it was."""
        runtime = () if self.runtime is None or self.runtime.proven else (self.runtime.source,)
        return runtime if self.host.proven else (*runtime, f"{self.host.image}: {self.host.source}")


def launchable(job: TrainingJob, hardware: Hardware, own_image: str = "") -> Launchable:
    """What the job would be launched with. `own_image` is a machine image of the person's own, which has what the
    hardware needs. Raises BadRequestError where it cannot be, with the reason.
    """
    runtime = runtime_of(job, hardware.architecture, hardware.host, hardware.capability)
    if runtime is None:
        about = (hardware.architecture, hardware.host, hardware.capability)
        name = f"{job.framework} is in no known combination for it"
        raise _cannot(hardware, why_not(*about) or why_not(*about, framework=job.framework) or name)
    host = host_image(hardware)
    if own_image:
        host = own_host(host, own_image)
    if host.kind == "none":
        raise _cannot(hardware, host.reason)
    software = None if job.container or runtime.runtime is None else table().software[runtime.runtime.software]
    images = software.container.references if software else (str(job.container),)
    return Launchable(
        hardware=hardware,
        framework=runtime.framework,
        runtime=runtime.runtime,
        host=host,
        software=software,
        images=images,
    )


def host_image(hardware: Hardware) -> HostImage:
    """The machine's own image; of kind `none` too. Raises BadRequestError where the provider is in no row."""
    for row in table().hosts:
        here = row.provider == hardware.provider and hardware.host in row.hosts
        fits = hardware.architecture in row.architectures and (not row.devices or hardware.device in row.devices)
        if here and fits and (not row.families or hardware.family in row.families):
            return row
    raise _cannot(hardware, f"no image of {hardware.provider} is known for it")


def has_no_image(provider: str, family: str) -> bool:
    """Whether no image of the provider serves this family, though other machines with the same device have one."""
    return (provider, family) in _families_without_image()


@cache
def _families_without_image() -> frozenset[tuple[str, str]]:
    return frozenset((row.provider, family) for row in table().hosts if row.kind == "none" for family in row.families)


@cache
def unproven_host(hardware: Hardware) -> str:
    """Why nobody is known to have run the machine's own image with its driver on this device; "" where somebody has,
    and where no image is known at all."""
    try:
        host = host_image(hardware)
    except BadRequestError:
        return ""
    return "" if host.proven or host.kind == "none" else host.source


def own_host(row: HostImage, image: str) -> HostImage:
    """The person's own image in the place of a row's: what is in it, only they know."""
    return replace(
        row,
        kind="own",
        image=image,
        driver="",
        installs_driver=False,
        docker=False,
        least_disk_gib=max(row.least_disk_gib, OWN_DISK_GIB),
        proven=False,
        reason="",
        source="a user's own image, which this project has not tried",
    )


@cache
def table() -> Table:
    """The rows of machines.toml."""
    import tomllib

    raw = tomllib.loads(_TABLE.read_text(encoding="utf-8"))
    containers = {row["name"]: _container(row) for row in raw["container"]}
    software = {row["name"]: _software_row(row, containers) for row in raw["software"]}
    hosts = tuple(_host(row) for row in raw["host"])
    return Table(float(raw["unproven_cost_factor"]), containers, software, hosts)


def _container(row: dict[str, Any]) -> Container:
    return Container(**{**row, "references": tuple(row["references"]), "digest": row["digest"] or None})


def _software_row(row: dict[str, Any], containers: dict[str, Container]) -> Software:
    values = {"container": containers[row["container"]], "requirements": tuple(row["requirements"])}
    return Software(**{**row, **values})


def _host(row: dict[str, Any]) -> HostImage:
    sets = {name: frozenset(row.get(name, ())) for name in ("architectures", "hosts", "devices", "families")}
    return HostImage(**{**row, **sets})


def _cannot(hardware: Hardware, reason: str) -> BadRequestError:
    where = f"{hardware.device} at {hardware.provider} ({hardware.host} host)"
    return BadRequestError(
        f"{where}: nothing can be launched on it: {reason}",
        hint="choose another offer; docs/what-runs-where.md lists what runs where",
    )
