"""What Google has billed: the export of the billing account to BigQuery, by the label of a run and the SKU.

Google tells costs by label nowhere else. The export is switched on by hand in the console, and begins on that day.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from trainplan.providers.base import LABEL_RUN
from trainplan.providers.cloud.invoice import Invoice, InvoiceLine, Part
from trainplan.providers.errors import BadRequestError, TransientError
from trainplan.providers.gcp.account import GcpAccount

LAG = timedelta(days=2)
"""That an export is whole after two days is assumed: Google states no delay for it."""
_SQL = f"""
SELECT IFNULL((SELECT value FROM UNNEST(labels) WHERE key = '{LABEL_RUN}'), '') AS run_id,
  service.description AS service, sku.description AS sku, currency,
  CAST(SUM(cost) AS STRING) AS cost,
  CAST(SUM(IFNULL((SELECT SUM(amount) FROM UNNEST(credits)), 0)) AS STRING) AS credit
FROM `{{table}}`
WHERE project.id = @project AND usage_start_time >= TIMESTAMP(@begin) AND usage_start_time < TIMESTAMP(@end)
GROUP BY run_id, service, sku, currency
"""
_PARTS = (
    (re.compile(r"(External IP|Static Ip)", re.IGNORECASE), Part.ADDRESS),
    (re.compile(r"(Egress|Data Transfer|Network Inter)", re.IGNORECASE), Part.TRANSFER),
    (re.compile(r"(PD Capacity|Hyperdisk|Disk)", re.IGNORECASE), Part.DISK),
    (re.compile(r"(Core|Ram|GPU|TPU|Instance)", re.IGNORECASE), Part.COMPUTE),
    (re.compile(r"Storage", re.IGNORECASE), Part.STORAGE),
    (re.compile(r"Tax", re.IGNORECASE), Part.TAX),
)


@dataclass(frozen=True)
class GoogleInvoice:
    """`table` is the export as PROJECT.DATASET.TABLE, "" where none is set."""

    account: GcpAccount
    table: str

    def told(self, begin: date, end: date, now: datetime) -> Invoice:
        """Raises ProviderError."""
        if not self.table:
            raise BadRequestError(
                "Google tells what was billed by label in an export of the billing account alone",
                hint="switch on the export to BigQuery (console: Billing, Billing export), then set `billing_export` "
                "in the table [gcp] of the settings to PROJECT.DATASET.TABLE",
            )
        rows = list(self._rows(begin, end))
        lines = [line for row in rows for line in _lines(row)]
        currency = next((row["currency"] for row in rows), "")
        whole_until = min(end, (now - LAG).date())
        return Invoice(begin=begin, end=end, currency=currency, lines=tuple(lines), whole_until=whole_until)

    def _rows(self, begin: date, end: date) -> Iterator[dict[str, str]]:
        """Each row by the names of its columns."""
        project = self.account.project
        body = {
            "query": _SQL.format(table=self.table),
            "useLegacySql": False,
            "parameterMode": "NAMED",
            "queryParameters": [
                _parameter("project", project),
                _parameter("begin", begin.isoformat()),
                _parameter("end", end.isoformat()),
            ],
            "labels": {"trainplan": "1"},
        }
        reply = self.account.ask("POST", "bigquery", f"/bigquery/v2/projects/{project}/queries", None, body)
        while True:
            if not reply.get("jobComplete"):
                raise TransientError("BigQuery has not answered within its 10 s", hint="try again")
            names = [field["name"] for field in reply.get("schema", {}).get("fields", ())]
            for row in reply.get("rows", ()):
                yield {name: str(cell["v"] or "") for name, cell in zip(names, row["f"], strict=True)}
            if not reply.get("pageToken"):
                return
            job: Any = reply["jobReference"]
            query = {"pageToken": str(reply["pageToken"]), "location": str(job.get("location", ""))}
            path = f"/bigquery/v2/projects/{project}/queries/{job['jobId']}"
            reply = self.account.ask("GET", "bigquery", path, query)


def _lines(row: Mapping[str, str]) -> Iterator[InvoiceLine]:
    """What was used, and what Google takes off again (a free trial, sustained use): its amount is below 0."""
    run_id, sku = row["run_id"], row["sku"]
    yield InvoiceLine(run_id=run_id, part=part_of(sku), amount=Decimal(row["cost"]), what=sku)
    yield InvoiceLine(run_id=run_id, part=Part.CREDIT, amount=Decimal(row["credit"] or "0"), what=sku)


def part_of(sku: str) -> Part:
    """The part of a receipt that a SKU belongs to, by its description."""
    return next((part for pattern, part in _PARTS if pattern.search(sku)), Part.OTHER)


def _parameter(name: str, value: str) -> dict[str, object]:
    return {"name": name, "parameterType": {"type": "STRING"}, "parameterValue": {"value": value}}
