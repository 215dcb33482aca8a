"""What was read of a provider's prices since the package was made, as text that lies over the shipped tables."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

from trainplan.pricing.tables import (
    REFRESHED_COLUMNS,
    SOURCE_COLUMNS,
    TYPE_COLUMNS,
    DatedPrice,
    InstanceType,
    OfferRow,
    OffersOf,
    Tables,
    parse_offers,
    parse_sources,
    parse_types,
    refuse_duplicates,
)

if TYPE_CHECKING:
    from trainplan.pricing.table_text import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """All offers of one provider as they were on `read_on`, in the place of the shipped ones.

    `types` (those that the shipped tables do not know), `sources` and `offers` are tables as text, `parts` is JSON:
    what was read when, and what could not be.
    """

    provider: str
    read_on: date
    types: str
    sources: str
    offers: str
    parts: str


def overlaid(tables: Tables, overlays: Sequence[Overlay]) -> Tables:
    """The tables with the offers of refreshed providers in the place of theirs. Raises TableError."""
    for overlay in overlays:
        tables = _over(tables, overlay)
    return tables


def overlay_text(
    offers: Iterable[OfferRow], types: Iterable[InstanceType], sources: Iterable[Source]
) -> tuple[str, str, str]:
    """Types, sources and offers as the text of an overlay, in a fixed order."""
    rows = sorted(offers, key=lambda row: (row.region, row.type.name, row.zones))
    return (
        _csv(TYPE_COLUMNS, (_type_row(kind) for kind in sorted(types, key=lambda kind: kind.name))),
        _csv(SOURCE_COLUMNS, ((one.id, one.kind.value, one.text) for one in sorted(sources, key=lambda one: one.id))),
        _csv(REFRESHED_COLUMNS, (_offer_row(row) for row in rows)),
    )


def _over(tables: Tables, overlay: Overlay) -> Tables:
    name = f"{overlay.provider} as read on {overlay.read_on}"
    sources = {source.id: source for source in (*tables.sources, *parse_sources(overlay.sources, name))}
    new_types = {(kind.provider, kind.name): kind for kind in parse_types(overlay.types, name, tables.devices)}
    # This version's own row of a type goes before one that an earlier refresh derived from its family.
    types: Mapping[tuple[str, str], InstanceType] = {**new_types, **tables.types}
    offers = parse_offers(overlay.offers, name, OffersOf(overlay.provider, types, sources))
    refuse_duplicates(offers)
    others = (row for row in tables.offers if row.type.provider != overlay.provider)
    by_id = tuple(sources[key] for key in sorted(sources))
    return replace(tables, sources=by_id, types=types, offers=(*others, *offers))


def _csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()


def _type_row(kind: InstanceType) -> tuple[object, ...]:
    life = kind.lifecycle
    machine = (kind.provider, kind.name, kind.family, kind.cpu_architecture, kind.device, kind.device_count)
    size = (kind.device_fraction, _text(kind.device_memory_gib), _text(kind.vcpus), _text(kind.memory_gib), kind.hosts)
    return (*machine, *size, life.state.value, _text(life.date), life.successor or "", "")


def _offer_row(row: OfferRow) -> tuple[object, ...]:
    history, (offered, asked_on) = row.history, row.availability
    bucket = "" if row.interruption_bucket is None else row.interruption_bucket
    parts = (_usd(row.host_usd_per_hour), _usd(row.device_usd_per_hour), row.note)
    week = tuple(_usd(usd) for usd in history) if history else ("", "", "")
    there = "" if offered is None else "yes" if offered else "no"
    key = (row.region, row.type.name, " ".join(row.zones))
    return (*key, *_price(row.on_demand), *_price(row.spot), bucket, *parts, *week, there, _text(asked_on))


def _price(price: DatedPrice | None) -> tuple[str, ...]:
    if price is None:
        return ("", "", "", "")
    return _usd(price.usd_per_hour), _text(price.as_of), price.as_of_text, price.source.id


def _usd(value: Decimal | None) -> str:
    return "" if value is None else f"{value:f}"


def _text(value: object) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
