"""The state that all of a double's APIs share: its time, what befalls calls, the bucket, and who acts by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple, Protocol

from tests.doubles import gcs
from tests.doubles.clock import NOON
from tests.doubles.google.scenario import FaultRule, Scenario
from trainplan.providers.base import LABEL_CLIENT, LABEL_RUN

ANOTHER_COMPUTER = "another-computer"


class RefusedError(Exception):
    """A reply that is not a success, as Google words it."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message

    @property
    def body(self) -> dict[str, Any]:
        row = {"message": self.message, "domain": "global", "reason": self.reason}
        return {"error": {"code": self.status, "message": self.message, "errors": [row]}}


class Call(NamedTuple):
    """One request, checked: the method's id, what path and query say, and the body."""

    method: str
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: dict[str, Any]


def is_ours(labels: Mapping[str, str]) -> bool:
    """Whether something with these labels was made by the clients of the fault harness: the rest was planted."""
    return LABEL_RUN in labels and labels.get(LABEL_CLIENT) != ANOTHER_COMPUTER


class Moment(NamedTuple):
    """Something that is due by itself."""

    at: datetime
    happen: Callable[[], None]


class Actor(Protocol):
    """What lives in the world between calls."""

    def moments(self) -> Iterator[Moment]:
        """What may happen next, if nobody calls."""
        ...

    def tell(self) -> None:
        """Write down what has been done by now."""


@dataclass(slots=True)
class Rule:
    """A fault and how often it was met."""

    rule: FaultRule
    call_count: int = 0


@dataclass
class World:
    """`tables` belong to the modules of the APIs, by their name: each keeps there what it has made. `signed` are the
    credentials that came with the calls of each method."""

    scenario: Scenario = field(default_factory=Scenario)
    now: datetime = NOON
    actors: list[Actor] = field(default_factory=list)
    bucket: gcs.World = field(default_factory=gcs.World)
    tables: dict[str, Any] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    signed: dict[str, list[str]] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    numbers: int = 10**15

    def __post_init__(self) -> None:
        self.now = self.began = self.scenario.began or self.now
        self.rules = [Rule(rule) for rule in self.scenario.faults]
        self.random = Random(self.scenario.seed)

    def table(self, kind: type[Any]) -> Any:
        """The one table of this kind, made when it is first asked for; by `kind.of(scenario)` where it has that."""
        if kind.__name__ not in self.tables:
            begin = getattr(kind, "of", None)
            self.tables[kind.__name__] = begin(self.scenario) if begin else kind()
        return self.tables[kind.__name__]

    def number(self) -> str:
        """An id as Google gives them."""
        self.numbers += 1
        return str(self.numbers)

    def stamp(self, at: datetime | None = None) -> str:
        return (at or self.now).isoformat(timespec="milliseconds")

    def pass_to(self, until: datetime) -> None:
        """Whatever is due until then happens, in its order."""
        while True:
            due = [moment for actor in list(self.actors) for moment in actor.moments() if moment.at <= until]
            if not due:
                break
            first = min(due, key=lambda moment: moment.at)
            self.now = max(self.now, first.at)
            self.tell()
            first.happen()
        self.now = max(self.now, until)
        self.tell()

    def pass_by(self, seconds: float) -> None:
        self.pass_to(self.now + timedelta(seconds=seconds))

    def tell(self) -> None:
        for actor in list(self.actors):
            actor.tell()

    def fault(self, method: str, *effects: str) -> FaultRule | None:
        """What of these effects befalls this call. Counts it."""
        age = (self.now - self.began).total_seconds()
        for known in self.rules:
            rule = known.rule
            if rule.effect not in effects or rule.operation not in ("*", method):
                continue
            if age < rule.after or (rule.until is not None and age > rule.until):
                continue
            known.call_count += 1
            spent = rule.times is not None and known.call_count > rule.skip + rule.times
            if known.call_count > rule.skip and not spent and self.random.random() < rule.chance:
                return rule
        return None
