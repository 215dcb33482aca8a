"""What a run needs besides its image: the job, and files from the run directory or elsewhere in its store."""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Callable

from trainplan.providers.agent import web
from trainplan.providers.agent.archives import UnpackError, unpack
from trainplan.providers.agent.checkpoints import sha256_of
from trainplan.providers.agent.plain_file import is_plain, written_whole
from trainplan.providers.agent.requests import Access
from trainplan.providers.agent.spec import File, bytes_on_disk
from trainplan.providers.agent.store import PART_BYTES, AwayError, Steps, Store, download, patiently
from trainplan.providers.agent.stores import open_store
from trainplan.providers.agent.watch import LEAST_FREE_BYTES
from trainplan.providers.agent.web import WebError

if TYPE_CHECKING:
    from trainplan.providers.agent.machine import AgentMachine


class FetchError(Exception):
    """A file is missing, or its content is not what the specification promised."""


def fetch(
    machine: AgentMachine, opens: web.Opens = web.opens, report: Callable[[int, int], object] = max
) -> Steps[int]:
    """job.json into the run directory, and every file of the spec to its place; the bytes. Raises FetchError.

    An archive goes away as soon as it is unpacked: the disk holds the data and one of them. `report` hears after each
    file how many bytes have come, and of how many.
    """
    try:
        job = yield from patiently(partial(machine.store.get, "job.json"))
        if hashlib.sha256(job).hexdigest() != machine.spec.job_sha256:
            raise FetchError("job.json is not what was promised (its sha256 differs)")
        with written_whole(machine.paths.run_dir, machine.paths.run_dir / "job.json") as binary_io:
            binary_io.write(job)
        _room_for_all(machine)
        done_count, total = len(job), len(job) + sum(file.size_bytes for file in machine.spec.files)
        for file in machine.spec.files:
            yield from _one(machine, file, opens)
            done_count += file.size_bytes
            report(done_count, total)
    except KeyError as error:
        raise FetchError(f"{error.args[0]} is not in the store") from error
    except WebError as error:
        raise FetchError(str(error)) from error
    except OSError as error:
        raise FetchError(f"the machine's disk cannot be written: {error}") from error
    return total


def _room_for_all(machine: AgentMachine) -> None:
    """Raise FetchError for a disk that is too small before the first byte is fetched."""
    coming = [file for file in machine.spec.files if not _is_here(machine, file)]
    need = bytes_on_disk(coming) + LEAST_FREE_BYTES
    free = machine.free_bytes(machine.paths.root / "data")  # which may be a disk of its own
    if need > free:
        text = f"the data needs {need / 1e9:.1f} GB, the machine's disk has {free / 1e9:.1f} GB free"
        raise FetchError(f"{text}; rent it with a larger one")


def _is_here(machine: AgentMachine, file: File) -> bool:
    """A marked archive is unpacked."""
    return _mark(machine, file).exists() if file.unpack else _as_promised(machine.paths.root / file.to, file)


def _as_promised(path: Path, file: File) -> bool:
    if not is_plain(path) or path.stat().st_size != file.size_bytes:
        return False
    return not file.sha256 or sha256_of(path) == file.sha256


def _one(machine: AgentMachine, file: File, opens: web.Opens) -> Steps[None]:
    if _is_here(machine, file):
        return
    target = machine.paths.root / file.to
    if not file.unpack:
        yield from _checked(machine, file, target, opens)
        return
    # Not where its files go: one of them may have its name.
    archive = machine.paths.spool / "fetched" / target.name
    if not _as_promised(archive, file):
        yield from _checked(machine, file, archive, opens)

    def room() -> bool:
        return machine.free_bytes(target.parent) > LEAST_FREE_BYTES

    try:
        yield from unpack(archive, target.parent, room, _top(machine, file))
    except UnpackError as error:
        raise FetchError(f"{file.uri or file.path}: {error}") from error
    archive.unlink()
    mark = _mark(machine, file)
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()


def _top(machine: AgentMachine, file: File) -> Path:
    """The folder that the container sees, into which the file goes: what is below it the container may have made."""
    return machine.paths.root / PurePosixPath(file.to).parts[0]


def _mark(machine: AgentMachine, file: File) -> Path:
    """Return the path of the mark of an unpacked archive; the container cannot write there."""
    name = hashlib.sha256(repr(file).encode()).hexdigest()
    return machine.paths.spool / "unpacked" / name


def _checked(machine: AgentMachine, file: File, target: Path, opens: web.Opens) -> Steps[None]:
    """The file at `target`. Raises FetchError where its hash, or without one its size, is another."""
    top = machine.paths.spool if file.unpack else _top(machine, file)
    if file.uri.startswith("https://"):
        yield from web.download(file.uri, target, file.size_bytes, top, opens)
        digest = sha256_of(target) if file.sha256 else ""
    else:
        store, path = yield from _store_of(machine, file)
        digest = yield from download(store, path, target, file.size_bytes, top)
        if not file.sha256:
            yield from _as_long(store, path, target, file)
    if file.sha256 and digest != file.sha256:
        target.unlink()
        raise FetchError(f"{file.uri or file.path} is not what was promised (its sha256 differs)")


def _as_long(store: Store, path: str, target: Path, file: File) -> Steps[None]:
    """Parts are read whole, so that only an object that ends with one can be longer unseen."""
    count = target.stat().st_size
    if count == file.size_bytes and count % PART_BYTES == 0:
        count += len((yield from patiently(partial(store.get, path, count, 1))))
    if count != file.size_bytes:
        target.unlink()
        raise FetchError(f"{file.uri or file.path} has another size than when it was looked at; launch anew")


def _store_of(machine: AgentMachine, file: File) -> Steps[tuple[Store, str]]:
    if not file.uri:
        return machine.store, file.path
    folder, _, name = file.uri.rpartition("/")
    boot = {**machine.access.boot, "run_uri": folder}
    access = Access(boot, machine.access.send, machine.access.now)
    if access.scheme == "s3" and access.store_name != machine.access.store_name:
        boot["region"] = yield from patiently(partial(_region, machine, access))
    return open_store(Access(boot, machine.access.send, machine.access.now)), name


def _region(machine: AgentMachine, access: Access) -> str:
    """Where a person's own bucket is: S3 says so whatever else it answers. Raises AwayError."""
    try:
        _, headers, _ = access.call("HEAD", access.bucket())
    except (OSError, ValueError, KeyError) as error:
        raise AwayError(f"{access.store_name}: {error}") from error
    return headers.get("x-amz-bucket-region", str(machine.access.boot["region"]))
