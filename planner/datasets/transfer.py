"""A job's data on its way to a rented machine: what that takes, known before anybody agrees to it, and then done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.planner.datasets.storage_costs import format_bytes, rates_of
from trainplan.planner.datasets.store import (
    UPLOAD_BYTES_PER_SECOND,
    Upload,
    index_bytes,
    looked_at,
    planned,
    remember_bytes,
    upload,
)
from trainplan.planner.forecast.estimate import fetch_seconds
from trainplan.providers.agent.spec import File
from trainplan.providers.cloud.data_files import data_files, folder_of, index_files
from trainplan.providers.cloud.secrets import clouds_of, references
from trainplan.providers.errors import BadRequestError
from trainplan.providers.stores.urls import bucket_address
from trainplan.workloads.addresses import shown_address
from trainplan.workloads.durations import format_duration
from trainplan.workloads.job import DataName, DataSpec, TrainingJob
from trainplan.workloads.pretrained import weights_address
from trainplan.workloads.terminal_text import one_line

if TYPE_CHECKING:
    from trainplan.planner.datasets.pack import Outside
    from trainplan.pricing.cost import ProviderRates
    from trainplan.providers.base import ProviderSettings
    from trainplan.providers.stores.store import ObjectStore


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTransfer:
    """`job` is what is launched: in the place of a folder stands the address of its data set, named by its content,
    and how large the data is is known. `lines` say what it takes, for whoever is asked.

    `bound`: only machines of the provider that was asked can read it. `files` are what a machine fetches, once what is
    missing has been sent. Nothing to send: `upload` is None or complete.
    """

    job: TrainingJob
    lines: tuple[str, ...] = ()
    bound: bool = False
    files: tuple[File, ...] = ()
    folder: Path | None = None
    upload: Upload | None = None

    @property
    def is_missing(self) -> bool:
        """Something has to be sent before a machine can read it."""
        return self.upload is not None and not self.upload.complete

    @property
    def missing_bytes(self) -> int:
        """The size of what would be uploaded; 0 where nothing is."""
        return self.upload.missing_bytes if self.upload else 0


def providers_of(job: TrainingJob) -> tuple[str, ...]:
    """The only providers whose machines can read the job's data and weights and resolve its secrets; () for any.

    Raises BadRequestError for no address of a bucket, and where nobody can do both.
    """
    names = clouds_of(job.secrets)
    addresses = (job.data.url, weights_address(job))
    names |= {bucket_address(url).provider for url in addresses if url is not None and not url.startswith("https://")}
    if len(names) > 1:
        raise BadRequestError(
            f"the job's data, weights and secrets are at {' and '.join(sorted(names))}",
            hint="a machine has the identity of one cloud: keep what it needs there",
        )
    return tuple(names)


def plan_transfer(
    job: TrainingJob,
    provider: str,
    settings: ProviderSettings,
    store: ObjectStore | None,
    report: Callable[[int], None],
) -> DataTransfer:
    """What the job's data takes to get to a machine of this provider; `store` None: it has no storage, nothing.

    Reads the folder (`report` hears of the bytes) unless it was read before, and asks the store or the web what is
    there. Sends and makes nothing. Raises BadInputError, ThisMachineError and ProviderError, also for secrets that no
    machine there could resolve.
    """
    # Before the folder is read, which may take minutes: secrets that cannot be resolved there end the launch.
    secrets = references(job, provider)
    if store is None or job.script is not None:  # a script fetches its data by itself
        return DataTransfer(job=job, bound=bool(secrets))
    if job.data.path is not None:
        return _of_a_folder(job, store, rates_of(provider, settings.home), settings.home, report)
    transfer = _of_elsewhere(job, provider, settings, store)
    return replace(transfer, bound=transfer.bound or bool(secrets))


def send(transfer: DataTransfer, store: ObjectStore | None, report: Callable[[int], None]) -> None:
    """Upload what is missing; an interrupted upload is continued. Raises ThisMachineError and ProviderError."""
    if store is not None and transfer.upload is not None and transfer.folder is not None and transfer.is_missing:
        upload(transfer.upload, transfer.folder, store, report)


def terms(plan: Upload) -> tuple[str, ...]:
    """What an upload takes and costs, and what of it lies outside the folder that was named, for whoever is asked."""
    data = plan.data
    left_out = f" ({data.left_out:,} that are no regular files left out)" if data.left_out else ""
    whole = f"{data.name}: {data.files:,} files{left_out}, {plan.stored} at {plan.uri}"
    if plan.complete:
        return whole, "it is stored already: nothing is sent", *_outside(data.outside)
    lasting = _lasting(plan.seconds)
    sending = f"to send: {format_bytes(plan.missing_bytes)}, about {lasting} at 20 Mbit/s; sending is free"
    return whole, sending, *_outside(data.outside)


def _outside(outside: Outside) -> list[str]:
    """A line on the files that lie outside the folder; none where there are none."""
    if not outside.files:
        return []
    count = "1 of them lies" if outside.files == 1 else f"{outside.files:,} of them lie"
    size, first = format_bytes(outside.size_bytes), one_line(outside.first)
    return [f"{count} outside the folder, where links lead ({size}); the first is {first}"]


def data_line(job: TrainingJob) -> str:
    """What an estimate counts for a job's own data, or that it counts nothing; "" for a known data set."""
    data = job.data
    if data.name is not None:
        return ""
    data_text = data.path or shown_address(str(data.url))
    if data.size_bytes is None:
        return (
            f"the data at {data_text} is not counted, because its size is not known "
            "(set data.size_bytes in the job file)"
        )
    text = f"{format_bytes(data.size_bytes)} at {data_text}, about {_lasting(fetch_seconds(job))}"
    return f"{text} to a rented machine's disk{_before(data, data.size_bytes)}"


