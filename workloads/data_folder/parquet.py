"""Parquet in the layout of Hugging Face: in each row an image, encoded, and its label. Needs pyarrow."""

from __future__ import annotations

import json
import os
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from trainplan.workloads.data_folder.duplicates import digest_of
from trainplan.workloads.data_folder.entries import Tally, is_hidden
from trainplan.workloads.data_folder.hold_out import chosen_by_content, rank
from trainplan.workloads.data_folder.nothing import READ
from trainplan.workloads.data_folder.samples import Sample
from trainplan.workloads.data_folder.shards import SplitFiles, refuse_no_training_files, split_files
from trainplan.workloads.data_folder.values import DataFolderError, LeftOut

_IMAGE_NAMES = ("image", "img", "images", "picture", "photo", "jpg", "png")
_LABEL_NAMES = ("label", "labels", "class", "classes", "target", "category", "fine_label", "label_name", "y")
_MOST_NAME_BYTES = 200
_SIGNATURES = ((b"\xff\xd8\xff", ".jpg"), (b"\x89PNG", ".png"), (b"GIF8", ".gif"), (b"RIFF", ".webp"), (b"BM", ".bmp"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetLayout:
    """Parquet files. Where `hold_out` is empty, one row in ten of each class is held out, by a hash of its image."""

    train: tuple[Path, ...]
    hold_out: tuple[Path, ...]
    left_out: tuple[LeftOut, ...]


class Rows(NamedTuple):
    """Every image, and the names of their classes by label, which are names of folders too."""

    samples: list[Sample]
    class_names: tuple[str, ...]


class _Columns(NamedTuple):
    """`names` by the label where the file tells them; () where labels are numbers or texts by themselves."""

    image: str
    label: str
    names: tuple[str, ...]


class _Row(NamedTuple):
    file: Path
    number: int
    label: int | str
    size_bytes: int
    digest: bytes
    held_out: bool


def parquet_layout(folder: Path, files: Sequence[Path], tally: Tally) -> ParquetLayout:
    """Which of the files are trained on and which are held out, by the words of their paths. Raises DataFolderError."""
    parquet = [path for path in files if is_parquet(path)]
    for path in files:
        if path not in parquet:
            tally.add("it is no Parquet file", path)
    split: SplitFiles = split_files(folder, parquet, tally)
    refuse_no_training_files(split, "Parquet files")
    return ParquetLayout(train=split.train, hold_out=split.hold_out, left_out=tally.left_out())


def is_parquet(path: Path) -> bool:
    """Whether a file is Parquet by its suffix."""
    return path.suffix.lower() in (".parquet", ".pq")


def rows_of(layout: ParquetLayout) -> Rows:
    """Every image with its label; reads all of them once. Raises DataFolderError."""
    rows = [row for file in layout.train for row in _read(file, held_out=False)]
    rows += [row for file in layout.hold_out for row in _read(file, held_out=True)]
    folders = _folder_names({row.label for row in rows})
    names = tuple(sorted(folders.values()))
    labels = {label: names.index(name) for label, name in folders.items()}
    held = [row.held_out for row in rows]
    if not layout.hold_out:
        held = chosen_by_content([rank(row.digest) for row in rows], [labels[row.label] for row in rows])
    groups = {file: _Groups(file) for file in (*layout.train, *layout.hold_out)}
    return Rows(
        [
            Sample(
                f"{row.file.name}, row {row.number}",
                labels[row.label],
                is_held_out,
                row.size_bytes,
                lambda row=row: groups[row.file].image(row.number),  # type: ignore[misc]  # the default binds the row
            )
            for row, is_held_out in zip(rows, held, strict=True)
        ],
        names,
    )


def column_notes(layout: ParquetLayout) -> list[str]:
    """What is trained of several columns of labels, and where a class has another number than in the file. Raises
    DataFolderError."""
    file = layout.train[0]
    schema = _opened(file).schema_arrow
    columns = _columns(file, schema)
    others = [one.name for one in schema if one.name not in columns[:2] and _holds_labels(one.type)]
    notes = [f"labels are those of the column {columns.label}; not read: {', '.join(others[:5])}"] if others else []
    numbered = sorted(map(_folder_name, columns.names))
    moved = [(old, numbered.index(_folder_name(name)), name) for old, name in enumerate(columns.names)]
    first = next(((old, new, name) for old, new, name in moved if old != new), None)
    if first is not None:
        old, new, name = first
        notes.append(f"classes are numbered in the order of their names: {name}, {old} in the file, is {new}")
    return notes


def write_images(layout: ParquetLayout, folder: Path) -> None:
    """Write train/CLASS/NUMBER.jpg and val/CLASS/NUMBER.jpg: the bytes as they are in the rows.

    Raises DataFolderError and OSError.
    """
    rows = rows_of(layout)
    for number, sample in enumerate(rows.samples):
        target = folder / ("val" if sample.held_out else "train") / rows.class_names[sample.label]
        target.mkdir(parents=True, exist_ok=True)
        data = sample.read()
        suffix = next((suffix for begin, suffix in _SIGNATURES if data.startswith(begin)), ".png")
        (target / f"{number:08}{suffix}").write_bytes(data)


# --- files --------------------------------------------------------------------------------------------------------


def _pyarrow(file: Path) -> Any:
    try:
        import pyarrow.parquet as parquet
    except ModuleNotFoundError:
        raise DataFolderError(
            f"{file} is Parquet, which is read with pyarrow, and that is not installed here: pip install pyarrow (the "
            f"extra parquet); {READ}"
        ) from None
    return parquet


def _opened(file: Path) -> Any:
    try:
        return _pyarrow(file).ParquetFile(file)
    except DataFolderError:
        raise
    except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
        raise DataFolderError(f"{file} cannot be read as Parquet ({_line(error)}); fetch it again; {READ}") from error


def _read(file: Path, *, held_out: bool) -> Iterator[_Row]:
    opened = _opened(file)
    columns = _columns(file, opened.schema_arrow)
    number = 0
    try:
        for batch in opened.iter_batches(batch_size=256, columns=[columns.image, columns.label]):
            labels = batch.column(columns.label).to_pylist()
            for cell, label in zip(batch.column(columns.image).to_pylist(), labels, strict=True):
                data = _image(cell, file, number)
                named = _label(label, columns.names, f"row {number} of {file}")
                yield _Row(file, number, named, len(data), digest_of(data), held_out)
                number += 1
    except (OSError, ValueError) as error:
        if isinstance(error, DataFolderError):
            raise
        raise DataFolderError(f"{file} cannot be read as Parquet ({_line(error)}); fetch it again") from error


class _Groups:
    """The images of one file, a row group at a time; the last two are kept, since they are read in order."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._groups: dict[int, tuple[int, list[Any]]] = {}
        self._opened: Any = None

    def image(self, number: int) -> bytes:
        """The encoded image of a row. Raises OSError."""
        with self._lock:
            if self._opened is None:
                self._opened = _opened(self._file)
                self._column = _columns(self._file, self._opened.schema_arrow).image
            first, cells = self._group(number)
        return _image(cells[number - first], self._file, number)

    def _group(self, number: int) -> tuple[int, list[Any]]:
        first = 0
        for index in range(self._opened.num_row_groups):
            rows = self._opened.metadata.row_group(index).num_rows
            if number < first + rows:
                break
            first += rows
        else:
            raise OSError(f"{self._file} has no row {number} any more")
        if index not in self._groups:
            while len(self._groups) > 1:
                del self._groups[next(iter(self._groups))]
            table = self._opened.read_row_group(index, columns=[self._column])
            self._groups[index] = first, table.column(0).to_pylist()
        return self._groups[index]


# --- rows ---------------------------------------------------------------------------------------------------------


def _columns(file: Path, schema: Any) -> _Columns:
    """The columns of the image and of the label. Raises DataFolderError."""
    images = [field.name for field in schema if _holds_images(field.type)]
    image = next((name for name in _IMAGE_NAMES if name in images), images[0] if len(images) == 1 else None)
    names = _features(schema)
    labels = [field.name for field in schema if field.name != image and _holds_labels(field.type)]
    declared = [name for name in labels if name in names]
    label = next((name for name in _LABEL_NAMES if name in labels), None)
    if label is None:
        label = next((group[0] for group in (declared, labels) if len(group) == 1), None)
    if image is None or label is None:
        there = ", ".join(f"{field.name}: {str(field.type)[:40]}" for field in list(schema)[:8])
        raise DataFolderError(
            f"{file} has the columns {there}; needed are one of encoded images (binary, or a struct with bytes), "
            "called image, and one of their labels (whole numbers or texts), called label"
        )
    return _Columns(image, label, names.get(label, ()))


def _holds_images(kind: Any) -> bool:
    text = str(kind)
    return text in ("binary", "large_binary") or (text.startswith("struct<") and "bytes: " in text)


def _holds_labels(kind: Any) -> bool:
    text = str(kind)
    return text.startswith(("int", "uint")) or text in ("string", "large_string") or text.startswith("dictionary<")


def _features(schema: Any) -> dict[str, tuple[str, ...]]:
    """Names of labels by column, as Hugging Face's datasets writes them into a file."""
    try:
        info = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {
            column: tuple(map(str, feature["names"]))
            for column, feature in info.items()
            if isinstance(feature, dict) and isinstance(feature.get("names"), list)
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}


def _image(cell: Any, file: Path, number: int) -> bytes:
    """The bytes of a cell, or of the file that it names, below the folder of the Parquet file."""
    data = cell.get("bytes") if isinstance(cell, dict) else cell
    if isinstance(data, bytes) and data:
        return data
    path = cell.get("path") if isinstance(cell, dict) else None
    if isinstance(path, str) and path:
        target = os.path.realpath(file.parent / path)
        if target.startswith(os.path.realpath(file.parent) + os.sep) and os.path.isfile(target):  # noqa: PTH113
            with open(target, "rb") as opened:  # noqa: PTH123
                return opened.read()
    more = f" and no file {path}" if path else ""
    raise DataFolderError(
        f"row {number} of {file} has no bytes of an image{more}; write the file again with the images in it"
    )


def _label(label: Any, names: tuple[str, ...], where: str) -> int | str:
    """The name of a class, or its number where nothing names it. Raises DataFolderError."""
    if isinstance(label, int) and not isinstance(label, bool):
        if 0 <= label < (len(names) or label + 1):
            return names[label] if names else label
        known = f"the file names the labels 0 to {len(names) - 1}" if names else "labels are 0 or more"
        raise DataFolderError(
            f"{where} has the label {label}, and {known}: move files without labels out of the folder"
        )
    if isinstance(label, str) and label.strip():
        return label
    raise DataFolderError(f"{where} has no label; write the file again without such rows")


def _folder_names(labels: set[int | str]) -> dict[int | str, str]:
    """Names of folders by label, in whose order numbers are. Raises DataFolderError where two would be one folder."""
    width = max((len(str(label)) for label in labels), default=0)
    folders = {label: _folder_name(f"{label:0{width}}" if isinstance(label, int) else label) for label in labels}
    if len(set(folders.values())) < len(folders):
        same = next(name for name in folders.values() if list(folders.values()).count(name) > 1)
        both = " and ".join(str(label) for label, name in folders.items() if name == same)
        raise DataFolderError(f"the classes {both} would be one folder, {same}; rename one of them")
    return folders


def _folder_name(text: str) -> str:
    text = unicodedata.normalize("NFC", text.strip())
    text = "".join("_" if letter in '/\\<>:"|?*' or not letter.isprintable() else letter for letter in text)
    text = text.encode("utf-8", "replace")[:_MOST_NAME_BYTES].decode("utf-8", "ignore")
    return f"_{text}" if is_hidden(text) else text


def _line(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
