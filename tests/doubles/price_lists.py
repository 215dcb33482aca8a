"""The three vendors' price lists on loopback, in recorded shapes: lists behind pages, SKUs, retail prices."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

AWS_NAMES = {
    "us-east-1": "US East (N. Virginia)",
    "us-east-2": "US East (Ohio)",
    "us-west-2": "US West (Oregon)",
    "eu-west-1": "EU (Ireland)",
}
"""Names of regions as AWS's price pages spell them; others have their code as a name here."""


def aws_locations(regions: Iterable[str]) -> bytes:
    """The names of regions, and what stands among them: a Local Zone, a government's region."""
    entries = {AWS_NAMES.get(code, code): (code, "AWS Region") for code in regions}
    entries["US West (Los Angeles)"] = ("us-west-2-lax-1", "AWS Local Zone")
    entries["AWS GovCloud (US-West)"] = ("us-gov-west-1", "AWS Region")
    return json.dumps(
        {
            name: {"name": name, "code": code, "type": kind, "label": name, "continent": "North America"}
            for name, (code, kind) in entries.items()
        }
    ).encode()


def aws_row(name: str, usd: str, **fields: str) -> dict[str, str]:
    """A Linux machine of the list behind the on-demand page; names of fields with underscores for blanks."""
    return {
        "rateCode": "2223B6PCG6QAUYY6.JRTCKXETXF.6YS6EN2CT7",
        "price": f"{Decimal(usd):.10f}",
        "Location": "US East (N. Virginia)",
        "Instance Family": "GPU instance" if name.startswith(("g", "p")) else "General purpose",
        "vCPU": "4",
        "Memory": "16 GiB",
        "Storage": "125 GB NVMe SSD",
        "Network Performance": "Up to 25 Gigabit",
        "Instance Type": name,
        "Operating System": "Linux",
        "Pre Installed S/W": "NA",
        "License Model": "No License required",
        "Current Generation": "Yes",
    } | {key.replace("_", " "): value for key, value in fields.items()}


def aws_list(region: str, rows: Iterable[Mapping[str, str]], **manifest: Any) -> bytes:
    """A region's list behind the on-demand page, packed: its server does not say that it is."""
    location = AWS_NAMES.get(region, region)
    short = re.sub(r"[()]", "", location)
    named = {
        f"{row['Instance Type'].replace('.', ' ')} {short} {row['Operating System']} {number}": {
            **row,
            "Location": location,
        }
        for number, row in enumerate(rows)
    }
    whole = {
        "manifest": {
            "serviceId": "ec2",
            "accessType": "publish",
            "hawkFilePublicationDate": "2026-11-18T19:32:11Z",
            "currencyCode": "USD",
            "source": "ec2",
        }
        | manifest,
        "sets": {},
        "regions": {location: named},
    }
    return gzip.compress(json.dumps(whole).encode(), mtime=0)


def spot_list(prices: Mapping[str, Mapping[str, str]]) -> bytes:
    """The list behind the spot page: price by machine type by region, as text (`N/A*` for none)."""
    regions = [
        {
            "region": region,
            "footnotes": {"*": "notAvailableForCCorCGPU"},
            "instanceTypes": [
                {
                    "type": "gpuCurrentGen",
                    "sizes": [{"size": name, "valueColumns": spot_columns(usd)} for name, usd in types.items()],
                },
                {"type": "generalPreviousGen", "sizes": []},
            ],
        }
        for region, types in prices.items()
    ]
    config = {"rate": "perhr", "valueColumns": ["linux", "mswin"], "currencies": ["USD"], "regions": regions}
    return json.dumps({"vers": 0.01, "config": config}, separators=(",", ":")).encode()


def spot_columns(usd: str) -> list[dict[str, Any]]:
    """A machine's price with Linux, and that it has none with Windows."""
    return [{"name": "linux", "prices": {"USD": usd}}, {"name": "mswin", "prices": {"USD": "N/A*"}}]


COPY_COLUMNS = (
    *("InstanceType", "vCPUs", "MemoryGiB", "AcceleratorName", "AcceleratorCount", "GpuInfo"),
    *("Region", "AvailabilityZone", "Price", "SpotPrice"),
)


