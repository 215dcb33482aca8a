"""What a launch meets in each case, and what may become of it then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from tests.faults.points import nothing


class Then(StrEnum):
    """What happens at a point, and after it."""

    STATUS = "killed, then plan status"
    TWICE = "killed, then plan status killed as well, then plan status"
    ATTACH = "killed, then plan attach"
    BESIDE = "plan status beside it"
    STOP = "plan stop beside it"
    NEVER = "killed, and nobody comes back"
    SWEEP = "killed, the journal lost, then plan sweep"

    @property
    def kills(self) -> bool:
        return self not in (Then.BESIDE, Then.STOP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`machines` is how many it takes when nobody disturbs it; points beyond `most_points` are like those before.
    `clear`: every answer of the scenario says what became of the call, so that only a death has a create sent again.
    `break_code` plants a defect in each client."""

    name: str
    then: tuple[Then, ...] = (Then.STATUS,)
    market: str = "on_demand"
    deadline: str = "20m"
    budget_usd: str | None = None
    machines: int = 1
    most_points: int | None = None
    clear: bool = False
    break_code: Callable[[], None] = nothing


# A cloud has those cases that its double has a scenario for.
CASES = (
    Case(name="plain", then=(Then.STATUS, Then.TWICE, Then.ATTACH, Then.BESIDE, Then.STOP)),
    Case(name="failover", then=(Then.STATUS, Then.ATTACH, Then.BESIDE), clear=True),
    Case(name="reclaim", then=(Then.STATUS, Then.ATTACH, Then.BESIDE, Then.STOP), market="spot", machines=2),
    Case(name="maintenance", then=(Then.STATUS, Then.ATTACH), machines=2),
    Case(name="throttled", budget_usd="0.12"),
    Case(name="lost reply", then=(Then.STATUS, Then.TWICE, Then.ATTACH), budget_usd="0.12"),
    Case(name="unclear", budget_usd="0.15", machines=2),
    Case(name="dead replay", then=(Then.STATUS, Then.ATTACH), machines=2),
    Case(name="expired"),
    Case(name="silent place"),
    Case(name="machine's timer", then=(Then.NEVER,), market="spot", budget_usd="0.12", most_points=50),
    Case(name="cloud's timer", then=(Then.NEVER,), market="spot", budget_usd="0.12", most_points=50),
    Case(name="swept", then=(Then.SWEEP,), deadline="2h", most_points=50),
)
