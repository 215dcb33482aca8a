"""Whether this account would be let in with an offer: what is looked at before anything is created."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from pricing.offers import LifecycleState
from providers.aws.errors import DRY_RUN
from providers.aws.quotas import quota_of
from providers.aws.settling import is_about_the_profile
from providers.aws.translate import OURS
from providers.base import Check, PreflightState
from providers.errors import BadRequestError, CapacityError, CredentialsError, PermissionDeniedError, ProviderError
from providers.launchable import host_image
from providers.rented import hardware

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pricing.offers import Offer
    from providers.aws.account import Account
    from providers.aws.standing import Standing

_REFUSING = (CredentialsError, PermissionDeniedError, CapacityError, BadRequestError)
_MARKED = ("instance", "network-interface", "volume")
"""What a create makes; whoever may make it only with our tag is asked with it."""
_CONSOLE = "https://console.aws.amazon.com/servicequotas/home/services/ec2/quotas"


def checks(at: Standing, offer: Offer) -> Sequence[Check]:
    """Identity, image, network, permission, quota, where it is offered: in parallel, each line by itself."""
    account = at.account
    looks: list[Callable[[], Check]] = [
        lambda: _line("identity", lambda: identity(account)),
        lambda: _line("image", lambda: _image(account, offer)),
        lambda: _line("network", lambda: network(account, offer.region)),
        lambda: _line("offered", lambda: _offered(account, offer)),
        lambda: _line("quota", lambda: quota(account, offer)),
        lambda: _line("permission", lambda: permission(account, offer)),
        lambda: _line("set-up", lambda: standing(at)),
    ]
    with ThreadPoolExecutor(len(looks)) as pool:
        return list(pool.map(lambda look: look(), looks))


def identity(account: Account) -> Check:
    found = account.identity()
    return _ok("identity", f"account {found.account}, {found.arn.rpartition(':')[2]}")


def network(account: Account, region: str) -> Check:
    """The default network of a region."""
    found = account.network(region)
    if not found.subnets:
        fix = f"aws ec2 create-default-subnet --availability-zone ZONE --region {region}"
        return _refused("network", f"the default network of {region} has no subnet", fix)
    return _ok("network", f"{region}: {found.vpc}, {len(found.subnets)} zones")


def standing(at: Standing) -> Check:
    """What `plan setup aws` makes, as far as a launch needs it."""
    account = at.account
    there = account.has_instance_profile()
    name = account.settings.instance_profile
    if there is False:
        return _refused("set-up", f"there is no instance profile {name} for the machines", "plan setup aws")
    if lacks := at.machine_role_lacks():
        return _refused("set-up", lacks, "plan setup aws")
    if account.has_reaper():
        return _ok("set-up", "instance profile and standing reaper are there")
    if account.has_schedule_role() is False:
        return _refused("set-up", "nothing stands ready to end a machine that hangs", "plan setup aws")
    if there is None:
        return _unknown("set-up", f"whether there is an instance profile {name} may not be looked up")
    return _ok("set-up", "instance profile is there; no standing reaper: each machine gets a schedule of its own")


def quota(account: Account, offer: Offer) -> Check:
    """The account's vCPUs for the offer's family and market against what it needs; what runs is not counted."""
    known = quota_of(offer.instance_type, offer.market)
    if known is None or offer.vcpus is None:
        detail = f"which quota {offer.instance_type} counts in on {offer.market.replace('_', ' ')} is not known"
        return _unknown("quota", detail, f"{_CONSOLE}?region={offer.region}")
    value = account.quota(offer.region, known.code)
    detail = f"{known.code} {known.name} in {offer.region}: {value:.0f} vCPUs, {offer.vcpus} needed"
    if value < offer.vcpus:
        return _refused("quota", detail, f"ask for {offer.vcpus} at {known.link(offer.region)}")
    return _ok("quota", detail)


def permission(account: Account, offer: Offer) -> Check:
    """A create that is only tried (DryRun)."""
    subnets = account.network(offer.region).subnets
    zones = account.zones(offer.region, offer.instance_type)
    image = account.image(offer.region, host_image(hardware(offer)).image)
    zone = next((zone for zone in zones if zone in subnets), next(iter(subnets), ""))
    asked = {
        "DryRun": True,
        "ImageId": image.id,
        "InstanceType": offer.instance_type,
        "MinCount": 1,
        "MaxCount": 1,
        "SubnetId": subnets[zone],
        "IamInstanceProfile": {"Name": account.settings.instance_profile},
        "TagSpecifications": [{"ResourceType": kind, "Tags": [{"Key": OURS, "Value": "1"}]} for kind in _MARKED],
    }
    try:
        account.api.call("ec2", offer.region, "RunInstances", asked)
    except ProviderError as error:
        if error.code == DRY_RUN:
            return _ok("permission", f"RunInstances in {offer.region} would be let through")
        if is_about_the_profile(error) and account.has_instance_profile():
            detail = f"EC2 does not know the instance profile {account.settings.instance_profile} yet; a launch waits"
            return _unknown("permission", detail, "look again in two minutes")
        raise
    return _unknown("permission", "AWS did not answer the dry run as one")


def _image(account: Account, offer: Offer) -> Check:
    row = host_image(hardware(offer))
    own = account.settings.image
    if row.kind == "none" and not own:
        fix = "name an image of your own that has a driver for it: [aws] image in settings.toml"
        return _refused("image", row.reason, fix)
    found = account.image(offer.region, row.image)
    return _ok("image", f"{found.id} ({found.how})")


def _offered(account: Account, offer: Offer) -> Check:
    zones = account.zones(offer.region, offer.instance_type)
    if not zones:
        successor = offer.lifecycle.successor
        retired = offer.lifecycle.state is LifecycleState.RETIRED
        why = f"{offer.instance_type} is retired" if retired else f"{offer.region} does not have {offer.instance_type}"
        return _refused("offered", why, f"use {successor}" if successor else "choose another region or machine")
    return _ok("offered", f"{offer.instance_type}: {', '.join(zones)}")


def _line(name: str, look: Callable[[], Check]) -> Check:
    """What cannot be looked up is unknown; what AWS refuses is refused."""
    try:
        return look()
    except ProviderError as error:
        refused = isinstance(error, _REFUSING) and not (
            name in ("quota", "set-up", "image") and isinstance(error, PermissionDeniedError)
        )
        state = PreflightState.REFUSED if refused else PreflightState.UNKNOWN
        return Check(name=name, state=state, detail=error.message, fix=error.hint)


def _ok(name: str, detail: str) -> Check:
    return Check(name=name, state=PreflightState.OK, detail=detail)


def _refused(name: str, detail: str, fix: str) -> Check:
    return Check(name=name, state=PreflightState.REFUSED, detail=detail, fix=fix)


def _unknown(name: str, detail: str, fix: str = "") -> Check:
    return Check(name=name, state=PreflightState.UNKNOWN, detail=detail, fix=fix)
