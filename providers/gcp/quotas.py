"""Quotas that Service Usage alone shows: those of the Cloud TPU API, and Compute Engine's by family of accelerator.

How they are called is documented for few of them, and in several ways: they are known by their words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainplan.pricing.offers import Market, Offer
from trainplan.providers.cloud.checks import ok, refused, unknown
from trainplan.providers.errors import ProviderError

if TYPE_CHECKING:
    from trainplan.providers.base import Check
    from trainplan.providers.gcp.account import GcpAccount

_PAGE = "https://console.cloud.google.com/iam-admin/quotas"
_ROWS = "500"
_API = {
    "v2": re.compile(r"v2(?!\d)"),
    "v3": re.compile(r"v3(?!\d)"),
    "v4": re.compile(r"v4(?!\d)"),
    "v5litepod": re.compile(r"v5[ _-]?(e(?![a-z])|lite)"),
}
"""Generations of the Cloud TPU API."""
_FAMILIES = {
    "TPU v5p": re.compile(r"ct5p|v5p"),
    "TPU v6e": re.compile(r"ct6e|v6e"),
    "H100": re.compile(r"h100(?!.?mega)"),
    "H200": re.compile(r"h200"),
    "B200": re.compile(r"(?<!g)b200"),
    "RTX PRO 6000": re.compile(r"rtx.?pro.?6000"),
}
"""Devices of Compute Engine that the table of a region does not count."""
GPUS = frozenset({"H100", "H200", "B200", "RTX PRO 6000"})
"""Those of them that are GPUs, which the quota of GPUs in all regions counts as well."""
_SPOT = re.compile(r"preempt|spot")
_UNLIMITED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaNeed:
    """`words` is how a quota, or a bucket of it, calls what is needed, `count` what it counts of it: the number in an
    accelerator type of the Cloud TPU API (cores to v4, chips from v5e on), devices at Compute Engine."""

    what: str
    service: str
    words: re.Pattern[str]
    count: int
    spot: bool
    region: str
    zones: tuple[str, ...]

    @property
    def market(self) -> str:
        """The market in words."""
        return "spot" if self.spot else "on demand"


def of_tpu_api(offer: Offer) -> QuotaNeed:
    """The quota of the Cloud TPU API in which an offer counts."""
    generation, _, count = offer.instance_type.removeprefix("tpu-").rpartition("-")
    return _quota_need(offer, generation, "tpu", _API[generation], int(count))


def of_compute(offer: Offer) -> QuotaNeed | None:
    """None for a device whose quota nobody here knows by name."""
    words = _FAMILIES.get(offer.device)
    return None if words is None else _quota_need(offer, offer.device, "compute", words, offer.device_count)


def check(account: GcpAccount, quota: QuotaNeed) -> Check:
    """Whether the quotas of the service let it in; those of a service are asked for once."""
    try:
        metrics = account.once(f"quotas/{quota.service}", lambda: _metrics(account, quota.service))
    except ProviderError as error:
        return unknown("quota", error.message, error.hint)
    return quota_check(metrics, quota, account.project)


def quota_check(metrics: Sequence[Mapping[str, Any]], quota: QuotaNeed, project: str) -> Check:
    """Whether the quotas let it in, by the largest that may be meant; UNKNOWN where none is."""
    fitting = [(name, limit) for metric in metrics for name, limit in _limits(metric, quota)]
    page = f"{_PAGE}?service={quota.service}.googleapis.com&project={project}"
    if not fitting:
        detail = f"no quota of {quota.service}.googleapis.com is shown for {quota.what}, {quota.market}"
        return unknown("quota", detail, page)
    name, limit = max(fitting, key=lambda row: float("inf") if row[1] == _UNLIMITED else row[1])
    if limit == _UNLIMITED or limit >= quota.count:
        text = "no limit" if limit == _UNLIMITED else f"at most {limit}"
        return ok("quota", f"{name}: {text}, {quota.count} are needed")
    detail = f"{name}: at most {limit} in {quota.region}, {quota.count} are needed"
    fix = f"ask for at least {quota.count} {name}: {page}"
    return refused("quota", detail, fix)


def _quota_need(offer: Offer, what: str, service: str, words: re.Pattern[str], count: int) -> QuotaNeed:
    spot = offer.market is Market.SPOT
    return QuotaNeed(
        what=what, service=service, words=words, count=count, spot=spot, region=offer.region, zones=offer.zones
    )


def _metrics(account: GcpAccount, service: str) -> list[dict[str, Any]]:
    path = f"/v1beta1/projects/{account.project}/services/{service}.googleapis.com/consumerQuotaMetrics"
    pages = account.pages("serviceusage", path, {"pageSize": _ROWS})
    return [row for page in pages for row in page.get("metrics", ())]


def _limits(metric: Mapping[str, Any], quota: QuotaNeed) -> Iterator[tuple[str, int]]:
    """Name and limit of each bucket that counts what is needed where the offer is."""
    name = str(metric.get("displayName") or metric.get("metric", ""))
    words = f"{name} {metric.get('metric', '')}".lower()
    if bool(_SPOT.search(words)) is not quota.spot:
        return
    for limit in metric.get("consumerQuotaLimits", ()):
        for bucket in limit.get("quotaBuckets", ()):
            where = dict(bucket.get("dimensions") or {})
            zone, region = where.pop("zone", None), where.pop("region", None)
            here = zone in (None, *quota.zones) and region in (None, quota.region)
            called = f"{words} {' '.join(map(str, where.values())).lower()}"
            if here and quota.words.search(called) and bucket.get("effectiveLimit") is not None:
                yield name, int(bucket["effectiveLimit"])