def _before(data: DataSpec, size_bytes: int) -> str:
    """What has to be done, or to be so, before a machine can fetch it."""
    if data.path is not None:
        lasting = _lasting(size_bytes / UPLOAD_BYTES_PER_SECOND)
        return f"; sent to its storage before, once, in about {lasting} at 20 Mbit/s"
    if data.url is None or data.url.startswith("https://"):
        return ""
    return f", which machines of {bucket_address(data.url).provider} alone can fetch"


def _of_a_folder(
    job: TrainingJob, store: ObjectStore, rates: ProviderRates | None, home: Path, report: Callable[[int], None]
) -> DataTransfer:
    folder = Path(str(job.data.path))
    data = looked_at(folder, home, report)
    plan = planned(data, store, rates)
    # A job's address of Azure's storage begins with az://, the store's own with azblob:// (providers/stores/urls.py).
    job = _with_data(job, plan.uri.replace("azblob://", "az://", 1), data.size_bytes)
    remember_bytes(str(job.data.url), data.size_bytes, home)
    whole, *more = terms(plan)
    text = f"it stays there until plan data remove {data.content[:12]}"
    lines = (f"data {whole}", *more, text, f"to the machine's disk: about {_lasting(fetch_seconds(job))}")
    files = index_files(index_bytes(data), plan.uri, folder_of(str(job.data.url)))
    return DataTransfer(job=job, lines=lines, bound=True, files=files, folder=folder, upload=plan)


def _of_elsewhere(job: TrainingJob, provider: str, settings: ProviderSettings, store: ObjectStore) -> DataTransfer:
    files = data_files(job.data, provider, settings, store)
    size, url = sum(file.size_bytes for file in files), job.data.url
    if url is None:
        text = f"data {job.data.name}: {format_bytes(size)} in the storage of {provider}"
        item = (text,) if files else ()
        return DataTransfer(job=job, lines=item, bound=job.data.name is DataName.IMAGENET, files=files)
    remember_bytes(url, size, settings.home)
    job = _with_data(job, url, size)
    return DataTransfer(job=job, lines=(f"data {data_line(job)}",), bound=not url.startswith("https://"), files=files)


def _with_data(job: TrainingJob, url: str, size_bytes: int) -> TrainingJob:
    # An empty file is no data, but nothing that an estimate must fail on.
    data = job.data.model_copy(update={"path": None, "url": url, "size_bytes": size_bytes or None})
    return job.model_copy(update={"data": data})


def _lasting(seconds: float) -> str:
    return format_duration(timedelta(seconds=max(1, round(seconds))))
