"""`plan prices check`: a person's own list is held against itself and the known prices."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.planner.cli.command import plan
from trainplan.planner.errors import ExitCode

HEADER = "provider,region,instance_type,usd_per_hour,market,as_of\n"
LINUX = (
    "azure,eastus,Standard_D2as_v5,0.086,on_demand,2026-11-20\n"
    "azure,eastus,Standard_D8as_v5,0.344,,\n"
    "azure,westeurope,Standard_NC24ads_A100_v4,4.591,on-demand,\n"
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
    return tmp_path


def written(folder: Path, text: str, name: str = "our-prices.csv") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_list_of_linux_prices_passes_and_so_does_a_lower_price_of_a_contract(tmp_path: Path) -> None:
    lower = "azure,westus2,Standard_D8as_v5,0.275,on_demand,\n"
    said = plan("prices", "check", written(tmp_path, HEADER + LINUX + lower))
    assert (said.code, said.out) == (0, "our-prices.csv: 4 prices checked, 0 cannot be true\n")


def test_windows_rows_are_named_with_line_and_reason(tmp_path: Path) -> None:
    wrong = "azure,eastus2,Standard_D8as_v5,0.712,,\nazure,eastus2,Standard_NC24ads_A100_v4,4.777,,\n"
    file = written(tmp_path, HEADER + LINUX + wrong)
    said = plan("prices", "check", file)
    assert said.code == ExitCode.BAD_INPUT
    assert said.out.splitlines()[:2] == [
        "our-prices.csv:5: azure/eastus2/Standard_D8as_v5/on_demand: $0.712/h is $0.344 and 8 x 0.046 for Windows "
        "(other sizes of the family there say so)",
        "our-prices.csv:6: azure/eastus2/Standard_NC24ads_A100_v4/on_demand: $4.777/h is $3.673 and 24 x 0.046 for "
        "Windows (other sizes of the family there say so)",
    ]
    assert "2 of 5 checked prices of our-prices.csv cannot be true" in said.error
    result = plan("prices", "check", file, "--json").json
    assert (result["price_count"], result["not_checked"]) == (5, [])
    assert [(one["location"], one["check"], one["usd_per_hour"]) for one in result["failures"]] == [
        ("our-prices.csv:5", "windows", 0.712),
        ("our-prices.csv:6", "windows", 4.777),
    ]


def test_own_rates_of_the_settings_are_checked_as_well(tmp_path: Path) -> None:
    text = """
[[prices.override]]
provider = "aws"
region = "us-west-2"
instance_type = "p5.48xlarge"
usd_per_hour = 60.544

[[prices.override]]
provider = "aws"
family = "p5"
discount_percent = 30

[[prices.override]]
provider = "aws"
instance_type = "p5.48xlarge"
usd_per_hour = 38.5
"""
    said = plan("prices", "check", written(tmp_path, text, "settings.toml"))
    assert said.code == ExitCode.BAD_INPUT
    assert said.out.splitlines() == [
        "settings.toml: prices.override 1: aws/us-west-2/p5.48xlarge/on_demand: $60.544/h is 1.1 times $55.04: "
        "dedicated tenancy (other sizes of the family there say so)",
        "settings.toml: prices.override 2: not checked: a discount is no price",
        "settings.toml: prices.override 3: not checked: only a price of one instance_type in one region can be checked",
        "settings.toml: 1 price checked, 1 cannot be true",
    ]


def test_a_machine_that_is_not_known_is_not_checked_and_said_so(tmp_path: Path) -> None:
    said = plan("prices", "check", written(tmp_path, HEADER + "acme,moon,x1,1.5,,\nazure,eastus,Standard_Z9,1,,\n"))
    assert said.code == 0
    assert said.out.splitlines() == [
        "our-prices.csv:2: not checked: acme x1 is not known here",
        "our-prices.csv:3: not checked: azure Standard_Z9 is not known here",
        "our-prices.csv: 0 prices checked, 0 cannot be true",
    ]


def test_a_region_and_a_day_that_cannot_be_are_not_checked_and_not_counted(tmp_path: Path) -> None:
    wrong = "azure,westeuropa,Standard_D2as_v5,0.1,,\nazure,eastus,Standard_NC24ads_A100_v4,3.673,,2999-01-01\n"
    windows = "azure,eastus2,Standard_D8as_v5,0.712,,\n"
    said = plan("prices", "check", written(tmp_path, HEADER + wrong + windows))
    lines = said.out.splitlines()
    assert lines[1:3] == [
        "our-prices.csv:2: not checked: no price of azure in a region 'westeuropa' is known here; did you mean "
        "westeurope?",
        "our-prices.csv:3: not checked: its day, 2999-01-01, is in the future",
    ]
    assert lines[-1] == "our-prices.csv: 1 price checked, 1 cannot be true"
    assert said.error == "1 of 1 checked prices of our-prices.csv cannot be true"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "our-prices.csv has no column 'provider' in its line 1"),
        ("provider,region,instance_type\n", "our-prices.csv has no column 'usd_per_hour' in its line 1"),
        (HEADER, "our-prices.csv has no prices"),
        (HEADER.replace("as_of", "market"), "our-prices.csv has the column 'market' twice"),
        (HEADER + "azure,eastus,Standard_D8as_v5,free,,\n", "our-prices.csv:2: usd_per_hour 'free' is not a price"),
        (HEADER + "azure,eastus,Standard_D8as_v5,-1,,\n", "our-prices.csv:2: usd_per_hour '-1' is not a price"),
        (HEADER + "azure,eastus,,1,,\n", "our-prices.csv:2: instance_type is empty"),
        (HEADER + "azure,eastus,Standard_D8as_v5,1,reserved,\n", "market 'reserved' is not on_demand or spot"),
        (HEADER + "azure,eastus,Standard_D8as_v5,1,,soon\n", "as_of 'soon' is not a day"),
        (HEADER + "azure,eastus,Standard_D8as_v5,1,344,on_demand,\n", "our-prices.csv:2: more cells than columns"),
        (HEADER + LINUX + LINUX, "our-prices.csv:5: azure/eastus/Standard_D2as_v5/on_demand stands in the list twice"),
        (HEADER + 'azure,"eastus\n', "our-prices.csv:2: unexpected end of data"),
    ],
)
def test_a_file_that_is_no_list_gets_words(tmp_path: Path, text: str, message: str) -> None:
    said = plan("prices", "check", written(tmp_path, text))
    assert (said.code, said.out) == (ExitCode.BAD_INPUT, "")
    assert message in said.error


def test_a_file_that_cannot_be_read_gets_words(tmp_path: Path) -> None:
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    for name, message in (
        ("binary.csv", "it is not UTF-8 text"),
        ("none.csv", "No such file or directory"),
        (".", "Is a directory"),
    ):
        said = plan("prices", "check", str(tmp_path / name), "--json")
        assert said.code == ExitCode.BAD_INPUT
        assert message in said.json["error"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[prices", "settings.toml: "),
        ("", "settings.toml has no [[prices.override]]"),
        ("prices = 3", "what can be set is prices.override"),
        ('[[prices.override]]\nprovider = "aws"\n', "prices.override 1: needs usd_per_hour or discount_percent"),
    ],
)
def test_settings_without_rates_get_words(tmp_path: Path, text: str, message: str) -> None:
    said = plan("prices", "check", written(tmp_path, text, "settings.toml"))
    assert (said.code, said.out) == (ExitCode.BAD_INPUT, "")
    assert message in said.error
