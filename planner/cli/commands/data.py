"""`plan data check`: a folder before a run; `list`, `upload`, `remove`: data sets in object storage."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from planner.cli import build, completion, options
from planner.cli.ask import confirm
from planner.cli.counted_images import with_images
from planner.cli.screen import show
from planner.datasets.pack import DataSet
from planner.datasets.storage_costs import format_bytes, rates_of
from planner.datasets.store import (
    StoredDataSet,
    Upload,
    find_data_set,
    list_data_sets,
    looked_at,
    planned,
    remove,
    upload,
)
from planner.datasets.transfer import DataTransfer, plan_transfer, send, terms
from planner.errors import BadInputError, RefusedError, from_provider
from planner.report.data_report import data_json, data_page, launch_lines
from planner.report.page import Column, Table
from planner.settings import Settings
from providers.base import Provider, ProviderSettings, RunId
from providers.errors import ProviderError
from providers.stores import registry
from providers.stores.bucket import DATA
from providers.stores.pending_uploads import Unfinished
from providers.stores.store import ObjectStore, data_store
from workloads.data_folder.check import PARQUET, Report, check_folder
from workloads.data_folder.counts import count_images
from workloads.data_folder.problems import duplicate_texts, problems_of_job
from workloads.data_folder.sheet import write_sheet
from workloads.data_folder.values import DataFolderError
from workloads.job import TrainingJob

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Where = Annotated[
    str,
    typer.Option(
        "--provider",
        help=f"The provider whose storage is used: {', '.join(registry.FACTORIES)}",
        autocompletion=completion.clouds,
    ),
]
Bucket = Annotated[str | None, typer.Option("--bucket", help="A bucket other than the default one")]
Region = Annotated[str | None, typer.Option("--region", help="The region of that bucket")]
Project = Annotated[str | None, typer.Option("--project", help="Google: the project")]
Account = Annotated[str | None, typer.Option("--account", help="Azure: the storage account")]
_COLUMNS = (
    Column("name", shrinks=True),
    Column("content"),
    Column("where"),
    Column("files", right=True),
    Column("size", right=True),
    Column("a month", right=True),
)
# Letters of a content's hash in the table: as many as a launch names for `plan data remove`.
_HASH_LETTERS = 12
_IMAGES_BETWEEN_LINES = 10_000
MOST_DECODED_AT_LAUNCH = 500
"""Images of a local folder that a launch decodes, spread over it; plan data check decodes all."""
_ANY = RunId("any")
"""A provider's bucket is asked for by way of a run."""


@group.callback()
def _group() -> None:
    """Data folders, and data sets in object storage."""


@group.command("list", help="List the uploaded data sets and what their storage costs")
def _list(
    provider: Annotated[
        str | None, typer.Option("--provider", help="This provider only", autocompletion=completion.clouds)
    ] = None,
    bucket: Bucket = None,
    region: Region = None,
    project: Project = None,
    account: Account = None,
    as_json: options.Json = False,
) -> None:
    values = {"bucket": bucket, "region": region, "project": project, "account": account}
    entries: dict[str, list[StoredDataSet]] = {}
    silent: list[ProviderError] = []
    home = options.settings().home
    for name in [provider] if provider else registry.FACTORIES:
        try:
            with _store(name, values) as store:
                entries[name] = list_data_sets(store, rates_of(name, home))
        except ProviderError as error:
            silent.append(error)
            if not provider:
                sys.stderr.write(f"{name}: {error.message}\n")
    if provider and silent:
        raise from_provider(silent[0])
    if not entries:
        raise RefusedError("no object storage could be opened", "--provider NAME shows what is missing there")
    _show(entries, as_json)


@group.command("check", help="Look at a folder before a run: counts, labels, sizes, what cannot be read")
def _check(
    folder: Annotated[Path, typer.Argument(metavar="PATH")],
    job_file: Annotated[Path | None, typer.Option("--job", help="Also compare the folder with this job")] = None,
    sheet: Annotated[Path | None, typer.Option("--sheet", help="Write a contact sheet, a PNG or JPEG file")] = None,
    sample: Annotated[int | None, typer.Option("--sample", min=1, help="Decode only this many images")] = None,
    as_json: options.Json = False,
) -> None:
    job = options.read_job_file(job_file) if job_file else None
    report = checked(folder, sample, job)
    if as_json:
        sys.stdout.write(json.dumps(data_json(report)) + "\n")
    else:
        show(data_page(report))
    if sheet is not None:
        _write_sheet(report, sheet)
    if report.problems:
        raise BadInputError(
            f"a run on {folder} would fail or train wrongly (reasons: {len(report.problems)}): {report.problems[0]}",
            "correct the problems above, then check again",
        )


