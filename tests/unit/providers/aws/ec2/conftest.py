"""EC2 for tests of the adapter: `double` is a new account that the process is signed in to, `provider` the adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.providers.aws.account_side import signed_in

if TYPE_CHECKING:
    from tests.doubles.aws import remote


@pytest.fixture
def double(aws_process: remote.Double, monkeypatch: pytest.MonkeyPatch) -> remote.Double:
    signed_in(monkeypatch)
    aws_process.reset()
    return aws_process
