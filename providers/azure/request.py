"""The calls of one launch at Azure: a group, its network, the machine's right to end itself, the machine. Pure."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainplan.pricing.offers import Market
from trainplan.providers.azure.api import Call
from trainplan.providers.azure.names import (
    API,
    NIC_API,
    group_of,
    group_path,
    machine_path,
    role_path,
    unique,
)
from trainplan.providers.azure.reply import DISK, tags_of
from trainplan.providers.azure.resolution import AzureResolution, DiskController, TrustedLaunch
from trainplan.providers.cloud.launch import resolution_of
from trainplan.providers.errors import BadRequestError

if TYPE_CHECKING:
    from trainplan.providers.base import LaunchRequest
from trainplan.providers.azure.deadline import timer_call

_USER = "trainplan"
_ADDRESSES, _SUBNET = "10.0.0.0/24", "default"
_LEAST_DISK_GIB = 64
_MOST_CUSTOM_DATA = 64 * 1024
_MOST_PRICE_PLACES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSetup:
    """What a machine is made of beside the request: its start-up text, and the least disk of its image in GiB."""

    user_data: str
    least_disk_gib: int


def launch_calls(request: LaunchRequest, machine: MachineSetup, *, cloud_timer: bool) -> tuple[Call, ...]:
    """Every call after the puts. Raises BadRequestError for a request that was not resolved."""
    calls = [_group(request, machine), _security_group(request), _network(request)]
    # plan setup defines this role. Without it the machine cannot get the permission to delete its own group.
    if resolution_of(request, AzureResolution).machine_role:
        calls.append(_right(request))
    calls.append(_machine(request, machine))
    if cloud_timer:  # last: it names the machine, which has to be allocated first (providers/azure/launch.py)
        calls.append(timer_call(request))
    return tuple(calls)


def disk_gib(request: LaunchRequest, least_gib: int) -> int:
    """The size of the disk in GiB: room for image, software and checkpoints, and for the data packed and unpacked."""
    data_gib = sum(file.size_bytes for file in request.data) / 2**30
    return max(least_gib, _LEAST_DISK_GIB + math.ceil(3 * data_gib))


def _group(request: LaunchRequest, machine: MachineSetup) -> Call:
    # The price of the disk is computed from this tag, since lists of resources have no disk sizes.
    tags = {**tags_of(request), DISK: str(disk_gib(request, machine.least_disk_gib))}
    body = {"location": request.offer.region, "tags": tags}
    return Call(method="PUT", path=_home(request), api=API["resources"], body=body)


def _security_group(request: LaunchRequest) -> Call:
    """A security group that denies all inbound traffic. Azure's default rules would allow what is in the same
    network."""
    deny = {
        "name": "nothing-in",
        "properties": {
            "priority": 100,
            "direction": "Inbound",
            "access": "Deny",
            "protocol": "*",
            "sourceAddressPrefix": "*",
            "sourcePortRange": "*",
            "destinationAddressPrefix": "*",
            "destinationPortRange": "*",
        },
    }
    return _placed(request, "networkSecurityGroups", {"securityRules": [deny]})


def _network(request: LaunchRequest) -> Call:
    subnet = {
        "name": _SUBNET,
        "properties": {
            "addressPrefix": _ADDRESSES,
            "networkSecurityGroup": {"id": _id(request, "networkSecurityGroups")},
        },
    }
    return _placed(request, "virtualNetworks", {"addressSpace": {"addressPrefixes": [_ADDRESSES]}, "subnets": [subnet]})


def _right(request: LaunchRequest) -> Call:
    """The machine's identity may delete this group, and nothing else."""
    resolution = resolution_of(request, AzureResolution)
    subscription = resolution.subscription
    # The name depends on run and attempt alone, so that a repeated PUT makes no second role assignment.
    name = unique(subscription.lower(), group_of(request.run_id, request.attempt))
    body = {
        "properties": {
            "roleDefinitionId": role_path(subscription, resolution.machine_role),
            "principalId": resolution.principal,
            "principalType": "ServicePrincipal",
            "description": f"run {request.run_id}, attempt {request.attempt}: the machine ends itself",
        }
    }
    path = f"{_home(request)}/providers/Microsoft.Authorization/roleAssignments/{name}"
    return Call(method="PUT", path=path, api=API["authorization"], body=body)


def _machine(request: LaunchRequest, machine: MachineSetup) -> Call:
    offer = request.offer
    properties: dict[str, Any] = {
        "hardwareProfile": {"vmSize": offer.instance_type},
        **_market(request),
        "storageProfile": _storage(request, machine),
        "osProfile": _system(request, machine),
        "networkProfile": _interface(request),
        # Boot diagnostics keep the console output, for a machine that never writes to its run directory.
        "diagnosticsProfile": {"bootDiagnostics": {"enabled": True}},
        **_security(request),
    }
    body: dict[str, Any] = {
        "location": offer.region,
        "tags": tags_of(request),
        "identity": {
            "type": "UserAssigned",
            "userAssignedIdentities": {resolution_of(request, AzureResolution).identity: {}},
        },
        "properties": properties,
    }
    if request.zone:
        body["zones"] = [request.zone]
    path = machine_path(resolution_of(request, AzureResolution).subscription, group_of(request.run_id, request.attempt))
    return Call(method="PUT", path=path, api=API["compute"], body=body)


