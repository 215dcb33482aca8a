"""What a launch meets in each case, and what may become of it then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from tests.faults.points import nothing
from trainplan.planner.runs.run import Outcome


class Then(StrEnum):
    """What happens at a point, and after it."""

    STATUS = "killed, then plan status"
    TWICE = "killed, then plan status killed as well, then plan status"
    ATTACH = "killed, then plan attach"
    BESIDE = "plan status beside it"
    STOP = "plan stop beside it"
    NEVER = "killed, and nobody comes back"
    CLEANUP = "killed, the journal lost, then plan cleanup"
    AWAY = "killed, then two commands after long pauses"
    LEFT = "detached, then two commands after long pauses"

    @property
    def kills(self) -> bool:
        return self not in (Then.BESIDE, Then.STOP, Then.LEFT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`machines` is how many it takes when nobody disturbs it; points beyond `most_points` are like those before.
    `clear`: every answer of the scenario says what became of the call, so that only a death has a create sent again.
    `answers`: the provider answers whoever asks, so that the first command after a death can end what is of no use.
    `unheard`: of so many machines, the first ones, no answer ever told; where one shows up later it is ended, as the
    launch has gone on elsewhere by then.
    `hours`: the job trains for 60 hours and its launch is detached (tests.faults.hours); `draws` is how many times that
    happens without a death (Then.LEFT).
    `pilot`: it is a pilot (planner/runs/pilot.py), whose cap no ending may pass; `settings`: one that tries settings.
    `sweep`: the job has one, and the budget is the sweep's.
    `end`: how its run ends where no death comes between. One that ends by its budget is a sweep, and brings its best
    trial so far home.
    `compares`: it is the run that follows pilots, and measures its first machine: it goes straight on there where it
    takes one machine, and elsewhere where it takes two; what was agreed to, no ending may pass.
    `large_data`: its data needs a disk beside the one that a TPU comes with.
    `first` and `second` are the commands there, where those are not drawn, and `pause` is that before each of them.
    `break_code` plants a defect in each client."""

    name: str
    then: tuple[Then, ...] = (Then.STATUS,)
    market: str = "on_demand"
    deadline: str = "20m"
    budget_usd: str | None = None
    machines: int = 1
    most_points: int | None = None
    clear: bool = False
    answers: bool = True
    unheard: int = 0
    hours: bool = False
    pilot: bool = False
    settings: bool = False
    sweep: bool = False
    end: Outcome = Outcome.SUCCEEDED
    compares: bool = False
    large_data: bool = False
    draws: int = 0
    pause: timedelta | None = None
    first: str = ""
    second: str = ""
    break_code: Callable[[], None] = nothing


