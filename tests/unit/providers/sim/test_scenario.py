"""A scenario as a person writes it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.conftest import ROOT
from trainplan.providers.errors import BadRequestError
from trainplan.providers.sim.provider import parse_options
from trainplan.providers.sim.scenario import Scenario, read_scenario
from trainplan.providers.sim.values import Effect

TEXT = """
seed = 3
listing_lag = "10s"
[[placements]]
market = "spot"
stock = 2
[[faults]]
operation = "RunInstance"
effect = "lost_reply"
[[incidents]]
event = "reclaim"
after = "10m"
"""


def test_a_scenario_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "busy.toml"
    file.write_text(TEXT)
    setup = parse_options({"sim_scenario": str(file), "sim_speed": "0", "engine": "auto"})
    assert setup.speed == 0
    assert (setup.scenario.seed, setup.scenario.listing_lag) == (3, timedelta(seconds=10))
    assert setup.scenario.faults[0].effect is Effect.LOST_REPLY
    assert Scenario.model_validate(setup.scenario.model_dump(mode="json")) == setup.scenario


def test_without_options_it_is_the_default() -> None:
    assert parse_options({}).scenario == Scenario()
    assert parse_options({}).speed == 60


@pytest.mark.parametrize("speed", ["fast", "-1", "nan", "1e99"])
def test_a_speed_that_is_none_is_refused(speed: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        parse_options({"sim_speed": speed})
    assert speed in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stok = 1", "stok"),
        ("stock = -1", "stock"),
        ('listing_lag = "soon"', "listing_lag"),
        ("[[placements]]\nmarket = 'spott'", "placements.0.market"),
        ("stock = [", "busy.toml"),
    ],
)
def test_what_is_wrong_in_a_scenario_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "busy.toml"
    file.write_text(text)
    with pytest.raises(BadRequestError, match=message) as caught:
        read_scenario(file)
    assert "busy.toml" in caught.value.message
    assert caught.value.hint


def test_a_scenario_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequestError, match=r"none\.toml"):
        parse_options({"sim_scenario": str(tmp_path / "none.toml")})


def test_the_scenario_of_the_guide_can_be_read(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "simulated-cloud.md").read_text(encoding="utf-8")
    file = tmp_path / "guide.toml"
    file.write_text(guide.split("```toml\n")[1].split("```")[0])
    assert read_scenario(file).faults


def test_the_guide_names_every_key() -> None:
    guide = (ROOT / "docs" / "simulated-cloud.md").read_text(encoding="utf-8")
    assert [name for name in Scenario.model_fields if f"`{name}`" not in guide] == []
