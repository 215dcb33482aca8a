"""What the subscription is and may do, looked up once: state, set-up, permissions, sizes, quotas, images."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from trainplan.providers.azure.api import Arm, Call, Reply
from trainplan.providers.azure.errors import refusal
from trainplan.providers.azure.names import API, identity_path, machine_role, role_path, subscription_path
from trainplan.providers.cloud.answers import Answers
from trainplan.providers.errors import (
    BadRequestError,
    InstanceNotFoundError,
    ProviderError,
)

if TYPE_CHECKING:
    from trainplan.providers.azure.settings import AzureSettings

GRANTS = "Microsoft.Authorization/roleAssignments/write"
SET_UP = "plan setup azure"
SCHEDULER = "Microsoft.ComputeSchedule"
UPGRADE = "https://portal.azure.com/#view/Microsoft_Azure_Billing/SubscriptionsBlade, Upgrade"
NO_TIMER_HERE = 'choose another region, or set `cloud_timer = "none"` in the table [azure] of the settings'


class Identity(NamedTuple):
    """The managed identity of the machines: the resource's path, and its id in the directory."""

    path: str
    principal: str


class Quota(NamedTuple):
    """Cores of a family, or of all: `name` as Azure calls it for people."""

    name: str
    limit: int
    used: int

    @property
    def free(self) -> int:
        """How many vCPUs may still be used."""
        return self.limit - self.used


class Size(NamedTuple):
    """A size at a placement: `refusal` says in Azure's words why the subscription does not get it, "" where it does."""

    family: str
    zones: tuple[str, ...]
    refusal: str
    capabilities: Mapping[str, str]


class Credit(NamedTuple):
    """A kind of subscription that lives on a credit: its name, and whether its quotas are not raised."""

    name: str
    is_fixed: bool


CREDITS = {
    "FreeTrial": Credit("a free trial", True),
    "LightweightTrial": Credit("a trial", True),
    "AzureForStudents": Credit("Azure for Students", True),
    "DreamSpark": Credit("Azure for Students Starter", True),
    "AzurePass": Credit("an Azure Pass", False),
    "MSDN": Credit("a Visual Studio subscription", False),
}
"""By how `quotaId` begins (https://learn.microsoft.com/azure/cost-management-billing/costs/understand-cost-mgt-data).
Quotas: "Free Trial subscriptions aren't eligible for limit or quota increases" (Microsoft's page on limits); for
students users report it (MicrosoftLearning/AZ-103-MicrosoftAzureAdministrator issue 93)."""
NO_SPOT = "is not on Microsoft's list of subscriptions with spot (enterprise, pay-as-you-go, sponsored, CSP)"
"""https://learn.microsoft.com/azure/virtual-machines/spot-vms#limitations. A create is the only proof: users of Azure
for Students were refused in 2020 (MicrosoftDocs/azure-docs issue 55435), and one was let in on 2026-08-28."""


