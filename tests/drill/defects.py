"""Planted defects of the doubles, one for each step of a drill: the double does not do what the step is to show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.drill.worlds import Table, a_cloud
from trainplan.extensions.drill.result import Verdict
from trainplan.extensions.drill.steps import PROBES, VENDOR_MONEY, Step
from trainplan.providers.base import (
    Instance,
    InstanceRef,
    InstanceState,
    LaunchRequest,
    OwnedResource,
    Provider,
    RunId,
    RunStore,
)
from trainplan.providers.errors import InstanceNotFoundError, PermissionDeniedError

Methods = Callable[[Any, Table], dict[str, Any]]
"""Makes methods of a provider that answers as a spoiled double would; given the real one's class, and the table."""


@dataclass(frozen=True, kw_only=True)
class Defect:
    """`changes` are of the double's scenario, `trainer` is how its machines train; `methods` spoil what is answered
    where no scenario of the double does."""

    changes: dict[str, Any] = field(default_factory=dict)
    trainer: str = ""
    methods: Methods | None = None

    def table(self, name: str, home: Path) -> Table:
        return Table(home, a_cloud(name, self.trainer, **self.changes))

    def provider(self, table: Table) -> Provider:
        made = table.provider()
        if self.methods is None:
            return made
        kind = type(made)
        spoiled: Any = object.__new__(type(f"Spoiled{kind.__name__}", (kind,), self.methods(kind, table)))
        spoiled.__dict__.update(made.__dict__)
        return spoiled


def _forgets_tokens(kind: Any, table: Table) -> dict[str, Any]:
    """The same create again makes another machine."""
    sent: set[tuple[RunId, int]] = set()

    def launch(self: Any, request: LaunchRequest) -> Instance:
        key = request.run_id, request.attempt
        again = key in sent
        sent.add(key)
        made: Instance = kind.launch(self, replace(request, attempt=9, calls=()) if again else request)
        return made

    return {"launch": launch}


def _loses_objects(kind: Any, table: Table) -> dict[str, Any]:
    """What was put into a run directory does not come back."""

    @dataclass(frozen=True)
    class Store:
        inner: RunStore

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def get(self, path: str, *, start: int = 0, size: int | None = None) -> bytes:
            if path == "job.json":
                raise KeyError(path)
            return self.inner.get(path, start=start, size=size)

    return {"store": lambda self, run_id: Store(kind.store(self, run_id))}


def _never_runs(kind: Any, table: Table) -> dict[str, Any]:
    """No machine is ever shown as running."""

    def get(self: Any, ref: InstanceRef) -> Instance:
        seen: Instance = kind.get(self, ref)
        return replace(seen, state=InstanceState.PENDING) if seen.state is InstanceState.RUNNING else seen

    return {"get": get}


def _refuses_second_deletes(kind: Any, table: Table) -> dict[str, Any]:
    """To delete what is gone is an error."""

    def delete(self: Any, ref: InstanceRef | OwnedResource) -> None:
        if isinstance(ref, InstanceRef) and _is_gone(kind, self, ref):
            raise PermissionDeniedError("a machine that is gone is not deleted", code="AlreadyGone")
        kind.delete(self, ref)

    return {"delete": delete}


def _is_gone(kind: Any, provider: Any, ref: InstanceRef) -> bool:
    try:
        return kind.get(provider, ref).state is InstanceState.ENDED
    except InstanceNotFoundError:
        return True


def _shows_the_dead(kind: Any, table: Table) -> dict[str, Any]:
    """A machine that was deleted is shown as running once more."""
    shown: dict[str, Instance] = {}

    def get(self: Any, ref: InstanceRef) -> Instance:
        if any(row.step is Step.DELETE for row in table.results) and ref.id in shown:
            return shown[ref.id]
        seen: Instance = kind.get(self, ref)
        if seen.state in (InstanceState.RUNNING, InstanceState.PENDING):
            shown[ref.id] = replace(seen, state=InstanceState.RUNNING)
        return seen

    return {"get": get}


def _lists_the_gone(kind: Any, table: Table) -> dict[str, Any]:
    """A list of everything has a disk that no list of its run had."""
    known: list[OwnedResource] = []

    def list_owned(self: Any, run_id: RunId | None = None) -> list[OwnedResource]:
        found = list(kind.list_owned(self, run_id))
        known.extend(row for row in found if row.client in table.clients)
        late = run_id is None and any(row.step is Step.DELETE for row in table.results)
        return [*found, replace(known[0], id="late", kind="disk", instance=False)] if late else found

    return {"list_owned": list_owned}


