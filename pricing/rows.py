"""Rows of the compiled catalog as values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

from trainplan.pricing.cost import ProviderRates
from trainplan.pricing.devices import Architecture, Device, PeakTflops, Verified
from trainplan.pricing.grades import Market, PriceGrade, grade
from trainplan.pricing.money import Billing, from_micro
from trainplan.pricing.offers import (
    BY_LIFECYCLE,
    Availability,
    Lifecycle,
    LifecycleState,
    Offer,
    PriceStamp,
    Quote,
    Rental,
)
from trainplan.pricing.planning import ALWAYS, AS_LISTED, Drift, Ground, PlannedAs, PriceSpread, planned_as, spread
from trainplan.pricing.side_rates import SideRate, SideRates

FIRST_ROW = -2
"""Where a row of table `rental` says which row its placements begin at."""


def device(row: Sequence[Any], aliases: tuple[str, ...]) -> Device:
    """A row of table `device`."""
    name, group, architecture, capability, generation, memory, bandwidth, *rest = row
    fp32, tf32, amp_fp16, amp_bf16, interconnect, interconnect_gb_s, tdp_w, *texts = rest
    source, verified, unverified, note, low_mib, high_mib, usable_source = texts
    return Device(
        name=name,
        group=group,
        architecture=Architecture(architecture),
        compute_capability=capability,
        tpu_generation=generation,
        memory_gib=memory,
        usable_memory_mib=None if low_mib is None else (low_mib, high_mib),
        usable_memory_source=usable_source,
        memory_bandwidth_gb_s=bandwidth,
        peak_tflops=PeakTflops(fp32=fp32, tf32=tf32, amp_fp16=amp_fp16, amp_bf16=amp_bf16),
        interconnect=interconnect,
        interconnect_gb_s=interconnect_gb_s,
        tdp_w=tdp_w,
        aliases=aliases,
        source=source,
        verified=Verified(verified),
        unverified=tuple(unverified.split()),
        note=note,
    )


def rates(row: Sequence[Any], side: SideRates) -> ProviderRates:
    """A row of table `provider`, with the vendor's side rates."""
    provider, increment, minimum, disk_kind, address_kind, billing_source = row
    return ProviderRates(
        provider=provider,
        billing=Billing(increment_seconds=increment, minimum_seconds=minimum),
        disk_kind=disk_kind,
        address_kind=address_kind,
        side=side,
        billing_source=billing_source,
    )


def side_rate(row: Sequence[Any]) -> SideRate:
    """A row of table `side_rate`, behind its provider."""
    kind, regions, to, usd, per, as_of_day, kind_of_source, source = row
    return SideRate(
        kind=kind,
        regions=tuple(regions.split()),
        to=tuple(to.split()),
        usd=Decimal(usd),
        per=per,
        as_of=day(as_of_day),
        grade=PriceGrade(kind_of_source),
        source=source,
    )


def rental(row: Sequence[Any], known_rates: Mapping[str, ProviderRates], today: date) -> Rental:
    """A row of table `rental`, its lifecycle as it is on `today`."""
    _, provider, instance_type, family, cpu_architecture, device_name, count, *rest = row
    numerator, denominator, device_memory_gib, vcpus, memory_gib, hosts, market, bucket, state, state_day, *rest = rest
    successor, _, offered, offered_day, *_ = rest
    return Rental(
        provider=provider,
        instance_type=instance_type,
        family=family,
        cpu_architecture=cpu_architecture,
        device=device_name,
        device_count=count,
        device_fraction=_fraction(numerator, denominator),
        device_memory_gib=device_memory_gib,
        vcpus=vcpus,
        memory_gib=memory_gib,
        hosts=hosts,
        market=_market(market),
        interruption_bucket=bucket,
        lifecycle=_lifecycle(state, state_day, successor, today),
        billing=known_rates[provider].billing,
        availability=_availability(offered, offered_day),
    )


# Hundreds of rentals share a handful of each.
_fraction = cache(Fraction)
_market: Callable[[str], Market] = cache(Market)


@cache
def _availability(offered: int | None, as_of_day: int | None) -> Availability:
    return BY_LIFECYCLE if offered is None else Availability(bool(offered), day(as_of_day))


@cache
def _lifecycle(state: str, state_day: int | None, successor: str | None, today: date) -> Lifecycle:
    return Lifecycle(state=LifecycleState(state), date=day(state_day), successor=successor).on(today)


