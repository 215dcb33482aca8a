"""What is asked of a vendor, with an account and without."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.price_lists import (
    advisor_file,
    aws_list,
    aws_locations,
    aws_row,
    copy_changes,
    google_copy,
    retail,
    retail_page,
    sku,
    spot_list,
)
from tests.unit.pricing.sources.test_aws_account import ACCOUNT
from trainplan.pricing.grades import Market
from trainplan.pricing.merge import News
from trainplan.pricing.refresh import known_of
from trainplan.pricing.sources import aws_account, gcp_copy
from trainplan.pricing.sources.news import Accounts, Asking, news_of
from trainplan.pricing.sources.offerings import BearerToken

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
REGION = "us-east-1"


class Lists:
    """The public lists; what is in `broken` answers with a web page."""

    def __init__(self, *broken: str) -> None:
        self.broken = broken
        self.requests: list[str] = []

    def get(self, url: str, headers: Mapping[str, str] | None = None) -> bytes:
        self.requests.append(url)
        if any(fragment in url for fragment in self.broken):
            return b"<html>"
        if "locations.json" in url:
            return aws_locations([REGION])
        if "meteredUnitMaps" in url:
            return gzip.decompress(aws_list(REGION, [aws_row("g4dn.xlarge", "0.526")]))
        if "spot.json" in url:
            return spot_list({REGION: {"g4dn.xlarge": "0.2"}})
        if "vms.csv" in url and "commits" in url:
            return copy_changes()
        if "vms.csv" in url:
            return google_copy([("tpu-v3-8 1", "us-central1", "us-central1-a", "8.0", "2.04")])
        if "spot-advisor" in url:
            return advisor_file({REGION: {"g4dn.xlarge": (60, 1)}})
        if "cloudbilling" in url:
            tpu = sku("Tpu-v3 Accelerator running in Americas", "8", group="TPU")
            return json.dumps({"skus": [tpu] if "E000" in url else []}).encode()
        if "aggregated" in url or "Microsoft.Compute" in url:
            return json.dumps({"items": {}, "value": []}).encode()
        return retail_page([retail("Standard_NC4as_T4_v3", 0.5)])

    def get_dated(self, url: str) -> tuple[bytes, date | None]:
        return self.get(url), date(2026, 11, 19)


def nobody(*requests: Any) -> None:
    return None


def asking(http: Lists, answers: list[str], environment: Mapping[str, str] | None = None, **accounts: Any) -> Asking:
    found = Accounts(**({"aws": nobody, "google": nobody, "azure": nobody} | accounts))
    return Asking(
        http=http,
        environment=environment or {},
        now=NOW,
        say=answers.append,
        regions=frozenset({REGION}),
        accounts=found,
    )


def test_aws_without_an_account_reads_the_lists_behind_its_pages(tmp_path: Path) -> None:
    http, said = Lists(), list[str]()
    news = news_of(known_of("aws", tmp_path), asking(http, said))
    assert [part.name for part in news.parts] == [REGION, "spot by region", "Spot Advisor"]
    assert news.offered is None
    assert news.advice is not None
    assert news.advice.as_of == date(2026, 11, 19), "the day on which the file was last modified"
    assert said == ["on demand: 1 prices", "spot by region: 1 prices"]


def test_aws_with_an_account_asks_for_prices_spot_and_offerings(tmp_path: Path) -> None:
    http, said = Lists(), list[str]()
    news = news_of(known_of("aws", tmp_path), asking(http, said, aws=lambda: ACCOUNT))
    assert [(part.name, part.markets) for part in news.parts] == [
        (REGION, {Market.ON_DEMAND}),
        ("spot by region", {Market.SPOT}),
        (f"{REGION} spot", {Market.SPOT}),
        ("Spot Advisor", set()),
    ], "prices of zones come behind those of their region, and take their place"
    assert news.offered is not None
    assert news.offered.regions == {REGION}
    assert not any("meteredUnitMaps" in url for url in http.requests), "the account's own prices were read"


def test_an_account_that_is_refused_reads_what_everybody_may(tmp_path: Path) -> None:
    def client(service: str, region: str) -> Any:
        raise ValueError("ExpiredToken")

    refused = aws_account.AwsClients(client, (ValueError,))
    news = news_of(known_of("aws", tmp_path), asking(Lists(), [], aws=lambda: refused))
    assert {part.name: bool(part.error) for part in news.parts} == {
        REGION: False, "spot by region": False, f"{REGION} spot": True, "Spot Advisor": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("broken", "failed"),
    [
        ("spot-advisor", "Spot Advisor"),
        ("locations.json", "on demand"),
        ("meteredUnitMaps", REGION),
        ("spot.json", "spot by region"),
    ],
)
def test_a_list_of_aws_that_is_none_leaves_the_others(tmp_path: Path, broken: str, failed: str) -> None:
    news = news_of(known_of("aws", tmp_path), asking(Lists(broken), []))
    assert {part.name: part.error for part in news.parts if part.error} == {failed: _error(news, failed)}
    assert "a web page came" in _error(news, failed)
    assert len(news.parts) == 3


def _error(news: News, name: str) -> str:
    return next(part.error for part in news.parts if part.name == name)


@pytest.mark.parametrize(
    ("environment", "account", "offered"),
    [
        ({"PLAN_GCP_API_KEY": "k"}, None, False),
        ({"GOOGLE_API_KEY": "k"}, None, False),
        ({}, BearerToken("t", ""), False),
        ({}, BearerToken("t", "mine"), True),
    ],
)
def test_google_with_a_key_or_an_account(
    tmp_path: Path, environment: dict[str, str], account: BearerToken | None, *, offered: bool
) -> None:
    one = asking(Lists(), [], environment, google=lambda env: account)
    one = replace(one, regions=frozenset({"us-central1"}))
    news = news_of(known_of("gcp", tmp_path), one)
    assert news.parts[0].name == "us-central1"
    assert (news.parts[0].error, news.offered is not None) == ("", offered)
    assert {one.instance_type for one in news.parts[0].parsed.prices} == {"tpu-v3-8"}


def test_google_to_nobody_is_another_projects_copy(tmp_path: Path) -> None:
    said = list[str]()
    one = replace(asking(Lists(), said), regions=frozenset({"us-central1"}))
    news = news_of(known_of("gcp", tmp_path), one)
    assert [(price.usd_per_hour, price.source) for part in news.parts for price in part.parsed.prices] == [
        (Decimal("8.0"), gcp_copy.COPY_ID), (Decimal("2.04"), gcp_copy.COPY_ID),
    ]  # fmt: skip
    assert said == ["copy of Google's list: 2 prices"]


def test_azure_and_its_offerings(tmp_path: Path) -> None:
    broken = Lists("Microsoft.Compute")
    for http in (Lists(), broken):
        one = replace(asking(http, [], azure=lambda env: BearerToken("t", "mine")), regions=frozenset({"eastus"}))
        news = news_of(known_of("azure", tmp_path), one)
        read = {part.name for part in news.parts if not part.error}
        assert read == {"Standard_NC4as_T4_v3", *(() if http is broken else ("offerings",))}
        assert (news.offered is None) is (http is broken)


def test_lists_that_fail_for_one_reason_are_told_in_one_line_and_counted_as_they_come(tmp_path: Path) -> None:
    said, counted = list[str](), list[tuple[int, int]]()
    one = replace(asking(Lists("retail"), said), progress=lambda done, of: counted.append((done, of)))
    news = news_of(known_of("azure", tmp_path), one)
    count = len(news.parts)
    assert (len([part for part in news.parts if part.error]), counted[-1]) == (count, (count, count))
    assert [done for done, _ in counted] == list(range(1, count + 1))
    (line,) = said
    assert f" and {count - 1} more: " in line


def test_mirrors_of_the_environment_are_asked(tmp_path: Path) -> None:
    http = Lists()
    environment = {
        "PLAN_AWS_PRICES_URL": "https://mirror.test",
        "PLAN_AWS_SPOT_URL": "https://mirror.test/spot.json",
        "PLAN_AWS_ADVISOR_URL": "https://mirror.test/spot-advisor",
    }
    news_of(known_of("aws", tmp_path), asking(http, [], environment))
    assert all(url.startswith("https://mirror.test") for url in http.requests)


def test_without_credentials_there_is_no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    assert aws_account.AwsClients.find() is None
