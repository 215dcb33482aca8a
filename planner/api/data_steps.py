"""What commands do with a job's data: look at its folder, count what is to be sent, and send it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.planner.api import build
from trainplan.planner.api.counted_images import with_images
from trainplan.planner.api.told import tell
from trainplan.planner.datasets.storage_costs import format_bytes
from trainplan.planner.datasets.transfer import DataTransfer, plan_transfer, send
from trainplan.planner.errors import BadInputError, from_provider
from trainplan.planner.planning.locked_script import with_lock
from trainplan.planner.report.data_report import launch_lines, problems_text
from trainplan.planner.settings import Settings, load_settings
from trainplan.providers.base import Provider, ProviderSettings, RunId
from trainplan.providers.errors import ProviderError
from trainplan.providers.stores.bucket import DATA
from trainplan.providers.stores.store import ObjectStore
from trainplan.workloads.data_folder.check import PARQUET, check_folder
from trainplan.workloads.data_folder.problems import duplicate_texts, problems_of_job
from trainplan.workloads.data_folder.values import DataFolderError

if TYPE_CHECKING:
    from trainplan.workloads.data_folder.report import Report
    from trainplan.workloads.job import TrainingJob
    from trainplan.workloads.wording import Option

MOST_DECODED_AT_LAUNCH = 500
"""Images of a local folder that a launch decodes, spread over it; plan data check decodes all."""
_IMAGES_BETWEEN_LINES = 10_000
_ANY = RunId("any")
"""A provider's bucket is asked for by way of a run."""


def checked(folder: Path, most_decoded: int | None, job: TrainingJob | None) -> Report:
    """What is in a data folder, with what a job says otherwise among its problems. Raises BadInputError."""
    report_images = _progress_of_images()
    try:
        report = check_folder(folder, most_decoded, report_images)
    except DataFolderError as error:
        raise BadInputError(str(error), "docs/data.md has the layouts that are read") from None
    except OSError as error:
        raise BadInputError(f"cannot read {error.filename or folder}: {error.strerror}") from None
    of_job = problems_of_job(report, job) if job is not None else ()
    twice = duplicate_texts(report, are_allowed=job is not None and job.data.duplicates == "allow")
    return replace(
        report,
        problems=(*report.problems, *of_job, *twice.problems),
        warnings=(*report.warnings, *twice.warnings),
    )


def refuse_among_images(folder: Path, images: str | Path | None, option: Option) -> None:
    """Raises BadInputError where a folder that is to be written lies in that of the images: whatever is written there
    would count as images of a class. `option` names another folder."""
    if images is None:
        return
    inside, outside = folder.expanduser().resolve(), Path(images).resolve()
    if inside == outside or outside in inside.parents:
        raise BadInputError(
            f"{folder} lies in the folder of the images, where it would count as a class",
            f"{option} takes a folder outside of {images}",
            field=option,
        )


def check_at_launch(job: TrainingJob, told: list[str] | None = None) -> TrainingJob:
    """The job with the number of its training images; to stderr a line of what its local folder holds, and of what is
    left out. `told` gets these lines too.

    Raises BadInputError for the folder's problems.
    """
    folder = Path(job.data.path) if job.data.path is not None else None
    if folder is None or not folder.is_dir():
        return job
    report = checked(folder, MOST_DECODED_AT_LAUNCH, job)
    lines = launch_lines(report)
    for line in lines:
        tell(line)
    if report.problems:
        raise BadInputError(
            problems_text(folder, report),
            f"plan data check {shlex.quote(str(folder))} lists every problem",
        )
    if told is not None:
        told += lines
    job = with_images(job, report.train_images)
    return job if report.kind != PARQUET or job.container is not None else _of_images(job, folder)


def _of_images(job: TrainingJob, folder: Path) -> TrainingJob:
    """The job on the images of its Parquet, written below this home."""
    from trainplan.planner.datasets.converted import images_of_parquet

    images_folder = images_of_parquet(folder, load_settings(os.environ).home)
    tell(f"data: the images of the Parquet files are in {images_folder}")
    return job.model_copy(update={"data": job.data.model_copy(update={"path": str(images_folder)})})


def bring(job: TrainingJob, provider: Provider, settings: Settings) -> DataTransfer:
    """What the job's data takes to get to a machine of the provider; its folder is read, and what a script needs is
    locked. Raises PlanError."""
    job = with_lock(job, provider.name, settings, tell)
    options = provider_settings(provider.name, settings, {})
    try:
        return plan_transfer(job, provider.name, options, storage_of(provider, DATA), progress("read"))
    except ProviderError as error:
        raise from_provider(error) from error


def send_brought(transfer: DataTransfer, provider: Provider) -> None:
    """Upload what is missing, with a line now and then. Raises PlanError."""
    try:
        send(transfer, storage_of(provider, DATA), progress("sent", transfer.missing_bytes))
    except ProviderError as error:
        raise from_provider(error) from error


def storage_of(provider: Provider, prefix: str) -> ObjectStore | None:
    """What lies below a prefix of the bucket in which a provider keeps its runs; None where it has none.

    Raises ProviderError.
    """
    store = provider.store(_ANY)
    return store.beside(prefix) if isinstance(store, ObjectStore) else None


def provider_settings(name: str, settings: Settings, values: Mapping[str, str | None]) -> ProviderSettings:
    """What was typed over what is set for this provider."""
    typed = {key: value for key, value in values.items() if value}
    return ProviderSettings(
        home=settings.home,
        options={**settings.options_of(name), **typed},
        environment=os.environ,
        now=build.clock().now,
    )


def progress(what: str, total: int = 0) -> Callable[[int], None]:
    """A function that is told the bytes of each step, and says how far it is: every twentieth of it, or every 10 GB."""
    step = max(1, total // 20) if total else 10_000_000_000
    done_count = count = 0

    def report(size: int) -> None:
        nonlocal done_count, count
        done_count += size
        if done_count - count >= step:
            count = done_count
            of = f" of {format_bytes(total)}" if total else ""
            tell(f"{what} {format_bytes(done_count)}{of}")

    return report


def _progress_of_images() -> Callable[[int], None]:
    last_images = 0

    def report(images: int) -> None:
        nonlocal last_images
        if images - last_images >= _IMAGES_BETWEEN_LINES:
            last_images = images
            tell(f"decoded {images:,} images")

    return report
