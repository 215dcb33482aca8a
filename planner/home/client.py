"""Which client of the cloud accounts this home is: a random id, kept in the home beside the computer it is used on.

Machines carry the id as a label. A home that was copied takes a new one, so that a copy never takes the original's
machines for its own. A home that several computers share has one for each, and all act on the runs in its journal.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainplan.planner.home.computer import Computer, this_computer

if TYPE_CHECKING:
    from trainplan.planner.runs.run import Run
    from trainplan.planner.settings import Settings

FILE = "client.json"
JOURNAL = "journal.sqlite"
_FORMAT = 1
_LOCK_SECONDS = 10.0
_UNKEPT: dict[Path, Client] = {}
"""What could not be written down is at least the same until this process ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """`id` labels what this home makes.

    `others` are further ids that are known here, with the names of their computers; those of `same_home` are of other
    computers that use this very home, the rest of homes that this one was copied from. `notice` is for the person; only
    the call that made the id has one, or could not keep it.
    """

    id: str
    others: Mapping[str, str] = field(default_factory=dict)
    same_home: frozenset[str] = frozenset()
    notice: str = ""

    def owns(self, run: Run) -> bool:
        """Whether a run of the journal is this home's to act on: a copied journal has others' runs too."""
        return run.taken_over or run.client in (None, self.id) or run.client in self.same_home

    def whose(self, client: str | None) -> str:
        """Another client in words."""
        name = self.others.get(client or "")
        return f"client {client}" + (f" on {name}" if name else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One home on one computer. `copied`: it is of the home that this one was copied from."""

    id: str
    computer: Computer
    copied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClientFile:
    """The file: newest entry first, and which file it was when it was written (a copy is another one)."""

    home: str
    inode: int
    volume: str | None
    entries: tuple[_Entry, ...]


class _DamagedError(ValueError):
    """The file is there and makes no sense."""


def own_client(settings: Settings) -> Client:
    """The client that the home of these settings is on this computer; made on first use."""
    return client_of(settings.home, this_computer(settings.computer))


def client_of(home: Path, computer: Computer) -> Client:
    """The client that a home is on a computer; made on first use. It never fails: what cannot be kept is told."""
    path = home / FILE
    try:
        pair = _kept_entry(path, computer)
        if pair is None:
            return _new_client(path, computer)
        client_file, entry = pair
        if client_file.home != str(home):  # it was moved, or is mounted elsewhere
            with suppress(OSError):
                return _new_client(path, computer)
        return _client(client_file, entry)
    except OSError as error:
        return _unkept(home, error)


def _kept_entry(path: Path, computer: Computer) -> tuple[_ClientFile, _Entry] | None:
    """What is kept of this home on this computer; None where something has to be written. Raises OSError."""
    try:
        client_file = _read(path)
    except _DamagedError:
        return None
    entry = _entry_of(client_file, path, computer) if client_file is not None else None
    return (client_file, entry) if client_file is not None and entry is not None else None


def _new_client(path: Path, computer: Computer) -> Client:
    """What the file lacks is added to it, by one process at a time. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        with suppress(OSError, _DamagedError):  # another process was faster, or there are no links on this file system
            return _added(path, computer, first=True)
    from filelock import FileLock, Timeout

    try:
        with FileLock(path.with_suffix(".lock"), timeout=_LOCK_SECONDS):
            return _added(path, computer)
    except (Timeout, NotImplementedError) as error:
        raise OSError(f"cannot lock {path}") from error


def _added(path: Path, computer: Computer, *, first: bool = False) -> Client:
    client_file, damaged = None, ""
    try:
        client_file = _read(path)
    except _DamagedError as error:
        damaged = str(error)
        path.replace(path.with_suffix(".damaged"))
    entry = _entry_of(client_file, path, computer) if client_file is not None else None
    others = client_file.entries if client_file is not None else ()
    if client_file is not None and entry is not None:
        if client_file.home == str(path.parent):  # another process was faster
            return _client(client_file, entry)
        notice, others = "", tuple(other for other in others if other != entry)  # the home was moved
        entry = replace(entry, copied=False)
    else:
        entry = _Entry(id=secrets.token_hex(8), computer=computer)
        is_shared = client_file is not None and _is_shared(client_file, path, computer)
        if client_file is None:  # what the other files of the home know
            others = tuple(_Entry(id=one, computer=_UNKNOWN) for one in _recorded_clients(path.parent))
        elif not is_shared:
            others = tuple(replace(other, copied=True) for other in others)
        notice = _notice(entry, client_file, path, damaged, is_shared=is_shared)
    client_file = _write(path, (entry, *others), first=first)
    return replace(_client(client_file, entry), notice=notice)


_UNKNOWN = Computer(host_name="an unknown computer", override="unknown")
"""Where an id comes from the journal alone."""


def _recorded_clients(home: Path) -> list[str]:
    """The clients that launched the runs in the home's journal; none where there is no journal that can be read."""
    import sqlite3
    from contextlib import closing

    path = home / JOURNAL
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            rows = db.execute("SELECT DISTINCT client FROM attempts WHERE client IS NOT NULL").fetchall()
    except (sqlite3.Error, UnicodeDecodeError):
        return []
    return [str(client) for (client,) in rows]


def _is_shared(client_file: _ClientFile, path: Path, computer: Computer) -> bool:
    """Whether another computer uses this very home, and no copy of it: the file is where it was written, and which
    computers these are is known by more than their names. Containers of one image have equal files too."""
    is_same_file = client_file.home == str(path.parent) and client_file.inode == path.stat().st_ino
    known = [one.computer for one in client_file.entries] + [computer]
    return is_same_file and all(one.machine_id is not None or one.override is not None for one in known)


def _notice(entry: _Entry, before: _ClientFile | None, path: Path, damaged: str, *, is_shared: bool) -> str:
    if damaged:
        return (
            f"{damaged}: this home has the new client id {entry.id}; the runs in its journal stay its own, and what is "
            "in no journal is left to the client that its label names"
        )
    if before is None:
        return ""
    old = before.entries[0]
    if is_shared:
        names = ", ".join(dict.fromkeys(one.computer.host_name for one in before.entries))
        return (
            f"{path.parent} is used on {names} too: this computer has the client id {entry.id}; the runs in its "
            "journal are shown and followed on each of them"
        )
    where = f"{before.home} on {old.computer.host_name}"
    return (
        f"{path.parent} is a copy of {where}: it has the new client id {entry.id}; runs of client {old.id} in its "
        "journal are left to that client"
    )


def _entry_of(client_file: _ClientFile, path: Path, computer: Computer) -> _Entry | None:
    """The entry of this home on this computer; None where the file was copied here."""
    inode, volume = _path_text(path)
    same_file = client_file.inode == inode
    same_volume = same_file and volume is not None and client_file.volume == volume
    for entry in client_file.entries:
        if entry.computer.is_same(computer, same_file=same_file, same_volume=same_volume):
            return None if _has_original(client_file, path, entry) else entry
    return None


def _has_original(client_file: _ClientFile, path: Path, entry: _Entry) -> bool:
    """Whether this is a copy on the same computer: the home that it was is still there, with the same id."""
    before = Path(client_file.home) / FILE
    if client_file.home == str(path.parent):
        return False
    try:
        if before.samefile(path):
            return False
        original = _read(before)
    except FileNotFoundError:
        return False
    except (OSError, _DamagedError):
        return True  # something is there that we may not look at
    return original is not None and any(one.id == entry.id for one in original.entries)


def _unkept(home: Path, error: OSError) -> Client:
    """The home cannot be written: an id for this command alone."""
    if home in _UNKEPT:
        return _UNKEPT[home]
    why = error.strerror or str(error)
    notice = f"the id of this client cannot be kept in {home / FILE}: {why}; no machine is known as ours by its label"
    # The runs of this journal stay its own: only clients of this home write it.
    client = Client(id=secrets.token_hex(8), same_home=frozenset(_recorded_clients(home)), notice=notice)
    _UNKEPT[home] = replace(client, notice="")
    return client


def _client(client_file: _ClientFile, entry: _Entry) -> Client:
    others = {one.id: one.computer.host_name for one in reversed(client_file.entries) if one.id != entry.id}
    same_home = frozenset(one.id for one in client_file.entries if one.id != entry.id and not one.copied)
    return Client(id=entry.id, others=others, same_home=same_home)


def _path_text(path: Path) -> tuple[int, str | None]:
    """Which file this is, and on which volume, where that is another than the system's own and has a name.

    A volume that a container mounts stays the same in the next container, whatever that one is called.
    """
    status = path.stat()
    if not hasattr(os, "statvfs") or status.st_dev == Path("/").stat().st_dev:
        return status.st_ino, None
    name = os.statvfs(path).f_fsid
    return status.st_ino, f"{name:x}" if name else None


def _read(path: Path) -> _ClientFile | None:
    """None where there is no file. Raises OSError, _DamagedError where it makes no sense."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        reply = json.loads(text)
        if reply["format"] != _FORMAT:
            raise OSError("it was written by a newer version of plan")
        return _ClientFile(
            home=str(reply["home"]),
            inode=int(reply["inode"]),
            volume=reply["volume"],
            entries=tuple(_entry(row) for row in reply["clients"]),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _DamagedError(f"{path} is damaged ({type(error).__name__})") from None


def _entry(row: dict[str, Any]) -> _Entry:
    return _Entry(id=str(row["id"]), computer=Computer(**row["computer"]), copied=row.get("copied") is True)


def _write(path: Path, entries: tuple[_Entry, ...], *, first: bool) -> _ClientFile:
    """Write the file atomically and flush it to disk. Raises OSError; FileExistsError where it is not the `first`."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            inode, volume = _path_text(partial)
            client_file = _ClientFile(home=str(path.parent), inode=inode, volume=volume, entries=entries)
            file.write(_text(client_file).encode())
            file.flush()
            os.fsync(file.fileno())
        if first:
            # A link fails where the name is taken: of two first commands one succeeds, and the other reads (ADR 17).
            path.hardlink_to(partial)
        else:
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return client_file


def _text(client_file: _ClientFile) -> str:
    rows = [
        {"id": entry.id, "computer": entry.computer.to_json(), "copied": entry.copied} for entry in client_file.entries
    ]
    reply = {
        "format": _FORMAT,
        "home": client_file.home,
        "inode": client_file.inode,
        "volume": client_file.volume,
        "clients": rows,
    }
    return json.dumps(reply, indent=2) + "\n"
