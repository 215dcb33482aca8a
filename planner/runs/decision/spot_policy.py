"""When a run under a deadline waits for spot, uses it, or falls back on demand: one pure decision at a time.

The deadline comes first: time that on demand needs to finish is never risked. What is left over, the slack, is spent on
waiting for spot as long as it exceeds a share of the work left, and on changing machines. Starts from Uniform Progress
(Wu et al., "Can't Be Late", NSDI 2024); docs/adr/0010-spot-under-a-deadline.md says where it differs and by how much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never


class Running(StrEnum):
    """What the run has now; asked for counts as had."""

    NOTHING = "nothing"
    SPOT = "spot"
    ON_DEMAND = "on_demand"


class Action(StrEnum):
    """What a run does until the next decision."""

    USE_SPOT = "use_spot"
    """Ask for spot, or keep it; from on demand: checkpoint, stop, start again on spot."""
    USE_ON_DEMAND = "use_on_demand"
    """Ask for on demand, or keep it; from spot: checkpoint, stop, start again on demand."""
    WAIT = "wait"
    """Have nothing, and look for spot at each step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotRecord:
    """What is known of spot in the placements that the run would take: spells seen since it began, and what was
    expected.

    `state_seconds`: how long spot has been as it is now (had or not). `up_seconds` in all, over spells under way too;
    `ups_ended`: spells that ended. `prior_up_seconds`: the mean up spell before anything was seen, such as
    `trainplan.planner.forecast.spot.spot_rate(...).placement.up.mean_seconds`; 3 h is that of the traces that the
    policy was tuned on.
    """

    state_seconds: float = 0.0
    up_seconds: float = 0.0
    ups_ended: int = 0
    prior_up_seconds: float = 3 * 3600.0

    def __post_init__(self) -> None:
        if min(self.state_seconds, self.up_seconds, self.ups_ended) < 0 or not self.prior_up_seconds > 0:
            raise ValueError(f"what was seen of spot must not be negative, and the mean expected positive: {self}")

    @property
    def mean_up_seconds(self) -> float:
        """Time up over ends, which spells under way do not bias; the prior counts as three spells."""
        return (_PRIOR_SPELLS * self.prior_up_seconds + self.up_seconds) / (_PRIOR_SPELLS + self.ups_ended)