def _market(request: LaunchRequest) -> Mapping[str, Any]:
    """The market and, for spot, the highest hourly price: the on-demand price where the offer has one, else no
    limit."""
    offer = request.offer
    if offer.market is not Market.SPOT:
        return {"priority": "Regular"}
    most = -1.0  # no limit (assumed)
    if offer.on_demand_usd_per_hour is not None:
        most = round(float(max(offer.on_demand_usd_per_hour, offer.usd_per_hour)), _MOST_PRICE_PLACES)
    return {"priority": "Spot", "evictionPolicy": "Delete", "billingProfile": {"maxPrice": most}}


def _storage(request: LaunchRequest, machine: MachineSetup) -> Mapping[str, Any]:
    resolution = resolution_of(request, AzureResolution)
    # A create that names a controller which the size lacks is refused (assumed, docs/maintainers/fidelity.md).
    is_named = resolution.disk_controller is not DiskController.DEFAULT
    return {
        **({"diskControllerType": str(resolution.disk_controller)} if is_named else {}),
        "imageReference": _image(resolution.image),
        "osDisk": {
            "createOption": "FromImage",
            "deleteOption": "Delete",  # else the disk would stay and bill after its machine
            "diskSizeGB": disk_gib(request, machine.least_disk_gib),
            "managedDisk": {"storageAccountType": "StandardSSD_LRS"},
        },
    }


def _image(image: str) -> Mapping[str, str]:
    if image.startswith("/"):
        return {"id": image}
    publisher, offer, sku, version = image.split(":")
    return {"publisher": publisher, "offer": offer, "sku": sku, "version": version}


def _system(request: LaunchRequest, machine: MachineSetup) -> Mapping[str, Any]:
    """User, key and start-up text. Azure requires an SSH key if there is no password; nobody has its private half."""
    data = machine.user_data.encode()
    if len(data) > _MOST_CUSTOM_DATA:
        raise BadRequestError(f"the start-up text has {len(data)} bytes; Azure takes {_MOST_CUSTOM_DATA}")
    key = {"path": f"/home/{_USER}/.ssh/authorized_keys", "keyData": resolution_of(request, AzureResolution).ssh_key}
    return {
        "computerName": group_of(request.run_id, request.attempt)[:64],
        "adminUsername": _USER,
        "customData": base64.b64encode(data).decode(),
        "linuxConfiguration": {"disablePasswordAuthentication": True, "ssh": {"publicKeys": [key]}},
    }


def _interface(request: LaunchRequest) -> Mapping[str, Any]:
    """The interface and the address, which Azure creates and deletes with the machine. Since 2026-03-31 a machine
    reaches the internet only through an address of its own or a NAT gateway.

    Each has the tags itself, since Cost Management tells costs by a resource's own; the disk takes those of its machine
    (https://github.com/hashicorp/terraform-provider-azurerm/issues/8162)."""
    tags = tags_of(request)
    address = {
        "name": "address",
        "tags": tags,
        "sku": {"name": "Standard"},
        "properties": {"deleteOption": "Delete", "publicIPAllocationMethod": "Static"},
    }
    ip = {
        "name": "ip",
        "properties": {
            "primary": True,
            "subnet": {"id": f"{_id(request, 'virtualNetworks')}/subnets/{_SUBNET}"},
            "publicIPAddressConfiguration": address,
        },
    }
    interface = {
        "name": "interface",
        "tags": tags,
        "properties": {
            "primary": True,
            "deleteOption": "Delete",
            "networkSecurityGroup": {"id": _id(request, "networkSecurityGroups")},
            "ipConfigurations": [ip],
        },
    }
    return {"networkApiVersion": NIC_API, "networkInterfaceConfigurations": [interface]}


def _security(request: LaunchRequest) -> Mapping[str, Any]:
    trusted = resolution_of(request, AzureResolution).trusted_launch
    if trusted is TrustedLaunch.NONE:
        return {}
    settings = {"secureBootEnabled": trusted is TrustedLaunch.SECURE_BOOT, "vTpmEnabled": True}
    return {"securityProfile": {"securityType": "TrustedLaunch", "uefiSettings": settings}}


def _placed(request: LaunchRequest, kind: str, properties: Mapping[str, Any]) -> Call:
    body = {"location": request.offer.region, "tags": tags_of(request), "properties": dict(properties)}
    return Call(method="PUT", path=_id(request, kind), api=API["network"], body=body)


def _id(request: LaunchRequest, kind: str) -> str:
    return f"{_home(request)}/providers/Microsoft.Network/{kind}/{_KINDS[kind]}"


def _home(request: LaunchRequest) -> str:
    return group_path(resolution_of(request, AzureResolution).subscription, group_of(request.run_id, request.attempt))


_KINDS = {"networkSecurityGroups": "nothing-in", "virtualNetworks": "network"}
