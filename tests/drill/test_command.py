"""`python -m tests.drill`, which `make faults` runs for every provider of the fault harness."""

from __future__ import annotations

import pytest

from tests.drill.__main__ import main
from tests.drill.worlds import NAMES
from tests.faults import clouds


@pytest.mark.sample
@pytest.mark.parametrize("provider", sorted(set(clouds.NAMES) - set(NAMES)))
def test_a_provider_without_a_drill_ends_well(provider: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--provider", provider]) == 0
    assert provider in capsys.readouterr().out
