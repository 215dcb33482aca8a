"""The doubles that launches are killed on: one row for each, held against the table of vendors by
tests/unit/test_vendors.py."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, cast

from trainplan.providers.registry import SIMULATED

if TYPE_CHECKING:
    from tests.faults.random_cloud import MakeRandomCloud
    from tests.faults.verdict import MakeCloud


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`provider` is the vendor, as offers and the journal name it: one may have two doubles.

    `world` is a class of tests/faults/<name>.py, `by_chance` one of tests/faults/random_<name>.py; `create` is the call
    that makes a machine. A tenth of the double's points are at least `least_points`: fewer, and the points are not
    counted as they were. `sequences` of random commands take half a minute of processor time.
    """

    name: str
    provider: str
    world: str
    by_chance: str
    create: str
    least_points: int = 0
    sequences: int = 0


ROWS = (
    Row(name="sim", provider="sim", world="SimCloud", by_chance="RandomSim", create="RunInstance"),
    Row(
        name="aws", provider="aws", world="AwsCloud", by_chance="RandomAws", create="RunInstances", least_points=150,
        sequences=10,
    ),
    Row(
        name="gcp", provider="gcp", world="GcpCloud", by_chance="RandomGcp", create="insert", least_points=150,
        sequences=20,
    ),
    Row(
        name="tpu", provider="gcp", world="TpuCloud", by_chance="RandomTpu", create="CreateQueuedResource",
        least_points=300, sequences=20,
    ),
    Row(
        name="azure", provider="azure", world="AzureCloud", by_chance="RandomAzure", create="PUT virtualMachines",
        least_points=250, sequences=50,
    ),
    Row(
        name="slurm", provider="slurm", world="SlurmCloud", by_chance="RandomSlurm", create="sbatch", least_points=150,
        sequences=50,
    ),
)  # fmt: skip
NAMES = tuple(row.name for row in ROWS)
REAL = tuple(row for row in ROWS if row.provider != SIMULATED)
_BY_NAME = {row.name: row for row in ROWS}


def row_of(name: str) -> Row:
    return _BY_NAME[name]


def cloud_of(name: str) -> MakeCloud:
    """The double of this name, imported when it is asked for: each client carries what is imported."""
    return cast("MakeCloud", getattr(import_module(f"tests.faults.{name}"), _BY_NAME[name].world))


def random_cloud(name: str) -> MakeRandomCloud:
    """The same in a world out of chance."""
    module = import_module(f"tests.faults.random_{name}")
    return cast("MakeRandomCloud", getattr(module, _BY_NAME[name].by_chance))
