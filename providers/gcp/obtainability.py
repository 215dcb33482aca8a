"""How likely Google says a spot machine is obtained: the capacity advice of Compute Engine, a score from 0 to 1.

Requests and replies have the form of compute.v1's `CapacityAdviceRequest` and `CapacityAdviceResponse` (discovery
document, and google-cloud-compute 1.57.0), and those of the history of `CapacityHistoryRequest`. The history says which
share of the spot machines that stopped were preempted; that is no rate over time, so it is told and not counted with. A
TPU of the Cloud TPU API is no machine type, and is not asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trainplan.pricing.obtainability import MachinePlacement, Obtainability, grade_of_score
from trainplan.pricing.offers import Market, Offer
from trainplan.providers.abilities import placement_of
from trainplan.providers.errors import ProviderError
from trainplan.providers.gcp.account import GcpAccount
from trainplan.providers.gcp.kinds import TPU_API, kind_of

SOURCE = (
    "Compute Engine advice.capacity (https://cloud.google.com/compute/docs/reference/rest/v1/advice/capacity), "
    "for this project"
)
_THREADS = 8


@dataclass(frozen=True)
class CapacityAdvice:
    """Asks for the advice that a project gets."""

    account: GcpAccount
    now: Callable[[], datetime]

    def of(self, offers: Sequence[Offer]) -> dict[MachinePlacement, Obtainability]:
        """`trainplan.providers.abilities.ObtainabilityTeller.obtainability`: one request for each machine type and
        region, several at a time."""
        spot = {
            placement_of(offer): offer
            for offer in offers
            if offer.market is Market.SPOT and not offer.instance_type.startswith(TPU_API)
        }
        with ThreadPoolExecutor(_THREADS) as threads:
            answers = list(threads.map(self._advice, spot.values()))
        result = {
            placement: answer
            for placement, answer in zip(spot, answers, strict=True)
            if isinstance(answer, Obtainability)
        }
        failures = [answer for answer in answers if isinstance(answer, ProviderError)]
        if failures and not result:
            raise failures[0]
        return result

    def _advice(self, offer: Offer) -> Obtainability | ProviderError | None:
        """The advice on one machine; None where Google gives no score, and the error where it refuses to."""
        try:
            reply = self._ask("capacity", offer.region, request_of(offer))
        except ProviderError as error:
            return error
        scores = [row.get("scores") or {} for row in reply.get("recommendations") or ()]
        scores = [row for row in scores if "obtainability" in row]
        if not scores:
            return None
        return self._obtainability(offer, max(scores, key=lambda row: float(row["obtainability"])))

    def _ask(self, method: str, region: str, body: Mapping[str, Any]) -> dict[str, Any]:
        path = f"/compute/v1/projects/{self.account.project}/regions/{region}/advice/{method}"
        return self.account.ask("POST", "compute", path, None, body)

    def _preempted(self, offer: Offer) -> str:
        """The share of spot machines that were preempted lately, in words; why it is not known, or "" for no record."""
        try:
            records = self._ask("capacityHistory", offer.region, history_of(offer)).get("preemptionHistory") or ()
        except ProviderError as error:
            return f"; its preemptions are not known: {error.message}"
        rates = [float(record["preemptionRate"]) for record in records if "preemptionRate" in record]
        if not rates:
            return ""
        days = sorted(str((record.get("interval") or {}).get("startTime", ""))[:10] for record in records)
        since = f" since {days[0]}" if days[0] else ""
        return f"; of those that stopped{since}, {sum(rates) / len(rates):.0%} were preempted (mean of {len(rates)})"

    def _obtainability(self, offer: Offer, scores: Mapping[str, Any]) -> Obtainability:
        score = float(scores["obtainability"])
        uptime = str(scores.get("estimatedUptime", "")).removesuffix("s")
        lasting = f"; most run {float(uptime) / 3600:.1f} h and more before they are preempted" if uptime else ""
        history = self._preempted(offer)
        return Obtainability(
            grade=grade_of_score(score),
            ground=f"obtainability {score:.2f} of 1 for one spot machine in the region{lasting}{history}",
            as_of=self.now().date(),
            source=SOURCE,
        )


def request_of(offer: Offer) -> dict[str, Any]:
    """The body of a request about one machine of an offer, anywhere in its region."""
    selection = {"machineTypes": [kind_of(offer).machine_type], **_attached(offer)}
    return {
        "size": 1,
        "instanceProperties": {"scheduling": {"provisioningModel": "SPOT"}},
        "distributionPolicy": {"targetShape": "ANY"},
        "instanceFlexibilityPolicy": {"instanceSelections": {"machine": selection}},
    }


def history_of(offer: Offer) -> dict[str, Any]:
    """The body of a request for the preemptions of an offer's machine type in its region."""
    properties = {"machineType": kind_of(offer).machine_type, "scheduling": {"provisioningModel": "SPOT"}}
    return {"instanceProperties": {**properties, **_attached(offer)}, "types": ["PREEMPTION"]}


def _attached(offer: Offer) -> dict[str, Any]:
    kind = kind_of(offer)
    if kind.accelerator is None:
        return {}
    return {"guestAccelerators": [{"acceleratorType": kind.accelerator, "acceleratorCount": kind.count}]}