_PRIOR_SPELLS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """All that a decision rests on; durations in seconds.

    `work_seconds`: training left after the newest complete checkpoint, at this machine's speed with its checkpoints;
    `unsaved_seconds` of it have been done since and are lost if the machine vanishes. `time_seconds`: to the deadline.
    `restart_seconds`: from asking for a machine to its first step, checkpoint before an orderly stop and tear-down
    included. `step_seconds`: at most until the next decision, and until a machine that vanished is noticed.
    `checkpoint_every_seconds`: the most that a machine which vanishes takes with it. `running_seconds`: since the
    machine was asked for. `spot_up`: whether spot is to be had now, None where nobody knows. `on_demand_refused`: the
    last request found no machine. `price_ratio`: spot over on demand. Raises ValueError on figures that cannot be.
    """

    work_seconds: float
    time_seconds: float
    restart_seconds: float
    step_seconds: float
    unsaved_seconds: float = 0.0
    checkpoint_every_seconds: float = 0.0
    running: Running = Running.NOTHING
    running_seconds: float = 0.0
    spot_up: bool | None = None
    on_demand_refused: bool = False
    price_ratio: float = 0.3
    spot: SpotRecord = SpotRecord()

    def __post_init__(self) -> None:
        least = min(self.work_seconds, self.restart_seconds, self.unsaved_seconds, self.checkpoint_every_seconds)
        if least < 0 or self.step_seconds <= 0 or self.price_ratio <= 0 or self.running_seconds < 0:
            raise ValueError(f"step and price ratio must be positive, the rest but the time left not negative: {self}")
        if self.unsaved_seconds > 0 and self.running is Running.NOTHING:
            raise ValueError(f"without a machine there is no unsaved work: {self}")

    @property
    def slack_seconds(self) -> float:
        """Time to spare if what runs vanished now and on demand were asked for; negative: too late for that."""
        return self.time_seconds - self.work_seconds - self.restart_seconds

    @property
    def slack_after_stop_seconds(self) -> float:
        """The same if what runs were stopped in order, its work kept."""
        return self.slack_seconds + min(self.unsaved_seconds, self.work_seconds)

    @property
    def stake_seconds(self) -> float:
        """What an attempt on spot may cost in time: its restart, work since a checkpoint, and a step to notice."""
        return self.restart_seconds + self.checkpoint_every_seconds + self.step_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What can be tuned. The defaults were chosen on every second trace (benchmarks/spot_policy.py), the rest held out.

    `keep_share`: slack to keep while waiting, per second of work left. `prove_factor`: spot must have been up for this
    many times the restart beyond five minutes before on demand is left for it. `outage_reserve_seconds`: slack
    that is neither waited away nor staked, for when on demand is refused; see `outage_reserve`.
    """

    # 0.13 and 2 were chosen among some 85 settings on the tuning half of the traces (ADR 10).
    keep_share: float = 0.13
    prove_factor: float = 2.0
    outage_reserve_seconds: float = 0.0


TUNED = Policy()
# Most up spells are short: where a restart is long, spot that came back a minute ago would not pay for it (ADR 10).
_QUICK_RESTART_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do, why in a few words, and for WAIT the most seconds until the next decision (0 otherwise)."""

    action: Action
    why: str
    wait_seconds: float = 0.0


def decide(situation: Situation, policy: Policy = TUNED) -> Decision:
    """What to do now. Takes microseconds.

    While on demand is never refused, a run that begins with `slack_seconds` >= 0 and follows this at least every
    `step_seconds` meets its deadline whatever spot does, if no restart takes longer than told.
    """
    match situation.running:
        case Running.NOTHING:
            return _with_nothing(situation, policy)
        case Running.SPOT:
            return _on_spot(situation)
        case Running.ON_DEMAND:
            return _on_demand(situation, policy)
        case _:
            assert_never(situation.running)


def _with_nothing(now: Situation, policy: Policy) -> Decision:
    if now.price_ratio >= 1:
        return _use_on_demand("spot is not cheaper")
    if now.on_demand_refused and now.spot_up:
        # The time would pass anyway, and on demand is asked for again at the next decision that needs it.
        return _use_spot("on demand is refused, spot is to be had")
    # The reserve is for the time in which on demand is refused: it is neither waited away nor staked.
    spare = now.slack_seconds - policy.outage_reserve_seconds
    if now.spot_up is not False:
        if spare >= now.stake_seconds:
            return _use_spot("the slack affords it")
        return _use_on_demand("the slack does not afford an attempt on spot")
    may_wait = spare - max(policy.keep_share * now.work_seconds, now.step_seconds)
    if may_wait < _LEAST_WAIT_SECONDS:
        return _use_on_demand("no spot, and the slack is needed for the work left")
    return Decision(
        action=Action.WAIT, why="no spot, and slack to wait for it", wait_seconds=min(now.step_seconds, may_wait)
    )


_LEAST_WAIT_SECONDS = 1.0
"""Less is not worth a decision, and rounding could make it waits without end."""


def _on_spot(now: Situation) -> Decision:
    # The next decision may come one step later, and on demand has to be in time even then.
    if now.slack_seconds >= now.step_seconds:
        return _use_spot("it runs, and on demand could still take over")
    if now.slack_after_stop_seconds < 0:
        return _use_spot("too late to change: only what runs may still meet the deadline")
    return _use_on_demand("the safety point: later, on demand could not take over")


