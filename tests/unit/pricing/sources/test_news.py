"""What is asked of a vendor, with an account and without."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.price_lists import advisor_file, aws_file, aws_index, aws_row, retail, retail_page, sku
from tests.unit.pricing.sources.test_aws_account import ACCOUNT
from trainplan.pricing.grades import Market
from trainplan.pricing.refresh import known_of
from trainplan.pricing.sources import aws_account
from trainplan.pricing.sources.news import Accounts, Asking, news_of
from trainplan.pricing.sources.offerings import BearerToken
from trainplan.pricing.sources.reading import SourceError

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
        if "region_index" in url:
            return aws_index([REGION])
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

    def stream(self, url: str, headers: Mapping[str, str] | None = None) -> Iterator[bytes]:
        self.requests.append(url)
        yield aws_file([aws_row("g4dn.xlarge", "0.526")])


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


def test_aws_without_an_account_reads_the_whole_list(tmp_path: Path) -> None:
    http, said = Lists(), list[str]()
    news = news_of(known_of("aws", tmp_path), asking(http, said))
    assert [part.name for part in news.parts] == [REGION, "Spot Advisor"]
    assert news.offered is None
    assert news.advice is not None
    assert news.advice.as_of == date(2026, 11, 19), "the day on which the file was last modified"
    assert any("hundreds of MB" in line for line in said)
    assert f"{REGION}: 1 prices" in said


def test_aws_with_an_account_asks_for_prices_spot_and_offerings(tmp_path: Path) -> None:
    http, said = Lists(), list[str]()
    news = news_of(known_of("aws", tmp_path), asking(http, said, aws=lambda: ACCOUNT))
    assert [(part.name, part.markets) for part in news.parts] == [
        (REGION, {Market.ON_DEMAND}),
        (f"{REGION} spot", {Market.SPOT}),
        ("Spot Advisor", set()),
    ]
    assert news.offered is not None
    assert news.offered.regions == {REGION}
    assert not any("/offers/" in url for url in http.requests), "the bulk files are for those without an account"


def test_aws_without_its_advisor(tmp_path: Path) -> None:
    news = news_of(known_of("aws", tmp_path), asking(Lists("spot-advisor"), []))
    assert news.advice is None
    assert "a web page came" in news.parts[-1].error


def test_aws_without_its_index_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="a web page came"):
        news_of(known_of("aws", tmp_path), asking(Lists("region_index"), []))


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


def test_google_to_nobody(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="only to somebody it knows"):
        news_of(known_of("gcp", tmp_path), asking(Lists(), []))


def test_azure_and_its_offerings(tmp_path: Path) -> None:
    said: list[str] = []
    broken = Lists("Microsoft.Compute")
    for http, names in ((Lists(), [REGION, "offerings"]), (broken, [REGION, "offerings"])):
        one = asking(http, said, azure=lambda env: BearerToken("t", "mine"))
        news = news_of(known_of("azure", tmp_path), one)
        assert [part.name for part in news.parts] == names
        assert (news.offered is None) is (http is broken)


def test_regions_that_fail_for_one_reason_are_told_in_one_line(tmp_path: Path) -> None:
    said: list[str] = []
    one = replace(asking(Lists("retail"), said), regions=frozenset(f"region-{number}" for number in range(61)))
    news = news_of(known_of("azure", tmp_path), one)
    assert len([part for part in news.parts if part.error]) == 61
    (line,) = said
    assert line.startswith("region-0 and 60 more: ")


def test_mirrors_of_the_environment_are_asked(tmp_path: Path) -> None:
    http = Lists()
    environment = {
        "PLAN_AWS_PRICES_URL": "https://mirror.test",
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
