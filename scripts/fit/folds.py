"""The folds: which rows are tested, and everything that is taken out before the model is fitted for them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainplan.planner.throughput.setup import Library
from trainplan.planner.throughput.values import Parallelism

if TYPE_CHECKING:
    from scripts.fit.others import Other
    from scripts.fit.pairs import Pair
    from scripts.fit.rows import Row

FILE = Path(__file__).parent / "folds.json"


@dataclass(frozen=True, kw_only=True)
class Fold:
    """`test` names the table it belongs to, `name` what is left out; `tested` and `trained` are ids. `hidden` are the
    sources and devices whose other nets are left out too."""

    test: str
    name: str
    tested: frozenset[str]
    trained: frozenset[str]
    hidden: frozenset[tuple[str, str]] = frozenset()


UNSEEN_NET = "unseen_vgg"
BETWEEN = "vgg_between"
CONFIGURATION = "held_out_configuration"
CONFIGURATION_SEVERAL = "held_out_configuration_several_gpus"
SOURCE = "unseen_source"
DEVICE = "unseen_gpu"
ARCHITECTURE = "unseen_architecture"
SHARING = "several_gpus"
SHARING_STRICT = "several_gpus_source_and_gpu_unseen"
LIBRARY = "several_gpus_library_unseen"
DATA_PARALLEL = "several_gpus_dataparallel"
PRECISION = "unseen_precision"
TESTS = (
    *(UNSEEN_NET, BETWEEN, CONFIGURATION, CONFIGURATION_SEVERAL, SOURCE, DEVICE, ARCHITECTURE),
    *(SHARING, SHARING_STRICT, LIBRARY, DATA_PARALLEL, PRECISION),
)
EC2 = "profet"


def folds(rows: Sequence[Row]) -> list[Fold]:
    """Every fold. Groups follow from the rows themselves; only the configurations' shuffle is kept in folds.json."""
    return [
        *_unseen_nets(rows),
        *_configurations(rows),
        *_sources(rows),
        *_devices(rows),
        *_architectures(rows),
        *_sharing(rows),
        *_libraries(rows),
        *_precisions(rows),
    ]


