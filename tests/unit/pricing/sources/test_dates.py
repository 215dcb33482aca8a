"""Every source dates its prices by what the list says of itself; one of the moment is of the day of reading."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

from tests.doubles.price_lists import World, advisor_file, retail, retail_page, serving, sku
from trainplan.pricing.compile import TEXT_DIR
from trainplan.pricing.sources import aws, aws_account, azure, gcp
from trainplan.pricing.sources.http import UrllibHttp
from trainplan.pricing.sources.reading import Parsed, PriceFound, day_of
from trainplan.pricing.tables import read_tables

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
REGION = "us-east-1"


def dates(parsed: Parsed) -> dict[str, tuple[date | None, date | None]]:
    return {one.instance_type: (one.as_of, one.since) for one in parsed.prices}


def test_awss_query_has_a_publication_date_in_each_product() -> None:
    text = json.dumps(
        {
            "product": {"attributes": {"instanceType": "g5.xlarge", "regionCode": REGION}},
            "publicationDate": "2026-11-19T10:00:00Z",
            "terms": {
                "OnDemand": {
                    "a": {
                        "effectiveDate": "2026-11-01T00:00:00Z",
                        "priceDimensions": {"b": {"unit": "Hrs", "pricePerUnit": {"USD": "1.006"}}},
                    }
                }
            },
        }
    )
    parsed = aws_account.parse_products([text], REGION)
    assert dates(parsed) == {"g5.xlarge": (date(2026, 11, 19), date(2026, 11, 1))}


def test_ec2s_spot_history_is_as_new_as_its_newest_change() -> None:
    def change(name: str, day: int) -> dict[str, object]:
        return {
            "AvailabilityZone": f"{REGION}a", "InstanceType": name, "ProductDescription": "Linux/UNIX",
            "SpotPrice": "0.4", "Timestamp": datetime(2026, 11, day, tzinfo=UTC),
        }  # fmt: skip

    parsed = aws_account.parse_history([change("g5.xlarge", 17), change("g4dn.xlarge", 21)], REGION, NOW)
    newest = date(2026, 11, 21)
    assert dates(parsed) == {"g5.xlarge": (newest, date(2026, 11, 17)), "g4dn.xlarge": (newest, newest)}


def test_azures_list_is_the_one_of_the_moment() -> None:
    item = retail("Standard_NC4as_T4_v3", 0.526, effectiveStartDate="2019-05-01T00:00:00Z")
    page = azure.parse_page(retail_page([item]), ("Standard_NC4as_T4_v3", {"eastus"}), NOW.date())
    found = azure.settled(page.rows, page.parsed, NOW.date())
    assert dates(Parsed(prices=found)) == {"Standard_NC4as_T4_v3": (NOW.date(), date(2019, 5, 1))}


def test_a_google_machine_is_as_old_as_its_oldest_part() -> None:
    core, ram = (
        sku("N2 Instance Core running in Iowa", "0.031611"),
        sku("N2 Instance Ram running in Iowa", "0.004237", unit="GiBy.h"),
    )
    ram["pricingInfo"][0]["effectiveTime"] = "2026-11-02T08:00:00Z"
    assert [one.as_of for one in _n2(core, ram)] == [date(2026, 11, 2)]
    del ram["pricingInfo"][0]["effectiveTime"]
    assert [one.as_of for one in _n2(core, ram)] == [None]


def _n2(*skus: dict[str, object]) -> list[PriceFound]:
    page = gcp.parse_page(json.dumps({"skus": skus}).encode())
    kind = read_tables(TEXT_DIR).types["gcp", "n2-standard-8"]
    found = gcp.machines(page.prices, [kind], page.parsed)
    assert all(one.usd_per_hour > Decimal("0.2") for one in found)
    return found


def test_the_spot_advisors_file_is_as_old_as_its_server_says() -> None:
    world = World(headers={"spot-advisor": {"Last-Modified": "Sat, 28 Jun 2025 04:00:11 GMT"}})
    world.broken["spot-advisor"] = (200, advisor_file({REGION: {"g4dn.xlarge": (60, 1)}}))
    with serving(world) as address:
        http = UrllibHttp(lambda _: None, "trainplan/test")
        advice = aws.read_advisor(http, aws.Endpoints(advisor=f"{address}/spot-advisor"))
    assert advice.as_of == date(2025, 6, 28)


def test_a_day_is_read_from_an_instant_and_from_nothing_else() -> None:
    assert day_of("2026-11-18T19:32:11Z") == day_of("2026-11-18") == date(2026, 11, 18)
    assert [day_of(value) for value in (None, 3, "", "2026", "2026-13-01", "2026-11-1", "20261118", "x2026-11-18")] == [
        None
    ] * 8
