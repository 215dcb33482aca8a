"""A container engine with memory and no containers: it behaves as the fake trainer in one would."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from trainplan.providers.errors import MachineError, ProviderError, TransientError
from trainplan.providers.local.api import BuildSpec, Container, ContainerSpec, ContainerStatus, EngineName
from trainplan.providers.local.engine import CliEngine, EngineInfo

if TYPE_CHECKING:
    from trainplan.providers.local.command import Completed

IMAGE = "localhost/tiny:1"
_EXITS = {"finish": 0, "fail": 70, "bad-job": 65, "greedy": 86}


class NoRunner:
    """For what only puts command lines together."""

    def run(
        self, command: Sequence[str], *, timeout_seconds: float, environment: Mapping[str, str] = MappingProxyType({})
    ) -> Completed:
        raise AssertionError(command)

    def follow(self, command: Sequence[str], report: Callable[[str], None]) -> Completed:
        raise AssertionError(command)


class FakeEngine:
    """`next_error` is raised by the next call, `lost_reply` by the next change after it took effect."""

    name = EngineName.PODMAN
    limits = frozenset({"cpu", "memory", "pids"})

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.containers_by_name: dict[str, Container] = {}
        self.specs: dict[str, ContainerSpec] = {}
        self.tags = {IMAGE}
        self.calls: list[tuple[str, tuple[str, ...]]] = []
        self.built: list[BuildSpec] = []
        self.labelled: dict[str, str] = {}
        self.next_error: ProviderError | None = None
        self.lost_reply = False
        self.printed: list[str] = []
        self.registry_complaint = ""
        self.answers = True
        self._now = now
        self._words = CliEngine(EngineInfo(name=self.name, version="1"), NoRunner())

    def create_arguments(self, spec: ContainerSpec) -> tuple[str, ...]:
        return self._words.create_arguments(spec)

    def create(self, spec: ContainerSpec) -> None:
        self._called("create", *self.create_arguments(spec))
        if spec.name in self.containers_by_name:
            raise MachineError(f"the name {spec.name} is taken")
        if spec.image not in self.tags:
            raise MachineError(f"no image {spec.image}")
        self.specs[spec.name] = spec
        self.containers_by_name[spec.name] = Container(
            id=f"id-{spec.name}",
            name=spec.name,
            labels=spec.labels,
            status=ContainerStatus.CREATED,
            created_at=self._now(),
        )
        self._reply()

    def start(self, name: str) -> None:
        self._called("start", name)
        spec = self.specs[name]
        behaviour = self._behaviour(spec)
        self._change(name, ContainerStatus.RUNNING)
        if float(spec.command[4]) <= self._now().timestamp():
            self._change(name, ContainerStatus.EXITED, 76)
        elif behaviour in _EXITS:
            self._change(name, ContainerStatus.EXITED, _EXITS[behaviour])
        self._status(spec)
        self._reply()

    def container(self, name: str) -> Container | None:
        self._called("container", name)
        return self.containers_by_name.get(name)

    def containers(self, label: str) -> Sequence[Container]:
        self._called("containers", label)
        return [known for known in self.containers_by_name.values() if label in known.labels]

    def signal(self, name: str, signal: str) -> None:
        self._called("signal", name, signal)
        if (
            self.containers_by_name[name].status is ContainerStatus.RUNNING
            and self._behaviour(self.specs[name]) == "wait"
        ):
            self._change(name, ContainerStatus.EXITED, 75)
        self._reply()

    def remove(self, name: str) -> None:
        self._called("remove", name)
        self.containers_by_name.pop(name, None)
        self._reply()

    def logs(self, name: str, lines: int) -> Sequence[str]:
        self._called("logs", name)
        return [f"training {self._behaviour(self.specs[name])}", *self.printed][:lines]

    def has_image(self, tag: str) -> bool:
        self._called("has_image", tag)
        return tag in self.tags

    def why_not_at_registry(self, image: str) -> str:
        self._called("why_not_at_registry", image)
        return self.registry_complaint

    def images(self, label: str) -> Sequence[str]:
        key, _, value = label.partition("=")
        return [tag for tag, flavour in self.labelled.items() if (key, value) == ("trainplan-image", flavour)]

    def build(self, spec: BuildSpec, report: Callable[[str], None]) -> None:
        self._called("build", spec.tag)
        self.built.append(spec)
        self.tags.add(spec.tag)
        self.labelled[spec.tag] = spec.labels.get("trainplan-image", "")
        report("built")

    def pull(self, image: str, report: Callable[[str], None]) -> None:
        self._called("pull", image)
        self.tags.add(image)
        report("pulled")

    def remove_image(self, tag: str) -> None:
        self._called("remove_image", tag)
        self.tags.discard(tag)
        self.labelled.pop(tag, None)

    def _called(self, operation: str, *words: str) -> None:
        self.calls.append((operation, words))
        if not self.answers:
            raise TransientError("the engine does not answer")
        error, self.next_error = self.next_error, None
        if error is not None:
            raise error

    def _reply(self) -> None:
        lost, self.lost_reply = self.lost_reply, False
        if lost:
            raise TransientError("the reply was lost")

    def _change(self, name: str, status: ContainerStatus, exit_code: int | None = None) -> None:
        self.containers_by_name[name] = replace(self.containers_by_name[name], status=status, exit_code=exit_code)

    def _behaviour(self, spec: ContainerSpec) -> str:
        return str(json.loads((_run_dir(spec) / "job.json").read_text())["name"])

    def _status(self, spec: ContainerSpec) -> None:
        folder = _run_dir(spec) / "attempts" / spec.labels["trainplan-attempt"]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "status.json").write_text('{"state": "running"}')


def _run_dir(spec: ContainerSpec) -> Path:
    return next(Path(mount.source) for mount in spec.mounts if mount.target == "/run-dir")