class OfferMaker:
    """Rows of `queries.offers` as offers: what thousands of them share is made once."""

    def __init__(
        self,
        rentals: Mapping[int, Rental],
        regions: Sequence[str],
        sources: Mapping[int, tuple[PriceGrade, str]],
        notes: Mapping[int | None, str],
        today: date,
    ) -> None:
        self._rentals = rentals
        self._regions = regions
        self._sources = sources
        self._notes = notes
        self._usd: Callable[[int | None], Any] = cache(_usd)
        self._grade = cache(lambda kind, market, as_of_day: grade(kind, market, day(as_of_day), today))
        self._day = cache(day)
        self._planned = cache(lambda *of: planned(of, today))

    def offer(self, row: Sequence[Any]) -> Offer:
        """Return one offer as a flat row."""
        _, rental_id, region_id, usd, planning, on_demand, zones, as_of_day, *rest = row
        as_of_text, source_id, host, device_part, note_id, spot_mean, spot_low, spot_high, *of_planning = rest
        planned_as, spread = self._planned(planning, usd, *of_planning)
        rental = self._rentals[rental_id]
        kind, source = self._sources[source_id]
        money = self._usd
        return Offer(
            provider=rental.provider,
            region=self._regions[region_id],
            instance_type=rental.instance_type,
            device=rental.device,
            device_count=rental.device_count,
            vcpus=rental.vcpus,
            memory_gib=rental.memory_gib,
            market=rental.market,
            usd_per_hour=money(usd),
            planning_usd_per_hour=money(planning),
            price_grade=self._grade(kind, rental.market, as_of_day),
            price_as_of=self._day(as_of_day),
            price_source=source,
            zones=tuple(zones.split()) if zones else (),
            family=rental.family,
            cpu_architecture=rental.cpu_architecture,
            device_fraction=rental.device_fraction,
            device_memory_gib=rental.device_memory_gib,
            hosts=rental.hosts,
            on_demand_usd_per_hour=money(on_demand),
            host_usd_per_hour=money(host),
            device_usd_per_hour=money(device_part),
            price_as_of_text=as_of_text,
            interruption_bucket=rental.interruption_bucket,
            lifecycle=rental.lifecycle,
            billing=rental.billing,
            note=self._notes[note_id],
            availability=rental.availability,
            spot_mean_usd_per_hour=money(spot_mean),
            spot_low_usd_per_hour=money(spot_low),
            spot_high_usd_per_hour=money(spot_high),
            planned_as=planned_as,
            price_spread=spread,
        )


def quotes(
    quote_rows: Sequence[Sequence[Any]], sources: Mapping[int, tuple[PriceGrade, str]], today: date
) -> dict[int, Quote]:
    """Rows of `queries.quotes` by row id."""

    @cache
    def stamp(of: tuple[Any, ...]) -> PriceStamp:
        usd, market, zones, as_of_day, source_id, *of_planning = of
        as_of = day(as_of_day)
        graded = grade(sources[source_id][0], _market(market), as_of, today)
        planned_as, spread = planned((of_planning[0], usd, *of_planning[1:]), today)
        source = sources[source_id][1]
        return PriceStamp(tuple(zones.split()), graded, as_of, planned_as=planned_as, spread=spread, source=source)

    return {row[0]: Quote(row[1], stamp(tuple(row[1:]))) for row in quote_rows}


def planned(of: Sequence[Any], today: date) -> tuple[PlannedAs, PriceSpread]:
    """What a planning price rests on and how far the real one may lie from it, from the planning price and the columns
    of `queries._SPREAD`."""
    planning, raw, micro, until_day, read_day, old, is_share, floor, *rest = of
    as_listed, on_demand, ppm_per_day, low, high = rest
    ground = Ground(micro, until_day, read_day, old, bool(is_share), floor)
    basis = planned_as(ground, today, as_listed=bool(as_listed))
    if not planning or until_day == ALWAYS:
        return basis, AS_LISTED
    ends = PriceSpread(min(1.0, raw / planning), on_demand / planning if on_demand else math.inf)
    return basis, spread(ground, Drift(ppm_per_day, low, high), today, ends)


def _usd(micro: int | None) -> Decimal | None:
    return None if micro is None else from_micro(micro)


def day(ordinal: int | None) -> date | None:
    """A column of days, counted as `date.toordinal` does."""
    return None if ordinal is None else date.fromordinal(ordinal)