class AzureAccount(Answers):
    """Asks Azure on behalf of one provider object."""

    def __init__(self, settings: AzureSettings, arm: Arm) -> None:
        super().__init__()
        self.settings = settings
        self.arm = arm

    def ask(self, call: Call, what: str = "") -> Reply:
        """Send one call once. Raises ProviderError for a reply that is an error."""
        reply = self.arm.send(call)
        if reply.status >= 400:
            raise refusal(reply.status, reply.body, what or call.name)
        return reply

    def get(self, path: str, api: str, **query: str) -> Mapping[str, Any]:
        """Return one document. Raises ProviderError; InstanceNotFoundError where there is none."""
        body = self.ask(Call(method="GET", path=path, api=API[api], query=query)).body
        return body if isinstance(body, Mapping) else {}

    def pages(self, path: str, api: str, **query: str) -> Iterator[Mapping[str, Any]]:
        """Every item of every page of a list. Raises ProviderError."""
        call: Call | None = Call(method="GET", path=path, api=API[api], query=query)
        while call is not None:
            body = self.ask(call).body or {}
            yield from body.get("value", ())
            more = body.get("nextLink")
            call = Call(method="GET", path=more) if more else None

    @property
    def subscription(self) -> str:
        """The id of the subscription: the one that is named, else the only one there is.

        Raises BadRequestError where there are several, PermissionDeniedError where there is none.
        """
        return self.settings.subscription or self.once("the subscription", self._only_subscription)

    @property
    def home(self) -> str:
        """The subscription's path, below which every resource is."""
        return subscription_path(self.subscription)

    def state(self) -> str:
        """`Enabled`, or what else the subscription is."""
        return str(self._described().get("state", "unknown"))

    def quota_id(self) -> str:
        """The kind of the subscription as Azure writes it: `PayAsYouGo_2014-09-01`; "" where it does not tell."""
        return str((self._described().get("subscriptionPolicies") or {}).get("quotaId") or "")

    def credit(self) -> Credit | None:
        """What the subscription is where it lives on a credit, None for all others."""
        return CREDITS.get(self.quota_id().partition("_")[0])

    def ends_with_credit(self) -> bool:
        """Whether Azure stops what runs when the credit is used up (`spendingLimit`)."""
        return (self._described().get("subscriptionPolicies") or {}).get("spendingLimit") == "On"

    def no_spot(self) -> str:
        """Why the subscription may not get spot, "" where nothing speaks against it, or Azure does not answer."""
        try:
            credit = self.credit()
        except ProviderError:
            return ""
        return f"{credit.name} {NO_SPOT}" if credit else ""

    def raising(self, fix: str) -> str:
        """How a quota is raised: as `fix` says, if the kind of the subscription lets it."""
        try:
            credit = self.credit()
        except ProviderError:
            return fix
        if credit is None or not credit.is_fixed:
            return fix
        return f"the quotas of {credit.name} are not raised: make it pay-as-you-go first ({UPGRADE}), then {fix}"

    def _described(self) -> Mapping[str, Any]:
        return self.once("the subscription's description", lambda: self.get(self.home, "subscriptions"))

    def registration(self, namespace: str) -> str:
        """Whether the subscription may use a resource provider: `Registered`, `Registering` (it may in the regions that
        are done already) or `NotRegistered`, as Azure writes it."""
        return str(self._namespace(namespace).get("registrationState", ""))

    def is_timed(self, region: str) -> bool:
        """Whether ComputeSchedule is offered in a region: in one that any of its resource types lists, or where it
        lists none (then nobody knows)."""
        regions = set(self.regions_of(SCHEDULER))
        return not regions or region in regions

    def regions_of(self, namespace: str, kind: str = "") -> Sequence[str]:
        """The regions that have a type of a resource provider, or any of its types, in alphabetical order."""
        kinds = self._namespace(namespace).get("resourceTypes") or ()
        items = [row for row in kinds if not kind or str(row.get("resourceType", "")).lower() == kind.lower()]
        regions = {_region(str(region)) for row in items for region in row.get("locations") or ()}
        return sorted(regions - {"global"})

    def _namespace(self, namespace: str) -> Mapping[str, Any]:
        return self.once(f"provider {namespace}", lambda: self.get(f"{self.home}/providers/{namespace}", "resources"))

    def may(self, action: str) -> bool:
        """Whether the sign-in may do this anywhere in the subscription (`Microsoft.Compute/virtualMachines/write`)."""
        return bool(self._giving(action))

    def is_narrowed(self, action: str) -> bool:
        """Whether the sign-in may do this under a condition alone."""
        return all(granted.get("condition") for granted in self._giving(action))

    def _giving(self, action: str) -> list[Mapping[str, Any]]:
        return [
            granted
            for granted in self.once("permissions", self._permissions)
            if _matches(action, granted.get("actions", ())) and not _matches(action, granted.get("notActions", ()))
        ]

    def identity(self) -> Identity:
        """Return the managed identity of the machines. Raises BadRequestError where set-up has not created it."""
        return self.once("identity", self._identity)

    def role(self) -> str:
        """The id of the role by which a machine may delete its group; "" where it cannot be given.

        It cannot where set-up has not defined it, or where the sign-in may not assign roles (Contributor may not).
        """
        return self.once("role", self._role)

    def size(self, region: str, name: str) -> Size | None:
        """The size at the placement, None where Azure does not have it there."""
        return self.once(f"sizes in {region}", lambda: self._sizes(region)).get(name.lower())

    def quotas(self, region: str) -> Mapping[str, Quota]:
        """Return the quotas by Azure's own name of each, in lower case."""
        return self.once(f"quotas in {region}", lambda: self._quotas(region))

    def newest_image(self, region: str, urn: str) -> tuple[str, Mapping[str, Any]]:
        """`publisher:offer:sku:VERSION` of the newest version there, and what Azure says of that version."""
        return self.once(f"image {urn} in {region}", lambda: self._newest_image(region, urn))

    def _only_subscription(self) -> str:
        documents = [row for row in self.pages("/subscriptions", "subscriptions") if row.get("state") == "Enabled"]
        if len(documents) == 1:
            return str(documents[0]["subscriptionId"])
        names = ", ".join(f"{row.get('displayName')} ({row['subscriptionId']})" for row in documents)
        text = (
            f"the sign-in has {len(documents)} subscriptions: {names}"
            if documents
            else "the sign-in has no subscription"
        )
        raise BadRequestError(text, hint="set `subscription` in the table [azure] of the settings")

    def _permissions(self) -> Sequence[Mapping[str, Any]]:
        path = f"{self.home}/providers/Microsoft.Authorization/permissions"
        return list(self.pages(path, "authorization"))

    def _identity(self) -> Identity:
        path = identity_path(self.subscription, self.settings.group)
        try:
            entries = self.get(path, "identity")
        except InstanceNotFoundError as error:
            raise BadRequestError(
                f"the machines' identity is not there: {path}", hint=f"{SET_UP} makes what launches need"
            ) from error
        return Identity(path=path, principal=str(entries["properties"]["principalId"]))

    def _role(self) -> str:
        if not self.may(GRANTS):
            return ""
        role = machine_role(self.subscription)
        try:
            self.get(role_path(self.subscription, role), "authorization")
        except InstanceNotFoundError:
            return ""
        return role

    def _sizes(self, region: str) -> Mapping[str, Size]:
        rows = self.pages(
            f"{self.home}/providers/Microsoft.Compute/skus", "skus", **{"$filter": f"location eq '{region}'"}
        )
        return {str(row["name"]).lower(): _size(row) for row in rows if row.get("resourceType") == "virtualMachines"}

    def _quotas(self, region: str) -> Mapping[str, Quota]:
        rows = self.pages(f"{self.home}/providers/Microsoft.Compute/locations/{region}/usages", "compute")
        return {
            str(row["name"]["value"]).lower(): Quota(
                name=str(row["name"].get("localizedValue") or row["name"]["value"]),
                limit=int(row["limit"]),
                used=int(row["currentValue"]),
            )
            for row in rows
        }

    def _newest_image(self, region: str, urn: str) -> tuple[str, Mapping[str, Any]]:
        publisher, offer, sku, _ = urn.split(":")
        path = (
            f"{self.home}/providers/Microsoft.Compute/locations/{region}/publishers/{publisher}"
            f"/artifacttypes/vmimage/offers/{offer}/skus/{sku}/versions"
        )
        call = Call(method="GET", path=path, api=API["compute"], query={"$top": "1", "$orderby": "name desc"})
        try:
            reply = self.ask(call, urn)
        except InstanceNotFoundError as error:
            raise BadRequestError(f"{region} has no image {urn}", hint="choose another region") from error
        if not isinstance(reply.body, list) or not reply.body:
            raise BadRequestError(f"{region} has no image {urn}", hint="choose another region")
        version = str(reply.body[0]["name"])
        reply_body = self.get(f"{path}/{version}", "compute")
        return f"{publisher}:{offer}:{sku}:{version}", reply_body.get("properties", {})


def _size(row: Mapping[str, Any]) -> Size:
    limits = row.get("restrictions") or ()
    reasons = [str(limit.get("reasonCode")) for limit in limits if limit.get("type") == "Location"]
    closed = {
        zone
        for limit in limits
        if limit.get("type") == "Zone"
        for zone in (limit.get("restrictionInfo") or {}).get("zones", ())
    }
    zones = {zone for region in row.get("locationInfo") or () for zone in region.get("zones") or ()}
    return Size(
        family=str(row.get("family", "")),
        zones=tuple(sorted(zones - closed)),
        refusal=reasons[0] if reasons else "",
        capabilities={str(item["name"]): str(item["value"]) for item in row.get("capabilities") or ()},
    )


def _region(name: str) -> str:
    """`East US`, as lists of resource types have it, by the name that paths have: `eastus`."""
    return name.replace(" ", "").lower()


def _matches(action: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(action.lower(), pattern.lower()) for pattern in patterns)
