"""A refresh: what was read becomes the catalog that is used from now on, whole or not at all."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainplan.pricing.catalog import REFRESHED, CatalogError
from trainplan.pricing.changes import Changes, compare, unbelievable
from trainplan.pricing.compile import TEXT_DIR, compile_catalog, read_checked_tables
from trainplan.pricing.entries import prices_of
from trainplan.pricing.grades import Market, PriceGrade
from trainplan.pricing.held_prices import HeldPrice
from trainplan.pricing.merge import KnownPrices, Merged, News, let_through, merge
from trainplan.pricing.overlay import Overlay, overlaid, overlay_text
from trainplan.pricing.sources import aws, aws_account, azure, gcp, gcp_copy, ibm, small_vendors
from trainplan.pricing.table_text import Source

if TYPE_CHECKING:
    from trainplan.pricing.sources.reading import PricePart
    from trainplan.pricing.tables import OfferRow, Tables

_NO_PARTS = json.dumps({"format": 2, "parts": {}, "held": []})
_UNCHANGED_FOR = timedelta(days=2)
"""A list that changes every hour and has been the same for so long is no list of today."""
_HINT = "plan prices refresh reads them anew; without the file the shipped prices are used"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a refresh of one provider did. `hold_reasons` say why a person should look first; nothing was written then.

    Single prices that cannot be true are in `merged.held_prices`; the rest was written all the same.
    """

    provider: str
    changes: Changes
    merged: Merged
    read: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]
    hold_reasons: tuple[str, ...]


def known_of(provider: str, home: Path) -> KnownPrices:
    """What is known of a provider before a refresh. Raises CatalogError, TableError."""
    return _known_prices(provider, overlaid(_shipped_tables(), list(_readable_overlays(home).values())))


def refresh(provider: str, news: News, home: Path, *, accept: bool = False) -> Outcome:
    """Put what was read over what was known, and the result in the place of the catalog that is used.

    It is held back where it changes more than can be believed, unless `accept`. Where no part was read, nothing is
    written. Whoever calls it sees to it that nobody else does at the same time. Raises CatalogError, TableError,
    OSError.
    """
    overlays = _readable_overlays(home)
    shipped = _shipped_tables()
    catalog_state = _known_prices(provider, overlaid(shipped, list(overlays.values())))
    before_parts = parts_of(overlays[provider]) if provider in overlays else {}
    news = replace(
        news, parts=[_unless_unchanged(part, before_parts.get(part.name, {}), news.on) for part in news.parts]
    )
    merged = merge(catalog_state, news)
    before = prices_of(catalog_state.offers)
    changes = compare(before, prices_of(merged.offers))
    on_demand = sum(key.market == Market.ON_DEMAND for key in before)
    read = tuple(part.name for part in news.parts if not part.error)
    names = () if accept else unbelievable(changes, on_demand)
    if read and not names:
        overlays[provider] = _overlay(provider, merged, news, shipped, overlays.get(provider))
        home.mkdir(parents=True, exist_ok=True)
        compile_catalog(TEXT_DIR, home / REFRESHED, [overlays[name] for name in sorted(overlays)])
    failed = tuple((part.name, part.error) for part in news.parts if part.error)
    return Outcome(provider=provider, changes=changes, merged=merged, read=read, failed=failed, hold_reasons=names)


def held_of(overlay: Overlay) -> tuple[HeldPrice, ...]:
    """The prices of an overlay that were read and are not used, since they cannot be true."""
    return tuple(HeldPrice.from_json(overlay.provider, row) for row in _contents(overlay)["held"])


def accept(provider: str, names: Sequence[str], home: Path) -> tuple[HeldPrice, ...]:
    """Let held prices through and compile them into the catalog that is used; returns which.

    A name is the one of a held price, or a beginning of it that ends where a part of it does (`aws/us-east-1`). Where
    none is held by these names nothing is written. Raises CatalogError, TableError, OSError.
    """
    overlays = read_overlays(home / REFRESHED)
    overlay = overlays.get(provider)
    if overlay is None:
        return ()
    held_prices = held_of(overlay)
    accepted = tuple(one for one in held_prices if any(f"{one.name}/".startswith(f"{name}/") for name in names))
    if not accepted:
        return ()
    shipped = _shipped_tables()
    offers = let_through(_known_prices(provider, overlaid(shipped, list(overlays.values()))), accepted)
    parts = json.dumps(_with_held(parts_of(overlay), [one for one in held_prices if one not in accepted]))
    overlays[provider] = replace(_overlay_of(provider, offers, overlay.read_on, shipped), parts=parts)
    compile_catalog(TEXT_DIR, home / REFRESHED, [overlays[name] for name in sorted(overlays)])
    return accepted


def compile_anew(own: Path) -> None:
    """Compile a refreshed catalog over the text of this version; a provider more of whose prices are newer in the text
    than in the refresh takes the text's. Raises CatalogError."""
    try:
        shipped, overlays = _shipped_tables(), list(read_overlays(own).values())
        over = overlaid(shipped, overlays)
        newer = [one for one in overlays if _is_newer(_days(over, one.provider), _days(shipped, one.provider))]
        compile_catalog(TEXT_DIR, own, newer)
    except (OSError, ValueError) as error:
        raise CatalogError(f"the refreshed prices in {own} cannot be used by this version: {error}", _HINT) from None


def forget(home: Path) -> bool:
    """Remove the refreshed catalog, so that the shipped one is used; whether there was one."""
    own = home / REFRESHED
    there = own.is_file()
    own.unlink(missing_ok=True)
    return there


