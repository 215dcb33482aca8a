"""A job's data on a rented machine: which files it fetches, from where, and where its trainer finds them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from trainplan.providers.agent.archives import ENDINGS
from trainplan.providers.agent.schema import json_object
from trainplan.providers.agent.spec import File
from trainplan.providers.cloud.bootstrap import SCHEMES
from trainplan.providers.errors import BadRequestError
from trainplan.providers.stores.bucket import DATA, Bucket, Entry
from trainplan.providers.stores.patience import Patience
from trainplan.providers.stores.store import ObjectStore
from trainplan.providers.stores.urls import BucketAddress, bucket_address, entries, opened, size_bytes
from trainplan.workloads.addresses import shown_address
from trainplan.workloads.job import DataName, DataSpec, TrainingJob
from trainplan.workloads.pretrained import weights_address
from trainplan.workloads.wording import Option

if TYPE_CHECKING:
    from trainplan.providers.base import ProviderSettings
    from trainplan.workloads.model_spec import ModelSpec

DATA_DIR = "/data"
INDEX = "index.json"
MOST_INDEX_BYTES = 16 * 1024 * 1024
"""A hundred thousand shards."""
"""Written last, it says that a data set of ours is whole, and what it consists of."""
MOST_OBJECTS = 10_000
"""Each is a row of what the machine reads, and a request of its own."""
_OURS = re.compile(rf"(?:.*/)?{DATA}/[0-9a-f]{{64}}")
_SHARD = re.compile(r"shard-\d{5,}\.tar")


def data_files(
    data: DataSpec, cloud: str, settings: ProviderSettings, ours: ObjectStore, patience: Patience | None = None
) -> tuple[File, ...]:
    """What a machine of this cloud fetches before it trains; () for a set that is made or downloaded by the trainer.

    `ours` are the data sets in the bucket of this cloud's runs. Asks the store with this person's sign-in, and creates
    nothing; the machine reads with its own identity, so that a bucket has to be of the same cloud. Shards of a data set
    of ours come with their hashes; what else lies in a bucket or on the web with its size. Raises BadRequestError for a
    folder of this computer, for nothing, for too much, and for another cloud's bucket; and ProviderError.
    """
    patience = patience or Patience()
    if data.path is not None:
        raise BadRequestError(
            f"{data.path} lies on this computer, where no rented machine can read it",
            hint="plan data upload puts it into a bucket, plan launch does so by itself",
        )
    if data.name is DataName.IMAGENET:
        return _of_our_own_name(data.name, cloud, ours)
    if data.url is None:
        return ()
    if urlsplit(data.url).scheme == "https":
        return (_of_the_web(data.url, size_bytes(data.url, settings, patience)),)
    there = bucket_address(data.url)
    if there.provider != cloud:
        raise BadRequestError(
            f"a machine of {cloud} cannot read {shown_address(data.url)}: its identity counts at {cloud} alone",
            hint=f"{Option.PROVIDER(there.provider)}, or copy the data to a bucket of {cloud}",
        )
    with opened(there, settings) as bucket:
        return _of_a_bucket(data.url, there, bucket, patience)


Finds = Callable[[DataSpec, ObjectStore], tuple[File, ...]]
"""`data_files` of one provider, for the request of a launch: the job's data, and the data sets beside its runs."""


def finder(cloud: str, settings: ProviderSettings) -> Finds:
    """Return a look-up with this person's settings and sign-in."""
    return lambda data, ours: data_files(data, cloud, settings, ours)


def no_files(data: DataSpec, ours: ObjectStore) -> tuple[File, ...]:
    """The look-up of machines that fetch nothing. Raises BadRequestError for a folder or an address."""
    del ours
    if data.path is not None or data.url is not None:
        raise BadRequestError(f"{data.path or shown_address(str(data.url))} is not brought to these machines")
    return ()


def data_on_the_machine(data: DataSpec) -> DataSpec:
    """The job's data as the machine's trainer reads it: what was fetched from an address is a folder there.

    The folder's name hangs on the address, and a data set's address on its content: a checkpoint is never gone on
    with on other data.
    """
    if data.url is None:
        return data
    return data.model_copy(update={"url": None, "path": f"{DATA_DIR}/{folder_of(data.url)}"})


def weights_files(address: str, files: Finds, ours: ObjectStore) -> tuple[File, ...]:
    """The one file of weights at an address of `model.weights`, found like data. Raises BadRequestError."""
    weights = files(DataSpec(url=address), ours)
    if len(weights) != 1 or weights[0].unpack:
        raise BadRequestError(
            f"model.weights: {shown_address(address)} is no single file", hint="give the address of a model.keras"
        )
    return weights


def is_weights(file: File, address: str) -> bool:
    """Whether a file of a launch is that of the address of `model.weights`."""
    return file.to.startswith(f"data/{folder_of(address)}/")


def model_on_the_machine(job: TrainingJob, files: Iterable[File]) -> ModelSpec:
    """The job's model as the machine's trainer reads it: weights that were fetched are a file there."""
    address = weights_address(job)
    if address is None:
        return job.model
    (path,) = (file.to for file in files if is_weights(file, address))
    return job.model.model_copy(update={"weights": f"{DATA_DIR}/{path.removeprefix('data/')}"})


