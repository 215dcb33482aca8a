"""One drill from its first machine to its result, and what an earlier one has left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from decimal import ROUND_UP, Decimal
from typing import TYPE_CHECKING, Any

from trainplan.extensions.drill.ends import keys_of, ours, try_ends
from trainplan.extensions.drill.first import try_first
from trainplan.extensions.drill.limits import EXTRAS_USD_PER_HOUR, MOST_MINUTES, job
from trainplan.extensions.drill.probes import try_probes
from trainplan.extensions.drill.redaction import redacted
from trainplan.extensions.drill.result import DrillResult, without_secrets
from trainplan.extensions.drill.sheet import BrokenOffError
from trainplan.extensions.drill.timers import try_timers
from trainplan.extensions.drill.vendor_money import clear_alarm, try_vendor_money
from trainplan.planner import __version__
from trainplan.planner.errors import TeardownUnverifiedError
from trainplan.planner.runs.run import Phase, Run
from trainplan.workloads.wording import Command, Option

if TYPE_CHECKING:
    from trainplan.extensions.drill.tools import Tools
    from trainplan.planner.runs.targets import Target

DIGEST = job(timedelta(minutes=1), Decimal(1)).digest()
"""The digest of the job of every drill; it identifies a drill's runs in the journal."""
_CENT = Decimal("0.0001")
_ONE_DRILL = timedelta(minutes=MOST_MINUTES)
"""Its runs are begun within so long."""


def drill(tools: Tools, breaking_off: AbstractContextManager[object] | None = None) -> DrillResult:
    """Tries every step and ends every machine. Raises LeftError, with the result of it in `result`, where it is not
    sure that nothing is left; ProviderError where nothing can be looked at before the first machine.

    `breaking_off` may raise BrokenOffError at any time within it: the steps that are still to come are left out, and
    the machines are ended; a second time, machines that are not yet ended are left to their timers.
    """
    try:
        with breaking_off or nullcontext():
            rest = _run_every_step(tools)
    except BrokenOffError:
        rest = _not_over(tools)
    result = result_of(tools)
    if rest:
        raise LeftError(rest, result)
    return result


def _run_every_step(tools: Tools) -> list[str]:
    """Run every step and end every machine. Return one line for each run whose end is not confirmed."""
    before: frozenset[tuple[str, str, str]] = frozenset()
    try:
        with _breakable(tools):
            # What an earlier command has left is not the drill's: only what comes to it is held against the drill.
            before = keys_of(ours(tools))
            first = try_first(tools)
            if first is None:  # what is left of it is not paid for while others are watched
                _end_all_runs(tools)
            try_timers(tools, first)
    finally:
        # Whatever was raised: the machines bill until they are ended.
        rest = _end_all_runs_at_last(tools)
    if not tools.sheet.broken_off:
        with _breakable(tools):
            try_ends(tools, before)
            try_probes(tools)
            try_vendor_money(tools)
    return rest


@contextmanager
def _breakable(tools: Tools) -> Iterator[None]:
    """Turn an interruption within the block into the end of the drill's steps, so that what follows still runs."""
    try:
        yield
    except BrokenOffError as why:
        tools.sheet.break_off(str(why))


def _end_all_runs_at_last(tools: Tools) -> list[str]:
    """End all runs, also if the drill is interrupted meanwhile. A second interruption returns the unfinished runs."""
    if tools.sheet.broken_off:
        tools.say("the drill was interrupted: ending its machines")
    try:
        return _end_all_runs(tools)
    except BrokenOffError as why:
        if tools.sheet.broken_off:
            return _not_over(tools)
        tools.sheet.break_off(str(why))
        return _end_all_runs_at_last(tools)


def _end_all_runs(tools: Tools) -> list[str]:
    """End all runs of the drill. Return one line for each run whose end is not confirmed."""
    return [why for run_id in tools.runs if (why := tools.end(run_id))]


def _not_over(tools: Tools) -> list[str]:
    """One line for each run of the drill that the journal does not record as ended."""
    return [f"run {run.run_id} has not ended" for run in tools.recorded() if run.phase is not Phase.DONE]


class LeftError(TeardownUnverifiedError):
    """The drill has ended, and resources of it may still exist."""

    def __init__(self, rest: Sequence[str], result: DrillResult) -> None:
        super().__init__(
            f"resources of the drill may still exist: {'; '.join(rest)}",
            f"{Command('drill', result.provider, Option.CLEAN)} deletes them; plan cleanup shows them",
        )
        self.result = result


