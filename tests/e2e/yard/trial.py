"""One trial: a store, an office, machines of the yard, and clients that are processes of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.conftest import ROOT
from tests.doubles.waiting import until
from tests.e2e.yard.client import Desk
from tests.e2e.yard.office import Office, OfficeServer
from tests.e2e.yard.provider import Terms, now
from tests.e2e.yard.watcher import Watcher
from tests.e2e.yard.yard import OWN, Yard
from trainplan.providers.base import ProviderSettings, RunId
from trainplan.providers.stores import registry
from trainplan.workloads.job import TrainingJob

if TYPE_CHECKING:
    from tests.e2e.yard.machine import Running
    from tests.e2e.yard.stores import Store
    from trainplan.providers.stores.store import ObjectStore

_SECONDS = 1800.0
_PAUSE_SECONDS = 0.2
"""Between two looks at a store or an office: both have little to do with it, and so has the machine."""
_NOISE = re.compile(r"dockerd\[|containerd\[|\.mount: Deactivated")


class Client:
    """A process of `tests.e2e.yard.client`; `told` is everything it said, as it comes."""

    def __init__(self, words: list[str], environment: dict[str, str]) -> None:
        self.events: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.yard.client", *words],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.errors: list[str] = []
        self._threads = [threading.Thread(target=self._read, daemon=True), threading.Thread(target=self._hear)]
        for thread in self._threads:
            thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as said:
            for line in said:
                self.events.append(json.loads(line))

    def _hear(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as said:
            self.errors += said

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in tuple(self.events) if line["kind"] == kind]

    @property
    def run_id(self) -> RunId:
        until(lambda: bool(self.of("run")) or self._process.poll() is not None, "the run has a name")
        assert self.of("run"), self.errors
        return RunId(self.of("run")[0]["run_id"])

    def until(self, holds: Callable[[], bool], what: str, seconds: float = _SECONDS) -> None:
        """As `waiting.until`, and no longer than this client lives: what it waits for may never come then."""

        def now_or_never() -> bool:
            gone = self._process.poll() is not None
            held = holds()
            assert held or not gone, f"the client has ended before {what}: {self.events[-1:]}"
            return held

        until(now_or_never, what, seconds=seconds, pause_seconds=_PAUSE_SECONDS)

    def wait(self, seconds: float = _SECONDS) -> dict[str, Any]:
        """Its receipt, or what it said last, once it has ended."""
        until(lambda: self._process.poll() is not None, f"the client ends; {self.events[-3:]}", seconds=seconds)
        for thread in self._threads:
            thread.join()
        assert self.events, self.errors
        last = self.events[-1]
        return dict(last["receipt"]) if last["kind"] == "receipt" else last

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join()


class Trial:
    """`with`: everything it started is gone afterwards. `shapes` are the office's."""

    def __init__(self, yard: Yard, store: Store, folder: Path, shapes: list[dict[str, Any]] | None = None) -> None:
        self.store, self.folder = store, folder
        self.office = Office(store.cloud, [{"token": store.token, **shape} for shape in shapes or [{}]])
        self._yard = yard
        self._server = OfficeServer(self.office)
        self._watcher = Watcher(yard, self.office)
        self._clients: list[Client] = []
        self._desk = folder / "desk.json"

    def __enter__(self) -> Trial:
        with ExitStack() as stack:
            stack.callback(self._yard.clear)
            stack.enter_context(self._server)
            stack.enter_context(self._watcher)
            stack.callback(lambda: [client.kill() for client in self._clients])  # type: ignore[func-returns-value]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        with self._stack:
            self._tell()

    def launch(
        self, job: dict[str, Any], image: str = "", *, detached: bool = False, terms: dict[str, Any] | None = None,
        **changes: Any,
    ) -> Client:  # fmt: skip
        """A client that launches the job; `image` is a name at the person's own registry."""
        if image:
            job = {**job, "container": f"{OWN}/{image}"}
        endpoints = {**self.store.endpoints}
        office = self._yard.relay(self._server.url).url
        endpoints |= {"compute": office, "arm": office}
        desk = Desk(
            home=str(self.folder / "home"),
            output=str(self.folder / "model"),
            job=TrainingJob.model_validate(job).to_json(),
            terms=Terms(
                cloud=self.store.cloud,
                office=self._server.url,
                options=self.store.options,
                environment=self.store.environment,
                endpoints=endpoints,
                **(terms or {}),
            ),
            **changes,
        )
        desk.write(self._desk)
        return self._client("detach" if detached else "launch")

    def attach(self, run_id: RunId) -> Client:
        return self._client("attach", run_id)

    def machine(self, number: int = 1) -> Running:
        """The n-th machine that was rented, once it is booted."""
        until(lambda: len(self._watcher.machines) >= number, f"machine {number} is booted", seconds=_SECONDS)
        return list(self._watcher.machines.values())[number - 1]

    def machines(self) -> list[Running]:
        return list(self._watcher.machines.values())

    @cache  # noqa: B019  a trial ends with its test; a client of boto3 takes 0.2 s
    def run_store(self, run_id: RunId) -> ObjectStore:
        options, environment = dict(self.store.options), dict(self.store.environment)
        settings = ProviderSettings(home=self.folder / "looking", options=options, environment=environment, now=now)
        return registry.run_directory(self.store.cloud, settings, run_id)

    def status(self, run_id: RunId, attempt: int = 1) -> dict[str, Any]:
        """What the machine says of itself; empty before it has said anything."""
        try:
            return dict(json.loads(self.run_store(run_id).get(f"attempts/{attempt}/status.json")))
        except KeyError:
            return {}

    def progress(self, run_id: RunId, attempt: int = 1) -> list[dict[str, Any]]:
        try:
            text = self.run_store(run_id).get(f"attempts/{attempt}/progress.jsonl").decode()
        except KeyError:
            return []
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def _client(self, *words: str) -> Client:
        environment = {**os.environ, **self.store.environment, "PYTHONPATH": str(ROOT)}
        client = Client([words[0], str(self._desk), *words[1:]], environment)
        self._clients.append(client)
        return client

    def _tell(self) -> None:
        """What a person needs who reads of a failure (pytest shows it then): journals, and what the clients heard."""
        for running in self.machines():
            lines = [line for line in running.journal().splitlines() if not _NOISE.search(line)]
            sys.stdout.write(f"--- {running.machine.name}\n" + "\n".join(lines[-60:]) + "\n")
        for client in self._clients:
            sys.stdout.write("".join(f"{line}\n" for line in client.events[-15:]) + "".join(client.errors[-30:]))
            for number in range(1, len(self.machines()) + 1 if client.of("run") else 0):
                sys.stdout.write(f"{json.dumps(self.status(client.run_id, number), indent=1)}\n")
