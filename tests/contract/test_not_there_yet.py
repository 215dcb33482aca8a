"""Every pair of providers/cloud/propagation.py: what depends on a new thing waits for it as long as its source says,
not longer.

The real command line runs over the double of the pair's cloud. A cloud's scenes are in tests/contract/CLOUD_scenes.py.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.contract.aws_scenes import AwsScene
from tests.contract.azure_scenes import AzureScene
from tests.contract.conftest import NEEDS
from tests.contract.gcp_scenes import GcpScene
from tests.contract.scenes import Scene
from tests.unit.planner.cli.command import plan
from trainplan.planner.errors import ExitCode
from trainplan.providers.cloud.propagation import LONGEST_SECONDS, MOST_SECONDS, PAIRS, Pair

pytestmark = pytest.mark.slow
SCENES: dict[str, Any] = {"aws": AwsScene, "azure": AzureScene, "gcp": GcpScene}
ROWS = [pytest.param(row, id=f"{row.provider}-{row.resource.replace(' ', '-')}-{row.needed_by}") for row in PAIRS]


@pytest.fixture
def scene(pair: Pair, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    double = request.getfixturevalue(NEEDS[pair.provider])
    made: Scene = SCENES[pair.provider](double, tmp_path, monkeypatch)
    return made


@pytest.mark.parametrize("pair", ROWS)
def test_it_is_waited_for_as_long_as_its_source_says(pair: Pair, scene: Scene) -> None:
    scene.begin(pair, pair.patience_seconds)
    said = plan(*scene.command(pair))
    assert said.code == ExitCode.OK, said.err
    refused = scene.refused_at()
    assert refused, f"nothing asked for the new {pair.resource} before it was known"
    assert len(set(scene.placements_asked())) <= 1
    assert scene.remaining() == []


@pytest.mark.parametrize("pair", ROWS)
def test_what_never_comes_is_refused_within_five_minutes_and_not_tried_elsewhere(pair: Pair, scene: Scene) -> None:
    scene.begin(pair, None)
    said = plan(*scene.command(pair))
    assert said.code == ExitCode.REFUSED, said.err
    assert said.error
    assert said.hint
    assert scene.now() - scene.refused_at()[0] <= timedelta(seconds=pair.most_seconds)
    assert len(set(scene.placements_asked())) <= 1
    assert scene.remaining() == []


def test_every_row_stands_there_once_and_has_its_source() -> None:
    keys = [(row.provider, row.resource, row.needed_by) for row in PAIRS]
    assert len(set(keys)) == len(keys)
    assert all(row.source.startswith(("https://", "assumed: ")) for row in PAIRS)


@pytest.mark.parametrize(("told_each_minute", "most"), [(False, MOST_SECONDS), (True, LONGEST_SECONDS)])
def test_a_patience_beyond_the_limit_cannot_be(told_each_minute: bool, most: float) -> None:
    def pair(seconds: float) -> Pair:
        return Pair(
            provider="aws", resource="role", needed_by="CreateFunction", patience_seconds=seconds, source="assumed: no",
            told_each_minute=told_each_minute,
        )  # fmt: skip

    assert pair(most).most_seconds == most
    with pytest.raises(ValueError, match=rf"role and CreateFunction: {most + 1} s"):
        pair(most + 1)


def test_one_row_alone_is_waited_for_longer_than_five_minutes() -> None:
    """A new right at Azure: nothing is left to do behind it, and a person hears of it each minute."""
    longer = [(row.provider, row.resource) for row in PAIRS if row.told_each_minute]
    assert longer == [("azure", "role assignment")]