def left_over(tools: Tools) -> list[Run]:
    """Runs of earlier drills at this provider that are not over."""
    return [
        run
        for run in (*tools.journal.live(), *tools.journal.unverified())
        # A copied journal has the drills of the home that it was copied from (ADR 17).
        if run.job_digest == DIGEST and run.provider == tools.provider.name and tools.runner.owns(run)
    ]


def clean(tools: Tools) -> int:
    """End the runs that earlier drills have left, and remove the alarm. Return how many runs.

    Raises TeardownUnverifiedError if the end of one is not confirmed, ProviderError if the alarm cannot be removed.
    """
    runs = {run.run_id: run for run in left_over(tools)}
    rest = [why for run_id in runs if (why := tools.end(run_id))]
    if rest:
        raise TeardownUnverifiedError(
            f"resources of an earlier drill may still exist: {'; '.join(rest)}", "plan cleanup shows them"
        )
    if clear_alarm(tools):
        tools.say("the monthly alarm of an earlier drill was removed")
    return len(runs)


def last_drill(tools: Tools) -> list[Run]:
    """The runs of the newest drill at this provider, in their order; none where there was none."""
    runs = [run for run in tools.journal.runs() if run.job_digest == DIGEST and run.provider == tools.provider.name]
    newest_at = max((run.created_at for run in runs), default=None)
    if newest_at is None:
        return []
    return sorted((run for run in runs if newest_at - run.created_at <= _ONE_DRILL), key=lambda run: run.created_at)


def result_of(tools: Tools) -> DrillResult:
    """What the steps have shown, without anything that names the account."""
    target = _where(tools)
    runs = tools.recorded()
    targets = [attempt.target for run in runs for attempt in run.attempts if attempt.target and attempt.had_instance]
    lasting = tools.now() - tools.began
    result = without_secrets(
        {
            "provider": tools.provider.name,
            "day": tools.began.date().isoformat(),
            "version": __version__,
            "regions": tuple(dict.fromkeys(other_target.offer.region for other_target in targets)),
            "machine_type": target.offer.instance_type,
            "device": target.offer.device,
            "usd_per_hour": target.offer.usd_per_hour,
            "usd_estimate": _estimate(tools, runs),
            "seconds": round(lasting.total_seconds(), 1),
            "steps": _steps(tools, runs),
        }
    )
    # Redaction may take any word for a name: the provider and the day stay as they are.
    return DrillResult.model_validate({**result, "provider": tools.provider.name, "day": tools.began.date()})


def _where(tools: Tools) -> Target:
    for run in tools.recorded():
        for attempt in run.attempts:
            if attempt.target is not None and attempt.had_instance:
                return attempt.target
    return tools.targets[0]


def _estimate(tools: Tools, runs: Sequence[Run]) -> Decimal:
    """Compute, and disk and address for as long as there was a machine, at list prices, the dearest for the latter."""
    now = tools.now()
    total = Decimal(0)
    for run in runs:
        total += run.cost_usd(now)
        for attempt in run.attempts:
            if attempt.asked_at is not None and attempt.had_instance:
                hours = ((attempt.ended_at or now) - attempt.asked_at) / timedelta(hours=1)
                total += EXTRAS_USD_PER_HOUR * Decimal(str(round(max(hours, 0.0), 6)))
    return total.quantize(_CENT, ROUND_UP)


def _steps(tools: Tools, runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Every step's result, redacted. Only `detail` can contain names; the other fields are the drill's own words."""
    secrets = _secrets(tools, runs)
    return [{**step.model_dump(mode="json"), "detail": redacted(step.detail, secrets)} for step in tools.sheet.results]


def _secrets(tools: Tools, runs: Sequence[Run]) -> set[str]:
    """Names in the journal and the settings that identify the account."""
    secrets = {tools.client.id, *tools.runs, str(tools.settings.home)}
    for run in runs:
        secrets |= {attempt.ref.id for attempt in run.attempts if attempt.ref is not None}
    for option in tools.settings.options_of(tools.provider.name).values():
        secrets.add(option)
    return secrets - _public(tools)


def _public(tools: Tools) -> set[str]:
    """Words that identify no account, even if a setting contains them."""
    return {target.offer.region for target in tools.targets} | {"plan", "trainplan", "true", "false", "none"}
