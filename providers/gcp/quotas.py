"""Quotas that Service Usage alone shows: those of the Cloud TPU API, and Compute Engine's by family of accelerator.

How they are called is documented for few of them, and in several ways: they are known by their words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from trainplan.pricing.offers import Market, Offer
from trainplan.providers.cloud.checks import ok, refused, unknown
from trainplan.providers.errors import CapacityError, InstanceNotFoundError, PermissionDeniedError, ProviderError
from trainplan.providers.gcp.kinds import ALL_GPUS
from trainplan.workloads.wording import Command, Option, Text

if TYPE_CHECKING:
    from trainplan.providers.base import Check
    from trainplan.providers.gcp.account import GcpAccount

_PAGE = "https://console.cloud.google.com/iam-admin/quotas"
_ROWS = "500"
_API = {
    "v2": re.compile(r"v2(?!\d)"),
    "v3": re.compile(r"v3(?!\d)"),
    "v4": re.compile(r"v4(?!\d)"),
    "v5litepod": re.compile(r"v5s?[ _-]?(e(?![a-z])|lite)"),
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
TPU = "TPU "
"""How devices that are TPUs begin."""
NO_TPUS_EITHER = "Google's guide for TPU builders (2026-07-14) says that 0 keeps a project from TPUs too"
"""No create has shown it: one project of a free trial had 0 and quotas of TPU v5e. The guide: "If … exactly 0, your
entire project is globally restricted from using any accelerators (GPUs or TPUs)"."""
TRIAL_FIRST = "on a free trial, which gets no GPUs, upgrade the billing account first (what is left of the $300 stays)"
"""Whether a billing account is on a trial is in no API that was read, so the advice is conditional. That a trial takes
no GPUs: docs.cloud.google.com/free/docs/free-cloud-features (a copy read 2026-11-26), and fastai/course-v3 pull request
173 (2019-01-27); that the credit stays: the same page (a copy read 2026-11-28)."""
GPUS = frozenset({"H100", "H200", "B200", "RTX PRO 6000"})
"""Those of them that are GPUs, which the quota of GPUs in all regions counts as well."""
_SPOT = re.compile(r"preempt|spot")
_SERVING = re.compile(r"serving")
_WHICH = Text(
    "which of them counts for a slice of one machine is not settled (",
    Command("drill", "gcp", Option.DEVICE("'TPU v5e'")),
    " shows it)",
)
"""Google's guide for TPU builders of 2026-07-14 has slices of up to 2x4 under serving and those from 4x4 on under
training; the pages on v5e call each accelerator type fit for both."""
_LEAST = "v5litepod-1"
_PROBED = ("europe-west4-a", "europe-west4-b")
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


def doubt(account: GcpAccount) -> str:
    """Why it is not known whether the project gets TPUs, whatever their own quotas; "" where nothing speaks against
    it, or nobody tells."""
    try:
        rows = account.described().get("quotas", ())
    except ProviderError:
        return ""
    limits = [float(row.get("limit", 0)) for row in rows if row.get("metric") == ALL_GPUS]
    return f"{ALL_GPUS} is 0: {NO_TPUS_EITHER}; a request may wait until it expires" if limits == [0] else ""


def tpus_at_all(account: GcpAccount) -> list[Check]:
    """A line where it is not known whether the project gets TPUs at all."""
    why = doubt(account)
    fix = f"{TRIAL_FIRST}; then ask for at least 1 {ALL_GPUS}: {_PAGE}?project={account.project}"
    return [unknown("quota", why, fix)] if why else []


def tpu_probe(account: GcpAccount) -> Check:
    """What the Cloud TPU API calls its quotas of v5e, and whether it has v5litepod-1 in europe-west4, where one user's
    request for it was refused (trainplan.providers.abilities.Prober). Names stand in words: a drill takes out what
    looks like a token. Raises ProviderError."""
    words = _API["v5litepod"]
    names = [str(row.get("metric", "")).rpartition("/")[2] for row in _metrics(account, "tpu")]
    fitting = [name.replace("-", " ") for name in names if words.search(name.lower())]
    if not fitting:
        return refused("tpu-quotas", f"none of {len(names)} quotas of the Cloud TPU API has a name of TPU v5e", "")
    listed = {zone: _listed_types(account, zone) for zone in _PROBED}
    rows = account.described().get("quotas", ())
    of_all = [f"{ALL_GPUS} {float(row.get('limit', 0)):g}" for row in rows if row.get("metric") == ALL_GPUS]
    detail = f"{', '.join(fitting)}; {', '.join(of_all) or f'{ALL_GPUS} is not shown'}"
    having = [zone for zone, types in listed.items() if _LEAST in types]
    if having:
        return ok("tpu-quotas", f"{detail}; {_LEAST} in {' and '.join(having)}")
    return refused("tpu-quotas", f"none of {' and '.join(listed)} lists {_LEAST} to this project; {detail}", "")


