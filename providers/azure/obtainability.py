"""How likely Azure says a spot machine is to be allocated: spot placement scores, High, Medium or Low.

The call is that of `Invoke-AzSpotPlacementScore`
(learn.microsoft.com/powershell/module/az.compute/invoke-azspotplacementscore); names and forms are those of
azure-mgmt-computerecommender 1.0.0b3 (SpotPlacementScoresInput, PlacementScore), read 2026-11-23. It is sent by REST:
that package is a preview.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trainplan.pricing.obtainability import MachinePlacement, Obtainability, ObtainabilityGrade
from trainplan.pricing.offers import Market, Offer
from trainplan.providers.azure.account import AzureAccount
from trainplan.providers.azure.api import Call
from trainplan.providers.azure.names import API, PROVIDER

GRADES = {
    "High": ObtainabilityGrade.GOOD,
    "Medium": ObtainabilityGrade.UNCERTAIN,
    "Low": ObtainabilityGrade.POOR,
}
"""Azure's words beside these (`DataNotFoundOrStale`, `RestrictedSkuNotAvailable`) tell nothing of how likely it is."""
MOST_SIZES, MOST_REGIONS = 5, 8
"""Of one request (reported by its users: github az-scout has 5 sizes; 8 regions is assumed)."""
SOURCE = "Azure spot placement score (learn.microsoft.com/powershell/module/az.compute/invoke-azspotplacementscore)"


@dataclass(frozen=True)
class PlacementScores:
    """Asks for the scores of a subscription."""

    account: AzureAccount
    now: Callable[[], datetime]

    def of(self, offers: Sequence[Offer]) -> dict[MachinePlacement, Obtainability]:
        """`trainplan.providers.abilities.ObtainabilityTeller.obtainability`: each request is about every size in every
        region of it, so that few are sent."""
        spot = [offer for offer in offers if offer.market is Market.SPOT]
        asked_placements = {(offer.instance_type.lower(), offer.region): offer for offer in spot}
        result: dict[MachinePlacement, Obtainability] = {}
        for sizes in _parts(list(dict.fromkeys(offer.instance_type for offer in spot)), MOST_SIZES):
            regions = list(dict.fromkeys(offer.region for offer in spot if offer.instance_type in sizes))
            for some_regions in _parts(regions, MOST_REGIONS):
                for row in self._scores(sizes, some_regions):
                    region = str(row.get("region", "")).replace(" ", "").lower()
                    offer = asked_placements.get((str(row.get("sku", "")).lower(), region))
                    grade = GRADES.get(str(row.get("score", "")))
                    if offer is not None and grade is not None:
                        placement = MachinePlacement(PROVIDER, offer.region, offer.instance_type, Market.SPOT)
                        result[placement] = self._obtainability(grade, row)
        return result

    def _scores(self, sizes: Sequence[str], regions: Sequence[str]) -> Sequence[dict[str, Any]]:
        path = f"{self.account.home}/providers/Microsoft.Compute/locations/{regions[0]}/placementScores/spot/generate"
        body = {
            "desiredLocations": list(regions),
            "desiredSizes": [{"sku": size} for size in sizes],
            "desiredCount": 1,
            "availabilityZones": False,
        }
        reply = self.account.ask(Call(method="POST", path=path, api=API["recommender"], body=body)).body
        return list((reply or {}).get("placementScores") or ())

    def _obtainability(self, grade: ObtainabilityGrade, row: dict[str, Any]) -> Obtainability:
        quota = "" if row.get("isQuotaAvailable", True) else ", and its quota does not allow it"
        return Obtainability(
            grade=grade,
            ground=f"placement score {row['score']} for one spot machine in the region{quota}",
            as_of=self.now().date(),
            source=SOURCE,
        )


def _parts(names: list[str], size: int) -> Iterator[list[str]]:
    return (names[start : start + size] for start in range(0, len(names), size))
