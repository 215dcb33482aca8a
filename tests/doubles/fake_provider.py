"""A provider with memory and no machines: attempts live as a script says, and every call is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from tests.builders import an_offer
from tests.doubles.clock import FakeClock
from tests.doubles.fake_machine import FakeMachine, FakeStore, Sighting, done_at_once, trains_well
from trainplan.providers import registry
from trainplan.providers.base import (
    Check,
    Instance,
    InstanceRef,
    InstanceState,
    LaunchRequest,
    OwnedResource,
    Preflight,
    PreflightState,
    ProviderSettings,
    RunId,
    Timers,
    VendorRequest,
)
from trainplan.providers.errors import InstanceNotFoundError, PermissionDeniedError

if TYPE_CHECKING:
    import pytest

    from trainplan.pricing.offers import Offer, OfferQuery

Script = Callable[[FakeMachine], Iterator[Sighting]]


@dataclass
class FakeProvider:
    """`scripts` are the lives of the attempts of a run, in order; the last one serves for all further ones.

    `refuse[(operation, n)]` is raised by the n-th call of an operation (from 1) instead of its effect,
    `lose[(operation, n)]` after it: the reply is lost. `before` and `after` are told of every call.
    `down[operation]` is raised by every call of it, for as long as it is there.
    What was deleted stays listed for `slow_deletes` more looks; None: for ever. With `tidy`, what has ended leaves
    nothing that would have to be deleted. With `disks` each machine comes with one, which does not go with it.
    A machine is not shown before it is `lag` old. A create that is sent again makes another machine where the first one
    is gone, as at a vendor that has forgotten its token; `token_memory` is how long it says that it remembers them.
    `offset` is how far its clock is ahead, None: nobody knows.
    `console` is what an instance says, None: nobody may read it.
    `received` are the requests that launch got; `dialect` is how they are translated.
    """

    clock: FakeClock
    scripts: list[Script] = field(default_factory=lambda: [trains_well])
    name: str = "local"
    slow_deletes: int | None = 0
    tidy: bool = False
    disks: bool = False
    lag: timedelta = timedelta(0)
    token_memory: timedelta = timedelta(hours=24)
    offset: timedelta | None = timedelta(0)
    dialect: str = "start"
    console: tuple[str, ...] | None = ("the instance's own words",)
    checks: tuple[Check, ...] = (Check(name="engine", state=PreflightState.OK, detail="a fake"),)
    refuse: dict[tuple[str, int], BaseException] = field(default_factory=dict)
    lose: dict[tuple[str, int], BaseException] = field(default_factory=dict)
    down: dict[str, BaseException] = field(default_factory=dict)
    before: Callable[[str], None] = lambda _: None
    after: Callable[[str], None] = lambda _: None
    calls: list[tuple[str, str]] = field(default_factory=list)
    machines: dict[str, FakeMachine] = field(default_factory=dict)
    stores: dict[RunId, FakeStore] = field(default_factory=dict)
    prepared: list[LaunchRequest] = field(default_factory=list)
    received: list[LaunchRequest] = field(default_factory=list)
    attached: dict[str, RunId] = field(default_factory=dict)
    _deleted: dict[str, int] = field(default_factory=dict)

    def count(self, operation: str) -> int:
        return sum(called == operation for called, _ in self.calls)

    def offers(self, query: OfferQuery) -> Sequence[Offer]:
        return [an_offer()]

    def preflight(self, offer: Offer) -> Preflight:
        return Preflight(checks=self.checks)

    def prepare(self, request: LaunchRequest, report: Callable[[str], None]) -> None:
        self.prepared.append(request)
        report("preparing")

    def launch(self, request: LaunchRequest) -> Instance:
        key = f"{request.run_id}-{request.attempt}"
        self.received.append(request)
        with self._call("launch", key):
            if key not in self.machines:
                store = self.stores.setdefault(request.run_id, FakeStore())
                store.put("job.json", request.job.to_json().encode())
                script = self.scripts[min(request.attempt, len(self.scripts)) - 1]
                self.machines[key] = FakeMachine(request, store, self.clock, script)
                if self.disks:
                    self.attached[f"{key}-disk"] = request.run_id
        return self._instance(key)

    def get(self, ref: InstanceRef) -> Instance:
        with self._call("get", ref.id):
            if ref.id not in self.machines or self._newborn(ref.id):
                raise InstanceNotFoundError(f"there is no {ref.id}")
            if self.machines[ref.id].live().state is InstanceState.ENDED and self.machines[ref.id].vanished:
                del self.machines[ref.id]
                raise InstanceNotFoundError(f"there is no {ref.id}")
        return self._instance(ref.id)

    def list_owned(self, run_id: RunId | None = None) -> Sequence[OwnedResource]:
        with self._call("list_owned", run_id or ""):
            found = [key for key, machine in self.machines.items() if run_id in (None, machine.request.run_id)]
            shown = [key for key in found if not (self.tidy and self._has_ended(key)) and not self._newborn(key)]
            owned = [self._owned(key) for key in shown]
            owned += [self._disk(key) for key, owner in self.attached.items() if run_id in (None, owner)]
            for key in [key for key in found if key in self._deleted]:
                if self._deleted[key] <= 0 and self.slow_deletes is not None:
                    owned = [resource for resource in owned if resource.id != key]
                    del self.machines[key]
                self._deleted[key] -= 1
        return owned

    @property
    def listing_lag(self) -> timedelta:
        return self.lag

    def server_time_offset(self) -> timedelta | None:
        return self.offset

    def timers(self, request: LaunchRequest) -> Timers:
        return Timers(machine=request.deadline, cloud=None)

    def requests(self, request: LaunchRequest) -> Sequence[VendorRequest]:
        parameters = {"run_id": request.run_id, "attempt": request.attempt, "zone": request.zone, "tags": ["a", "b"]}
        return [VendorRequest(service="fake", operation=self.dialect, parameters=parameters)]

    def delete(self, ref: InstanceRef | OwnedResource) -> None:
        with self._call("delete", ref.id):
            self.attached.pop(ref.id, None)
            if ref.id in self.machines:
                self.machines[ref.id].kill()
                self._deleted.setdefault(ref.id, self.slow_deletes or 0)

    def stop(self, ref: InstanceRef) -> None:
        with self._call("stop", ref.id):
            if ref.id in self.machines:
                self.machines[ref.id].stop_asked = True

    def logs(self, ref: InstanceRef) -> Iterator[str]:
        if ref.id not in self.machines:
            raise InstanceNotFoundError(f"there is no {ref.id}")
        if "logs" in self.down:
            raise self.down["logs"]
        if self.console is None:
            raise PermissionDeniedError("nobody may read consoles")
        yield from self.console

    def store(self, run_id: RunId) -> FakeStore:
        return self.stores.setdefault(run_id, FakeStore())

    def _call(self, operation: str, subject: str) -> _Call:
        self.calls.append((operation, subject))
        return _Call(self, operation, self.count(operation))

    def _instance(self, key: str) -> Instance:
        machine = self.machines[key]
        seen = machine.sighting
        return Instance(
            ref=InstanceRef(provider=self.name, region="here", id=key), state=seen.state,
            run_id=machine.request.run_id, attempt=machine.request.attempt, launched_at=machine.launched_at,
            exit_code=seen.exit_code, end=seen.end, reason=seen.reason, bills=seen.bills,
        )  # fmt: skip

    def _newborn(self, key: str) -> bool:
        return self.clock.now() - self.machines[key].launched_at < self.lag

    def _has_ended(self, key: str) -> bool:
        return self.machines[key].sighting.state is InstanceState.ENDED

    def _owned(self, key: str) -> OwnedResource:
        machine = self.machines[key]
        return OwnedResource(
            provider=self.name, region="here", kind="machine", id=key, run_id=machine.request.run_id,
            attempt=machine.request.attempt, created_at=machine.launched_at,
        )  # fmt: skip

    def _disk(self, key: str) -> OwnedResource:
        return OwnedResource(
            provider=self.name, region="here", kind="disk", id=key, run_id=self.attached[key], instance=False
        )


@dataclass(frozen=True)
class _Call:
    """One call: what is raised before its effect, and what after."""

    provider: FakeProvider
    operation: str
    number: int

    def __enter__(self) -> None:
        self.provider.before(self.operation)
        error = self.provider.refuse.get((self.operation, self.number)) or self.provider.down.get(self.operation)
        if error:
            raise error

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            return
        self.provider.after(self.operation)
        if error := self.provider.lose.get((self.operation, self.number)):
            raise error


@dataclass
class TimedProvider(FakeProvider):
    """A provider whose time is its double's clock, as a simulated cloud's is: nobody waits for real."""

    def now(self) -> datetime:
        return self.clock.now()

    def sleep(self, seconds: float) -> None:
        self.clock.advance(seconds)


def make(settings: ProviderSettings) -> FakeProvider:
    """What the registry calls: the provider that a test has put into `PROVIDERS`, else one that is done at once."""
    return PROVIDERS[-1] if PROVIDERS else FakeProvider(FakeClock(), [done_at_once], tidy=True)


AnyProvider = TypeVar("AnyProvider", bound=FakeProvider)
PROVIDERS: list[FakeProvider] = []
FACTORY = (registry.FACTORIES, "local", f"{__name__}:make")
"""For `monkeypatch.setitem`: this machine is a fake one from now on."""


@contextmanager
def as_this_machine(double: AnyProvider, monkeypatch: pytest.MonkeyPatch) -> Iterator[AnyProvider]:
    """What `local` is, as long as it lasts."""
    monkeypatch.setitem(*FACTORY)
    PROVIDERS.append(double)
    yield double
    PROVIDERS.remove(double)
