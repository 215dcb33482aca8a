"""Below the first estimate of a home: whether to read the price lists, asked once of a person at a terminal."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests.builders import TODAY
from tests.doubles.price_lists import World, retail, serving, variables
from tests.doubles.typing_person import AllAtPty, AtPty
from trainplan.planner.home.questions import REFRESH, is_asked, note_asked
from trainplan.pricing.catalog import REFRESHED

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals")
ESTIMATE = (
    "estimate",
    "--wide",
    "--model",
    "vgg16",
    "--dataset",
    "cifar10",
    "--provider",
    "azure",
    "--region",
    "eastus",
)
T4 = (*ESTIMATE, "--device", "T4", "--market", "on_demand", "--limit", "1")
QUESTION = "Read today's prices of AWS, Azure and Google Cloud now (about 12 MB; asked once)?"
NOBODY_THERE = {
    **{"CI": "", "PLAN_GCP_API_KEY": "", "GOOGLE_API_KEY": ""},
    **{"NO_GCE_CHECK": "true", "AWS_EC2_METADATA_DISABLED": "true"},
}


@pytest.fixture
def no_network() -> dict[str, str]:
    """An address on loopback at which nobody answers."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return variables(f"http://127.0.0.1:{one.getsockname()[1]}") | NOBODY_THERE


def test_the_answer_comes_first_an_empty_line_declines_and_nobody_is_asked_again(
    tmp_path: Path, no_network: dict[str, str]
) -> None:
    with AllAtPty(tmp_path, *T4, **no_network) as first:
        first.wait_for(f"{QUESTION} [y/N]:")
        assert "Standard_NC4as_T4_v3" in first.screen, "the answer stands above the question"
        first.type("\n")
        assert first.wait_for_end()[0] == 0
    assert "Standard_NC4as_T4_v3" in first.screen
    assert "cannot be reached" not in first.screen
    with AllAtPty(tmp_path, *T4, **no_network) as second:
        assert second.wait_for_end()[0] == 0
    assert QUESTION not in second.screen
    assert "Standard_NC4as_T4_v3" in second.screen


def test_the_answer_and_the_question_fit_the_screen(tmp_path: Path, no_network: dict[str, str]) -> None:
    command = [word for word in ESTIMATE if word != "--wide"]
    with AllAtPty(tmp_path, *command, **no_network, COLUMNS="80", LINES="24") as person:
        person.wait_for("[y/N]: ")
        lines = person.screen.splitlines()
        person.type("n\n")
        assert person.wait_for_end()[0] == 0
    assert 20 < len(lines) <= 24, person.screen
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines[-3:]] == ["not", "Some", "Google"], "the question stands below the answer"


def test_the_table_has_the_prices_that_somebody_let_it_read(tmp_path: Path) -> None:
    world = World(azure={"eastus": [retail("Standard_NC4as_T4_v3", 0.555)]}, page=100)
    with serving(world) as address, AllAtPty(tmp_path, *T4, **(variables(address) | NOBODY_THERE)) as person:
        person.wait_for(QUESTION)
        assert world.requests == [], "nothing is read before somebody agrees"
        person.type("y\n")
        assert person.wait_for_end()[0] == 0
    before, _, after = person.screen.partition(QUESTION)
    assert "Standard_NC4as_T4_v3" in before
    assert "0.555" not in before
    assert "0.555" in after, "the answer is given again with the prices that were read"
    assert {"/spot.json", "/spot-advisor-data.json", "/commits"} <= set(world.requests), "of all three clouds"
    assert (tmp_path / "home" / REFRESHED).is_file()


def test_without_a_network_a_line_says_so_and_the_estimate_stands(tmp_path: Path, no_network: dict[str, str]) -> None:
    with AllAtPty(tmp_path, *T4, **no_network) as person:
        person.wait_for(QUESTION)
        person.type("y\n")
        assert person.wait_for_end()[0] == 0
    lines = [line for line in person.screen.splitlines() if "cannot be reached" in line]
    assert [line.partition(":")[0] for line in lines] == ["aws", "gcp", "azure"]
    assert lines[2].startswith("azure: its prices were not read: 127.0.0.1/api/retail/prices cannot be reached")
    assert all(line.endswith("the known prices are used") for line in lines)
    assert "Standard_NC4as_T4_v3" in person.screen


@pytest.mark.parametrize(
    ("kind", "options", "environment"),
    [
        (AtPty, (), {}),
        (AllAtPty, ("--json",), {}),
        (AllAtPty, (), {"CI": "true"}),
        (AllAtPty, ("--provider", "local"), {}),
    ],
    ids=["its output is a pipe", "--json", "CI", "nothing to read"],
)
def test_nobody_is_asked(
    kind: type[AtPty], options: tuple[str, ...], environment: dict[str, str], tmp_path: Path, no_network: dict[str, str]
) -> None:
    command = T4 if "local" not in options else ("estimate", "--model", "vgg16", "--dataset", "cifar10")
    with kind(tmp_path, *command, *options, **(no_network | environment)) as person:
        assert person.wait_for_end()[0] == 0
    assert QUESTION not in person.screen
    assert not is_asked(tmp_path / "home", REFRESH)


def test_the_settings_may_ask_for_it_once_a_day_and_never_in_ci(tmp_path: Path) -> None:
    world = World(azure={"eastus": [retail("Standard_NC4as_T4_v3", 0.555)]}, page=100)
    home = tmp_path / "home"
    home.mkdir()
    (home / "settings.toml").write_text('[prices]\nrefresh = "daily"\n', encoding="utf-8")
    with serving(world) as address:
        counts = []
        for environment in ({"CI": "true"}, {"CI": ""}, {"CI": ""}):
            with AtPty(tmp_path, *T4, **(variables(address) | NOBODY_THERE | environment)) as person:
                assert person.wait_for_end()[0] == 0
            counts.append(len(world.requests))
    assert counts[0] == 0
    assert counts[1] == counts[2] > 50
    (home / "settings.toml").write_text('[prices]\nrefresh = "hourly"\n', encoding="utf-8")
    with AtPty(tmp_path, *T4) as person:
        assert person.wait_for_end()[0] == 2


def test_nobody_is_asked_where_prices_were_refreshed_before(tmp_path: Path, no_network: dict[str, str]) -> None:
    world = World(azure={"westus": [retail("Standard_NC4as_T4_v3", 0.555, armRegionName="westus")]}, page=100)
    with (
        serving(world) as address,
        AtPty(
            tmp_path, "prices", "refresh", "azure", "--region", "westus", **(variables(address) | NOBODY_THERE)
        ) as refresh,
    ):
        assert refresh.wait_for_end()[0] == 0
    with AllAtPty(tmp_path, *T4, **no_network) as person:
        assert person.wait_for_end()[0] == 0
    assert QUESTION not in person.screen


def test_a_question_is_noted_once_and_not_where_nothing_can_be_written(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert note_asked(home, REFRESH, TODAY)
    assert (home / REFRESH).read_text() == f"{TODAY}\n"
    assert not note_asked(home, REFRESH, TODAY)
    (tmp_path / "file").write_text("")
    assert not note_asked(tmp_path / "file", REFRESH, TODAY)
