"""Whether this account would be let in with an offer: what is looked at before anything is created."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainplan.pricing.offers import LifecycleState, Market, Offer
from trainplan.providers.aws.account import NO_IMAGE, UBUNTU, AwsAccount
from trainplan.providers.aws.errors import DRY_RUN, is_about_the_profile
from trainplan.providers.aws.plan import plan_for
from trainplan.providers.aws.quotas import quota_of
from trainplan.providers.aws.request import OURS, Machine, create_security_group, ec2
from trainplan.providers.aws.stop import stop_check
from trainplan.providers.cloud.checks import LIMIT, Limit, Look, check_lines, failed, ok, refused, unknown
from trainplan.providers.cloud.images import host_image
from trainplan.providers.cloud.launch import hardware
from trainplan.providers.errors import (
    BadRequestError,
    CapacityError,
    CredentialsError,
    PermissionDeniedError,
    ProviderError,
)

if TYPE_CHECKING:
    from trainplan.providers.aws.setup_steps import StandingResources
    from trainplan.providers.base import Check, VendorRequest

_REFUSING = (CredentialsError, PermissionDeniedError, CapacityError, BadRequestError)
_CONSOLE = "https://console.aws.amazon.com/servicequotas/home/services/ec2/quotas"


def checks(at: StandingResources, offer: Offer, limit: Limit = LIMIT) -> Sequence[Check]:
    """Identity, image, network, permission, plan, quota, where it is offered: in parallel, each line by itself."""
    account = at.account
    looks: dict[str, Look] = {
        "identity": lambda: identity(account),
        "image": lambda: _image(account, offer),
        "network": lambda: network(account, offer.region),
        "offered": lambda: _offered(account, offer),
        "plan": lambda: plan_for(account, offer),
        "quota": lambda: quota(account, offer),
        "permission": lambda: permission(account, offer),
        "set-up": lambda: standing_check(at),
    }
    return check_lines(looks, _of_error, limit)


def identity(account: AwsAccount) -> Check:
    """Which account and principal is signed in. Raises CredentialsError."""
    caller = account.identity()
    return ok("identity", f"account {caller.account}, {caller.arn.rpartition(':')[2]}")


def network(account: AwsAccount, region: str) -> Check:
    """The default network of a region."""
    network = account.network(region)
    if not network.subnets:
        fix = f"aws ec2 create-default-subnet --availability-zone ZONE --region {region}"
        return refused("network", f"the default network of {region} has no subnet", fix)
    return ok("network", f"{region}: {network.vpc}, {len(network.subnets)} zones")


def standing_check(at: StandingResources) -> Check:
    """What `plan setup aws` makes, as far as a launch needs it."""
    account = at.account
    if stopped := stop_check("set-up", is_stopped=account.once(("stopped",), account.is_stopped)):
        return stopped
    there = account.has_instance_profile()
    name = account.settings.instance_profile
    if there is False:
        return refused("set-up", f"there is no instance profile {name} for the machines", "plan setup aws")
    if lacks := at.machine_role_lacks():
        return refused("set-up", lacks, "plan setup aws")
    if account.has_reaper():
        return ok("set-up", "instance profile and standing reaper are there")
    if account.has_schedule_role() is False:
        return refused("set-up", "no standing reaper would end a machine that hangs", "plan setup aws")
    if there is None:
        return unknown("set-up", f"the sign-in may not check whether the instance profile {name} exists")
    return ok("set-up", "instance profile is there; no standing reaper: each machine gets a schedule of its own")


def quota(account: AwsAccount, offer: Offer) -> Check:
    """The account's vCPUs for the offer's family and market against what it needs; what runs is not counted."""
    row = quota_of(offer.instance_type, offer.market)
    if row is None or offer.vcpus is None:
        detail = f"which quota {offer.instance_type} counts in on {offer.market.replace('_', ' ')} is not known"
        return unknown("quota", detail, f"{_CONSOLE}?region={offer.region}")
    value = account.quota(offer.region, row.code)
    detail = f"{row.code} {row.name} in {offer.region}: {value:.0f} vCPUs, {offer.vcpus} needed"
    if value < offer.vcpus:
        return refused("quota", detail, f"ask for {offer.vcpus} at {row.link(offer.region)}")
    return ok("quota", detail)


def permission(account: AwsAccount, offer: Offer) -> Check:
    """The create of a machine, only tried (DryRun), as a launch would send it but for what names the run."""
    network = account.network(offer.region)
    zones = account.zones(offer.region, offer.instance_type)
    host = host_image(hardware(offer))
    image = account.image(offer.region, host.image)
    zone = next((zone for zone in zones if zone in network.subnets), next(iter(network.subnets), ""))
    machine = Machine(
        instance_type=offer.instance_type,
        spot=offer.market is Market.SPOT,
        subnet=network.subnets[zone],
        security_group=network.security_group,
        image=image.id,
        root_device=image.root_device,
        root_gib=max(image.root_gib, host.least_disk_gib),
        instance_profile=account.settings.instance_profile,
    )
    create = ec2(offer.region, "RunInstances", machine.parameters([{"Key": OURS, "Value": "1"}]))
    try:
        passes = _passes(account, offer.region, create)
    except ProviderError as error:
        if is_about_the_profile(error) and account.has_instance_profile():
            detail = f"EC2 does not know the instance profile {account.settings.instance_profile} yet; a launch waits"
            return unknown("permission", detail, "look again in two minutes")
        if not isinstance(error, PermissionDeniedError) or network.security_group or is_about_the_profile(error):
            raise
        # Without a group EC2 asks for the default one, which a policy that allows ours alone refuses.
        _passes(account, offer.region, create_security_group(offer.region, network.vpc))
        detail = f"RunInstances in {offer.region} can be tried once the first launch has made our security group there"
        return unknown("permission", f"{detail}, which it may")
    if not passes:
        return unknown("permission", "AWS did not answer the dry run as one")
    return ok("permission", f"RunInstances in {offer.region} would be let through")


def _passes(account: AwsAccount, region: str, call: VendorRequest) -> bool:
    """Whether AWS answers the dry run of a call as one that passes. Raises ProviderError for a refusal."""
    try:
        account.api.call("ec2", region, call.operation, {**call.parameters, "DryRun": True})
    except ProviderError as error:
        if error.code == DRY_RUN:
            return True
        raise
    return False


def denial(account: AwsAccount) -> Check:
    """Whether EC2 denies a create before it looks its image up (trainplan.providers.abilities.Prober;
    `AwsAccount.is_closed`).

    Only somebody who may not create every machine can show it: the documented policy denies one without our tags.
    """
    home, name = account.api.home, "denial"
    refusals = {}
    for image in (account.image(home, UBUNTU).id, NO_IMAGE):
        try:
            account.try_create(home, image)
        except ProviderError as error:
            refusals[image] = error
    real, made_up = (refusals.get(image) for image in (account.image(home, UBUNTU).id, NO_IMAGE))
    if not isinstance(real, PermissionDeniedError):
        return unknown(name, "this sign-in may create machines without our tags: nothing is denied to it")
    if isinstance(made_up, PermissionDeniedError):
        return ok(name, f"denied before the image was looked up ({made_up.code})")
    return refused(name, f"the image was looked up first ({made_up.code if made_up else 'no answer'})")


def _image(account: AwsAccount, offer: Offer) -> Check:
    row = host_image(hardware(offer))
    own = account.settings.image
    if row.kind == "none" and not own:
        fix = "name an image of your own that has a driver for it: [aws] image in settings.toml"
        return refused("image", row.reason, fix)
    image = account.image(offer.region, row.image)
    return ok("image", f"{image.id} ({image.how})")


def _offered(account: AwsAccount, offer: Offer) -> Check:
    zones = account.zones(offer.region, offer.instance_type)
    if not zones:
        successor = offer.lifecycle.successor
        retired = offer.lifecycle.state is LifecycleState.RETIRED
        why = f"{offer.instance_type} is retired" if retired else f"{offer.region} does not have {offer.instance_type}"
        return refused("offered", why, f"use {successor}" if successor else "choose another region or machine")
    return ok("offered", f"{offer.instance_type}: {', '.join(zones)}")


def _of_error(name: str, error: ProviderError) -> Check:
    """What cannot be looked up is unknown; what AWS refuses is refused."""
    left_open = name in ("quota", "plan", "set-up", "image") and isinstance(error, PermissionDeniedError)
    return failed(name, error, () if left_open else _REFUSING)
