"""The benchmark of what is fetched before the first step: every row of software, within the limit, itemised."""

from __future__ import annotations

import importlib
import json
from types import ModuleType

import pytest

from trainplan.providers.cloud.images import table


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    return importlib.import_module("benchmarks.first_step")


def test_every_software_stays_within_the_limit(bench: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--json"]) == 0
    rows = {row["software"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(rows) == set(table().software)
    measured = [row["total"] for row in rows.values() if row["total"] is not None]
    assert max(measured) <= 4000
    gpu = rows["tensorflow-nvidia"]
    parts = ("host", "container", "packages", "agent", "trainer", "data")
    assert gpu["total"] == pytest.approx(sum(gpu[name] for name in parts))
    assert gpu["packages"] > 3000
    assert gpu["data"] == pytest.approx(170.498071)
    assert 0.05 < gpu["agent"] < 0.5
    assert 0.05 < gpu["trainer"] < 1.0


def test_a_row_beyond_the_limit_fails(bench: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--data", "imagenet"]) == 1
    assert "TOO MUCH" in capsys.readouterr().out
    row = bench.row_of(table().software["tensorflow-nvidia"], "digits", packages=4000.0)
    assert not row.passes
    assert bench.row_of(table().software["tensorflow-nvidia"], "digits", packages=3800.0).passes


def test_the_table_names_its_sources(bench: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    bench.main(["--data", "digits"])
    said = capsys.readouterr().out
    for name, software in table().software.items():
        assert f"packages of {name}: {software.source} ({software.as_of})" in said
