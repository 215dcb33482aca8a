"""AWS's double for these tests; `double` is an account that a person with a job file is signed in to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.contract.aws import Client, TimedAws, sdk
from tests.contract.aws_command import at_a_desk
from tests.desk import TINY
from tests.doubles.aws import quick, remote

if TYPE_CHECKING:
    from trainplan.providers.aws.api import SdkApi


@pytest.fixture(scope="session")
def process() -> Iterator[remote.Double]:
    """AWS's double, in a process of its own, for all tests of this one; each begins with a `reset`."""
    quick.read_once()
    with remote.Double() as made:
        yield made
        sdk(made.url).close()


@pytest.fixture(scope="session")
def sends(process: remote.Double) -> SdkApi:
    """One set of clients for all tests: making them takes longer than what they are asked."""
    return sdk(process.url)


@pytest.fixture
def double(process: remote.Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> remote.Double:
    at_a_desk(process, tmp_path, monkeypatch)
    (tmp_path / "job.yaml").write_text(f"{TINY}checkpoint_every: 10s\n")
    process.reset()
    return process


@pytest.fixture
def provider(double: remote.Double, tmp_path: Path) -> Iterator[TimedAws]:
    """The adapter over the module's own `double`."""
    made = Client(double, tmp_path).provider()
    yield made
    made.close()
