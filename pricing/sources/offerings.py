"""Where Google and Azure really have a machine type: their own offerings, asked with an account's token."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import date
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlencode

from trainplan.pricing.sources.reading import Offered, SourceError, inside, is_name, items, json_object

if TYPE_CHECKING:
    from trainplan.pricing.sources.http import Http
    from trainplan.pricing.tables import InstanceType

# A list whose pages lead in a circle has to end.
MOST_PAGES = 500
_ATTACHED = {
    "T4": "nvidia-tesla-t4",
    "P4": "nvidia-tesla-p4",
    "V100": "nvidia-tesla-v100",
    "P100": "nvidia-tesla-p100",
}


class BearerToken(NamedTuple):
    """A bearer token, and the project (Google) or subscription (Azure) it is for."""

    token: str
    scope: str


class Endpoints(NamedTuple):
    """Where the vendors' lists of offerings are read."""

    google: str = "https://compute.googleapis.com"
    azure: str = "https://management.azure.com"


def read_google(
    http: Http, endpoints: Endpoints, account: BearerToken, types: Iterable[InstanceType], on: date
) -> Offered:  # fmt: skip
    """Machine types, and accelerators that are attached to them, in all zones. TPUs are not in it.

    Raises SourceError.
    """
    machines, devices = (
        _google_zones(http, f"{endpoints.google}/compute/v1/projects/{quote(account.scope)}/aggregated/{kind}", account)
        for kind in ("machineTypes", "acceleratorTypes")
    )
    regions = frozenset(zone.rpartition("-")[0] for zones in machines.values() for zone in zones)
    entries: dict[tuple[str, str], tuple[str, ...]] = {}
    for kind in types:
        host, plus, _ = kind.name.partition("+")
        zones = machines.get(host, frozenset())
        if plus:
            zones &= devices.get(_ATTACHED.get(kind.device, ""), frozenset())
        for zone in sorted(zones):
            key = (zone.rpartition("-")[0], kind.name)
            entries[key] = (*entries.get(key, ()), zone)
    return Offered(regions, entries, on)


def read_azure(http: Http, endpoints: Endpoints, account: BearerToken, regions: Collection[str], on: date) -> Offered:
    """Machine sizes of each region that this subscription may use there. Raises SourceError."""
    entries: dict[tuple[str, str], tuple[str, ...]] = {}
    for region in sorted(regions):
        request = {"api-version": "2021-07-01", "$filter": f"location eq '{region}'"}
        url = (
            f"{endpoints.azure}/subscriptions/{quote(account.scope)}/providers/Microsoft.Compute/skus?"
            f"{urlencode(request, quote_via=quote)}"
        )
        for _ in range(MOST_PAGES):
            page = json_object(http.get(url, _bearer(account)), "Azure's list of sizes")
            entries |= {(region, name): zones for name, zones in parse_azure(page, region).items()}
            following = page.get("nextLink")
            # The account's token goes with each request: no link of a reply may take it to another server.
            if not isinstance(following, str) or not following.startswith(endpoints.azure):
                break
            url = following
    return Offered(frozenset(regions), entries, on)


def parse_google(page: Mapping[str, object]) -> dict[str, frozenset[str]]:
    """Zones by name, of an aggregated list of machine types or accelerator types."""
    zones: dict[str, set[str]] = {}
    scopes = page.get("items")
    for scope, listing in scopes.items() if isinstance(scopes, dict) else ():
        zone = scope.removeprefix("zones/")
        for entry in items(inside(listing, "machineTypes")) + items(inside(listing, "acceleratorTypes")):
            retired = inside(entry, "deprecated", "state") in ("OBSOLETE", "DELETED")
            if is_name(entry.get("name")) and is_name(zone) and not retired:
                zones.setdefault(entry["name"], set()).add(zone)
    return {name: frozenset(names) for name, names in zones.items()}


def parse_azure(page: Mapping[str, object], region: str) -> dict[str, tuple[str, ...]]:
    """Zones by size, of those that nothing restricts in the whole region; `()`: the region has no zones."""
    entries: dict[str, tuple[str, ...]] = {}
    for entry in items(page.get("value")):
        name = entry.get("name")
        if entry.get("resourceType") != "virtualMachines" or not is_name(name) or _restricted(entry):
            continue
        info = next((one for one in items(entry.get("locationInfo")) if _same(one.get("location"), region)), None)
        zones = inside(info, "zones")
        zone_list = zones if isinstance(zones, list) else []
        if info is not None:
            entries[str(name)] = tuple(sorted(f"{region}-{zone}" for zone in zone_list if is_name(zone)))
    return entries


def _google_zones(http: Http, url: str, account: BearerToken) -> dict[str, frozenset[str]]:
    fields = "items/*/machineTypes(name,deprecated),items/*/acceleratorTypes(name,deprecated),nextPageToken"
    entries: dict[str, frozenset[str]] = {}
    token = ""
    for _ in range(MOST_PAGES):
        request = {"maxResults": "500", "fields": fields} | ({"pageToken": token} if token else {})
        page = json_object(http.get(f"{url}?{urlencode(request)}", _bearer(account)), "Google's list of machine types")
        for name, zones in parse_google(page).items():
            entries[name] = entries.get(name, frozenset()) | zones
        following = page.get("nextPageToken")
        if not isinstance(following, str) or not following:
            return entries
        token = following
    raise SourceError("Google's list of machine types has no end")


def _restricted(entry: Mapping[str, object]) -> bool:
    return any(one.get("type") == "Location" for one in items(entry.get("restrictions")))


def _same(location: object, region: str) -> bool:
    return isinstance(location, str) and location.lower() == region.lower()


def _bearer(account: BearerToken) -> dict[str, str]:
    return {"Authorization": f"Bearer {account.token}"}
