"""The three vendors' price lists on loopback, in the shapes that were recorded: bulk files, SKUs, retail prices."""

from __future__ import annotations

import csv
import io
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

AWS_COLUMNS = (
    *("SKU", "OfferTermCode", "RateCode", "TermType", "PriceDescription", "EffectiveDate", "StartingRange"),
    *("EndingRange", "Unit", "PricePerUnit", "Currency", "LeaseContractLength", "PurchaseOption", "OfferingClass"),
    *("Product Family", "serviceCode", "Location", "Location Type", "Instance Type", "Current Generation"),
    *("Instance Family", "vCPU", "Physical Processor", "Memory", "Tenancy", "Operating System", "License Model"),
    *("GPU", "CapacityStatus", "Pre Installed S/W", "Region Code", "MarketOption"),
)
_AWS_ROW = {
    "SKU": "2223B6PCG6QAUYY6",
    "OfferTermCode": "JRTCKXETXF",
    "TermType": "OnDemand",
    "EffectiveDate": "2026-11-01",
    "StartingRange": "0",
    "EndingRange": "Inf",
    "Unit": "Hrs",
    "Currency": "USD",
    "Product Family": "Compute Instance",
    "serviceCode": "AmazonEC2",
    "Location Type": "AWS Region",
    "vCPU": "4",
    "Memory": "16 GiB",
    "Tenancy": "Shared",
    "Operating System": "Linux",
    "License Model": "No License required",
    "CapacityStatus": "Used",
    "Pre Installed S/W": "NA",
    "Region Code": "us-east-1",
    "MarketOption": "OnDemand",
    "GPU": "1",
}


def aws_row(name: str, usd: str, **columns: str) -> dict[str, str]:
    """A Linux machine on demand; names of columns with underscores for blanks."""
    changed = {key.replace("_", " "): value for key, value in columns.items()}
    return _AWS_ROW | {"Instance Type": name, "PricePerUnit": usd} | changed


def aws_file(rows: list[dict[str, str]]) -> bytes:
    """A region's file: five lines about itself, the header, the rows."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows(
        [
            ("FormatVersion", "v1.0"),
            ("Disclaimer", "This pricing list is for informational purposes only."),
            ("Publication Date", "2026-11-18T19:32:11Z"),
            ("Version", "20261118193211"),
            ("OfferCode", "AmazonEC2"),
            AWS_COLUMNS,
        ]
    )
    writer.writerows([[row.get(column, "") for column in AWS_COLUMNS] for row in rows])
    return text.getvalue().encode()


def aws_index(regions: list[str]) -> bytes:
    entries = {
        region: {
            "regionCode": region,
            "currentVersionUrl": f"/offers/v1.0/aws/AmazonEC2/20261118193211/{region}/index.json",
        }
        for region in regions
    }
    return json.dumps({"formatVersion": "v1.0", "publicationDate": "2026-11-18T19:32:11Z", "regions": entries}).encode()


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
    """What the vendors publish. `broken` answers a path that contains its key with these bytes, whole or cut off.

    `headers` come with the answer to a path that contains their key. `asked` are the paths in their order, `keys` the
    keys and tokens that came with them.
    """

    aws: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    advice: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)
    compute: list[dict[str, Any]] = field(default_factory=list)
    tpu: list[dict[str, Any]] = field(default_factory=list)
    azure: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
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

    def stream(self, url: str, headers: Mapping[str, str] | None = None) -> Iterator[bytes]:
        raise AssertionError(f"{url} is not streamed")


class _Handler(BaseHTTPRequestHandler):
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
        content = self._content(parts.path, {key: values[0] for key, values in parse_qs(parts.query).items()})
        cut = any(fragment in self.path for fragment in world.cut_off)
        # Amazon's object storage says when a file was last changed; the lists are made for each question.
        dated = {"Last-Modified": "Thu, 19 Nov 2026 04:00:11 GMT"} if parts.path.startswith("/spot-advisor") else None
        self._answer(200 if content else 404, content or b"not here", dated, cut_off=cut)

    def _content(self, path: str, request: dict[str, str]) -> bytes | None:
        world = self.world
        if path.endswith("region_index.json"):
            return aws_index(list(world.aws))
        if path.endswith("/index.csv"):
            return aws_file(world.aws[path.split("/")[-2]])
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
        name = wanted.get("armSkuName")
        rows = [row for row in self.world.azure.get(wanted["armRegionName"], []) if name in (None, row["armSkuName"])]
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
        self.wfile.write(content[: len(content) // 2] if cut_off else content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def serving(world: World) -> Iterator[str]:
    """The lists at an address on loopback."""
    handler = type("Handler", (_Handler,), {"world": world})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
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
        "PLAN_AWS_ADVISOR_URL": f"{address}/spot-advisor-data.json",
        "PLAN_GCP_PRICES_URL": address,
        "PLAN_AZURE_PRICES_URL": f"{address}/api/retail/prices",
        "PLAN_GCP_API_KEY": "key-of-a-test",
    }
