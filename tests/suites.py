"""Which suite a test module belongs to, which command runs the suite, and how many minutes it may take.

A suite that is added gets a row here. In `make check` it gets at most `MOST_MINUTES_OF_A_NEW_SUITE`; what takes longer
goes to `make faults` or `make e2e`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MOST_MINUTES_OF_A_NEW_SUITE = 3.0
CI_MINUTES = 45.0
"""`.ci/run` from nothing on two idle cores."""
SET_UP_MINUTES = 6.0
"""Of these: installation, container engine, lint, types."""
CORES = 2


UNKNOWN = "tests"
"""What has no row of its own: `tests/unit/test_suites.py` fails then."""


class Command(StrEnum):
    """Of a suite of `TEST` all tests run in `make test`, but for those in containers; of a suite of `CHECK`, the tests
    marked `sample`. All others run in `make check`."""

    TEST = "make test"
    CHECK = "make check"


@dataclass(frozen=True, slots=True)
class Suite:
    """`path` is a folder or a module below the repository's root. Of several rows that fit, the longest path counts.

    `minutes` is the budget: what all tests of the suite may take together, on two idle cores. A suite whose tests
    start several processes, or wait for containers, is counted by the clock all the same.
    """

    path: str
    command: Command
    minutes: float

    def has(self, path: str) -> bool:
        return path == self.path or path.startswith(f"{self.path}/")


SUITES = (
    Suite("tests/faults/test_cloud_points.py", Command.CHECK, 12),
    Suite("tests/faults/test_random_clouds.py", Command.CHECK, 4),
    Suite("tests/faults/test_random_faults.py", Command.CHECK, 3),
    Suite("tests/faults", Command.CHECK, 3),
    Suite("tests/e2e/test_rented_machine.py", Command.CHECK, 5),
    Suite("tests/e2e/test_rented_endings.py", Command.CHECK, 3),
    Suite("tests/e2e/test_slurm.py", Command.CHECK, 3),
    Suite("tests/e2e/computer", Command.CHECK, 6),  # more than a new suite may: mostly it waits for a deadline
    Suite("tests/e2e", Command.CHECK, 6),
    Suite("tests/drill", Command.CHECK, 2),
    Suite("tests/browser", Command.CHECK, 2),
    Suite("tests/places", Command.CHECK, 2),
    Suite("tests/networks", Command.CHECK, 3),
    Suite("tests/users", Command.CHECK, 1),
    Suite("tests/contract/test_not_there_yet.py", Command.CHECK, 1),
    Suite("tests/contract", Command.TEST, 3),
    Suite("tests/unit/workloads", Command.TEST, 5),
    Suite("tests/unit/providers", Command.TEST, 6),
    Suite("tests/unit/planner", Command.TEST, 3.5),
    Suite("tests/unit/pricing", Command.TEST, 1),
    Suite("tests/extensions", Command.TEST, 0.5),
    Suite("tests/unit", Command.TEST, 1),
    Suite("tests/hostile", Command.TEST, 1),
    Suite("tests/fuzz", Command.TEST, 1),
    Suite(UNKNOWN, Command.CHECK, 0),
)
"""The longest first: pytest-xdist starts their modules in this order, so that no core is idle at the end."""


def suite_of(path: str) -> Suite:
    """The suite of a module, by its path below the repository's root with forward slashes."""
    return max((suite for suite in SUITES if suite.has(path)), key=lambda suite: len(suite.path))
