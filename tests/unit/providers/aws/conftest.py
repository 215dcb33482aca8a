"""AWS's double for these tests; `double` is an account that a person with a job file is signed in to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.contract.aws import Client, TimedAws, sdk
from tests.contract.aws_command import at_a_desk
from tests.desk import TINY
from tests.doubles.aws import remote

if TYPE_CHECKING:
    from trainplan.providers.aws.api import SdkApi


@pytest.fixture(scope="session")
def sends(aws_process: remote.Double) -> SdkApi:
    """One set of clients for all tests: making them takes longer than what they are asked."""
    return sdk(aws_process.url)


@pytest.fixture
def double(aws_process: remote.Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> remote.Double:
    at_a_desk(aws_process, tmp_path, monkeypatch)
    (tmp_path / "job.yaml").write_text(f"{TINY}checkpoint_every: 10s\n")
    aws_process.reset()
    return aws_process


@pytest.fixture
def provider(double: remote.Double, tmp_path: Path) -> Iterator[TimedAws]:
    """The adapter over the module's own `double`."""
    made = Client(double, tmp_path).provider()
    yield made
    made.close()
