"""What vendors charge beside machines (disk, addresses, transfer, storage), region by region, and who says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import NamedTuple

from trainplan.pricing.grades import PriceGrade

EVERYWHERE = "*"
"""In the place of a region: every region of the vendor; in the place of a destination: any other region."""
ASSUMED = "assumed"
"""The grade of a rate in a region of which none is known; other rates have the kind of their source."""
GB_MONTH, GB, HOUR = "gb_month", "gb", "hour"
UNITS = frozenset({GB_MONTH, GB, HOUR})
INTERNET = "internet"
"""Out of the vendor's storage, to a person's computer: the first terabytes of a month, without free allowances."""
BETWEEN_REGIONS = "between regions"
"""To another region of the same vendor, charged by the region that it leaves."""
WITHIN_A_REGION = "within a region"
BUCKET = "bucket"
"""A GB that lies in object storage for a month."""


class Rate(NamedTuple):
    """A rate in USD for each `per` (GB_MONTH, GB or HOUR). `grade` is how it was obtained, as in
    trainplan.pricing.grades, or ASSUMED; `source` says who has it and from when, or why it is assumed."""

    usd: Decimal
    per: str
    grade: str
    source: str

    @property
    def text(self) -> str:
        """The figure as `$0.10` or `$0.0952`: two decimals, or as many as it has."""
        digits = max(2, -int(self.usd.as_tuple().exponent))
        return f"${self.usd:.{digits}f}"

    @property
    def ground(self) -> str:
        """`listed, 2026-07-30: https://…`."""
        return f"{self.grade}, {self.source}"


class SideRate(NamedTuple):
    """A row of the table: one rate in all `regions` (names of regions or of groups of them, or EVERYWHERE).

    `to` are the regions or groups that transfer between regions goes to, empty for every other kind.
    """

    kind: str
    regions: tuple[str, ...]
    to: tuple[str, ...]
    usd: Decimal
    per: str
    as_of: date | None
    grade: PriceGrade
    source: str

    @property
    def rate(self) -> Rate:
        """The rate with its unit, grade, date and source, as an estimate shows it."""
        dated = f"{self.as_of}: {self.source}" if self.as_of else self.source
        return Rate(self.usd, self.per, self.grade.value, dated)


class SideRates:
    """The rows of one vendor. `groups` are the groups of regions that rows speak of, by region.

    A row that names the region goes before one that names its group, and that before one for every region. A region
    without any has the dearest rate that is known of the vendor.
    """

    def __init__(self, rows: Sequence[SideRate], groups: Mapping[str, str]) -> None:
        self._rows = rows
        self._groups = groups
        self._rates: dict[tuple[str, str, str], Rate] = {}
        self._named_rates = {
            (row.kind, region, to): row for row in rows for region in row.regions for to in row.to or (EVERYWHERE,)
        }

    def rate(self, kind: str, region: str) -> Rate | None:
        """What is charged for a kind in a region; None where the vendor has no such rate anywhere."""
        return self._once(kind, region, "")

    def transfer(self, region: str, to: str) -> Rate | None:
        """A GB that leaves a region for another, or stays in it; None where no row says anything of it."""
        if region == to:
            return self._once(WITHIN_A_REGION, region, "")
        return self._once(BETWEEN_REGIONS, region, to)

    def _once(self, kind: str, region: str, to: str) -> Rate | None:
        key = (kind, region, to)
        rate = self._rates.get(key)
        if rate is None:
            row = self._nearest(kind, region, to)
            rate = row.rate if row else self._dearest(kind, region, to)
            if rate is not None:
                self._rates[key] = rate
        return rate

    def _nearest(self, kind: str, region: str, to: str) -> SideRate | None:
        for here in (region, self._groups.get(region), EVERYWHERE):
            for there in (to, self._groups.get(to), EVERYWHERE):
                row = self._named_rates.get((kind, here or "", there or ""))
                if row is not None:
                    return row
        return None

    def _dearest(self, kind: str, region: str, to: str) -> Rate | None:
        rows = [row for row in self._rows if row.kind == kind]
        if not rows:
            return None
        dearest = max(rows, key=lambda row: row.usd)
        usd, per, grade, source = dearest.rate
        name = f"{dearest.regions[0]}{'' if len(dearest.regions) == 1 else ' and others'}"
        if not region:
            return Rate(usd, per, grade, f"{source}, of {name}")
        where = f"from {region} to {to}" if to else f"in {region}"
        text = f"no rate is known {where}: the dearest known one counts, of {name} ({grade}, {source})"
        return Rate(usd, per, ASSUMED, text)


def flat_rates(rates: Mapping[str, tuple[Decimal, str]], source: str, as_of: date) -> SideRates:
    """The same rates in every region: USD and unit of each kind. Traffic between regions is not among them."""
    rows = [
        SideRate(kind, (EVERYWHERE,), (), usd, per, as_of, PriceGrade.LISTED, source)
        for kind, (usd, per) in rates.items()
    ]
    return SideRates(rows, {})
