"""`plan stop` without the journal: the run's machines are found and ended by their label."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from typing import NamedTuple

from planner.cli import build
from planner.cli.sweep import Looked, found_text, look_everywhere
from planner.errors import BadInputError, PlanError, RefusedError, TeardownUnverifiedError
from planner.settings import Settings
from planner.stopping import stop_by_label
from planner.sweep import Fate, Found
from providers.base import RunId

_RUN_ID = re.compile(r"\d{6}(-[0-9a-f]{0,8})?")


class Wanted(NamedTuple):
    """A run by its id or the beginning of it. `why` says why the journal does not do; `providers` are the only ones
    that are asked (empty: all); `is_any_client`: also where another client made it."""

    name: str
    why: str
    providers: tuple[str, ...] = ()
    is_any_client: bool = False


def is_run_id(name: str) -> bool:
    """Whether it can be the id of a run, or the beginning of one that tells the day at least."""
    return _RUN_ID.fullmatch(name) is not None


def stop_labelled(wanted: Wanted, settings: Settings, unknown: PlanError | None, *, as_json: bool) -> None:
    """End the run's machines, and say what was ended and that it is not recorded.

    Raises `unknown` where every place answered that nothing has the label (None: that is said, and no error),
    BadInputError where several runs match, RefusedError for another client's machines, TeardownUnverifiedError where
    something may still be there.
    """
    sys.stderr.write(f"{wanted.why}: looking for machines with the label of run {wanted.name}\n")
    looked = [one for name in wanted.providers or (None,) for one in look_everywhere(name, settings)]
    found = [
        known for one in looked if one.sweep for known in one.sweep.found if _matches(known.resource.run_id, wanted)
    ]
    silent = _silent(looked)
    if not found and silent:
        raise TeardownUnverifiedError(
            f"no machine of run {wanted.name} was found where somebody answered; {'; '.join(silent)}",
            "it may be where nobody answered; the same command looks again",
        )
    if not found:
        if unknown is not None:
            raise unknown
        places = ", ".join(one.name for one in looked if one.sweep)
        sys.stderr.write(f"nothing with the label of run {wanted.name} exists at {places}; nothing was recorded\n")
        return
    run_id = _the_run(found, wanted)
    sys.stderr.write(f"ending:\n{found_text(found)}\n")
    left = [line for one in looked for line in _end(one.name, run_id, found, settings)]
    if left or silent:
        raise TeardownUnverifiedError(
            f"run {run_id}: may still be there: {'; '.join([*left, *silent])}", "the same command looks again"
        )
    ended = [known.resource.id for known in found]
    sys.stderr.write(
        f"run {run_id}: {', '.join(ended)} ended by label, and nothing with its label is left; the outcome is not "
        f"recorded: {wanted.why}\n"
    )
    if as_json:
        sys.stdout.write(json.dumps({"run_id": run_id, "ended": ended, "recorded": False}) + "\n")


def _matches(run_id: str, wanted: Wanted) -> bool:
    return run_id.startswith(wanted.name)


def _silent(looked: Sequence[Looked]) -> list[str]:
    """Who did not tell, and why."""
    failed = [f"{one.name} did not answer: {one.error.message}" for one in looked if one.error is not None]
    return failed + [f"{place} did not answer" for one in looked if one.sweep for place in one.sweep.unanswered]


def _the_run(found: Sequence[Found], wanted: Wanted) -> RunId:
    run_ids = sorted({known.resource.run_id for known in found})
    if len(run_ids) > 1:
        raise BadInputError(f"{wanted.name!r} is the beginning of {len(run_ids)} runs", f"one of {', '.join(run_ids)}")
    (run_id,) = run_ids
    foreign = sorted({str(known.resource.client) for known in found if known.fate is Fate.FOREIGN})
    if foreign and not wanted.is_any_client:
        raise RefusedError(
            f"run {run_id} has machines of client {', '.join(foreign)}, which is not this home: they are left alone",
            f"if they are yours: plan stop {run_id} --client any ends them",
        )
    return run_id


def _end(provider: str, run_id: RunId, found: Sequence[Found], settings: Settings) -> list[str]:
    owned = [known.resource for known in found if known.resource.provider == provider]
    if not owned:
        return []
    asked = build.provider(provider, settings)
    return stop_by_label(asked, run_id, owned, build.clock_of(asked), _tell)


def _tell(text: str) -> None:
    sys.stderr.write(f"{text}\n")
