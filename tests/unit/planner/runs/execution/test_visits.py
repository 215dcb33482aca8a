"""Who follows one launch from the executor to the create call is not sent back and forth between modules."""

from __future__ import annotations

from pathlib import Path

from tests.visits import visits

MOST_BETWEEN_MODULES = 21
"""`python -m tests.visits` prints each; a larger figure wants a reason in the commit that raises it."""


def test_a_launch_is_followed_through_few_modules(tmp_path: Path) -> None:
    seen = visits(tmp_path)
    assert ("runs/execution/create.py:record", "runs/execution/executor.py") in seen.returns
    assert seen.between_modules <= MOST_BETWEEN_MODULES