def _readable_overlays(home: Path) -> dict[str, Overlay]:
    """What was refreshed before; nothing where that file is damaged: a refresh begins from the shipped prices then."""
    try:
        return read_overlays(home / REFRESHED)
    except CatalogError:
        return {}


def read_overlays(path: Path) -> dict[str, Overlay]:
    """What was refreshed, by provider, out of a refreshed catalog of any version. Raises CatalogError."""
    if not path.is_file():
        return {}
    columns = "provider, read_day, types, sources, offers, parts"
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            rows = connection.execute(f"SELECT {columns} FROM overlay ORDER BY provider").fetchall()
    except sqlite3.Error as error:
        raise CatalogError(f"the refreshed prices in {path} cannot be read: {error}", _HINT) from None
    return {row[0]: _as_overlay(row) for row in rows}


def parts_of(overlay: Overlay) -> dict[str, dict[str, Any]]:
    """What was read when, by part: `on` (a day), `prices`, and `failed` (why the newest reading did not work)."""
    parts: dict[str, dict[str, Any]] = _contents(overlay)["parts"]
    return parts


def price_sources() -> dict[str, Source]:
    """Where refreshed prices come from, by id."""
    modules = (aws, aws_account, gcp, gcp_copy, azure, ibm, small_vendors)
    sources = [source for module in modules for source in module.SOURCES]
    return {key: Source(id=key, kind=PriceGrade(kind), text=text) for key, kind, text in sources}


def _known_prices(provider: str, tables: Tables) -> KnownPrices:
    offers = [row for row in tables.offers if row.type.provider == provider]
    return KnownPrices(provider=provider, offers=offers, types=tables.types, sources=price_sources())


def _days(tables: Tables, provider: str) -> dict[tuple[str, str], date]:
    """When each on-demand price of a provider is from, by region and type."""
    offers = (row for row in tables.offers if row.type.provider == provider)
    return {(row.region, row.type.name): row.on_demand.as_of or date.min for row in offers if row.on_demand is not None}


def _is_newer(one: Mapping[tuple[str, str], date], other: Mapping[tuple[str, str], date]) -> bool:
    """Whether at least as many prices are newer in the one as in the other."""
    both = one.keys() & other.keys()
    return sum(one[key] > other[key] for key in both) >= sum(one[key] < other[key] for key in both)


def _shipped_tables() -> Tables:
    return read_checked_tables(TEXT_DIR)


def _as_overlay(row: Sequence[Any]) -> Overlay:
    provider, read_day, types, sources, offers, parts = row
    on = date.fromordinal(read_day)
    return Overlay(provider=provider, read_on=on, types=types, sources=sources, offers=offers, parts=parts)


def _overlay(provider: str, merged: Merged, news: News, shipped: Tables, before: Overlay | None) -> Overlay:
    parts = _parts(news.parts, news.on, parts_of(before) if before else {})
    still = [one for one in held_of(before) if not _is_read_again(one, news.parts)] if before else []
    return replace(
        _overlay_of(provider, merged.offers, news.on, shipped),
        parts=json.dumps(_with_held(parts, [*still, *merged.held_prices])),
    )


def _overlay_of(provider: str, rows: Sequence[OfferRow], read_on: date, shipped: Tables) -> Overlay:
    """The offers of a provider as an overlay that says nothing of parts yet."""
    used = {row.type.name: row.type for row in rows}
    new_types = [kind for name, kind in used.items() if (provider, name) not in shipped.types]
    theirs = {source.id for source in shipped.sources}
    sources = {one.id: one for one in _sources(rows) if one.id not in theirs}
    types, source_text, offers = overlay_text(rows, new_types, sources.values())
    return Overlay(provider=provider, read_on=read_on, types=types, sources=source_text, offers=offers, parts=_NO_PARTS)


def _unless_unchanged(part: PricePart, before: Mapping[str, Any], on: date) -> PricePart:
    """The part; where it has a digest and has been the same for too long, with that as its error."""
    since = before.get("same_since") if part.digest and part.digest == before.get("digest") else None
    if since is None or on - date.fromisoformat(since) < _UNCHANGED_FOR:
        return part
    return replace(part, error=f"the list has been the same since {since}: it is no list of today")


def _is_read_again(held_price: HeldPrice, parts: Iterable[PricePart]) -> bool:
    """Whether what a held price is of was read again: what was read decides then."""
    return any(not part.error and part.covers(*held_price.key[:3]) for part in parts)


def _contents(overlay: Overlay) -> dict[str, Any]:
    """An overlay's `parts` as it is written; catalogs of versions before 0.2 have the parts alone."""
    contents = json.loads(overlay.parts)
    return contents if contents.get("format") == 2 else {"parts": contents, "held": []}


def _with_held(parts: Mapping[str, Any], held_prices: Iterable[HeldPrice]) -> dict[str, Any]:
    return {"format": 2, "parts": parts, "held": [one.to_json() for one in held_prices]}


def _sources(offers: Sequence[OfferRow]) -> list[Source]:
    return [price.source for row in offers for price in (row.on_demand, row.spot) if price is not None]


def _parts(parts: Sequence[PricePart], on: date, before: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    entries = {name: dict(document) for name, document in before.items()}
    for part in parts:
        if part.error:
            entries[part.name] = {**entries.get(part.name, {}), "failed": part.error, "failed_on": on.isoformat()}
        else:
            entries[part.name] = {"on": on.isoformat(), "prices": len(part.parsed.prices)}
            if part.digest:
                earlier = before.get(part.name, {})
                is_same = earlier.get("digest") == part.digest
                entries[part.name]["digest"] = part.digest
                entries[part.name]["same_since"] = earlier["same_since"] if is_same else on.isoformat()
    return dict(sorted(entries.items()))