def google_copy(rows: Iterable[tuple[str, str, str, str, str]]) -> bytes:
    """SkyPilot's copy of Google's prices. A row: machine type, or accelerator and count (`T4 1`); region; zone; price
    on demand; on spot."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COPY_COLUMNS)
    for thing, region, zone, usd, spot in rows:
        name, _, count = thing.partition(" ")
        what = ("", "", "", name, count, name) if count else (name, "8.0", "30.0", "", "", "")
        writer.writerow([*what, region, zone, usd, spot])
    return text.getvalue().encode()


def copy_changes(day: str = "2026-11-20") -> bytes:
    """GitHub's list of the commits that changed a file, the newest one."""
    return json.dumps([{"sha": "006059e0", "commit": {"committer": {"date": f"{day}T03:04:05Z"}}}]).encode()


def advisor_file(entries: dict[str, dict[str, tuple[int, int]]]) -> bytes:
    """Savings in percent and bucket, by region and machine type."""
    limits = (("<5%", 5), ("5-10%", 11), ("10-15%", 16), ("15-20%", 22), (">20%", 100))
    ranges = [{"index": index, "label": label, "max": most} for index, (label, most) in enumerate(limits)]
    systems = {
        region: {"Linux": {name: {"s": saved, "r": bucket} for name, (saved, bucket) in types.items()}, "Windows": {}}
        for region, types in entries.items()
    }
    return json.dumps({"global_rate": "<10%", "ranges": ranges, "instance_types": {}, "spot_advisor": systems}).encode()


def sku(description: str, usd: str, *regions: str, **changes: Any) -> dict[str, Any]:
    """A SKU of Google's; `unit`, `usage`, `group`, `currency` and `tiers` change it."""
    units, _, fraction = usd.partition(".")
    price = {"currencyCode": changes.get("currency", "USD"), "units": units, "nanos": int(fraction.ljust(9, "0"))}
    tiers = changes.get("tiers") or [{"startUsageAmount": 0, "unitPrice": price}]
    return {
        "name": "services/6F81-5844-456A/skus/0000-1111-2222",
        "description": description,
        "category": {
            "resourceFamily": "Compute",
            "resourceGroup": changes.get("group", "CPU"),
            "usageType": changes.get("usage", "OnDemand"),
        },
        "serviceRegions": list(regions) or ["us-central1"],
        "pricingInfo": [
            {
                "effectiveTime": "2026-11-20T08:00:00Z",
                "pricingExpression": {"usageUnit": changes.get("unit", "h"), "tieredRates": tiers},
            }
        ],
    }


def retail(name: str, usd: float, **changes: Any) -> dict[str, Any]:
    """A meter of Azure's."""
    words = name.removeprefix("Standard_").replace("_", " ")
    return {
        "currencyCode": "USD",
        "tierMinimumUnits": 0.0,
        "retailPrice": usd,
        "unitPrice": usd,
        "armRegionName": "eastus",
        "location": "US East",
        "effectiveStartDate": "2026-06-01T00:00:00Z",
        "meterName": words,
        "productName": "Virtual Machines NCasT4_v3 Series",
        "skuName": words,
        "serviceName": "Virtual Machines",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        "isPrimaryMeterRegion": True,
        "armSkuName": name,
    } | changes


def retail_page(items: list[Any], following: str | None = None, currency: str = "USD") -> bytes:
    page = {"BillingCurrency": currency, "Items": items, "NextPageLink": following, "Count": len(items)}
    return json.dumps(page).encode()


@dataclass
class World:
    """What the vendors publish; `day` is that of AWS's on-demand lists and of the copy's last change.

    `broken` answers a path that contains its key with these bytes, whole or cut off.
    `headers` come with the answer to a path that contains their key. `asked` are the paths in their order, `keys` the
    keys and tokens that came with them.
    """

    aws: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    spot: dict[str, dict[str, str]] = field(default_factory=dict)
    copy: list[tuple[str, str, str, str, str]] = field(default_factory=list)
    advice: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)
    compute: list[dict[str, Any]] = field(default_factory=list)
    tpu: list[dict[str, Any]] = field(default_factory=list)
    azure: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    day: str = "2026-11-18"
    page: int = 2
    busy: int = 0
    broken: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    cut_off: set[str] = field(default_factory=set)
    requests: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)


class NoHttp:
    """For a reader of price lists: a test overrides what it is asked, and everything else is an error."""

    def get(self, url: str, headers: Mapping[str, str] | None = None) -> bytes:
        raise AssertionError(f"{url} is not asked for")

    def get_dated(self, url: str) -> tuple[bytes, date | None]:
        raise AssertionError(f"{url} is not asked for its date")