def is_ours(url: str) -> bool:
    """Whether it is the address of a data set that was uploaded from here or another computer."""
    return _OURS.fullmatch(url.rstrip("/")) is not None


def folder_of(url: str) -> str:
    """The name of the folder below the machine's data folder that has what lies at an address."""
    return hashlib.sha256(url.encode()).hexdigest()[:16]


def _of_the_web(url: str, size: int) -> File:
    name = PurePosixPath(unquote(urlsplit(url).path)).name or "data"
    return File(
        path="",
        uri=url,
        to=f"data/{folder_of(url)}/{_plain(name)}",
        sha256="",
        size_bytes=size,
        unpack=name.endswith(ENDINGS),
    )


def _of_a_bucket(url: str, there: BucketAddress, bucket: Bucket, patience: Patience) -> tuple[File, ...]:
    documents = _at_most(url, entries(bucket, there.prefix, patience))
    uri = f"{_scheme(there)}{there.bucket}"
    if _OURS.fullmatch(there.prefix):
        if f"{there.prefix}/{INDEX}" not in {entry.key for entry in documents}:
            raise BadRequestError(
                f"the upload of {shown_address(url)} is not finished", hint="plan data upload continues it"
            )
        index = patience(lambda: bucket.get(f"{there.prefix}/{INDEX}", 0, MOST_INDEX_BYTES + 1))
        return index_files(index, f"{uri}/{there.prefix}", folder_of(url))
    return tuple(_object(entry, there.prefix, uri, folder_of(url)) for entry in documents)


def _at_most(url: str, item: Any) -> list[Entry]:
    documents: list[Entry] = []
    for entry in item:
        if not entry.key.endswith("/"):  # what consoles make to stand for a folder
            documents.append(entry)
        if len(documents) > MOST_OBJECTS:
            raise BadRequestError(
                f"{shown_address(url)} has more than {MOST_OBJECTS:,} objects",
                hint="pack them as TFRecords or tar archives, or plan data upload a copy on this computer",
            )
    if not documents:
        raise BadRequestError(f"{shown_address(url)} is empty or does not exist")
    return documents


def _scheme(there: BucketAddress) -> str:
    return f"{SCHEMES[there.provider]}://{there.account + '/' if there.account else ''}"


def _object(entry: Entry, prefix: str, uri: str, folder: str) -> File:
    relative = entry.key.removeprefix(prefix).strip("/") or PurePosixPath(entry.key).name
    if ".." in PurePosixPath(relative).parts or "\\" in relative or "//" in entry.key:
        raise BadRequestError(f"{entry.key!r} cannot be the name of a file", hint="rename the object")
    return File(
        path="",
        uri=f"{uri}/{entry.key}",
        to=f"data/{folder}/{relative}",
        sha256="",
        size_bytes=entry.size_bytes,
        unpack=relative.endswith(ENDINGS),
    )


def index_record(index: bytes) -> dict[str, Any]:
    """What an index of a data set says, which whoever may write the bucket may have written; {} where it is none."""
    return json_object(index, MOST_INDEX_BYTES) or {}


def index_files(index: bytes, uri: str, folder: str) -> tuple[File, ...]:
    """The shards of a data set of ours at `uri`, unpacked into `folder` below the machine's data folder.

    Raises BadRequestError where the index cannot be read.
    """
    try:
        shards = index_record(index)["shards"]
        rows = [(str(row["name"]), str(row["sha256"]), int(row["size_bytes"])) for row in shards]
    except (ValueError, KeyError, TypeError, OverflowError):
        rows = []
    if not rows or not all(_SHARD.fullmatch(name) and digest for name, digest, _ in rows):
        raise BadRequestError(f"{uri}/{INDEX} cannot be read", hint="plan data remove it, then upload it again")
    return tuple(
        File(path="", uri=f"{uri}/{name}", to=f"data/{folder}/{name}", sha256=digest, size_bytes=size, unpack=True)
        for name, digest, size in rows
    )


def _of_our_own_name(name: str, cloud: str, ours: ObjectStore) -> tuple[File, ...]:
    """The one data set of this name that was uploaded there: for what nobody may download."""
    indexes = [path for path in ours.list() if path.endswith(f"/{INDEX}")]
    pairs = [(path, index) for path in indexes if _name_in(index := ours.get(path, size=MOST_INDEX_BYTES + 1)) == name]
    if len(pairs) != 1:
        many = f"{len(pairs)} data sets are" if pairs else "no data set is"
        raise BadRequestError(
            f"{many} called {name} in the storage of {cloud}",
            hint=(
                f"plan data upload a folder called {name}, or write data: {{url: …}} with the "
                "address that plan data upload printed"
            ),
        )
    path, index = pairs[0]
    return index_files(index, f"{ours.uri}/{path.rpartition('/')[0]}", str(name))


def _name_in(index: bytes) -> str:
    try:
        return str(index_record(index)["name"])
    except KeyError:
        return ""


def _plain(name: str) -> str:
    """Return a file name without path separators and special characters."""
    return re.sub(r"[^\w.,+=@ -]", "_", name).strip(".") or "data"
