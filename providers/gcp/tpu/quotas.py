"""The Cloud TPU API's own quotas, a pool apart from Compute Engine's: what of them an offer needs. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pricing.offers import Market
from providers.base import Check, PreflightState
from providers.gcp.tpu.create import accelerator_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pricing.offers import Offer

_PAGE = "https://console.cloud.google.com/iam-admin/quotas?service=tpu.googleapis.com&project="
# How the names of quotas call a generation: written in several ways, none of them documented.
_NAMES = {
    "v2": re.compile(r"v2(?!\d)"),
    "v3": re.compile(r"v3(?!\d)"),
    "v4": re.compile(r"v4(?!\d)"),
    "v5litepod": re.compile(r"v5[ _-]?(e(?![a-z])|lite)"),
}
_SPOT = re.compile(r"preempt|spot")
_UNLIMITED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """`count` is what the quotas count: the number in the accelerator type (cores to v4, chips from v5e on)."""

    generation: str
    count: int
    spot: bool
    region: str
    zones: tuple[str, ...]

    @classmethod
    def of(cls, offer: Offer) -> Needed:
        generation, _, count = accelerator_type(offer).rpartition("-")
        spot = offer.market is Market.SPOT
        return cls(generation=generation, count=int(count), spot=spot, region=offer.region, zones=offer.zones)


def standing(metrics: Sequence[Mapping[str, Any]], needed: Needed, project: str) -> Check:
    """Whether the quotas let it in, by the largest that may be meant; UNKNOWN where none is."""
    fitting = [(name, limit) for metric in metrics for name, limit in _limits(metric, needed)]
    page = f"{_PAGE}{project}"
    market = "spot" if needed.spot else "on demand"
    if not fitting:
        detail = f"no quota of the Cloud TPU API is shown for {needed.generation}, {market}"
        return Check(name="quota", state=PreflightState.UNKNOWN, detail=detail, fix=page)
    name, limit = max(fitting, key=lambda row: float("inf") if row[1] == _UNLIMITED else row[1])
    if limit == _UNLIMITED or limit >= needed.count:
        shown = "no limit" if limit == _UNLIMITED else f"at most {limit}"
        return Check(name="quota", state=PreflightState.OK, detail=f"{name}: {shown}, {needed.count} are needed")
    detail = f"{name}: at most {limit} in {needed.region}, {needed.count} are needed"
    fix = f"ask for at least {needed.count} {name}: {page}"
    return Check(name="quota", state=PreflightState.REFUSED, detail=detail, fix=fix)


def _limits(metric: Mapping[str, Any], needed: Needed) -> Iterator[tuple[str, int]]:
    """Name and limit of each bucket that counts where the offer is."""
    name = str(metric.get("displayName") or metric.get("metric", ""))
    words = f"{name} {metric.get('metric', '')}".lower()
    if not _NAMES[needed.generation].search(words) or bool(_SPOT.search(words)) is not needed.spot:
        return
    for limit in metric.get("consumerQuotaLimits", ()):
        for bucket in limit.get("quotaBuckets", ()):
            where = bucket.get("dimensions") or {}
            here = where.get("zone") in (None, *needed.zones) and where.get("region") in (None, needed.region)
            if here and bucket.get("effectiveLimit") is not None:
                yield name, int(bucket["effectiveLimit"])