def trained_pairs(fold: Fold, rows: Sequence[Row], pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs of other nets that a fold is fitted to: none of a source, a device, a library, or several devices of a
    source and a device, of which the fold leaves every row out."""

    sources = _keys_left_out(fold, rows, _source)
    devices = _keys_left_out(fold, rows, lambda row: row.setup.device)
    libraries = _keys_left_out(fold, rows, lambda row: row.setup.library)
    several = _keys_left_out(fold, rows, lambda row: (_source(row), row.setup.device, row.setup.count > 1))
    return [
        pair
        for pair in pairs
        if pair.source not in sources
        and pair.device not in devices
        and pair.library not in libraries
        and (pair.source, pair.device, True) not in several
    ]


def trained_others(fold: Fold, rows: Sequence[Row], others: Sequence[Other]) -> list[int]:
    """The places of the other nets' series that a fold is fitted to: none of a source, a device, or a precision of a
    device of which it leaves every row out, and none of what it hides."""
    sources = _keys_left_out(fold, rows, _source)
    devices = _keys_left_out(fold, rows, lambda row: row.setup.device)
    precisions = _keys_left_out(fold, rows, lambda row: (row.setup.device, row.setup.precision))
    alone = _keys_left_out(fold, rows, lambda row: (_source(row), row.setup.device, row.setup.count > 1))
    return [
        position
        for position, other in enumerate(others)
        if other.source not in sources
        and other.setup.device not in devices
        and (other.setup.device, other.setup.precision) not in precisions
        and (other.source, other.setup.device, False) not in alone
        and (other.source, other.setup.device) not in fold.hidden
    ]


def _keys_left_out(fold: Fold, rows: Sequence[Row], key: Callable[[Row], object]) -> set[object]:
    """The keys of which a fold leaves every row out."""
    return {key(row) for row in rows} - {key(row) for row in rows if row.measurement.id in fold.trained}


def _fold(test: str, name: str, tested: Sequence[Row], out: Sequence[Row], rows: Sequence[Row]) -> Fold:
    left_out = {row.measurement.id for row in out} | {row.measurement.id for row in tested}
    return Fold(
        test=test,
        name=name,
        tested=frozenset(row.measurement.id for row in tested),
        trained=frozenset(row.measurement.id for row in rows if row.measurement.id not in left_out),
    )


def _unseen_nets(rows: Sequence[Row]) -> Iterator[Fold]:
    """Every row of a VGG out, with and without batch norm; the EC2 rows tested. VGG16 is also the one between."""
    for net in ("vgg11", "vgg16", "vgg19"):
        out = [row for row in rows if row.measurement.model.removesuffix("_bn") == net]
        tested = [row for row in out if _source(row) == EC2]
        yield _fold(UNSEEN_NET, net, tested, out, rows)
    for net in ("vgg13", "vgg16"):
        out = [row for row in rows if row.measurement.model.removesuffix("_bn") == net]
        tested = [row for row in out if row.setup.count == 1 and (net == "vgg13" or _source(row) == EC2)]
        yield _fold(BETWEEN, net, tested, out, rows)


def _configurations(rows: Sequence[Row]) -> Iterator[Fold]:
    parts: dict[str, list[str]] = json.loads(FILE.read_text(encoding="utf-8"))["configurations"]
    for name, ids in parts.items():
        tested = [row for row in rows if row.measurement.id in set(ids)]
        yield _fold(CONFIGURATION, name, tested, tested, rows)


def _sources(rows: Sequence[Row]) -> Iterator[Fold]:
    """A source out as a whole; tested on each device that another source measured too, one device alone."""
    single = [row for row in rows if row.setup.count == 1]
    sources_of = Counter(device for _, device in {(_source(row), row.setup.device) for row in single})
    for source, device in sorted({(_source(row), row.setup.device) for row in single}):
        if sources_of[device] > 1:
            tested = [row for row in single if (_source(row), row.setup.device) == (source, device)]
            yield _fold(SOURCE, f"{source}, {device}", tested, [row for row in rows if _source(row) == source], rows)


def _devices(rows: Sequence[Row]) -> Iterator[Fold]:
    """A device out with every variant of it; tested alone."""
    for device in sorted({row.setup.device for row in rows}):
        out = [row for row in rows if row.setup.device == device]
        tested = [row for row in out if row.setup.count == 1]
        if tested:
            yield _fold(DEVICE, device, tested, out, rows)


def _architectures(rows: Sequence[Row]) -> Iterator[Fold]:
    for architecture in ("volta", "turing", "ampere"):
        out = [row for row in rows if row.setup.rates.architecture == architecture]
        yield _fold(ARCHITECTURE, architecture, [row for row in out if row.setup.count == 1], out, rows)


def _sharing(rows: Sequence[Row]) -> Iterator[Fold]:
    """Several devices of a (source, device) out: once with what one alone did kept, once with all of it out."""
    shared = [row for row in rows if row.setup.count > 1]
    for source, device in sorted({(_source(row), row.setup.device) for row in shared}):
        pair = [row for row in rows if (_source(row), row.setup.device) == (source, device)]
        several = [row for row in pair if row.setup.count > 1]
        replicas = [row for row in several if row.measurement.parallelism is not Parallelism.DATA_PARALLEL]
        scattered = [row for row in several if row.measurement.parallelism is Parallelism.DATA_PARALLEL]
        name = f"{source}, {device}"
        if replicas:
            yield _fold(SHARING, name, replicas, several, rows)
            yield replace(_fold(SHARING_STRICT, name, replicas, pair, rows), hidden=frozenset({(source, device)}))
        if scattered:
            yield _fold(DATA_PARALLEL, name, scattered, several, rows)


def _libraries(rows: Sequence[Row]) -> Iterator[Fold]:
    """A library out on every device and link; tested on each source and device. What one device alone did is kept.

    `nn.DataParallel` is not tested here: it copies weights at every step, as no other does.
    """
    shared = [row for row in rows if row.setup.count > 1 and row.setup.library is not Library.DATA_PARALLEL]
    for library in sorted({row.setup.library for row in shared}):
        out = [row for row in shared if row.setup.library is library]
        for source, device in sorted({(_source(row), row.setup.device) for row in out}):
            tested = [row for row in out if (_source(row), row.setup.device) == (source, device)]
            yield _fold(LIBRARY, f"{library}: {source}, {device}", tested, out, rows)


def _precisions(rows: Sequence[Row]) -> Iterator[Fold]:
    """A precision of a device out, another kept: what a person asks who measured in fp32 and trains in 16 bits."""
    for device in sorted({row.setup.device for row in rows}):
        mine = [row for row in rows if row.setup.device == device]
        kinds = sorted({row.setup.precision for row in mine})
        for kind in kinds if len(kinds) > 1 else []:
            out = [row for row in mine if row.setup.precision is kind]
            tested = [row for row in out if row.setup.count == 1]
            if tested:
                yield _fold(PRECISION, f"{device}, {kind}", tested, out, rows)


def _source(row: Row) -> str:
    return row.measurement.source.partition("-")[0]
