"""The worlds of the local provider: processes, an engine without containers, and a real engine."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from tests.contract.harness import owned_resources
from tests.doubles import engine as engine_double
from tests.doubles.engine import FakeEngine
from trainplan.providers.base import Instance, LaunchRequest, RunId, VendorRequest
from trainplan.providers.errors import TransientError
from trainplan.providers.hardware import HostHardware
from trainplan.providers.local.api import BuildSpec, ContainerSpec, Engine, EngineName
from trainplan.providers.local.command import Completed, Runner
from trainplan.providers.local.here import Here
from trainplan.providers.local.image import LOCAL_BASE, PUBLIC_BASE
from trainplan.providers.local.process import ProcessHost
from trainplan.providers.local.provider import LocalProvider
from trainplan.providers.local.records import AttemptLocation, attempt_key
from trainplan.providers.local.settings import EngineChoice, LocalSettings

if TYPE_CHECKING:
    from trainplan.providers.local.engine import CliEngine

TRAINER = Path(__file__).parent.parent / "doubles" / "fake_trainer.py"
DOCKER_HOST = "unix:///run/trainplan-docker/docker.sock"
DOCKER_PROGRAM = "/usr/bin/docker"
"""Debian's own: the client and the daemon of scripts/docker.sh are of one version."""
TINY_IMAGE = "localhost/trainplan-tiny:tests"
MACHINE = HostHardware(system="linux", architecture="x86_64", cpu_name="Test CPU", vcpus=2, memory_gib=8.0)


def now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251  what is started here lives in real time


def here(home: Path, choice: EngineChoice) -> Here:
    return Here(
        home=home,
        settings=LocalSettings(engine=choice),
        environment=dict(os.environ),
        machine=lambda: MACHINE,
        device_name=lambda _: None,
        free_bytes=lambda _: 100_000_000_000,
        memory_bytes=lambda: 8 * 2**30,
    )


def no_engine(name: EngineName) -> None:
    """A machine without any engine."""


class ProcessHarness:
    provider_name = "local"
    keeps_ended = True
    tells_training = True

    def __init__(self, home: Path) -> None:
        self._here = here(home, EngineChoice.PROCESS)
        self._installed = True
        self._loses = False

    def provider(self) -> LocalProvider:
        program = (sys.executable, str(TRAINER))
        host = ProcessHost(here=self._here, program=program, installed=lambda _: self._installed)
        loses, self._loses = self._loses, False
        return LocalProvider(self._here, cast("ProcessHost", Losing(host)) if loses else host, no_engine, now)

    def sent(self) -> Sequence[VendorRequest]:
        files = sorted(self._here.home.glob("local/attempts/*/request.json"), key=lambda path: path.stat().st_mtime_ns)
        return [
            VendorRequest(service="process", operation="start", parameters=json.loads(path.read_text()))
            for path in files
        ]

    def break_launch(self) -> None:
        self._installed = False

    def break_listing(self) -> None:
        _leave_record(self._here, EngineName.PODMAN)

    def lose_reply(self) -> None:
        self._loses = True

    def clean(self) -> None:
        """Each test deletes what it launched."""


class EngineDoubleHarness:
    provider_name = "local"
    keeps_ended = True
    tells_training = True

    def __init__(self, home: Path) -> None:
        self._here = here(home, EngineChoice.PODMAN)
        self.engine = FakeEngine(now)

    def provider(self) -> LocalProvider:
        return _over(self._here, self.engine, engine_double.IMAGE)

    def sent(self) -> Sequence[VendorRequest]:
        return [
            _request(words if operation == "create" else (operation, *words))
            for operation, words in self.engine.calls
            if operation in ("create", "start")
        ]

    def break_launch(self) -> None:
        self.engine.tags.clear()

    def break_listing(self) -> None:
        _leave_record(self._here, EngineName.DOCKER)

    def lose_reply(self) -> None:
        self.engine.lost_reply = True

    def clean(self) -> None:
        """Nothing of it outlives the test."""


