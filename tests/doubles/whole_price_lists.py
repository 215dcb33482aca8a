"""The lists that a refresh reads, as long as they are: the shipped prices, and beside them as many machines that are
not known here as the real lists have.

Sizes as in public copies: a region's on-demand list 48 to 60 KB packed (as others report of 2026-08 and 2026-09), the
spot list 2.7 MB (alexei-led/spotinfo, 2026-08-10), the copy of Google's prices 2.2 MB (skypilot-catalog v8@006059e0),
the Spot Advisor 0.9 MB. Azure's meters of a machine type and region: Linux and Windows, each on demand, spot and low
priority. Nothing but AWS's on-demand lists is packed, though the other servers may do that too.
"""

from __future__ import annotations

import hashlib
from typing import Any

from tests.doubles.price_lists import AWS_NAMES, World, aws_row, retail
from trainplan.pricing.compile import TEXT_DIR
from trainplan.pricing.devices import CPU_DEVICE
from trainplan.pricing.tables import OfferRow, read_tables

_AWS_TYPES, _SPOT_TYPES, _COPY_ROWS = 950, 640, 28_000
_NEVER_ON_SPOT = ("me-central-1", "me-south-1")


def whole_world() -> World:
    """All lists with the shipped on-demand prices, and spot at three to five tenths of them."""
    tables = read_tables(TEXT_DIR)
    rows = {name: [row for row in tables.offers if row.type.provider == name] for name in ("aws", "azure", "gcp")}
    regions = sorted({row.region for row in rows["aws"]})
    AWS_NAMES.update({region: _location(region) for region in regions if region not in AWS_NAMES})
    return World(
        aws={region: _on_demand(rows["aws"], region) for region in regions},
        spot={region: _spot(rows["aws"], region) for region in regions if region not in _NEVER_ON_SPOT},
        advice={region: {f"x{number}.large": (60, 1) for number in range(900)} for region in regions},
        azure=_azure(rows["azure"]),
        copy=_copy(rows["gcp"]),
        page=1000,
    )


def _location(region: str) -> str:
    return f"Region of {region} (City)"


def _share(*names: str) -> float:
    """Three to five tenths, the same whenever the same names come."""
    return 0.3 + int(hashlib.sha256("/".join(names).encode()).hexdigest()[:4], 16) / 0xFFFF * 0.2


def _on_demand(rows: list[OfferRow], region: str) -> list[dict[str, str]]:
    known = {row.type.name: row.on_demand.usd_per_hour for row in rows if row.region == region and row.on_demand}
    more = [
        aws_row(f"m{number}i.{number % 48}xlarge", f"{0.05 + number / 100:.4f}")
        for number in range(_AWS_TYPES - len(known))
    ]
    for number, row in enumerate(more):
        row["rateCode"] = (
            f"{hashlib.sha256(f'{region}{number}'.encode()).hexdigest()[:16].upper()}.JRTCKXETXF.6YS6EN2CT7"
        )
    return [aws_row(name, str(usd)) for name, usd in known.items()] + more


def _spot(rows: list[OfferRow], region: str) -> dict[str, str]:
    known = {
        row.type.name: f"{float(row.on_demand.usd_per_hour) * _share(region, row.type.family):.4f}"
        for row in rows
        if row.region == region and row.on_demand
    }
    more = {
        f"m{number}i.{number % 48}xlarge": f"{0.02 + number / 300:.4f}" for number in range(_SPOT_TYPES - len(known))
    }
    return known | more | {"t3.nano": "9.0E-4", "p6e-gb200.36xlarge": "N/A*"}


def _azure(rows: list[OfferRow]) -> dict[str, list[dict[str, Any]]]:
    meters: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row.on_demand is None:
            continue
        usd, name = float(row.on_demand.usd_per_hour), row.type.name
        words = name.removeprefix("Standard_").replace("_", " ")
        for system, extra in (("", 0.0), (" Windows", 0.046 * (row.type.vcpus or 1))):
            for market, share in (("", 1.0), (" Spot", _share(row.region, name)), (" Low Priority", 0.2)):
                names = {"productName": f"Virtual Machines {words} Series{system}"}
                names |= {"skuName": f"{words}{market}", "meterName": f"{words}{market}"}
                meter = retail(name, round((usd + extra) * share, 6), armRegionName=row.region, **names, **_IDS)
                meters.setdefault(row.region, []).append(meter)
    return meters


_IDS = {
    "meterId": "0016083a-928f-56fd-8eeb-39287dcf676d",
    "productId": "DZH318Z0D1L7",
    "skuId": "DZH318Z0D1L7/018F",
    "serviceId": "DZH313Z7MMC8",
    "serviceFamily": "Compute",
    "availabilityId": None,
}


def _copy(rows: list[OfferRow]) -> list[tuple[str, str, str, str, str]]:
    """Hosts and accelerators apart, as the shipped parts have them; machines of one piece as half and half."""
    things: dict[tuple[str, str], tuple[str, str]] = {}
    for row in rows:
        if row.on_demand is None:
            continue
        usd, name = row.on_demand.usd_per_hour, row.type.name
        spot = usd * round(row.spot.usd_per_hour / usd, 2) if row.spot else usd / 2
        if name.startswith("tpu-"):
            things[f"{name} 1", row.region] = (str(usd), f"{spot:.5f}")
        elif row.type.device == CPU_DEVICE:
            things[name, row.region] = (str(usd), f"{spot:.5f}")
        elif "+" not in name:
            things[name, row.region] = (f"{usd / 2:.5f}", f"{spot / 2:.5f}")
            device = {"A100-40GB": "A100"}.get(row.type.device, row.type.device)
            things.setdefault(
                (f"{device} {row.type.device_count}.0", row.region), (f"{usd / 2:.5f}", f"{spot / 2:.5f}")
            )
    copy = [
        (thing, region, f"{region}-{zone}", *prices) for (thing, region), prices in things.items() for zone in "abc"
    ]
    copy += [
        (f"c4-highmem-{number}", "us-central1", "us-central1-a", f"{number / 90:.5f}", f"{number / 300:.5f}")
        for number in range(_COPY_ROWS - len(copy))
    ]
    return copy
