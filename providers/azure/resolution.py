"""What a launch at Azure looks up before anything is sent: image, identity, and what the machine may be granted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from trainplan.providers.azure.account import NO_TIMER_HERE, SCHEDULER, AzureAccount
from trainplan.providers.azure.names import PROVIDER
from trainplan.providers.cloud.launch import MachineResolution, Rented
from trainplan.providers.cloud.regions import check_region
from trainplan.providers.errors import BadRequestError, CapacityError

if TYPE_CHECKING:
    from trainplan.pricing.offers import Offer
    from trainplan.providers.base import LaunchRequest
    from trainplan.providers.cloud.images import HostImage


_CONTROLLERS, _SCSI = "DiskControllerTypes", "SCSI"
"""The name of a capability of sizes and of a feature of images, and the type that both have where they do not say."""
_NAME_ONE = "name an image of your own: `image` in the table [azure] of the settings"


class TrustedLaunch(StrEnum):
    """VTPM is for drivers that nobody signed for secure boot."""

    NONE = ""
    VTPM = "vtpm"
    SECURE_BOOT = "secure_boot"


class DiskController(StrEnum):
    """DEFAULT leaves the choice to Azure, which takes SCSI."""

    DEFAULT = ""
    NVME = "NVMe"


class Image(NamedTuple):
    """`name` with its version, and how a machine boots from it."""

    name: str
    trusted: TrustedLaunch
    controller: DiskController = DiskController.DEFAULT


def image_for(account: AzureAccount, offer: Offer, host: HostImage) -> Image:
    """The newest version of the host's image, or the person's own image as it is, of which nobody here knows more.

    Raises CapacityError where the region has no such size: another placement of the plan may; BadRequestError where the
    size cannot boot the image.
    """
    size = account.size(offer.region, offer.instance_type)
    if size is None:
        raise CapacityError(
            f"there is no {offer.instance_type} in {offer.region}", hint="choose another region or offer"
        )
    controller = _controller(size.capabilities)
    if host.kind == "own":
        return Image(host.image, TrustedLaunch.NONE, controller)
    name, reply = account.newest_image(offer.region, host.image)
    _check_generation(offer, size.capabilities, name, reply)
    if controller and controller not in _types_in(_features(reply).get(_CONTROLLERS, _SCSI)):
        raise BadRequestError(
            f"{offer.instance_type} has disk controllers of type {controller} alone, which {name} does not boot from",
            hint=_NAME_ONE,
        )
    return Image(name, _trusted(host, reply, size.capabilities), controller)


def _controller(size: Mapping[str, str]) -> DiskController:
    """NVMe where the size has nothing else: a create that names no controller gets SCSI, and is refused.

    The capability is missing where a size has SCSI alone (Microsoft's page "General FAQ for NVMe").
    """
    has_scsi = _SCSI in _types_in(size.get(_CONTROLLERS, _SCSI))
    return DiskController.DEFAULT if has_scsi else DiskController.NVME


def _types_in(types: str) -> set[str]:
    return {one.strip() for one in types.split(",")}


def _features(image: Mapping[str, Any]) -> Mapping[str, str]:
    return {str(one.get("name")): str(one.get("value")) for one in image.get("features") or ()}


def _check_generation(offer: Offer, size: Mapping[str, str], name: str, image: Mapping[str, Any]) -> None:
    """Azure would refuse it at the create, when the group and the network are there."""
    generation, boots = str(image.get("hyperVGeneration", "")), size.get("HyperVGenerations", "")
    if generation and boots and generation not in boots.split(","):
        raise BadRequestError(
            f"{offer.instance_type} boots images of generation {boots}, and {name} is of {generation}", hint=_NAME_ONE
        )


def _trusted(host: HostImage, image: Mapping[str, Any], size: Mapping[str, str]) -> TrustedLaunch:
    """Trusted launch where image and size have it; secure boot only where no driver is loaded that nobody signed."""
    supported = "TrustedLaunch" in _features(image).get("SecurityType", "")
    if not supported or image.get("hyperVGeneration") != "V2" or size.get("TrustedLaunchDisabled") == "True":
        return TrustedLaunch.NONE
    return TrustedLaunch.SECURE_BOOT if "cpu" in host.architectures else TrustedLaunch.VTPM


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureResolution(MachineResolution):
    """`identity` is the path of the machines' identity, `principal` its id in the directory. `machine_role` is the role
    that lets a machine delete its group, "" where nobody here may grant it.
    """

    subscription: str
    identity: str
    principal: str
    machine_role: str
    image: str
    ssh_key: str
    trusted_launch: TrustedLaunch = TrustedLaunch.NONE
    disk_controller: DiskController = DiskController.DEFAULT


def resolve(
    request: LaunchRequest,
    rented: Rented,
    account: AzureAccount,
    *,
    check_right: Callable[[], None],
    public_key: Callable[[], str],
) -> AzureResolution:
    """Look up what a request with its data leaves open; creates nothing. `check_right` raises where machines may not
    write to the container of run directories, `public_key` makes one whose private half nobody has. Raises
    ProviderError.
    """
    machine, region = rented.resolve(request), request.offer.region
    identity = account.identity()
    check_region(region, account.settings.regions, PROVIDER)
    if account.settings.cloud_timer and not account.is_timed(region):
        raise CapacityError(f"{region} has no {SCHEDULER}, which sets the machine's timer", hint=NO_TIMER_HERE)
    check_right()
    image = image_for(account, request.offer, rented.launchable(request).host)
    return AzureResolution(
        image_digest=machine.image_digest,
        run_uri=machine.run_uri,
        run_region=machine.run_region,
        boot_deadline=machine.boot_deadline,
        subscription=account.subscription,
        identity=identity.path,
        principal=identity.principal,
        machine_role=account.role(),
        image=image.name,
        ssh_key=public_key(),
        trusted_launch=image.trusted,
        disk_controller=image.controller,
    )