def checked(folder: Path, most_decoded: int | None, job: TrainingJob | None) -> Report:
    """What is in a data folder, with what a job says otherwise among its problems. Raises BadInputError."""
    progress = _progress_of_images()
    try:
        report = check_folder(folder, most_decoded, progress)
    except DataFolderError as error:
        raise BadInputError(str(error), "docs/training.md has the layouts that are read") from None
    except OSError as error:
        raise BadInputError(f"cannot read {error.filename or folder}: {error.strerror}") from None
    of_job = problems_of_job(report, job) if job is not None else ()
    twice = duplicate_texts(report, are_allowed=job is not None and job.data.duplicates == "allow")
    return replace(
        report,
        problems=(*report.problems, *of_job, *twice.problems),
        warnings=(*report.warnings, *twice.warnings),
    )


def _write_sheet(report: Report, file: Path) -> None:
    try:
        count = write_sheet(report, file)
    except ModuleNotFoundError:
        raise BadInputError("a contact sheet needs Pillow, which is not installed here", "pip install pillow") from None
    except (OSError, ValueError) as error:
        raise BadInputError(f"cannot write {file}: {error}", "--sheet takes a PNG or JPEG file") from None
    sys.stderr.write(f"wrote {file}: {count:,} images\n")


def _progress_of_images() -> Callable[[int], None]:
    last_images = 0

    def report(images: int) -> None:
        nonlocal last_images
        if images - last_images >= _IMAGES_BETWEEN_LINES:
            last_images = images
            sys.stderr.write(f"decoded {images:,} images\n")

    return report


@group.command("convert", help="Write the images of Parquet files into a new folder, a sub-folder per class")
def _convert(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER")],
    to: Annotated[Path, typer.Argument(metavar="TO", help="A folder that is not there yet")],
    as_json: options.Json = False,
) -> None:
    from planner.datasets.converted import convert

    convert(folder, to)
    counts = count_images(to)
    if as_json:
        row = {"folder": str(to), "train_images": counts.train, "hold_out_images": counts.hold_out}
        sys.stdout.write(json.dumps(row) + "\n")
    else:
        sys.stdout.write(f"{to}: {counts.train:,} images to train on, {counts.hold_out:,} held out\n")


@group.command("upload", help="Upload a folder, once per content; asks before anything is sent")
def _upload(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER")],
    provider: Where,
    bucket: Bucket = None,
    region: Region = None,
    project: Project = None,
    account: Account = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")] = False,
    as_json: options.Json = False,
) -> None:
    values = {"bucket": bucket, "region": region, "project": project, "account": account}
    home = options.settings().home
    data = looked_at(folder, home, _progress("read"))
    with _store(provider, values) as store:
        plan = planned(data, store, rates_of(provider, home))
        sys.stderr.writelines(f"{line}\n" for line in terms(plan))
        if not plan.complete:
            _confirm(f"upload {format_bytes(plan.missing_bytes)}?", "nothing was sent", assume_yes=yes)
            upload(plan, folder, store, _progress("sent", plan.missing_bytes))
    sys.stdout.write((json.dumps(_json_upload(plan)) if as_json else plan.uri) + "\n")


@group.command("remove", help="Remove a data set, by its name or the beginning of its content")
def _remove(
    text: Annotated[str, typer.Argument(metavar="NAME")],
    provider: Where,
    bucket: Bucket = None,
    region: Region = None,
    project: Project = None,
    account: Account = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")] = False,
    as_json: options.Json = False,
) -> None:
    values = {"bucket": bucket, "region": region, "project": project, "account": account}
    with _store(provider, values) as store:
        rates = rates_of(provider, options.settings().home) if as_json else None
        data_set = find_data_set(text, list_data_sets(store, rates))
        what = f"{data_set.data.name if data_set.data else 'unfinished'} ({format_bytes(data_set.stored.size_bytes)})"
        _confirm(f"remove {what} from {store.uri}?", "nothing was removed", assume_yes=yes)
        remove(store, data_set.content)
    sys.stderr.write(f"removed {what}\n")
    if as_json:
        sys.stdout.write(json.dumps({**_json(provider, data_set), "removed": True}) + "\n")


def check_at_launch(job: TrainingJob, told: list[str] | None = None) -> TrainingJob:
    """The job with the number of its training images; to stderr a line of what its local folder holds, and of what is
    left out. `told` gets these lines too.

    Raises BadInputError for the folder's problems.
    """
    folder = Path(job.data.path) if job.data.path is not None else None
    if folder is None or not folder.is_dir():
        return job
    report = checked(folder, MOST_DECODED_AT_LAUNCH, job)
    if report.problems:
        raise BadInputError(
            f"{folder} cannot be trained on: {report.problems[0]}", f"plan data check {folder} lists every problem"
        )
    lines = launch_lines(report)
    sys.stderr.writelines(f"{line}\n" for line in lines)
    if told is not None:
        told += lines
    job = with_images(job, report.train_images)
    return job if report.kind != PARQUET or job.container is not None else _of_images(job, folder)


