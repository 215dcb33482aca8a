"""What ends a machine when nobody else does: its own delete of its group, and Azure's scheduled deallocation. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from trainplan.providers.azure.api import Call
from trainplan.providers.azure.names import (
    API,
    group_of,
    machine_path,
    subscription_path,
    unique,
)
from trainplan.providers.azure.resolution import AzureResolution
from trainplan.providers.cloud.launch import resolution_of

if TYPE_CHECKING:
    from trainplan.providers.base import LaunchRequest


TIMER_GRACE = timedelta(minutes=5)
"""From the machine's own deadline to when Azure deallocates it: its own end comes first, and takes minutes."""


def end_of(request: LaunchRequest) -> dict[str, str]:
    """How the machine ends itself (trainplan.providers.agent.end)."""
    group = group_of(request.run_id, request.attempt)
    return {
        "kind": "azure_group",
        "subscription": resolution_of(request, AzureResolution).subscription,
        "group": group,
        "machine": group,
    }


def timer_of(request: LaunchRequest) -> datetime:
    """When Azure deallocates the machine."""
    return request.deadline + TIMER_GRACE


def timer_call(request: LaunchRequest) -> Call:
    """Azure deallocates the machine, whatever is in it: from then on its disk and its address bill, and no more."""
    subscription, group = (
        resolution_of(request, AzureResolution).subscription,
        group_of(request.run_id, request.attempt),
    )
    at = timer_of(request).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {
        "schedule": {"deadLine": at, "timeZone": "UTC", "deadlineType": "InitiateAt"},
        "executionParameters": {"retryPolicy": {"retryCount": 5, "retryWindowInMinutes": 60}},
        "resources": {"ids": [machine_path(subscription, group)]},
        "correlationid": unique(subscription.lower(), group, "timer"),
    }
    where = f"{subscription_path(subscription)}/providers/Microsoft.ComputeSchedule/locations/{request.offer.region}"
    return Call(method="POST", path=f"{where}/virtualMachinesSubmitDeallocate", api=API["schedule"], body=body)
