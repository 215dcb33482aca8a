"""AWS for tests of the command line: `double` is an account that a person with a job file is signed in to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contract.aws_command import at_a_desk
from tests.desk import TINY
from tests.doubles.aws import remote

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def process() -> Iterator[remote.Double]:
    with remote.Double() as made:
        yield made


@pytest.fixture
def double(process: remote.Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> remote.Double:
    at_a_desk(process, tmp_path, monkeypatch)
    (tmp_path / "job.yaml").write_text(f"{TINY}checkpoint_every: 10s\n")
    process.reset()
    return process