def _on_demand(now: Situation, policy: Policy) -> Decision:
    if now.spot_up is not True:
        return _use_on_demand("it runs, and no spot is known of")
    if now.slack_after_stop_seconds - policy.outage_reserve_seconds < now.stake_seconds:
        return _use_on_demand("the slack does not afford a change to spot")
    if not _pays(now):
        return _use_on_demand("a spell of spot would not pay for two restarts")
    if now.spot.state_seconds < policy.prove_factor * max(0.0, now.restart_seconds - _QUICK_RESTART_SECONDS):
        return _use_on_demand("spot has just come back, and most spells are short")
    return _use_spot("cheaper, and the slack affords the change")


def _pays(now: Situation) -> bool:
    """Whether what a mean up spell (or the work left, if less) saves is more than the restarts there and back.

    Both restarts are billed, each at its price, and nothing is done in them.
    """
    to_gain = min(now.spot.mean_up_seconds, max(0.0, now.work_seconds - now.unsaved_seconds))
    return (1 - now.price_ratio) * to_gain > (1 + now.price_ratio) * now.restart_seconds


def _use_spot(why: str) -> Decision:
    return Decision(action=Action.USE_SPOT, why=why)


def _use_on_demand(why: str) -> Decision:
    return Decision(action=Action.USE_ON_DEMAND, why=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outages:
    """How on demand is refused: the fraction of the time, and the mean length of a time in which it is.

    Raises ValueError unless the fraction is from 0 to under 1 and the mean positive and finite.
    """

    fraction: float
    mean_seconds: float

    def __post_init__(self) -> None:
        if not (0 <= self.fraction < 1 and 0 < self.mean_seconds < math.inf):
            raise ValueError(f"outages need a fraction from 0 to under 1 and a positive, finite mean: {self}")

    def longer_than(self, seconds: float) -> float:
        """Probability that who asks now is refused for longer than that: fraction * exp(-seconds / mean)."""
        return self.fraction * math.exp(-max(0.0, seconds) / self.mean_seconds)


def chance_to_hold(situation: Situation, outages: Outages, policy: Policy = TUNED) -> float:
    """How likely the deadline holds when on demand is refused at times; machines that run are not taken away.

    `1 - fraction * exp(-spare / mean)`: outages of exponential length, and one request for on demand with `spare` in
    hand, the reserve or the slack where that is less. A machine on demand that stays is certain. Spot that turns up in
    an outage is not counted on; nor are outages met earlier, which use up slack above the reserve. 0 where on demand
    would be too late even if given at once.
    """
    if situation.running is Running.ON_DEMAND:
        if situation.slack_after_stop_seconds - policy.outage_reserve_seconds < situation.stake_seconds:
            remaining = max(0.0, situation.restart_seconds - situation.running_seconds)
            need = remaining + situation.work_seconds - situation.unsaved_seconds
            return 1.0 if situation.time_seconds >= need else 0.0
        return 1 - outages.longer_than(policy.outage_reserve_seconds)
    if situation.slack_seconds < 0:
        return 0.0
    return 1 - outages.longer_than(min(situation.slack_seconds, policy.outage_reserve_seconds))


MOST_OF_THE_SLACK = 1 / 3
"""The reserve takes no more of a run's slack: under a tight deadline it would leave nothing to save money with."""


def outage_reserve(outages: Outages, slack_seconds: float, most_missed: float = 0.01) -> float:
    """Slack to hold back so that `chance_to_hold` is at least 1 - `most_missed`: mean * ln(fraction / most_missed).

    At most a third of `slack_seconds`, which is that at the run's beginning. Raises ValueError unless `most_missed` is
    positive.
    """
    if most_missed <= 0:
        raise ValueError(f"no reserve makes a miss impossible; most_missed must be positive, not {most_missed}")
    if outages.fraction <= most_missed:
        return 0.0
    value = outages.mean_seconds * math.log(outages.fraction / most_missed)
    return min(value, MOST_OF_THE_SLACK * max(0.0, slack_seconds))