def _of_images(job: TrainingJob, folder: Path) -> TrainingJob:
    """The job on the images of its Parquet, written below this home."""
    from planner.datasets.converted import images_of_parquet

    place = images_of_parquet(folder, options.settings().home)
    sys.stderr.write(f"data: the images of the Parquet files are in {place}\n")
    return job.model_copy(update={"data": job.data.model_copy(update={"path": str(place)})})


def bring(job: TrainingJob, provider: Provider, settings: Settings) -> DataTransfer:
    """What the job's data takes to get to a machine of the provider; its folder is read. Raises PlanError."""
    options = provider_settings(provider.name, settings, {})
    try:
        return plan_transfer(job, provider.name, options, storage_of(provider, DATA), _progress("read"))
    except ProviderError as error:
        raise from_provider(error) from error


def send_brought(transfer: DataTransfer, provider: Provider) -> None:
    """Upload what is missing, with a line now and then. Raises PlanError."""
    try:
        send(transfer, storage_of(provider, DATA), _progress("sent", transfer.missing_bytes))
    except ProviderError as error:
        raise from_provider(error) from error


def storage_of(provider: Provider, prefix: str) -> ObjectStore | None:
    """What lies below a prefix of the bucket in which a provider keeps its runs; None where it has none.

    Raises ProviderError.
    """
    store = provider.store(_ANY)
    return store.beside(prefix) if isinstance(store, ObjectStore) else None


@contextmanager
def _store(name: str, values: dict[str, str | None]) -> Iterator[ObjectStore]:
    settings = provider_settings(name, options.settings(), values)
    with closing(registry.bucket(name, settings)) as bucket:
        yield data_store(bucket, unfinished=Unfinished(settings.home / "uploads"))


def provider_settings(name: str, settings: Settings, values: Mapping[str, str | None]) -> ProviderSettings:
    """What was typed over what is set for this provider."""
    typed = {key: value for key, value in values.items() if value}
    return ProviderSettings(
        home=settings.home,
        options={**settings.options_of(name), **typed},
        environment=os.environ,
        now=build.clock().now,
    )


def _confirm(question: str, left_alone: str, *, assume_yes: bool) -> None:
    if not assume_yes:
        confirm(question, hint="--yes answers yes", left_alone=left_alone)


def _progress(what: str, total: int = 0) -> Callable[[int], None]:
    """Says how far it is, every twentieth of it or every 10 GB."""
    step = max(1, total // 20) if total else 10_000_000_000
    done_count = count = 0

    def report(size: int) -> None:
        nonlocal done_count, count
        done_count += size
        if done_count - count >= step:
            count = done_count
            of = f" of {format_bytes(total)}" if total else ""
            sys.stderr.write(f"{what} {format_bytes(done_count)}{of}\n")

    return report


def _show(entries: dict[str, list[StoredDataSet]], as_json: bool) -> None:
    rows = [(name, data_set) for name, sets in entries.items() for data_set in sets]
    if as_json:
        sys.stdout.write(json.dumps([_json(name, data_set) for name, data_set in rows]) + "\n")
    elif not rows:
        sys.stdout.write(f"no data sets at {', '.join(entries)}; plan data upload FOLDER uploads one\n")
    else:
        show([Table(_COLUMNS, [_row(name, data_set) for name, data_set in rows])])


def _row(name: str, data_set: StoredDataSet) -> tuple[str, ...]:
    size = format_bytes(data_set.stored.size_bytes)
    called, files = (data_set.data.name, f"{data_set.data.files:,}") if data_set.data else ("(unfinished)", "-")
    return (called, data_set.content[:_HASH_LETTERS], name, files, size, data_set.stored.month)


def _json(name: str, data_set: StoredDataSet) -> dict[str, object]:
    month = data_set.stored.usd_per_month
    return {
        "provider": name,
        "content": data_set.content,
        "name": data_set.data.name if data_set.data else None,
        "files": data_set.data.files if data_set.data else None,
        "complete": data_set.data is not None,
        "size_bytes": data_set.stored.size_bytes,
        "usd_per_month": None if month is None else float(month),
    }


def _json_upload(plan: Upload) -> dict[str, object]:
    month = plan.stored.usd_per_month
    data: DataSet = plan.data
    return {
        "uri": plan.uri,
        "content": data.content,
        "name": data.name,
        "files": data.files,
        "size_bytes": data.size_bytes,
        "sent_bytes": plan.missing_bytes,
        "usd_per_month": None if month is None else float(month),
    }
