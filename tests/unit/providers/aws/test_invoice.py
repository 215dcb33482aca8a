"""What Cost Explorer tells, read by run and part; the question is held against botocore's model of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator

from tests.doubles.clock import NOON
from trainplan.providers.aws.account import AwsAccount
from trainplan.providers.aws.invoice import AwsInvoice, part_of
from trainplan.providers.aws.settings import AwsSettings
from trainplan.providers.cloud.invoice import Part
from trainplan.providers.errors import BadRequestError, PermissionDeniedError, UnrecognizedError

BEGIN, END = date(2026, 11, 20), date(2026, 11, 22)


class CostExplorer:
    """Answers page by page."""

    home = "eu-west-1"

    def __init__(self, *pages: list[dict[str, Any]]) -> None:
        self.pages = pages
        self.asked: list[Mapping[str, Any]] = []
        self._shape = (
            botocore.session.get_session().get_service_model("ce").operation_model("GetCostAndUsage").input_shape
        )

    def call(self, service: str, region: str, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        assert (service, region, operation) == ("ce", "us-east-1", "GetCostAndUsage")
        report = ParamValidator().validate(dict(parameters), self._shape)
        assert not report.has_errors(), report.generate_report()
        self.asked.append(parameters)
        if "Not" not in parameters["Filter"]:
            return {"ResultsByTime": [_only(day, "Credit", "Refund") for page in self.pages for day in page]}
        number = len(self.asked)
        more = {"NextPageToken": str(number)} if number < len(self.pages) else {}
        return {"ResultsByTime": [_less(day, "Credit", "Refund") for day in self.pages[number - 1]], **more}


def day(start: str, *rows: tuple[str, str, str], estimated: bool = False) -> dict[str, Any]:
    groups = [
        {"Keys": [f"trainplan-run${run}", usage], "Metrics": {"UnblendedCost": {"Amount": usd, "Unit": "USD"}}}
        for run, usage, usd in rows
    ]
    return {"TimePeriod": {"Start": start, "End": "x"}, "Total": {}, "Groups": groups, "Estimated": estimated}


def _only(day: dict[str, Any], *kinds: str) -> dict[str, Any]:
    return {**day, "Groups": [row for row in day["Groups"] if row["Keys"][1] in kinds]}


def _less(day: dict[str, Any], *kinds: str) -> dict[str, Any]:
    return {**day, "Groups": [row for row in day["Groups"] if row["Keys"][1] not in kinds]}


def told(*pages: list[dict[str, Any]]) -> tuple[Any, CostExplorer]:
    explorer = CostExplorer(*pages)
    account = AwsAccount(explorer, AwsSettings(), lambda: NOON)
    return AwsInvoice(account).told(BEGIN, END), explorer


def test_costs_are_told_by_run_and_part_over_all_pages() -> None:
    invoice, explorer = told(
        [day("2026-11-20", ("r1", "EUW1-SpotUsage:g4dn.xlarge", "0.4"), ("r1", "EUW1-EBS:VolumeUsage.gp3", "0.02"))],
        [day("2026-11-21", ("r1", "EUW1-SpotUsage:g4dn.xlarge", "0.1"), ("", "NoUsageType", "0.05"))],
    )
    assert invoice.by_part("r1") == {Part.COMPUTE: Decimal("0.5"), Part.DISK: Decimal("0.02")}
    assert invoice.by_part("") == {Part.TAX: Decimal("0.05")}
    assert (invoice.run_ids, invoice.is_whole, invoice.notes) == (("r1",), True, ())
    assert len(explorer.asked) == 3
    assert explorer.asked[1]["NextPageToken"] == "1"


def test_credits_are_asked_for_apart_and_costs_without_them() -> None:
    """Cost Explorer nets them else: a new customer's credits make each run cost nothing."""
    invoice, explorer = told(
        [
            day("2026-11-20", ("r1", "BoxUsage:c7i-flex.large", "12"), ("r1", "Credit", "-12")),
            day("2026-11-21", ("", "NoUsageType", "1"), ("", "Credit", "-0.5"), ("", "Refund", "-0.25")),
        ]
    )
    assert invoice.by_part("r1") == {Part.COMPUTE: Decimal(12), Part.CREDIT: Decimal(-12)}
    assert invoice.by_part("") == {Part.TAX: Decimal(1), Part.CREDIT: Decimal("-0.75")}
    assert (invoice.total, invoice.credit) == (Decimal(13), Decimal("-12.75"))
    filters = [row["Filter"] for row in explorer.asked]
    assert filters == [{"Not": filters[1]}, filters[1]]
    assert [row["GroupBy"][1]["Key"] for row in explorer.asked] == ["USAGE_TYPE", "RECORD_TYPE"]


def test_who_may_not_see_billing_is_told_of_the_root_users_switch() -> None:
    class Closed(CostExplorer):
        def call(self, service: str, region: str, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
            raise PermissionDeniedError("User not enabled for cost explorer access", code="AccessDeniedException")

    with pytest.raises(PermissionDeniedError) as told:
        AwsInvoice(AwsAccount(Closed(), AwsSettings(), lambda: NOON)).told(BEGIN, END)
    assert "root user" in told.value.hint


def test_an_estimated_day_is_not_yet_whole() -> None:
    invoice, _ = told([day("2026-11-20"), day("2026-11-21", ("r1", "BoxUsage:t3.small", "1"), estimated=True)])
    assert (invoice.is_whole, invoice.whole_until) == (False, date(2026, 11, 21))


def test_a_tag_that_is_switched_off_is_told() -> None:
    invoice, _ = told([day("2026-11-20", ("", "BoxUsage:t3.small", "1"))])
    assert "Cost allocation tags" in invoice.notes[0]


def test_an_account_without_costs_yet_is_told_when_it_has_some() -> None:
    class FirstDay(CostExplorer):
        def call(self, service: str, region: str, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
            raise UnrecognizedError(
                "Data is not available. Please try to adjust the time period", code="DataUnavailableException"
            )

    with pytest.raises(BadRequestError, match="not available") as told:
        AwsInvoice(AwsAccount(FirstDay(), AwsSettings(), lambda: NOON)).told(BEGIN, END)
    assert "a day after Cost Explorer is first opened" in told.value.hint


def test_no_day_is_no_question() -> None:
    explorer = CostExplorer([])
    with pytest.raises(BadRequestError, match="no day"):
        AwsInvoice(AwsAccount(explorer, AwsSettings(), lambda: NOON)).told(END, END)
    assert explorer.asked == []


@pytest.mark.parametrize(
    ("usage_type", "part"),
    [
        ("BoxUsage:p3.2xlarge", Part.COMPUTE),
        ("USW2-DedicatedUsage:p3.2xlarge", Part.COMPUTE),
        ("EBS:SnapshotUsage", Part.DISK),
        ("USE1-PublicIPv4:InUseAddress", Part.ADDRESS),
        ("EUW1-USE1-AWS-Out-Bytes", Part.TRANSFER),
        ("DataTransfer-Out-Bytes", Part.TRANSFER),
        ("TimedStorage-ByteHrs", Part.STORAGE),
        ("Lambda-GB-Second", Part.OTHER),
    ],
)
def test_usage_types_are_parts(usage_type: str, part: Part) -> None:
    assert part_of(usage_type) is part
