"""A person's computer as a test of the command line finds it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from providers.cloud.sign_ins import TRACES

if TYPE_CHECKING:
    import pytest

TINY = """\
name: tiny
model: {layers: [8, M, 16, M], dense: [16]}
data: {name: digits}
epochs: 2
global_batch_size: 32
"""
"""A job file."""


def signed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this computer's own settings and sign-ins is left in the environment."""
    for name in list(os.environ):
        if name.startswith("PLAN_") or any(name in traces.variables for traces in TRACES.values()):
            monkeypatch.delenv(name)
