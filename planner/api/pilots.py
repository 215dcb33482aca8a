"""Pilots from Python: `trainplan.pilot`, and what it answers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from trainplan.planner.api import build, words
from trainplan.planner.api.calls import Python, library_call
from trainplan.planner.api.data_steps import check_at_launch
from trainplan.planner.api.launch import launch_query
from trainplan.planner.api.names import one_of
from trainplan.planner.api.pilot_page import PilotAnswer, pilot_json, proposal_page, result_page
from trainplan.planner.api.piloting import (
    DEFAULT_PILOTS,
    answer_with_pilots,
    answer_with_tries,
    cap_of,
)
from trainplan.planner.api.plan import Plan
from trainplan.planner.api.python_desk import leave_running, python_pilots
from trainplan.planner.errors import BadInputError
from trainplan.planner.forecast.pilots import MOST_PILOTS
from trainplan.planner.report.plain_text import plain_text
from trainplan.planner.runs.execution.executor import Detached
from trainplan.planner.settings import load_settings
from trainplan.workloads.wording import Option, written_in

if TYPE_CHECKING:
    from trainplan.planner.report.page import Page


@dataclass(frozen=True, slots=True, kw_only=True)
class Pilot:
    """What became of one pilot, a run of a minute or two on one machine.

    `run_id` is its run (None: it was refused before there was one), `outcome` how that ended, and `usd` what it cost.
    `images_per_second` is what it measured, with the half width of the 80 % interval as a share of it; both are None
    where it measured nothing, and `why` says why. `is_input_bound`: the machine cannot hand over images faster, so that
    a faster device trains no faster. `kept` are the keys of the job that `batch="auto"` found the fastest.
    """

    run_id: str | None
    provider: str
    region: str
    instance_type: str
    market: str
    outcome: words.Outcome | None
    why: str
    usd: float
    estimated_images_per_second: float | None
    images_per_second: float | None
    half_width: float | None
    is_input_bound: bool | None
    kept: dict[str, Any] | None


class Pilots(Sequence[Pilot]):
    """The pilots that were run, in their order; none where none is worth its cost. `pilot` makes it.

    `print` shows what the command shows.
    """

    def __init__(self, answer: PilotAnswer, plan: Plan) -> None:
        """Only for this package: `pilot` runs pilots."""
        self._answer = answer
        self._before = plan
        names = Pilot.__dataclass_fields__
        self._pilots = tuple(Pilot(**{name: row[name] for name in names}) for row in self._document["pilots"])

    @overload
    def __getitem__(self, index: int) -> Pilot: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Pilot]: ...
    def __getitem__(self, index: int | slice) -> Pilot | Sequence[Pilot]:
        return self._pilots[index]

    def __len__(self) -> int:
        return len(self._pilots)

    @property
    def is_worth_it(self) -> bool:
        """Whether any pilot was expected to save the job more than it costs."""
        return bool(self._document["is_worth_it"])

    @property
    def spent_usd(self) -> float:
        """What all of them have cost."""
        return float(self._document["spent_usd"])

    @cached_property
    def plan(self) -> Plan:
        """The plan with what they measured: `launch(pilots.plan, ...)` goes where the job is the cheapest now."""
        return self._before.anew()

    def to_dict(self) -> dict[str, Any]:
        """The document that `plan pilot --json` prints (docs/output.md)."""
        return {**self._document}

    @cached_property
    def _document(self) -> dict[str, Any]:
        return pilot_json(self._answer)

    @property
    def _page(self) -> Page:
        answer = self._answer
        with written_in(Python(is_launch=True)):
            return result_page(answer) if answer.results else proposal_page(answer.proposal)

    def __repr__(self) -> str:
        return plain_text(self._page)

    def _repr_html_(self) -> str:
        from trainplan.planner.report.notebook_cell import cell, page_blocks

        return cell(*page_blocks(self._page, "pilots"))


def pilot(
    plan: Plan,
    *,
    max_cost_usd: float | Decimal,
    top: int = DEFAULT_PILOTS,
    batch: str | None = None,
    yes: bool = False,
    quiet: bool = False,
) -> Pilots:
    """Measure machines of a plan in short runs, where that is expected to save the job more than it costs.

    All together cost at most `max_cost_usd`, and at most `top` are run; each deletes what it made. What they measured
    is in every later estimate of this home (docs/pilots.md). `batch="auto"` tries on one machine, the first that the
    cap allows, in how many parts a batch is best trained, and XLA.

    It shows what it will do, and asks; `yes=True` agrees in code. Interrupting it (Ctrl-C) raises KeyboardInterrupt,
    starts no further one, and leaves the machine of the running one to end itself within minutes.

    Raises BadInputError for a job that is not ranked by its cost, has a container of its own or a sweep, for a cap that
    is too small for any pilot (its hint says what one takes), and where nobody can be asked; DeclinedError where the
    answer is no; RefusedError and NothingLeftError as `launch`; TeardownUnverifiedError where it is not confirmed that
    nothing is left of one; ThisMachineError where an earlier one of the job still runs.
    """
    with library_call(is_launch=True):
        if not isinstance(plan, Plan):
            raise BadInputError(f"a plan is expected, not {plan!r}", "estimate(job) is one")
        cap = cap_of(Option.BUDGET, str(max_cost_usd))
        if top not in range(1, MOST_PILOTS + 1):
            raise BadInputError(f"top: {top!r} is not a number of pilots", f"from 1 to {MOST_PILOTS}")
        tries = batch is not None and bool(one_of(Option.BATCH, str(batch), ["auto"]))
        job, query = check_at_launch(plan.job._training_job), launch_query(plan)
        around = build.surroundings(load_settings(os.environ))
        desk = python_pilots(around, is_agreed=yes, quiet=quiet)
        try:
            if tries:
                answer = answer_with_tries(job, query, cap, desk)
            else:
                answer = answer_with_pilots(job, query, cap, top, desk)
        except Detached as left:
            leave_running(left.run)
    return Pilots(answer, plan)
