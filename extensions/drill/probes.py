"""The steps of a drill that take no machine: what a provider asks its cloud, since no page answers it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from trainplan.extensions.drill.sheet import FailedError, SkippedError
from trainplan.extensions.drill.steps import PROBES, Step
from trainplan.providers.abilities import Prober
from trainplan.providers.base import Check, PreflightState

if TYPE_CHECKING:
    from trainplan.extensions.drill.tools import Tools


def try_probes(tools: Tools) -> None:
    """Tries the questions of the provider, and leaves out those of others."""
    probes = tools.provider.probes() if isinstance(tools.provider, Prober) else {}
    for step in PROBES:
        try:
            if step not in probes:
                raise SkippedError("this provider has no such question")
            _settle(tools, step, probes[step])
        except SkippedError as why:
            tools.sheet.leave_out((step,), str(why))


def _settle(tools: Tools, step: Step, probe: Callable[[], Check]) -> None:
    """Raises SkippedError where the step has failed, or this account cannot show it."""
    with tools.sheet.fails_only(step):
        answer = probe()
    if answer.state is PreflightState.UNKNOWN:
        raise SkippedError(answer.detail)
    with tools.sheet.step(step) as names:
        if answer.state is PreflightState.REFUSED:
            raise FailedError(answer.detail)
        names.append(answer.detail)
