"""What is promised of a provider whose prices are known and where nothing can be launched."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.levels import Level, providers_at
from tests.doubles.clock import NOON
from tests.unit.planner.cli.command import plan
from trainplan.planner.errors import ExitCode
from trainplan.planner.forecast.plan import ESTIMATE_ONLY_TEXT
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.offers import OfferQuery
from trainplan.pricing.sources import READERS
from trainplan.providers import registry
from trainplan.providers.base import ProviderSettings
from trainplan.providers.errors import BadRequestError

JOB = ("--model", "vgg16", "--dataset", "cifar10")
ESTIMATED = providers_at(Level.ESTIMATED)
NOBODY = "elsewhere"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def job_file(home: Path) -> Path:
    file = home / "job.yaml"
    assert plan("init", file, *JOB).code == 0
    return file


@pytest.mark.parametrize("name", ESTIMATED)
def test_every_price_has_a_source_and_a_day_and_every_machine_a_host(name: str) -> None:
    with Catalog.open() as catalog:
        offers = catalog.offers(OfferQuery(providers=frozenset({name}), include_retired=True), NOON.date())
        assert catalog.rates[name].billing_source
    assert offers
    for offer in offers:
        assert offer.price_source, offer
        # Only IBM's second generation has no day: its source is a list that somebody keeps by hand.
        assert offer.price_as_of or (offer.price_as_of_text == "undated" and "hand-kept" in offer.price_source), offer
        assert offer.vcpus, offer
        assert offer.memory_gib, offer


@pytest.mark.parametrize("name", ESTIMATED)
def test_its_rows_are_shown_where_it_is_asked_for_and_are_marked(name: str) -> None:
    answer = plan("estimate", *JOB, "--provider", name, "--json").json
    rows = answer["candidates"]
    assert rows
    assert {row["provider"] for row in rows} == {name}
    assert all(row["launchable"] == {"state": "refused", "reason": ESTIMATE_ONLY_TEXT} for row in rows)
    assert all("estimate only" in row["remarks"] for row in rows)
    assert f"{name}: {ESTIMATE_ONLY_TEXT}" in plan("estimate", *JOB, "--provider", name).out


@pytest.mark.parametrize("name", ESTIMATED)
def test_its_rows_are_beside_those_of_others_that_are_asked_for(name: str) -> None:
    rows = plan("estimate", *JOB, "--provider", name, "--provider", "aws", "--json").json["candidates"]
    assert {row["provider"] for row in rows} == {name, "aws"}


def test_who_names_no_provider_sees_what_can_be_launched_alone() -> None:
    """Row 1 is what `plan launch` of the same job rents."""
    rows = plan("estimate", *JOB, "--json").json["candidates"]
    assert {row["provider"] for row in rows} == set(registry.CLOUDS)


@pytest.mark.parametrize("name", ESTIMATED)
def test_its_prices_are_shown_and_read_anew_where_something_reads_them(name: str) -> None:
    (shown,) = plan("prices", "show", name, "--json").json["providers"]
    assert shown["provider"] == name
    assert name in {one["provider"] for one in plan("prices", "show", "--json").json["providers"]}
    if name in READERS:
        return
    refused = plan("prices", "refresh", name)
    assert (refused.code, refused.error) == (ExitCode.BAD_INPUT, f"nothing here reads the price list of {name!r}")


@pytest.mark.parametrize("name", ESTIMATED)
def test_a_launch_there_is_refused_with_what_to_do(name: str, job_file: Path) -> None:
    refused = plan("launch", job_file, "--provider", name, "--yes")
    assert refused.code == ExitCode.REFUSED
    assert refused.error == f"nothing can be launched at {name} from here"
    assert "--provider local or " in refused.hint
    assert "Traceback" not in refused.err


@pytest.mark.parametrize("name", ESTIMATED)
def test_a_launch_that_may_go_elsewhere_goes_there(name: str, job_file: Path) -> None:
    went = plan("launch", job_file, "--provider", name, "--provider", "sim", "--dry-run")
    assert f"{name}: left out: {ESTIMATE_ONLY_TEXT}" in went.err.splitlines()
    assert went.code == ExitCode.OK


def test_a_provider_that_nobody_knows_is_not_taken_for_one(job_file: Path) -> None:
    refused = plan("launch", job_file, "--provider", NOBODY, "--yes")
    assert (refused.code, refused.error) == (ExitCode.BAD_INPUT, f"there is no provider {NOBODY!r}")
    assert plan("prices", "show", NOBODY).error == f"there is no price list of {NOBODY!r}"


@pytest.mark.parametrize("name", [*ESTIMATED, NOBODY])
def test_no_provider_of_its_name_can_be_made(name: str, home: Path) -> None:
    settings = ProviderSettings(home=home, options={}, environment={}, now=lambda: NOON)
    with pytest.raises(BadRequestError, match=f"there is no provider '{name}' to launch on"):
        registry.provider(name, settings)
    assert registry.is_estimated_only(name)
    assert not any(registry.is_estimated_only(one) for one in registry.FACTORIES)
