"""What a run needs besides its image: the job, and files from the run directory or elsewhere in its store."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from providers.agent.checkpoints import sha256_of
from providers.agent.reading import Access
from providers.agent.store import Steps, download, patiently
from providers.agent.stores import open_store

if TYPE_CHECKING:
    from providers.agent.agent import Machine
    from providers.agent.spec import File
    from providers.agent.store import Store


class FetchError(Exception):
    """It is not there, or not what was promised."""


def fetch(machine: Machine) -> Steps[int]:
    """job.json into the run directory, and every file of the spec to its place; the bytes. Raises FetchError."""
    try:
        job = yield from patiently(partial(machine.store.get, "job.json"))
        (machine.paths.run_dir / "job.json").write_bytes(job)
        for file in machine.spec.files:
            yield from _one(machine, file)
    except KeyError as error:
        raise FetchError(f"{error.args[0]} is not in the store") from error
    return len(job) + sum(file.size_bytes for file in machine.spec.files)


def _one(machine: Machine, file: File) -> Steps[None]:
    target = machine.paths.root / file.to
    if target.is_file() and sha256_of(target) == file.sha256:
        return
    store, path = _place(machine, file)
    digest = yield from download(store, path, target, file.size_bytes)
    if digest != file.sha256:
        target.unlink()
        raise FetchError(f"{file.uri or file.path} is not what was promised (its sha256 differs)")


def _place(machine: Machine, file: File) -> tuple[Store, str]:
    if not file.uri:
        return machine.store, file.path
    folder, _, name = file.uri.rpartition("/")
    access = Access({**machine.access.boot, "run_uri": folder}, machine.access.send, machine.access.now)
    return open_store(access), name
