"""Which image a machine boots from, and how far it can be trusted to be that. Nothing is created."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from providers.azure.bodies import NVME, SECURE
from providers.errors import BadRequestError, CapacityError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pricing.offers import Offer
    from providers.azure.account import Account
    from providers.launchable import HostImage

_CONTROLLERS, _SCSI = "DiskControllerTypes", "SCSI"
"""The name of a capability of sizes and of a feature of images, and the type that both have where they do not say."""
_NAME_ONE = "name an image of your own: `image` in the table [azure] of the settings"


class Image(NamedTuple):
    """`name` with its version, and the values of bodies.TRUSTED and of bodies.CONTROLLER."""

    name: str
    trusted: str
    controller: str = ""


def image_for(account: Account, offer: Offer, host: HostImage) -> Image:
    """The newest version of the host's image, or the person's own image as it is, of which nobody here knows more.

    Raises CapacityError where the region has no such size: another place of the plan may; BadRequestError where the
    size cannot boot the image.
    """
    size = account.size(offer.region, offer.instance_type)
    if size is None:
        raise CapacityError(
            f"there is no {offer.instance_type} in {offer.region}", hint="choose another region or offer"
        )
    controller = _controller(size.capabilities)
    if host.kind == "own":
        return Image(host.image, "", controller)
    name, told = account.newest_image(offer.region, host.image)
    _check_generation(offer, size.capabilities, name, told)
    if controller and controller not in _listed(_features(told).get(_CONTROLLERS, _SCSI)):
        raise BadRequestError(
            f"{offer.instance_type} has disk controllers of type {controller} alone, which {name} does not boot from",
            hint=_NAME_ONE,
        )
    return Image(name, _trusted(host, told, size.capabilities), controller)


def _controller(size: Mapping[str, str]) -> str:
    """NVMe where the size has nothing else: a create that names no controller gets SCSI, and is refused.

    The capability is missing where a size has SCSI alone (Microsoft's page "General FAQ for NVMe").
    """
    return "" if _SCSI in _listed(size.get(_CONTROLLERS, _SCSI)) else NVME


def _listed(types: str) -> set[str]:
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


def _trusted(host: HostImage, image: Mapping[str, Any], size: Mapping[str, str]) -> str:
    """Trusted launch where image and size have it; secure boot only where no driver is loaded that nobody signed."""
    supported = "TrustedLaunch" in _features(image).get("SecurityType", "")
    if not supported or image.get("hyperVGeneration") != "V2" or size.get("TrustedLaunchDisabled") == "True":
        return ""
    return "vtpm" if "cpu" not in host.architectures else SECURE
