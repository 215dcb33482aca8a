"""The compiled measurements: where they lie, and the rows of one device as evidence."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner.throughput.evidence import EvidenceRow
from trainplan.planner.throughput.nets import convolutions_of
from trainplan.planner.throughput.setup import family_of, library_of, link_of, precision_of, source_name
from trainplan.planner.throughput.values import Parallelism

if TYPE_CHECKING:
    from collections.abc import Iterable

SHIPPED_TABLE = Path(__file__).parent / "data" / "measurements.sqlite"


class MissingTableError(RuntimeError):
    """The compiled measurements are not there, or are none."""


def open_table(path: Path) -> sqlite3.Connection:
    """Read-only. Raises MissingTableError where the table has not been compiled."""
    if not path.is_file():
        raise MissingTableError(f"{path} is missing; make it with: python -m trainplan.planner.throughput.compile")
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)


# The rows the model was fitted to: see scripts/fit/rows.py.
_SELECT = """SELECT id, model, image_size_px, batch_per_device, device_count, precision, xla, framework,
 framework_version, layout, source, node_count, interconnect, parallelism, device FROM measurements
 WHERE device IN ({}) AND model GLOB 'vgg[0-9]*' AND mode = 'train' AND quality != 'C'
 AND batch_per_device IS NOT NULL"""


def seen_on(database: sqlite3.Connection, names: Iterable[str], group: str, architecture: str) -> list[EvidenceRow]:
    """The measurements of the devices `names`, all of one group. Raises MissingTableError for another file."""
    found_names = tuple(names)
    try:
        with closing(database.execute(_SELECT.format(", ".join("?" * len(found_names))), found_names)) as rows:
            return [_evidence_row(row, group, architecture) for row in rows]
    except sqlite3.DatabaseError as error:
        raise MissingTableError(f"the measurements cannot be read: {error}") from error


_ANCHORS = """SELECT id FROM measurements WHERE device IN ({}) AND mode = 'train' AND quality != 'C'
 ORDER BY model != ?, device_count > 1, precision NOT LIKE ?, model != 'resnet50', id LIMIT 4"""


def anchors_on(database: sqlite3.Connection, names: Iterable[str], model: str, precision: str) -> list[str]:
    """The measurements of the devices `names` that carry a prediction of another network, those named first that are
    nearest: of the same network, of one device, in the same precision. Raises MissingTableError for another file."""
    found_names = tuple(names)
    alike = "%16" if precision == "half" else precision
    try:
        query = _ANCHORS.format(", ".join("?" * len(found_names)))
        with closing(database.execute(query, (*found_names, model.removesuffix("_bn"), alike))) as rows:
            return [str(id_) for (id_,) in rows]
    except sqlite3.DatabaseError as error:
        raise MissingTableError(f"the measurements cannot be read: {error}") from error


def _evidence_row(row: tuple[object, ...], group: str, architecture: str) -> EvidenceRow:
    (
        id_,
        model,
        size,
        batch,
        count,
        precision,
        xla,
        framework,
        version,
        layout,
        source,
        nodes,
        link,
        parallelism,
        device,
    ) = (str(cell) for cell in row)
    return EvidenceRow(
        id=id_,
        model=model,
        convolutions=convolutions_of(model),
        image_size_px=int(size),
        batch=int(batch),
        count=int(count),
        precision=precision_of(precision),
        xla=xla == "yes",
        family=family_of(framework),
        source=source_name(source, framework, version, layout),
        device=group,
        architecture=architecture,
        link=link_of(int(count), int(nodes), link, Parallelism(parallelism), device),
        library=library_of(int(count), Parallelism(parallelism), framework),
    )


class Cited(NamedTuple):
    """A measurement that a prediction rests on: who published it where, its device, its quality, its date as stated."""

    id: str
    device: str
    source: str
    address: str
    quality: str
    measured_on: str


def cited(ids: Iterable[str], path: Path = SHIPPED_TABLE) -> list[Cited]:
    """Those of the ids that the shipped table has, in order. Raises MissingTableError."""
    wanted = sorted(set(ids))
    with closing(open_table(path)) as database:
        rows = database.execute(
            "SELECT id, device, measurements.source, address, quality, measured_on FROM measurements "
            f"LEFT JOIN sources USING (source) WHERE id IN ({', '.join('?' * len(wanted))}) ORDER BY id",
            wanted,
        )
        return [Cited(*(str(cell or "") for cell in row)) for row in rows]


def source_addresses(database: sqlite3.Connection) -> dict[str, str]:
    """The short name of each shipped source by its address, without the commit."""
    with closing(database.execute("SELECT address, source FROM sources")) as rows:
        return {str(address).partition("@")[0]: str(source).partition("-")[0] for address, source in rows}