class Handler(BaseHTTPRequestHandler):
    """Answers with the lists of its world."""

    world: World

    def do_GET(self) -> None:
        world, parts = self.world, urlsplit(self.path)
        world.requests.append(self.path)
        world.keys.append(self.headers.get("X-Goog-Api-Key") or self.headers.get("Authorization") or "")
        if world.busy:
            world.busy -= 1
            self._answer(429, b"later", {"Retry-After": "3"})
            return
        for fragment, (status, broken) in world.broken.items():
            if fragment in self.path:
                named = (headers for fragment, headers in world.headers.items() if fragment in self.path)
                self._answer(status, broken, next(named, None))
                return
        content = self.content_of(parts.path, {key: values[0] for key, values in parse_qs(parts.query).items()})
        cut = any(fragment in self.path for fragment in world.cut_off)
        # Amazon's object storage says when a file was last changed; the lists are made for each question.
        dated = {"Last-Modified": "Thu, 19 Nov 2026 04:00:11 GMT"} if parts.path.startswith("/spot-advisor") else None
        self._answer(200 if content else 404, content or b"not here", dated, cut_off=cut)

    def content_of(self, path: str, request: dict[str, str]) -> bytes | None:
        """The list at a path, asked for with these words; None: there is none."""
        world = self.world
        if path.endswith("locations.json"):
            return aws_locations(world.aws)
        if "/meteredUnitMaps/" in path:
            name = unquote(path.split("/")[-3])
            region = next((code for code in world.aws if AWS_NAMES.get(code, code) == name), None)
            published = {"hawkFilePublicationDate": f"{world.day}T19:32:11Z"}
            return aws_list(region, world.aws[region], **published) if region else None
        if path == "/spot.json":
            return spot_list(world.spot) if world.spot else None
        if path == "/vms.csv":
            return google_copy(world.copy) if world.copy else None
        if path == "/commits":
            return copy_changes(world.day)
        if path == "/spot-advisor-data.json":
            return advisor_file(world.advice)
        if path.startswith("/v1/services/"):
            return self._skus(world.tpu if "E000-3F24-B8AA" in path else world.compute, request)
        if path == "/api/retail/prices":
            return self._retail(request)
        return None

    def _skus(self, skus: list[dict[str, Any]], request: dict[str, str]) -> bytes:
        begin = int(request.get("pageToken", "0"))
        end = begin + self.world.page
        return json.dumps({"skus": skus[begin:end], "nextPageToken": str(end) if end < len(skus) else ""}).encode()

    def _retail(self, request: dict[str, str]) -> bytes:
        wanted = dict(re.findall(r"(\w+) eq '([^']*)'", request["$filter"]))
        name, region = wanted["armSkuName"], wanted.get("armRegionName")
        regions = [region] if region else sorted(self.world.azure)
        rows = [row for code in regions for row in self.world.azure.get(code, []) if row["armSkuName"] == name]
        begin = int(request.get("$skip", "0"))
        end = begin + self.world.page
        host = self.headers["Host"]
        following = f"http://{host}{self.path.partition('&$skip')[0]}&$skip={end}" if end < len(rows) else None
        return retail_page(rows[begin:end], following)

    def _answer(
        self, status: int, content: bytes, headers: dict[str, str] | None = None, *, cut_off: bool = False
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.end_headers()
        self.send_content(content[: len(content) // 2] if cut_off else content)

    def send_content(self, content: bytes) -> None:
        """Send the content, all of it."""
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def handler_of(world: World) -> type[Handler]:
    """What answers requests with the lists of a world."""
    return type("Handler", (Handler,), {"world": world})


@contextmanager
def serving(world: World, handler: Callable[[World], type[Handler]] = handler_of) -> Iterator[str]:
    """The lists at an address on loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(world))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def variables(address: str) -> dict[str, str]:
    """The environment that makes the command ask there."""
    return {
        "PLAN_AWS_PRICES_URL": address,
        "PLAN_AWS_SPOT_URL": f"{address}/spot.json",
        "PLAN_AWS_ADVISOR_URL": f"{address}/spot-advisor-data.json",
        "PLAN_GCP_PRICES_URL": address,
        "PLAN_GCP_COPY_URL": f"{address}/vms.csv",
        "PLAN_GCP_COPY_CHANGES_URL": f"{address}/commits",
        "PLAN_AZURE_PRICES_URL": f"{address}/api/retail/prices",
        "PLAN_GCP_API_KEY": "key-of-a-test",
    }
