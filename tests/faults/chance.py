"""What chance makes of a real cloud's double: its world, and what goes wrong there, in kinds that its vendor has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random import Random

TIMER_GRACE = timedelta(minutes=5, seconds=30)
"""How long after a machine's deadline the timers of the doubles have ended it."""
ANY = ("*",)
_LASTING_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One way in which calls go wrong at a vendor. `calls` are those that it befalls, one is drawn; `how` is what the
    double is told of it, of several one is drawn. `lasts`: all such calls for two minutes, else a few of them.
    `often` is how many lots it has."""

    calls: tuple[str, ...]
    how: tuple[Mapping[str, Any], ...]
    lasts: bool = False
    often: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A kind as chance has drawn it. Seconds count from now; `times` None: all calls until `end`."""

    call: str
    how: Mapping[str, Any]
    skip: int = 0
    times: int | None = 1
    chance: float = 1.0
    begin: float = 0.0
    end: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Befall:
    """Something that happens to machines of an attempt (None: of each), so many seconds after they run."""

    event: str
    attempt: int | None
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A world. Durations in seconds. `standing`: the cloud's timer is armed without a call of its own; `stay`: what
    comes with a machine does not go with it. `full` are placements by number that have no room, `narrow` those that
    have a quota, and for how many machines."""

    seed: int
    hung: bool
    boot: float
    deletion: float
    lag: float
    notice: float
    page_size: int
    is_standing: bool
    machine_timer: bool
    cloud_timer: bool
    stay: bool
    stock: int
    full: tuple[int, ...]
    narrow: Mapping[int, int]
    befalls: tuple[Befall, ...]
    troubles: tuple[Trouble, ...]


def a_world(chance: Random, kinds: Sequence[Kind], events: Sequence[str], *, never_back: bool) -> Drawn:
    """At least one timer works in it. `events` are those that may befall a machine."""
    machine_timer = chance.random() < 0.7
    placements = range(3)
    return Drawn(
        seed=chance.randrange(2**31),
        hung=chance.random() < 0.2,
        boot=chance.choice((5.0, 20.0)),
        deletion=chance.choice((2.0, 20.0)),
        lag=chance.choice((0.0, 5.0, 20.0)),
        notice=chance.choice((0.0, 20.0, 120.0)),
        page_size=chance.choice((1, 2, 20)),
        is_standing=not machine_timer or chance.random() < 0.5,
        machine_timer=machine_timer,
        cloud_timer=not machine_timer or chance.random() < 0.7,
        stay=not never_back and chance.random() < 0.5,
        stock=chance.choice((1, 1, 2, 8)),
        full=tuple(placement for placement in placements if chance.random() < 0.25),
        narrow={placement: chance.choice((0, 1)) for placement in placements if chance.random() < 0.1},
        befalls=tuple(_befall(chance, events) for _ in range(chance.choice((0, 0, 1, 2)))),
        troubles=tuple(a_trouble(chance, kinds) for _ in range(chance.randrange(4))),
    )


def a_trouble(chance: Random, kinds: Sequence[Kind]) -> Trouble:
    """Something that goes wrong from now on."""
    kind = chance.choices(kinds, [known.often for known in kinds])[0]
    call, how = chance.choice(kind.calls), chance.choice(kind.how)
    if kind.lasts:
        begin = chance.choice((0.0, 20.0, 60.0, 120.0))
        return Trouble(call=call, how=how, times=None, begin=begin, end=begin + _LASTING_SECONDS)
    skip = chance.choice((0, 0, 1, 4))
    times = chance.choice((1, 5, None))
    if times is None:
        return Trouble(call=call, how=how, skip=skip, times=None, chance=0.2, end=2 * _LASTING_SECONDS)
    return Trouble(call=call, how=how, skip=skip, times=times)


def _befall(chance: Random, events: Sequence[str]) -> Befall:
    return Befall(
        event=chance.choice(events), attempt=chance.choice((None, 1, 1, 2)), after=chance.choice((1.0, 20.0, 50.0))
    )
