"""Know what training a CNN will cost, everywhere it could run, before you pay for it.

`estimate` says what a job takes and costs, `pilot` measures where that is uncertain, `launch` trains it, `runs` finds
what was launched (docs/api.md). What is behind a name is imported when the name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainplan.planner.api.comparison import Comparison
    from trainplan.planner.api.job import Job
    from trainplan.planner.api.launch import launch
    from trainplan.planner.api.pilots import Pilot, Pilots, pilot
    from trainplan.planner.api.plan import Lever, Offer, Plan, estimate
    from trainplan.planner.api.run import Run, RunStatus, runs
    from trainplan.planner.api.words import Outcome, Phase
    from trainplan.planner.errors import (
        BadInputError,
        DeclinedError,
        LimitReachedError,
        NoCapacityError,
        NothingLeftError,
        RefusedError,
        ResultsUnknownError,
        TeardownUnverifiedError,
        ThisMachineError,
        TrainingFailedError,
        TrainplanError,
        UnknownRunError,
    )
    from trainplan.planner.runs.predictions import Prediction

# tests/golden/api/names.txt has these names with their signatures: they change with the version alone.
__all__ = [
    "BadInputError",
    "Comparison",
    "DeclinedError",
    "Job",
    "Lever",
    "LimitReachedError",
    "NoCapacityError",
    "NothingLeftError",
    "Offer",
    "Outcome",
    "Phase",
    "Pilot",
    "Pilots",
    "Plan",
    "Prediction",
    "RefusedError",
    "ResultsUnknownError",
    "Run",
    "RunStatus",
    "TeardownUnverifiedError",
    "ThisMachineError",
    "TrainingFailedError",
    "TrainplanError",
    "UnknownRunError",
    "estimate",
    "launch",
    "pilot",
    "runs",
]

_MODULES = {
    "Comparison": "api.comparison",
    "Job": "api.job",
    "Lever": "api.plan",
    "Offer": "api.plan",
    "Outcome": "api.words",
    "Phase": "api.words",
    "Pilot": "api.pilots",
    "Pilots": "api.pilots",
    "Plan": "api.plan",
    "Prediction": "runs.predictions",
    "Run": "api.run",
    "RunStatus": "api.run",
    "estimate": "api.plan",
    "launch": "api.launch",
    "pilot": "api.pilots",
    "runs": "api.run",
}
"""Where a name is, below trainplan.planner; all others are errors."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.planner.{_MODULES.get(name, 'errors')}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
