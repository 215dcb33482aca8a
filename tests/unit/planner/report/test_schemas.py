"""The shipped schemas of what commands print with --json: there is one for each, and real output is what it says.

`plan(...)` of tests/unit/planner/cli/command.py holds every output with --json of every test to them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from datetime import timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from jsonschema import Draft202012Validator

from tests.conftest import ROOT
from tests.doubles.price_lists import World, retail, serving, variables
from tests.json_output import FOLDER, SUFFIX, commands, complaint, schema_name, schemas, walked
from tests.rows import each_row
from tests.unit.planner.cli.command import plan
from trainplan.planner.cli import options  # typer reads the annotation
from trainplan.planner.clock import SystemClock
from trainplan.planner.report.estimate_columns import LAUNCHABLE, OF_MACHINE, OF_PLACEMENT
from trainplan.planner.runs.receipt.receipt import Receipt
from trainplan.pricing.grades import Market
from trainplan.pricing.merge import News
from trainplan.pricing.refresh import refresh
from trainplan.pricing.sources.reading import Parsed, PriceFound, PricePart

SHARED = {"error", "receipt", "comparison"}
"""Schemas of no command: of any command's error, of what several print, and of what `plan estimate` prints with
--compare."""
OPEN = {"logs": "which keys there are depends on the event"}
"""Schemas that take keys which they do not name, with the reason."""


def lacking(tree: dict[tuple[str, ...], Any]) -> set[str]:
    """The schemas that there should be for the commands with --json, and are not."""
    with_json = [path for path, one in tree.items() if any("--json" in row.opts for row in one.params)]
    return {schema_name(path) for path in with_json} - set(schemas())


def test_every_command_with_json_has_a_schema() -> None:
    assert lacking(commands()) == set()
    assert set(schemas()) - {schema_name(path) for path in commands()} == SHARED


def test_a_command_without_a_schema_is_noticed() -> None:
    def with_json(as_json: options.Json = False) -> None: ...

    app = typer.Typer()
    app.command("one")(with_json)
    app.command("two")(lambda: None)
    assert lacking(walked(app)) == {"one"}


@each_row("name", schemas())
def test_a_schema_is_one_and_says_what_it_is_of(name: str) -> None:
    schema = schemas()[name]
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"{name}{SUFFIX}"
    assert schema["title"]
    assert schema["description"]
    if name not in SHARED:
        assert schema["title"].startswith(f"plan {name.replace('-', ' ')} --json")


@each_row("name", sorted(set(schemas()) - set(OPEN)))
def test_a_schema_takes_no_key_that_it_does_not_name(name: str) -> None:
    for part in _objects(schemas()[name]):
        assert part["additionalProperties"] is False
        assert set(part.get("required", ())) <= set(part["properties"])


def _objects(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict):
        if "properties" in part and "type" in part:
            yield part
        for value in part.values():
            yield from _objects(value)
    elif isinstance(part, list):
        for value in part:
            yield from _objects(value)


def test_the_keys_of_a_candidate_and_of_a_receipt_are_those_of_the_code() -> None:
    candidate = schemas()["estimate"]["$defs"]["candidate"]
    assert set(candidate["properties"]) == {*OF_MACHINE, *OF_PLACEMENT, LAUNCHABLE}
    assert set(candidate["required"]) == {*OF_MACHINE, *OF_PLACEMENT}
    receipt = schemas()["receipt"]
    assert set(receipt["$defs"]["record"]["properties"]) == {field.name for field in fields(Receipt)}
    assert set(receipt["required"]) == {field.name for field in fields(Receipt)}


def test_output_that_is_not_what_the_schema_says_is_noticed() -> None:
    assert complaint(["prices", "forget", "--json"], '{"forgotten": true}') == ""
    for text in ('{"forgotten": 1}', "{}", '{"forgotten": true, "more": 1}', "[]", "forgotten"):
        assert complaint(["prices", "forget", "--json"], text)
    assert complaint(["init", "--json"], '{"error": "there is no place"}')
    history = (
        '[{"run_id": "1", "job_name": "j", "provider": "sim", "created_at": "2026-11-24T00:00:00+00:00", "phase":'
        ' "done", "outcome": null, "off": null, "project": "", "receipt": %s}]'
    )
    assert complaint(["history", "--json"], history % '{"steps": 3}') == ""
    assert complaint(["history", "--json"], history % '{"stepped": 3}')


def test_the_page_lists_every_schema() -> None:
    page = (ROOT / "docs" / "output.md").read_text(encoding="utf-8")
    links = [f"](../{(FOLDER / name).relative_to(ROOT).as_posix()}{SUFFIX})" for name in schemas()]
    assert [link for link in links if link not in page] == []


# --- real output -------------------------------------------------------------------------------------------------


def test_every_command_is_typed_with_json_by_some_test() -> None:
    """Else nothing real is held to its schema."""
    assert [schema_name(path) for path in commands() if not any(line[: len(path)] == path for line in _lines())] == []


@cache
def _lines() -> list[tuple[str, ...]]:
    """The constant first words of each `plan(...)` of the tests that has --json."""
    lines = []
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        if "cli.command import" not in text or "--json" not in text:
            continue
        for call in ast.walk(ast.parse(text)):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "plan":
                words = [getattr(word, "value", None) for word in call.args]
                if "--json" in words:
                    lines.append(tuple(str(word) for word in words[:2]))
    return lines


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("home")
def test_what_a_refresh_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [retail("Standard_NC4as_T4_v3", 0.4), retail("Standard_NC8as_T4_v3", 0.8)]
    with serving(World(azure={"eastus": rows}, page=100)) as address:
        for name, value in variables(address).items():
            monkeypatch.setenv(name, value)
        said = plan("prices", "refresh", "azure", "--region", "eastus", "--json", "--accept")
    assert said.code == 0, said.err
    (azure,) = said.json["providers"]
    assert (azure["provider"], azure["read"]) == ("azure", ["Standard_NC4as_T4_v3", "Standard_NC8as_T4_v3"])
    parts = plan("prices", "show", "azure", "--json").json["providers"][0]["parts"]
    assert parts["Standard_NC4as_T4_v3"]["prices"] == 1


def test_a_price_that_is_accepted(home: Path) -> None:
    today = SystemClock().now().date()
    price = PriceFound(
        "us-east-1",
        "g4dn.xlarge",
        Market.ON_DEMAND,
        Decimal(30),
        "aws-on-demand-page",
        as_of=today - timedelta(days=900),
    )
    part = PricePart(
        name="us-east-1",
        markets=frozenset({Market.ON_DEMAND}),
        regions=frozenset({"us-east-1"}),
        parsed=Parsed(prices=[price]),
    )
    refresh("aws", News(parts=[part], on=today), home, accept=True)
    (held,) = plan("prices", "show", "--held", "--json").json
    assert plan("prices", "accept", held["name"], "--json").json == [held]
    assert plan("prices", "show", "--held", "--json").json == []
