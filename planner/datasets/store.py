"""Data sets of a person's in object storage: uploaded once per content, used again by later runs, listed, removed."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from trainplan.planner.datasets.pack import DataSet, Item, Shard, folder_bytes, grouped, pack, read, scan
from trainplan.planner.datasets.storage_costs import Stored, stored_cost
from trainplan.planner.errors import BadInputError, ThisMachineError
from trainplan.providers.cloud.data_files import INDEX, MOST_INDEX_BYTES, index_record
from trainplan.providers.stores.bucket import DamagedError
from trainplan.providers.stores.files import FileStore

if TYPE_CHECKING:
    from trainplan.pricing.cost import ProviderRates
    from trainplan.providers.base import RunStore
    from trainplan.workloads.job import DataSpec

UPLOAD_BYTES_PER_SECOND = 2_500_000
"""An allowance for a line of 20 Mbit/s from a person's desk; what it really is shows as soon as bytes move."""
LEAST_NAMED = 6
"""So many letters of a content hash name a data set, where they name only one."""


class DataStore(FileStore, Protocol):
    """Where data sets are: a run store that moves files, and knows its address."""

    @property
    def uri(self) -> str:
        """The address of the store."""
        ...

    def put(self, path: str, data: bytes) -> None:
        """Write whole or not at all."""

    def get(self, path: str, *, start: int = 0, size: int | None = None) -> bytes:
        """The bytes from `start`, at most `size`. Raises KeyError where there is none."""
        ...

    def list(self, prefix: str = "") -> Sequence[str]: ...

    def delete(self, prefix: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """What an upload takes, before anybody agrees to it. Nothing missing: the data set is there already.

    `seconds` rest on UPLOAD_BYTES_PER_SECOND. What comes in is free at every vendor; requests are not counted.
    """

    data: DataSet
    uri: str
    missing_shards: tuple[Shard, ...]
    complete: bool
    stored: Stored

    @property
    def missing_bytes(self) -> int:
        """The size of what the store lacks."""
        return sum(shard.size_bytes for shard in self.missing_shards)

    @property
    def seconds(self) -> float:
        """The expected time of the upload in seconds."""
        return self.missing_bytes / UPLOAD_BYTES_PER_SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDataSet:
    """A data set as it is stored; `data` is None while its upload is unfinished."""

    content: str
    data: DataSet | None
    stored: Stored


def looked_at(folder: Path, home: Path, report: Callable[[int], None]) -> DataSet:
    """The folder as a data set; one that was read before and whose files are unchanged is not read again.

    Raises BadInputError, ThisMachineError.
    """
    scanned = scan(folder)
    items = scanned.items
    note = _note(str(folder.resolve()), home)
    # Size and time of change stand for the bytes: reading them all again would take as long as the first time.
    stamp = hashlib.sha256(repr([(item.path, item.size_bytes, item.changed_ns) for item in items]).encode()).hexdigest()
    data_set = _noted_data_set(note, stamp)
    data_set_with_items = _with_items(data_set, items) if data_set else None
    if data_set_with_items is None:
        data_set_with_items = read(folder, items, report)
        _remember(note, stamp, data_set_with_items)
    return replace(data_set_with_items, left_out=scanned.left_out, outside=scanned.outside)


def known_bytes(data: DataSpec, home: Path) -> int | None:
    """How much a job's folder or address holds, as far as this computer can tell without asking anybody.

    What the job says; else what a folder holds now, where it has not too many files to look at; else what was there
    when it was last looked at.
    """
    if data.size_bytes is not None or data.name is not None:
        return data.size_bytes
    source = str(Path(data.path).resolve()) if data.path else str(data.url)
    now = folder_bytes(Path(source)) if data.path else None
    return _noted(_note(source, home)) if now is None else now


def remember_bytes(url: str, size_bytes: int, home: Path) -> None:
    """Store the size for later estimates; without it they lack one line."""
    _write(_note(url, home), {"size_bytes": size_bytes})


def planned(data: DataSet, store: DataStore, rates: ProviderRates | None) -> Upload:
    """What of it is missing in the store. Raises ProviderError."""
    there = store.sizes(data.content)
    shards = tuple(shard for shard in data.shards if there.get(f"{data.content}/{shard.name}") != shard.size_bytes)
    return Upload(
        data=data,
        uri=f"{store.uri}/{data.content}",
        missing_shards=shards,
        complete=not shards and f"{data.content}/{INDEX}" in there,
        stored=stored_cost(data.size_bytes, rates),
    )


def upload(plan: Upload, folder: Path, store: DataStore, report: Callable[[int], None]) -> None:
    """Send what is missing, a shard at a time; a shard that was interrupted is continued. `report`: the bytes.

    Raises ThisMachineError where a shard does not fit on this disk or the folder has changed, and ProviderError.
    """
    for shard in plan.missing_shards:
        with _packed(folder, shard) as path:
            try:
                sha256 = store.put_file(f"{plan.data.content}/{shard.name}", path, report)
            except DamagedError as error:
                raise ThisMachineError(error.message, error.hint) from error
        if sha256 != shard.sha256:
            # Other bytes of the same size would be taken for this shard by the next upload.
            store.delete(f"{plan.data.content}/{shard.name}")
            raise ThisMachineError(f"{folder} has changed since it was read", "run the same command again")
    # Last: without its index a data set counts as unfinished.
    if not plan.complete:
        store.put(f"{plan.data.content}/{INDEX}", index_bytes(plan.data))


def list_data_sets(store: DataStore, rates: ProviderRates | None) -> list[StoredDataSet]:
    """Every data set of the store, by name. Raises ProviderError."""
    sizes: dict[str, int] = {}
    whole: set[str] = set()
    for path, size in store.sizes().items():
        content, _, name = path.partition("/")
        sizes[content] = sizes.get(content, 0) + size
        whole |= {content} if name == INDEX else set()
    data_sets = [
        StoredDataSet(
            content=content,
            data=_read_index(store, content) if content in whole else None,
            stored=stored_cost(size, rates),
        )
        for content, size in sizes.items()
    ]
    return sorted(data_sets, key=lambda data_set: (data_set.data.name if data_set.data else "", data_set.content))


def find_data_set(text: str, data_sets: Sequence[StoredDataSet]) -> StoredDataSet:
    """The data set whose content hash begins so, or whose name it is. Raises BadInputError."""
    matches = [
        one
        for one in data_sets
        if (len(text) >= LEAST_NAMED and one.content.startswith(text)) or (one.data and one.data.name == text)
    ]
    if len(matches) != 1:
        many = f"{len(matches)} data sets are called {text!r}" if matches else f"there is no data set {text!r}"
        raise BadInputError(many, "plan data list shows them; name one by its content")
    return matches[0]


def remove(store: RunStore, content: str) -> None:
    """The index goes first: what is half gone is not used any more. Raises ProviderError."""
    store.delete(f"{content}/{INDEX}")
    store.delete(content)


@contextmanager
def _packed(folder: Path, shard: Shard) -> Iterator[Path]:
    """The shard as a file, for as long as it is sent.

    Its time is always the same, so that an upload that was interrupted finds the file it knows; the hash tells
    whether it is.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="trainplan-") as source:
            path = Path(source) / shard.name
            with path.open("wb") as file:
                pack(folder, shard.items, file)
            os.utime(path, ns=(0, 0))
            yield path
    except OSError as error:
        raise ThisMachineError(
            f"cannot pack {shard.name}: {error.strerror or error}", "a shard needs 256 MB in the temporary folder"
        ) from error


def _read_index(store: DataStore, content: str) -> DataSet | None:
    """None where it is gone meanwhile, or cannot be read."""
    try:
        return _data_set(index_record(store.get(f"{content}/{INDEX}", size=MOST_INDEX_BYTES + 1)))
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def index_bytes(data: DataSet) -> bytes:
    """What is written last, and read by every machine."""
    return json.dumps(_plain(data), indent=1).encode()


def _plain(data: DataSet) -> dict[str, Any]:
    plain = asdict(data)
    del plain["left_out"], plain["outside"]
    for shard in plain["shards"]:
        del shard["items"]
    return plain


def _data_set(plain: Mapping[str, Any]) -> DataSet:
    shards = tuple(
        Shard(name=str(row["name"]), size_bytes=int(row["size_bytes"]), sha256=str(row["sha256"]))
        for row in plain["shards"]
    )
    return DataSet(
        content=str(plain["content"]),
        name=str(plain["name"]),
        files=int(plain["files"]),
        size_bytes=int(plain["size_bytes"]),
        shards=shards,
    )


def _noted_data_set(note: Path, stamp: str) -> DataSet | None:
    try:
        reply = json.loads(note.read_text(encoding="utf-8"))
        return _data_set(reply["data"]) if reply["stamp"] == stamp else None
    except (OSError, KeyError, TypeError, ValueError):
        return None


def _with_items(data: DataSet, items: tuple[Item, ...]) -> DataSet | None:
    """The data set as it was read, with what is in its shards; None where shards are cut another way by now."""
    groups = tuple(grouped(items))
    if len(groups) != len(data.shards):
        return None
    shards = tuple(replace(shard, items=group) for shard, group in zip(data.shards, groups, strict=True))
    return replace(data, shards=shards)


def _remember(note: Path, stamp: str, data: DataSet) -> None:
    """Losing it costs one more reading."""
    _write(note, {"stamp": stamp, "size_bytes": data.size_bytes, "data": _plain(data)})


def _note(source: str, home: Path) -> Path:
    """What was seen at a folder or an address is kept there."""
    # A path may be longer than the name of a file can be, and need not be UTF-8.
    return home / "data_sets" / f"{hashlib.sha256(os.fsencode(source)).hexdigest()[:32]}.json"


def _noted(note: Path) -> int | None:
    try:
        return int(json.loads(note.read_text(encoding="utf-8"))["size_bytes"])
    except (OSError, KeyError, TypeError, ValueError):
        return None


def _write(note: Path, reply: dict[str, Any]) -> None:
    with suppress(OSError):
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(json.dumps(reply), encoding="utf-8")