def _listed_types(account: GcpAccount, zone: str) -> frozenset[str]:
    """The accelerator types of a zone; none of one that is not open to the project."""
    path = f"/v2/projects/{account.project}/locations/{zone}/acceleratorTypes"
    try:
        pages = list(account.pages("tpu", path))
    except (PermissionDeniedError, CapacityError, InstanceNotFoundError):
        return frozenset()
    return frozenset(str(row.get("type", "")) for page in pages for row in page.get("acceleratorTypes", ()))


def quota_check(metrics: Sequence[Mapping[str, Any]], quota: QuotaNeed, project: str) -> Check:
    """Whether the quotas let it in, by the largest that may be meant; UNKNOWN where none is, or where one of the two
    for training and for serving lets it in and the other one does not."""
    limits = [(_name(metric), limit) for metric in metrics if (limit := _limit_of(metric, quota)) is not None]
    page = f"{_PAGE}?service={quota.service}.googleapis.com&project={project}"
    if not limits:
        detail = f"no quota of {quota.service}.googleapis.com is shown for {quota.what}, {quota.market}"
        return unknown("quota", detail, page)
    largest = [_largest(limits, is_serving) for is_serving in (False, True)]
    found = sorted((row for row in largest if row is not None), key=lambda row: row[1])
    (least, fewest), (name, limit) = found[0], found[-1]
    fix = f"ask for at least {quota.count} {name}: {page}"
    if limit < quota.count:
        return refused("quota", f"{name}: {_words(limit)} in {quota.region}, {quota.count} are needed", fix)
    if fewest < quota.count:
        detail = f"{name}: {_words(limit)}, but {least}: {_words(fewest)}; {_WHICH}, {quota.count} are needed"
        return unknown("quota", detail, f"ask for at least {quota.count} {least}: {page}")
    return ok("quota", f"{name}: {_words(limit)}, {quota.count} are needed")


def _quota_need(offer: Offer, what: str, service: str, words: re.Pattern[str], count: int) -> QuotaNeed:
    spot = offer.market is Market.SPOT
    return QuotaNeed(
        what=what, service=service, words=words, count=count, spot=spot, region=offer.region, zones=offer.zones
    )


def _metrics(account: GcpAccount, service: str) -> list[dict[str, Any]]:
    path = f"/v1beta1/projects/{account.project}/services/{service}.googleapis.com/consumerQuotaMetrics"
    pages = account.pages("serviceusage", path, {"pageSize": _ROWS})
    return [row for page in pages for row in page.get("metrics", ())]


def _name(metric: Mapping[str, Any]) -> str:
    return str(metric.get("displayName") or metric.get("metric", ""))


def _largest(limits: Sequence[tuple[str, float]], is_serving: bool) -> tuple[str, float] | None:
    """Name and limit of the largest quota for serving, or of all others; None where there is none."""
    rows = [row for row in limits if bool(_SERVING.search(row[0].lower())) is is_serving]
    return max(rows, key=lambda row: row[1], default=None)


def _words(limit: float) -> str:
    return "no limit" if limit == inf else f"at most {limit:g}"


def _limit_of(metric: Mapping[str, Any], quota: QuotaNeed) -> float | None:
    """How many a metric lets in where the offer is: of its zones the one that lets in most. All limits of a metric hold
    at once. None where it counts something else."""
    words = f"{_name(metric)} {metric.get('metric', '')}".lower()
    if bool(_SPOT.search(words)) is not quota.spot:
        return None
    limits = [limit.get("quotaBuckets", ()) for limit in metric.get("consumerQuotaLimits", ())]
    rooms = [
        min(found, default=None)
        for zone in quota.zones or ("",)
        if (found := [room for buckets in limits if (room := _room(buckets, words, quota, zone)) is not None])
    ]
    return max((room for room in rooms if room is not None), default=None)


def _room(buckets: Sequence[Mapping[str, Any]], words: str, quota: QuotaNeed, zone: str) -> float | None:
    """What one limit lets in in a zone: its bucket with the most dimensions, of those that hold there. A bucket without
    dimensions is "the default quota value applied to all requests that do not have a more specific override", and
    Google's JSON leaves a limit of 0 out (QuotaBucket, https://cloud.google.com/service-usage/docs/reference/rest)."""
    found: dict[tuple[int, bool], float] = {}
    for bucket in buckets:
        dimensions = dict(bucket.get("dimensions") or {})
        depth = (len(dimensions), "zone" in dimensions)
        here = dimensions.pop("zone", zone) == zone and dimensions.pop("region", quota.region) == quota.region
        called = f"{words} {' '.join(map(str, dimensions.values())).lower()}"
        if here and quota.words.search(called):
            limit = int(bucket.get("effectiveLimit", 0))
            found[depth] = inf if limit == _UNLIMITED else limit
    return found[max(found)] if found else None
