"""Text that cannot be true is refused, with its file and line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pricing.tables import TableError, read_tables
from tests.unit.pricing.conftest import on_demand, spot

if TYPE_CHECKING:
    from tests.unit.pricing.conftest import TextDir


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (on_demand("0"), "above 0"),
        (on_demand("-1"), "above 0"),
        (on_demand("NaN"), "above 0"),
        (on_demand("2147.483648"), "can hold"),
        (on_demand("1,20"), "aws.csv:2"),
        (on_demand("1", as_of="2026-07"), "2026-07"),
        (on_demand("1", as_of=""), "neither a date"),
        (on_demand("1", source="hearsay"), "hearsay"),
        ({}, "needs a price"),
        (spot("0.1") | {"spot_interruption_bucket": "often"}, "often"),
    ],
)
def test_a_price_that_cannot_be(text_dir: TextDir, columns: dict[str, str], message: str) -> None:
    text_dir.add_type("g4dn.xlarge")
    text_dir.add_offer("us-east-1", "g4dn.xlarge", **columns)
    with pytest.raises(TableError, match=message):
        text_dir.compile()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"device": "T5"}, "T5"),
        ({"device_fraction": "0"}, "fraction"),
        ({"device_fraction": "3/2"}, "fraction"),
        ({"cpu_architecture": "mips"}, "mips"),
        ({"state": "sleeping"}, "sleeping"),
        ({"state": "retired"}, "since when"),
        ({"state": "retired", "state_date": "2025-01-01"}, "what replaces it"),
        ({"vcpus": "many"}, "many"),
    ],
)
def test_a_type_that_cannot_be(text_dir: TextDir, columns: dict[str, str], message: str) -> None:
    text_dir.add_type("g4dn.xlarge", **columns)
    text_dir.add_offer("us-east-1", "g4dn.xlarge", **on_demand("1"))
    with pytest.raises(TableError, match=message) as caught:
        text_dir.compile()
    assert "instance_types.csv:2" in str(caught.value)


def test_two_rows_for_one_offer(text_dir: TextDir) -> None:
    text_dir.add_type("g4dn.xlarge")
    text_dir.add_offer("us-east-1", "g4dn.xlarge", **on_demand("1"))
    text_dir.add_offer("us-east-1", "g4dn.xlarge", **on_demand("2"))
    with pytest.raises(TableError, match=r"two rows for aws us-east-1 g4dn\.xlarge"):
        text_dir.compile()


def test_columns_are_named_and_in_order(text_dir: TextDir) -> None:
    text_dir.add_type("g4dn.xlarge")
    text_dir.add_offer("us-east-1", "g4dn.xlarge", **on_demand("1"))
    text_dir.compile()
    table = text_dir.path / "offers" / "aws.csv"
    table.write_text(table.read_text(encoding="utf-8").replace("region,", "place,", 1), encoding="utf-8")
    with pytest.raises(TableError, match="the columns must be region,"):
        read_tables(text_dir.path)


@pytest.mark.parametrize("text", ["[[device]\n", '[[device]]\nname = "T9"\n'])
def test_a_device_table_that_cannot_be_read(text_dir: TextDir, text: str) -> None:
    text_dir.add_type("g4dn.xlarge")
    text_dir.compile()
    (text_dir.path / "devices.toml").write_text(text, encoding="utf-8")
    with pytest.raises(TableError, match=r"devices\.toml"):
        read_tables(text_dir.path)


def test_one_spelling_for_two_devices(text_dir: TextDir) -> None:
    text_dir.add_type("g4dn.xlarge")
    text_dir.compile()
    table = text_dir.path / "devices.toml"
    table.write_text(table.read_text(encoding="utf-8").replace('"T4g"', '"t4"', 1), encoding="utf-8")
    with pytest.raises(TableError, match="means T4 and T4G"):
        read_tables(text_dir.path)
