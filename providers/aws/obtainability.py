"""How likely EC2 says a spot request is to succeed: placement scores from 1 to 10.

EC2 scores one or two types always low, as its API reference says (GetSpotPlacementScores, `InstanceTypes`; read in
botocore 1.44.5, 2026-11-23). So a type is scored with the two of its family that are nearest in size, and a
type whose family has fewer than three is not scored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trainplan.pricing.obtainability import MachinePlacement, Obtainability, grade_of_score
from trainplan.pricing.offers import Market, Offer
from trainplan.providers.abilities import placement_of
from trainplan.providers.aws.account import AwsAccount
from trainplan.providers.errors import CredentialsError, ProviderError

LIKELY, UNLIKELY = 7, 3
"""The score from 1 to 10: from here on spot counts as available, up to here as not."""
LEAST_TYPES, MOST_REGIONS = 3, 10
"""Of a request: fewer types are scored low whatever there is; more regions are refused."""
SOURCE = (
    "EC2 GetSpotPlacementScores "
    "(https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_GetSpotPlacementScores.html)"
)


@dataclass(frozen=True)
class PlacementScores:
    """`spot_offers` reads the catalog's offers on spot, of which the types of a family are taken."""

    account: AwsAccount
    now: Callable[[], datetime]
    spot_offers: Callable[[], Sequence[Offer]]

    def of(self, offers: Sequence[Offer]) -> dict[MachinePlacement, Obtainability]:
        """`trainplan.providers.abilities.ObtainabilityTeller.obtainability`: a request for each type and ten regions,
        since EC2 limits how many different ones it answers in a day."""
        regions_of_type: dict[str, list[str]] = {}
        open_regions = frozenset(self.account.regions())
        for offer in offers:
            if offer.market is Market.SPOT and offer.region in open_regions:
                regions_of_type.setdefault(offer.instance_type, []).append(offer.region)
        everything = self.spot_offers() if regions_of_type else ()
        result: dict[MachinePlacement, Obtainability] = {}
        failure: ProviderError | None = None
        for name, regions in regions_of_type.items():
            types = types_with(name, everything)
            placements = {offer.region: placement_of(offer) for offer in offers if offer.instance_type == name}
            try:
                rows = self._scores(types, list(dict.fromkeys(regions))) if types else ()
            except CredentialsError:
                raise
            except ProviderError as error:
                failure = error
                continue
            for row in rows:
                if row.get("Region") in placements:
                    placement = placements[row["Region"]]._replace(market=Market.SPOT)
                    result[placement] = self._obtainability(int(row["Score"]), types)
        if failure is not None and not result:
            raise failure
        return result

    def has_spot(self, offer: Offer, zone: str | None) -> bool | None:
        """`trainplan.providers.abilities.SpotScout.has_spot`; None between likely and unlikely, and where EC2 does not
        tell."""
        types = types_with(offer.instance_type, self.spot_offers())
        if not types:
            return None
        try:
            rows = self._scores(types, [offer.region], by_zone=zone is not None)
            name = self.account.network(offer.region).zone_ids.get(zone, "") if zone else ""
        except CredentialsError:
            raise
        except ProviderError:
            return None  # few are allowed to ask, and not often
        scores = [int(row["Score"]) for row in rows if not zone or row.get("AvailabilityZoneId") == name]
        if not scores:
            return None
        return True if max(scores) >= LIKELY else False if max(scores) <= UNLIKELY else None

    def _scores(self, types: Sequence[str], regions: Sequence[str], *, by_zone: bool = False) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for start in range(0, len(regions), MOST_REGIONS):
            request = {
                "InstanceTypes": list(types),
                "TargetCapacity": 1,
                "TargetCapacityUnitType": "units",
                "SingleAvailabilityZone": by_zone,
                "RegionNames": list(regions[start : start + MOST_REGIONS]),
            }
            reply = self.account.api.call("ec2", regions[start], "GetSpotPlacementScores", request)
            rows += reply.get("SpotPlacementScores", ())
        return rows

    def _obtainability(self, score: int, types: Sequence[str]) -> Obtainability:
        return Obtainability(
            grade=grade_of_score(score / 10),
            ground=f"placement score {score} of 10 for one spot machine of {', '.join(types)}",
            as_of=self.now().date(),
            source=SOURCE,
        )


def types_with(instance_type: str, offers: Sequence[Offer]) -> tuple[str, ...]:
    """The type with the two of its family that are nearest in processors; none where the family has fewer."""
    vcpus = {offer.instance_type: offer.vcpus or 0 for offer in offers}
    family = instance_type.partition(".")[0]
    others = [name for name in vcpus if name.partition(".")[0] == family and name != instance_type]
    own = vcpus.get(instance_type, 0)
    others.sort(key=lambda name: (abs(vcpus[name] - own), name))
    if len(others) < LEAST_TYPES - 1:
        return ()
    return (instance_type, *others[: LEAST_TYPES - 1])
