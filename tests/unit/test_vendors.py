"""The table of vendors (providers/registry.py), and what a vendor has besides a row there."""

from __future__ import annotations

import tomllib
from importlib import import_module

import pytest

from tests.conftest import ROOT
from tests.contract.levels import Level, providers_at
from tests.faults.clouds import NAMES, REAL, ROWS
from tests.faults.planted import defects_of
from tests.unit.test_house import SHARED, folders_in
from trainplan.pricing.compile import TEXT_DIR
from trainplan.pricing.sources import READERS
from trainplan.providers.agent.notices import ASKS
from trainplan.providers.agent.registries import REGISTRIES
from trainplan.providers.agent.spec import SCHEMES as MACHINE_SCHEMES
from trainplan.providers.cloud.images import table as table_of_images
from trainplan.providers.cloud.secrets import FORMS_HINT
from trainplan.providers.registry import (
    CLOUDS,
    CLUSTER,
    PROVEN_CLOUDS,
    THIS_MACHINE,
    VENDORS,
    Vendor,
)

FOLDERS = folders_in(ROOT / "providers") - SHARED


def contracts() -> dict[str, set[str]]:
    """The modules of each import rule that names vendors' folders, by the rule's name."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    return {
        one["name"]: {name for key in ("modules", "source_modules", "forbidden_modules") for name in one.get(key, ())}
        for one in listed
    }


def test_every_folder_of_a_vendor_is_in_the_import_rules() -> None:
    """An import from a new folder to another vendor's is refused as soon as the folder is there."""
    rules, folders = contracts(), {f"trainplan.providers.{name}" for name in FOLDERS}
    what = "pyproject.toml, [[tool.importlinter.contracts]]: add the new folder to"
    assert rules["Vendor folders never import each other"] == folders, (
        f"{what} 'Vendor folders never import each other'"
    )
    assert rules["What vendors share knows no vendor"] >= folders, f"{what} 'What vendors share knows no vendor'"


def test_every_folder_has_a_row_and_every_row_that_launches_a_folder() -> None:
    assert {one.name for one in VENDORS} == FOLDERS
    assert len({one.name for one in VENDORS}) == len(VENDORS)


@pytest.mark.parametrize("row", [one for one in VENDORS if one.name in PROVEN_CLOUDS], ids=lambda one: one.name)
def test_a_proven_cloud_has_everything_that_others_ask_of_its_row(row: Vendor) -> None:
    assert row.bill.startswith(f"trainplan.providers.{row.name}.")
    assert row.traces is not None
    assert row.storage is not None
    assert row.storage.make.startswith(f"trainplan.providers.{row.name}.")
    assert f"{row.storage.machine_scheme}://" in MACHINE_SCHEMES
    assert f"{row.secret_kind}:" in FORMS_HINT


@pytest.mark.parametrize(
    ("what", "there"),
    [
        ("notices that a machine is taken away", set(ASKS)),
        ("registries that a machine logs in to", set(REGISTRIES)),
        ("machines' own images (machines.toml)", {row.provider for row in table_of_images().hosts}),
        ("doubles that launches are killed on", {row.provider for row in REAL} - {CLUSTER}),
    ],
)
def test_what_a_cloud_has_besides_its_row_is_there_for_each_that_is_proven(what: str, there: set[str]) -> None:
    assert set(PROVEN_CLOUDS) <= there <= set(CLOUDS), what


def test_every_cloud_names_the_disk_and_the_address_that_a_launch_makes() -> None:
    """Without them (a provider that is only estimated) they would count as nothing."""
    rows = tomllib.loads((TEXT_DIR / "rates.toml").read_text(encoding="utf-8"))["provider"]
    assert {row["name"] for row in rows if row["disk"] and row["address"]} >= set(CLOUDS)


@pytest.mark.parametrize("provider", READERS)
def test_the_function_that_reads_a_price_list_is_there(provider: str) -> None:
    module, _, name = READERS[provider].partition(":")
    assert callable(getattr(import_module(module), name))
    assert provider in (*CLOUDS, *providers_at(Level.ESTIMATED))


def test_every_double_has_planted_defects() -> None:
    assert [name for name in NAMES if not defects_of(name)] == []
    # Jobs of this machine are processes in real time, which no trial can move.
    assert {row.provider for row in ROWS} == set(providers_at(Level.PROVEN)) - {THIS_MACHINE}
