"""`plan data check`: a folder before a run; `list`, `upload`, `remove`: data sets in object storage."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from trainplan.planner.api.ask import confirm
from trainplan.planner.api.data_steps import checked, progress, provider_settings
from trainplan.planner.api.job_files import read_job_file
from trainplan.planner.cli import completion, options
from trainplan.planner.cli.output_file import SHEET
from trainplan.planner.cli.screen import show
from trainplan.planner.datasets.pack import DataSet
from trainplan.planner.datasets.storage_costs import format_bytes, rates_of
from trainplan.planner.datasets.store import (
    StoredDataSet,
    Upload,
    find_data_set,
    list_data_sets,
    looked_at,
    planned,
    remove,
    upload,
)
from trainplan.planner.datasets.transfer import terms
from trainplan.planner.errors import BadInputError, RefusedError, from_provider
from trainplan.planner.home.files import persons_files
from trainplan.planner.report.data_report import data_json, data_page
from trainplan.planner.report.page import Column, Table
from trainplan.providers.errors import ProviderError
from trainplan.providers.stores import registry
from trainplan.providers.stores.pending_uploads import Unfinished
from trainplan.providers.stores.store import ObjectStore, data_store
from trainplan.workloads.data_folder.counts import count_images
from trainplan.workloads.data_folder.report import Report
from trainplan.workloads.data_folder.sheet import write_sheet

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
StorageAccount = Annotated[str | None, typer.Option("--account", help="Azure: the storage account")]
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
    account: StorageAccount = None,
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
    _refuse_sheet(sheet, folder)
    job = read_job_file(job_file) if job_file else None
    report = checked(folder, sample, job)
    if as_json:
        sys.stdout.write(json.dumps(data_json(report)) + "\n")
    else:
        show(data_page(report))
    if sheet is not None:
        _write_sheet(report, sheet)
    if report.problems:
        raise BadInputError(
            f"cannot train on {folder}: {_problems_text(report.problems)}",
            "correct the problems above, then check again",
        )


def _problems_text(problems: Sequence[str]) -> str:
    return problems[0] if len(problems) == 1 else f"{len(problems)} problems; the first: {problems[0]}"


def _refuse_sheet(sheet: Path | None, folder: Path) -> None:
    """Before the folder is read. Raises BadInputError for a sheet that would be one of its files."""
    SHEET.refuse_other(sheet)
    if sheet is not None and sheet.resolve().is_relative_to(folder.resolve()):
        raise BadInputError(f"{sheet} would be among the images that are checked", "write the sheet to another folder")


def _write_sheet(report: Report, file: Path) -> None:
    try:
        with persons_files():
            count = write_sheet(report, file)
    except ModuleNotFoundError:
        raise BadInputError("a contact sheet needs Pillow, which is not installed here", "pip install pillow") from None
    except (OSError, ValueError) as error:
        raise BadInputError(f"cannot write {file}: {error}", "--sheet takes a PNG or JPEG file") from None
    sys.stderr.write(f"wrote {file}: {count:,} images\n")


@group.command("convert", help="Write the images of Parquet files into a new folder, a sub-folder per class")
def _convert(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER")],
    to: Annotated[Path, typer.Argument(metavar="TO", help="A folder that is not there yet")],
    as_json: options.Json = False,
) -> None:
    from trainplan.planner.datasets.converted import convert

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
    account: StorageAccount = None,
    yes: options.Yes = False,
    as_json: options.Json = False,
) -> None:
    values = {"bucket": bucket, "region": region, "project": project, "account": account}
    home = options.settings().home
    data = looked_at(folder, home, progress("read"))
    with _store(provider, values) as store:
        plan = planned(data, store, rates_of(provider, home))
        sys.stderr.writelines(f"{line}\n" for line in terms(plan))
        if not plan.complete:
            _confirm(f"upload {format_bytes(plan.missing_bytes)}?", "nothing was sent", assume_yes=yes)
            upload(plan, folder, store, progress("sent", plan.missing_bytes))
    sys.stdout.write((json.dumps(_json_upload(plan)) if as_json else plan.uri) + "\n")


@group.command("remove", help="Remove a data set, by its name or the beginning of its content")
def _remove(
    text: Annotated[str, typer.Argument(metavar="NAME")],
    provider: Where,
    bucket: Bucket = None,
    region: Region = None,
    project: Project = None,
    account: StorageAccount = None,
    yes: options.Yes = False,
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


@contextmanager
def _store(name: str, values: dict[str, str | None]) -> Iterator[ObjectStore]:
    settings = provider_settings(name, options.settings(), values)
    with closing(registry.bucket(name, settings)) as bucket:
        yield data_store(bucket, unfinished=Unfinished(settings.home / "uploads"))


def _confirm(question: str, left_alone: str, *, assume_yes: bool) -> None:
    if not assume_yes:
        confirm(question, hint="--yes answers yes", left_alone=left_alone)


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
        "outside": {**asdict(data.outside), "first": data.outside.first or None},
        "usd_per_month": None if month is None else float(month),
    }