_REFUSED: dict[str, Defect] = {
    "sim": Defect(changes={"faults": [{"operation": "RunInstance", "code": "AccessDenied", "times": None}]}),
    "aws": Defect(changes={"faults": [{"operation": "RunInstances", "code": "UnauthorizedOperation", "times": None}]}),
    "gcp": Defect(
        changes={
            "faults": [{"operation": "compute.instances.insert", "status": 403, "code": "forbidden", "times": None}]
        }
    ),
    "azure": Defect(
        changes={"faults": ({"operation": "PUT virtualMachines", "code": "AuthorizationFailed", "times": None},)}
    ),
}
_NEVER_BOOTS: dict[str, Defect] = {
    "sim": Defect(changes={"boot": ["2h", "2h"]}),
    "aws": Defect(changes={"boot": [7200, 7200]}),
    # A machine of Google's is RUNNING before it has booted, and a create at Azure waits for the machine.
    **{name: Defect(methods=_never_runs) for name in ("gcp", "azure")},
}
_LEAVES_PARTS: dict[str, Defect] = {
    **{name: Defect(changes={"disks_stay": True}) for name in ("sim", "aws", "gcp")},
    "azure": Defect(changes={"role_holds_after": timedelta(hours=1)}),  # the machine goes off, and its group stays
}


_PROBES: dict[tuple[str, Step], Defect] = {
    ("aws", Step.DENIAL): Defect(changes={"image_first": True}),
    ("gcp", Step.CUSTOM_ROLE): Defect(changes={"unsupported_in_roles": ["compute.advice.capacity"]}),
    ("gcp", Step.TPU_QUOTAS): Defect(changes={"tpu_quotas": {"TPU v3 cores": 8}}),
}


def steps_of(name: str) -> tuple[Step, ...]:
    """The steps that a drill of a double can fail at: each, but for the questions of other providers, and
    what is tried only where it is asked for (tests/drill/test_vendor_money.py)."""
    return tuple(step for step in Step if step not in (*PROBES, *VENDOR_MONEY) or (name, step) in _PROBES)


def defect(name: str, step: Step) -> Defect:
    """The one that is planted in a double for a step."""
    match step:
        case Step.DENIAL | Step.CUSTOM_ROLE | Step.TPU_QUOTAS:
            return _PROBES[name, step]
        case Step.LAUNCH:
            return _REFUSED[name]
        case Step.BOOT:
            return _NEVER_BOOTS[name]
        case Step.LEFTOVERS:
            return _LEAVES_PARTS[name]
        case _:
            return _EVERYWHERE[step]


_EVERYWHERE = {
    Step.REPLAY: Defect(methods=_forgets_tokens),
    Step.RUN_DIRECTORY: Defect(methods=_loses_objects),
    Step.AGENT: Defect(trainer="silent"),
    Step.CHECKPOINT: Defect(trainer="unsaved"),
    Step.STOP: Defect(trainer="hung"),
    Step.RESUME: Defect(trainer="forgetful"),
    Step.MACHINE_TIMER: Defect(changes={"machine_timer_works": False}),
    Step.CLOUD_TIMER: Defect(changes={"cloud_timer_works": False}),
    Step.DELETE: Defect(methods=_refuses_second_deletes),
    Step.NOT_FOUND: Defect(methods=_shows_the_dead),
    Step.CLEANUP: Defect(methods=_lists_the_gone),
}


def missed(name: str, step: Step | None, home: Path) -> str:
    """In words, how a drill of a double with the defect of this step (None: with none) went otherwise than that this
    step alone failed, and nothing was left; "" where it went so."""
    planted = defect(name, step) if step is not None else Defect()
    table = planted.table(name, home)
    result = table.drill(planted.provider(table))
    failed = [row.step for row in result.failed]
    if failed != [step]:
        said = "; ".join(f"{row.step} {row.verdict}: {row.detail}" for row in result.steps if row.step in failed)
        return f"failed: {said or 'nothing'}, not {step}"
    silent = [row.step for row in result.steps if row.verdict is not Verdict.PROVEN and not row.detail]
    if silent:
        return f"no reason is given for {', '.join(silent)}"
    left = table.remaining()
    return f"left: {', '.join(left)}" if left else ""
