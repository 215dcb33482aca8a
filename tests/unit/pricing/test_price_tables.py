"""Text that cannot be true is refused, with its file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.pricing.conftest import TextDir, on_demand, spot
from trainplan.pricing.device_text import read_devices
from trainplan.pricing.table_text import TableError
from trainplan.pricing.tables import read_tables


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (on_demand("0"), "above 0"),
        (on_demand("-1"), "above 0"),
        (on_demand("NaN"), "above 0"),
        (on_demand("2147.483648"), "can hold"),
        (on_demand("1,20"), r"^aws\.csv:2: on_demand_usd_per_hour '1,20' is not a number$"),
        (on_demand("1", as_of="2026-07"), r"on_demand_as_of '2026-07' is not a day as 2026-11-23"),
        (on_demand("1", as_of=""), "neither a date"),
        (
            on_demand("1", source="hearsay"),
            r"^aws\.csv:2: on_demand_source 'hearsay' is not in sources.csv: add a row there",
        ),
        ({}, "needs a price"),
        (spot("0.1") | {"spot_interruption_bucket": "often"}, "spot_interruption_bucket 'often' is not a whole number"),
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
        ({"device": "T5"}, "device 'T5' is not in devices.toml: add a row there"),
        ({"device_fraction": "0"}, "fraction"),
        ({"device_fraction": "3/2"}, "fraction"),
        ({"cpu_architecture": "mips"}, "cpu_architecture 'mips' is not one of arm64, x86_64"),
        ({"state": "sleeping"}, "state 'sleeping' is not one of active, "),
        ({"state": "retired"}, "since when"),
        ({"state": "retired", "state_date": "2025-01-01"}, "what replaces it"),
        ({"vcpus": "many"}, "vcpus 'many' is not a whole number"),
        ({"memory_gib": "some"}, "memory_gib 'some' is not a number"),
        ({"state_date": "soon"}, "state_date 'soon' is not a day"),
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
    table.write_text(table.read_text(encoding="utf-8").replace("region,", "placement,", 1), encoding="utf-8")
    with pytest.raises(TableError, match="the columns must be region,"):
        read_tables(text_dir.path)


def test_an_offer_of_a_machine_that_is_not_there(text_dir: TextDir) -> None:
    text_dir.add_type("g4dn.xlarge")
    text_dir.add_offer("us-east-1", "lambda-test", **on_demand("1"))
    said = r"^aws\.csv:2: instance_type 'lambda-test' of aws is not in instance_types\.csv: add a row there$"
    with pytest.raises(TableError, match=said):
        text_dir.compile()


def test_a_machine_of_a_provider_without_billing(text_dir: TextDir) -> None:
    text_dir.add_type("gpu_1x_a10", provider="nobody")
    text_dir.add_offer("us-east-1", "gpu_1x_a10", provider="nobody", **on_demand("1"))
    with pytest.raises(TableError, match=r"rates\.toml has no \[\[provider\]\] of the name 'nobody': add one"):
        text_dir.compile()


DEVICE = {
    "name": '"T9"', "group": '"T9"', "aliases": "[]", "architecture": '"turing"', "compute_capability": '"7.5"',
    "memory_gib": "16", "peak_tflops": "{ fp32 = 8.1 }", "source": '"data sheet"', "verified": '"yes"',
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(({name: None}, f"devices.toml:3: 'T9' has no {name}: ") for name in DEVICE if name != "name"),
        ({"name": None}, "devices.toml:3: 'this row' has no name: "),
        ({"architecture": '"tpu"'}, "devices.toml:3: 'T9' has no tpu_generation: v2, v3"),
        ({"architecture": '"volcano"'}, "'T9': architecture 'volcano' is not one of kepler, maxwell"),
        ({"verified": '"maybe"'}, "'T9': verified 'maybe' is not one of yes, part, no"),
        ({"memory_gb": "16"}, "'T9': no field is called memory_gb; known: name, group"),
        ({"usable_memory_mib": "[2, 1]"}, "'T9': usable_memory_mib is the least and the most"),
    ],
)
def test_a_device_that_cannot_be(tmp_path: Path, changes: dict[str, str | None], message: str) -> None:
    fields = {name: value for name, value in {**DEVICE, **changes}.items() if value is not None}
    lines = "\n".join(f"{name} = {value}" for name, value in fields.items())
    (tmp_path / "devices.toml").write_text(f"# devices\n\n[[device]]\n{lines}\n", encoding="utf-8")
    with pytest.raises(TableError) as caught:
        read_devices(tmp_path / "devices.toml")
    assert message in str(caught.value)


def test_a_device_table_that_is_no_toml(tmp_path: Path) -> None:
    (tmp_path / "devices.toml").write_text("[[device]\n", encoding="utf-8")
    with pytest.raises(TableError, match=r"devices\.toml"):
        read_devices(tmp_path / "devices.toml")


def test_one_spelling_for_two_devices(text_dir: TextDir) -> None:
    text_dir.add_type("g4dn.xlarge")
    text_dir.compile()
    table = text_dir.path / "devices.toml"
    table.write_text(table.read_text(encoding="utf-8").replace('"T4g"', '"t4"', 1), encoding="utf-8")
    with pytest.raises(TableError, match="means T4 and T4G"):
        read_tables(text_dir.path)
