"""Parquet of a person's as a folder of images, which every trainer reads: written once per content."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

from trainplan.planner.datasets.pack import scan
from trainplan.planner.errors import BadInputError, ThisMachineError
from trainplan.workloads.data_folder.layout import read_layout, refuse_no_folder
from trainplan.workloads.data_folder.parquet import ParquetLayout, write_images
from trainplan.workloads.data_folder.unwrapped import unwrapped
from trainplan.workloads.data_folder.values import DataFolderError

_FORMAT = "trainplan images of Parquet 1"


def images_of_parquet(folder: Path, home: Path) -> Path:
    """Where the images of the folder's Parquet lie, below `home`; they are written if they are not there yet.

    Files of the same sizes and times of change are taken for the same. Raises BadInputError, ThisMachineError.
    """
    folder = unwrapped(folder)
    stamp = repr([(item.path, item.size_bytes, item.changed_ns) for item in scan(folder).items])
    key = hashlib.sha256(f"{_FORMAT}{stamp}".encode("utf-8", "surrogateescape")).hexdigest()[:32]
    target = home / "converted" / key / folder.resolve().name
    if not target.is_dir():
        convert(folder, target)
    return target


def convert(folder: Path, to: Path) -> None:
    """Write the images of the folder's Parquet into the new folder `to`: train/CLASS/… and val/CLASS/….

    Raises BadInputError for no Parquet and for a folder that is there, ThisMachineError where it cannot be written.
    """
    try:
        refuse_no_folder(folder)
        layout = read_layout(unwrapped(folder))
        if not isinstance(layout, ParquetLayout):
            raise BadInputError(f"{folder} holds no Parquet to convert", "other layouts are read as they are")
        if to.exists():
            raise BadInputError(f"{to} is there already", "name a folder that is not there yet")
        to.parent.mkdir(parents=True, exist_ok=True)
        # Whole or not at all: a folder that is half written would be trained on as it is.
        unfinished = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=to.parent))
        try:
            write_images(layout, unfinished)
            unfinished.chmod(0o755)
            unfinished.rename(to)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except DataFolderError as error:
        raise BadInputError(str(error), "docs/data.md has the layouts that are read") from None
    except OSError as error:
        raise ThisMachineError(f"cannot write the images of {folder} into {to}: {error.strerror or error}") from error
