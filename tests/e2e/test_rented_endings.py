"""How a rented machine ends, whatever happens to it: it is off, and a person understands what it left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.yard.trial import Trial

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.yard.stores import Store
    from tests.e2e.yard.yard import Yard

pytestmark = [pytest.mark.container]
aws = pytest.mark.parametrize("store", ["aws"], indirect=True)


def a_job(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "model": {"layers": [8, "M"], "dense": [8]},
        "data": {"name": "digits"},
        "epochs": 1,
        "global_batch_size": 32,
    }


@aws
def test_what_ran_well_comes_home(yard: Yard, store: Store, plain_image: str, tmp_path: Path) -> None:
    with Trial(yard, store, tmp_path) as trial:
        client = trial.launch(a_job("quick"), plain_image)
        receipt = client.wait()
        assert receipt["outcome"] == "succeeded", receipt
        assert (tmp_path / "model" / "model.txt").read_text() == "trained\n"
        assert trial.machine().is_off()
