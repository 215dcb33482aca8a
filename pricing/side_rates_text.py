"""The text tables of side rates: what each column is, and typed rows out of it (used to compile, never at run time)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from trainplan.pricing.grades import PriceGrade
from trainplan.pricing.side_rates import BETWEEN_REGIONS, UNITS, WITHIN_A_REGION
from trainplan.pricing.table_text import Source, TableError, date_of, look_up, read_table, table_rows

SIDE_RATES, REGION_GROUPS = "side_rates.csv", "region_groups.csv"
SIDE_RATE_COLUMNS = ("provider", "kind", "region", "to", "usd", "per", "as_of", "source")
GROUP_COLUMNS = ("provider", "group", "regions", "source")


class SideRateRow(NamedTuple):
    """A rate of `provider` in all `regions`; trainplan.pricing.side_rates.SideRate says the rest."""

    provider: str
    kind: str
    regions: tuple[str, ...]
    to: tuple[str, ...]
    usd: Decimal
    per: str
    as_of: date | None
    source: str


class SideTables(NamedTuple):
    """All rows, and the group of each (provider, region) that is in one."""

    rates: tuple[SideRateRow, ...]
    groups: Mapping[tuple[str, str], str]


def read_side_tables(text_dir: Path, sources: Mapping[str, Source]) -> SideTables:
    """Parse and check both tables. Raises TableError, and OSError for a file that is not there."""
    groups: dict[tuple[str, str], str] = {}
    for row in read_table(text_dir / REGION_GROUPS, lambda text, name: _groups(text, name, sources)):
        for region in row.regions:
            if (row.provider, region) in groups:
                raise TableError(f"{REGION_GROUPS}: {row.provider} {region} is in two groups")
            groups[row.provider, region] = row.group
    rates = read_table(text_dir / SIDE_RATES, lambda text, name: parse_side_rates(text, name, sources))
    _refuse_twice(rates)
    return SideTables(tuple(rates), groups)


class _Group(NamedTuple):
    provider: str
    group: str
    regions: tuple[str, ...]


def _groups(text: str, name: str, sources: Mapping[str, Source]) -> list[_Group]:
    def parse(row: dict[str, str]) -> _Group:
        look_up(sources, row["source"], f"source {row['source']!r} is not in sources.csv")
        return _Group(row["provider"], row["group"], tuple(row["regions"].split()))

    return list(table_rows(text, name, (GROUP_COLUMNS,), parse))


def parse_side_rates(text: str, name: str, sources: Mapping[str, Source]) -> list[SideRateRow]:
    """Rows of a table of side rates; `name` is said where one cannot be true. Raises TableError."""
    return list(table_rows(text, name, (SIDE_RATE_COLUMNS,), lambda row: _side_rate(row, sources)))


def _side_rate(row: dict[str, str], sources: Mapping[str, Source]) -> SideRateRow:
    source = look_up(sources, row["source"], f"source {row['source']!r} is not in sources.csv")
    usd, as_of = Decimal(row["usd"]), date_of(row, "as_of")
    if row["per"] not in UNITS:
        raise ValueError(f"{row['per']!r} is not one of {', '.join(sorted(UNITS))}")
    # All three vendors charge nothing between a bucket and a machine of one region (docs/prices.md).
    free = row["kind"] == WITHIN_A_REGION
    if not (usd.is_finite() and (usd > 0 or (free and usd == 0))):
        raise ValueError(f"a rate is above 0, not {row['usd']}")
    if as_of is None and source.kind is not PriceGrade.ESTIMATED:
        raise ValueError(f"a rate that was read somewhere has the day on which it was: {row['source']}")
    regions, to = tuple(row["region"].split()), tuple(row["to"].split())
    if not regions or bool(to) != (row["kind"] == BETWEEN_REGIONS):
        raise ValueError(f"where does {row['kind']!r} hold, and where to?")
    return SideRateRow(row["provider"], row["kind"], regions, to, usd, row["per"], as_of, row["source"])


def _refuse_twice(rates: Iterable[SideRateRow]) -> None:
    keys: set[tuple[str, str, str, str]] = set()
    for provider, kind, region, to in _each(rates):
        if (provider, kind, region, to) in keys:
            where = f"{region} to {to}" if to else region
            raise TableError(f"{SIDE_RATES}: two rows for {provider} {kind} {where}: keep the newer one")
        keys.add((provider, kind, region, to))


def _each(rates: Iterable[SideRateRow]) -> Iterator[tuple[str, str, str, str]]:
    for row in rates:
        for region in row.regions:
            for to in row.to or ("",):
                yield row.provider, row.kind, region, to