class RealEngineHarness:
    """Over Docker or Podman; the image holds the fake trainer on whatever base is here."""

    provider_name = "local"
    keeps_ended = True
    tells_training = True

    def __init__(self, home: Path, engine: CliEngine) -> None:
        self._here = here(home, EngineChoice(engine.name))
        self.engine = Recording(engine)
        self._image = TINY_IMAGE

    def provider(self) -> LocalProvider:
        return _over(self._here, self.engine, self._image)

    def sent(self) -> Sequence[VendorRequest]:
        return self.engine.sent

    def break_launch(self) -> None:
        self._image = "localhost/trainplan-tiny:absent"

    def break_listing(self) -> None:
        _leave_record(self._here, next(name for name in EngineName if name is not self.engine.name))

    def lose_reply(self) -> None:
        self.engine.loses = True

    def clean(self) -> None:
        """Remove what a failed test left."""
        provider = self.provider()
        for owned in owned_resources(provider):
            if owned.run_id.startswith("contract-"):
                provider.delete(owned)


class Losing:
    """A host whose launches take effect and answer nothing."""

    def __init__(self, host: ProcessHost) -> None:
        self._host = host

    def __getattr__(self, name: str) -> object:
        return getattr(self._host, name)

    def launch(self, request: LaunchRequest) -> Instance:
        self._host.launch(request)
        raise TransientError("the answer was lost")


class Recording:
    """An engine that keeps what was sent to create and start."""

    def __init__(self, engine: CliEngine) -> None:
        self._engine = engine
        self.sent: list[VendorRequest] = []
        self.loses = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._engine, name)

    def create(self, spec: ContainerSpec) -> None:
        self.sent.append(_request(self._engine.create_arguments(spec), self._engine.name))
        self._engine.create(spec)

    def start(self, name: str) -> None:
        self.sent.append(_request(("start", name), self._engine.name))
        self._engine.start(name)
        loses, self.loses = self.loses, False
        if loses:
            raise TransientError("the answer was lost")


@dataclass(frozen=True)
class DockerOfTests:
    """Runs programs; Docker's goes to the daemon of scripts/docker.sh, which nothing else finds."""

    inner: Runner

    def run(
        self, command: Sequence[str], *, timeout_seconds: float, environment: Mapping[str, str] = MappingProxyType({})
    ) -> Completed:
        return self.inner.run(_sent_to_daemon(command), timeout_seconds=timeout_seconds, environment=environment)

    def follow(self, command: Sequence[str], report: Callable[[str], None]) -> Completed:
        return self.inner.follow(_sent_to_daemon(command), report)


def _sent_to_daemon(command: Sequence[str]) -> Sequence[str]:
    return (DOCKER_PROGRAM, "--host", DOCKER_HOST, *command[1:]) if command[0] == EngineName.DOCKER else command


def build_tiny_image(engine: Engine, context: Path) -> None:
    """An image whose `python -m trainplan.workloads.trainer` is the fake trainer; nothing runs while it is built."""
    base = LOCAL_BASE if engine.has_image(LOCAL_BASE) else PUBLIC_BASE
    package = context / "trainplan" / "workloads" / "trainer"
    package.mkdir(parents=True)
    for folder in (package, *package.parents[:2]):
        (folder / "__init__.py").touch()
    shutil.copyfile(TRAINER, package / "__main__.py")
    python = context / "python"
    python.write_text('#!/bin/sh\nexec python3 "$@"\n')
    python.chmod(0o755)
    (context / "Containerfile").write_text(
        f"FROM {base}\nCOPY python /opt/tiny/bin/python\nCOPY trainplan /opt/tiny/trainplan\n"
        "ENV PATH=/opt/tiny/bin:/usr/local/bin:/usr/bin:/bin PYTHONPATH=/opt/tiny\n"
    )
    engine.build(BuildSpec(tag=TINY_IMAGE, context=context, labels={"trainplan-image": "tests"}), lambda _: None)


def _leave_record(location: Here, engine: EngineName) -> None:
    """An attempt in an engine that does not answer here."""
    location.records.keep(AttemptLocation(host=engine, key=attempt_key(RunId("elsewhere"), 1)))


def _over(location: Here, engine: object, image: str) -> LocalProvider:
    def find(name: EngineName) -> Engine | None:
        return engine if name is engine.name else None  # type: ignore[attr-defined, return-value]

    return LocalProvider(location, ProcessHost(here=location), find, now, image)


def _request(words: Sequence[str], service: str = EngineName.PODMAN) -> VendorRequest:
    return VendorRequest(service=service, operation=words[0], parameters={"arguments": list(words)})
