"""What tells, without asking anybody and without any SDK, that somebody may be signed in to a cloud from here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trainplan.providers.registry import Traces, vendor


def may_be_signed_in(provider: str, environment: Mapping[str, str]) -> bool:
    """Whether there is a trace of credentials; a provider that needs none is always let in."""
    traces = _traces(provider)
    if traces is None or any(environment.get(name) for name in traces.variables):
        return True
    home = Path(environment.get("HOME") or environment.get("USERPROFILE") or "~").expanduser()
    return any((home / name).is_file() for name in traces.files)


def how_to_sign_in(provider: str) -> str:
    """The command, "" where there is nothing to sign in to."""
    traces = _traces(provider)
    return traces.sign_in if traces else ""


def _traces(provider: str) -> Traces | None:
    row = vendor(provider)
    return None if row is None else row.traces