_HOURS = (Then.AWAY, Then.LEFT)
SILENT_HOURS = (120.0, 121.5)
"""From the launch: the first command after the deadline falls into them."""
SILENT_AT_A_STOP_HOURS, SILENT_AFTER_ALL_HOURS = (11.0, 30.0), (66.0, 69.0)
"""From the launch: `plan stop` falls into them, while it trains and after all was trained."""
_AFTER_THE_DEADLINE: dict[str, Any] = {
    "deadline": "5d", "hours": True, "pause": timedelta(days=5, minutes=30), "first": "plan status",
}  # fmt: skip
# A cloud has those cases that its double has a scenario for.
CASES = (
    Case(name="plain", then=(Then.STATUS, Then.TWICE, Then.ATTACH, Then.BESIDE, Then.STOP)),
    Case(name="pilot", then=(Then.STATUS, Then.TWICE, Then.ATTACH, Then.BESIDE, Then.STOP), pilot=True),
    Case(name="pilot, lost reply", then=(Then.STATUS, Then.ATTACH), answers=False, pilot=True),
    Case(name="pilot, settings", then=(Then.STATUS,), most_points=30, pilot=True, settings=True),
    # Its limit is half an hour (tests/faults/pilots.py).
    Case(name="pilot, hung", then=(Then.NEVER,), deadline="30m", most_points=30, pilot=True),
    Case(
        name="sweep, reclaim",
        then=(Then.STATUS, Then.ATTACH),
        market="spot",
        budget_usd="0.12",
        machines=2,
        most_points=50,
        sweep=True,
    ),
    Case(
        name="sweep, budget",
        then=(Then.STATUS, Then.ATTACH, Then.BESIDE),
        budget_usd="0.12",
        most_points=50,
        sweep=True,
        end=Outcome.BUDGET,
    ),
    Case(name="goes straight on", then=(Then.STATUS, Then.ATTACH, Then.BESIDE, Then.STOP), compares=True),
    Case(
        name="goes on elsewhere",
        then=(Then.STATUS, Then.TWICE, Then.ATTACH, Then.BESIDE, Then.STOP),
        machines=2,
        compares=True,
    ),
    Case(name="goes on, hung", then=(Then.NEVER,), market="spot", most_points=30, compares=True),
    Case(name="failover", then=(Then.STATUS, Then.ATTACH, Then.BESIDE), clear=True),
    Case(name="tail", then=(Then.ATTACH,), deadline="6h", answers=False),
    Case(name="reclaim", then=(Then.STATUS, Then.ATTACH, Then.BESIDE, Then.STOP), market="spot", machines=2),
    Case(name="maintenance", then=(Then.STATUS, Then.ATTACH), machines=2),
    Case(name="throttled", budget_usd="0.12", answers=False),
    Case(name="lost reply", then=(Then.STATUS, Then.TWICE, Then.ATTACH), budget_usd="0.12", answers=False),
    Case(name="unclear", budget_usd="0.15", machines=2, unheard=1, answers=False),
    Case(name="dead replay", then=(Then.STATUS, Then.ATTACH), machines=2, answers=False),
    Case(name="expired", answers=False),
    Case(name="silent placement", answers=False),
    Case(name="machine's timer", then=(Then.NEVER,), market="spot", budget_usd="0.12", most_points=50),
    Case(name="cloud's timer", then=(Then.NEVER,), market="spot", budget_usd="0.12", most_points=50),
    # What a machine may cost at the price of spot and at that of on demand, at which its budget is counted, differ.
    Case(name="late replay", then=(Then.ATTACH,), market="spot", budget_usd="0.12", most_points=50),
    Case(name="queued", then=(Then.STOP,), deadline="2h", most_points=40),
    Case(name="cleanup", then=(Then.CLEANUP,), deadline="2h", most_points=50),
    Case(
        name="data disk",
        then=(Then.STATUS, Then.TWICE, Then.ATTACH, Then.BESIDE, Then.STOP),
        large_data=True,
    ),
    Case(name="data disk, failover", then=(Then.STATUS, Then.ATTACH), clear=True, large_data=True),
    Case(name="data disk, reclaim", then=(Then.STATUS, Then.ATTACH), market="spot", machines=2, large_data=True),
    Case(
        name="data disk, lost reply",
        then=(Then.STATUS, Then.TWICE, Then.ATTACH),
        budget_usd="0.12",
        answers=False,
        large_data=True,
    ),
    Case(
        name="data disk, cloud's timer",
        then=(Then.NEVER,),
        market="spot",
        budget_usd="0.12",
        most_points=60,
        large_data=True,
    ),
    Case(
        name="data disk, taken back",
        then=(Then.NEVER,),
        market="spot",
        budget_usd="0.12",
        most_points=60,
        large_data=True,
    ),
    Case(name="data disk, cleanup", then=(Then.CLEANUP,), deadline="2h", most_points=60, large_data=True),
    Case(name="absent", then=_HOURS, deadline="5d", hours=True, draws=120),
    Case(name="absent, slow boot", then=_HOURS, deadline="5d", hours=True, draws=40),
    Case(
        name="forgotten token",
        then=(Then.AWAY,),
        deadline="5d",
        hours=True,
        pause=timedelta(days=2),
        first="plan attach",
    ),
    Case(name="left alone", then=_HOURS, deadline="5d", hours=True, draws=20),
    # Its trainer goes on and does not obey, and the double has no agent that ends it.
    Case(name="left hung", then=(Then.LEFT,), deadline="5d", hours=True, draws=10),
    # The first command after the deadline gets no answer, of anything or of the store alone.
    Case(name="no answer at the end", then=(Then.LEFT,), answers=False, draws=10, **_AFTER_THE_DEADLINE),
    Case(name="silent store at the end", then=(Then.LEFT,), draws=10, **_AFTER_THE_DEADLINE),
    # A signal comes where an exception would be dropped.
    Case(
        name="signal",
        then=(Then.LEFT,),
        deadline="5d",
        hours=True,
        draws=10,
        pause=timedelta(minutes=50),
        first="plan attach, and SIGTERM",
    ),
    # Its training ended before the first command.
    Case(
        name="two at once",
        then=(Then.LEFT,),
        deadline="5d",
        hours=True,
        draws=10,
        pause=timedelta(hours=65),
        first="plan attach, and plan status before it has the lock",
    ),
    Case(
        name="shared home",
        then=(Then.LEFT,),
        deadline="5d",
        hours=True,
        draws=10,
        pause=timedelta(hours=3),
        first="plan launch on another computer of this home",
    ),
    # plan stop is killed at the point that has the number of the draw: before, at and after its mark in the store.
    Case(
        name="sweep, stopped",
        then=(Then.LEFT,),
        deadline="5d",
        hours=True,
        draws=40,
        sweep=True,
        pause=timedelta(hours=12),
        first="plan stop, killed",
        second="plan stop",
    ),
    Case(
        name="silent store at a stop",
        then=(Then.LEFT,),
        deadline="5d",
        hours=True,
        draws=10,
        pause=timedelta(hours=12),
        first="plan stop",
    ),
    # Nothing can be read of what was trained, its results are given up, and later the same job is launched.
    Case(
        name="results given up",
        then=(Then.LEFT,),
        deadline="5d",
        hours=True,
        draws=3,
        pause=timedelta(hours=67),
        first="plan stop --give-up-results",
        second="plan launch",
    ),
    Case(name="data disk, left alone", then=_HOURS, deadline="5d", hours=True, draws=10, large_data=True),
    Case(name="hung", then=_HOURS, deadline="5d", hours=True, draws=40),
    Case(name="never begins", then=_HOURS, deadline="5d", hours=True, draws=40),
)
