"""What docs/accuracy.md says of each link and library: their constants, and how far off they were where held out."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from statistics import mean
from typing import TYPE_CHECKING

from scripts.fit import folds as names
from trainplan.planner.throughput.model import load_model
from trainplan.planner.throughput.setup import Library, Link

if TYPE_CHECKING:
    from scripts.fit.evaluate import Tested
    from scripts.fit.rows import Row

_ASSUMED = "no row: as plausible"


def sharing_lines(rows: Sequence[Row], tested: Sequence[Tested]) -> list[str]:
    """The shipped constants, and the held-out errors of each link with each library."""
    links = load_model().links
    of_links, of_libraries = [], []
    for link in Link:
        if link is not Link.ONE:
            count = sum(row.setup.link is link for row in rows)
            of_links.append(f"{link} {links.bytes_per_second[link] / 1e9:.1f} ({count or _ASSUMED})")
    for library in Library:
        if library is not Library.ONE:
            one = links.libraries[library]
            count = sum(row.setup.library is library for row in rows)
            ground = count or ("other nets alone" if library is Library.DDP else _ASSUMED)
            of_libraries.append(
                f"{library} {one.reach:.2f}, {one.hop_seconds * 1e3:.1f} ms, {one.jitter:.1%} ({ground})"
            )
    return [
        f"- Links, GB/s (VGG rows): {'; '.join(of_links)}.",
        "- Libraries, reach of the link, time and jitter a doubling (VGG rows): " + "; ".join(of_libraries) + ".",
        *_errors(rows, tested),
    ]


def _errors(rows: Sequence[Row], tested: Sequence[Tested]) -> list[str]:
    """A line for each test."""
    setups = {row.measurement.id: row.setup for row in rows}
    tests: dict[tuple[Link, Library, str], dict[str, list[Tested]]] = defaultdict(lambda: defaultdict(list))
    for row in tested:
        if row.test in (names.SHARING, names.DATA_PARALLEL):
            setup = setups[row.id]
            tests[setup.link, setup.library, row.test][row.fold].append(row)
    told: dict[str, list[str]] = defaultdict(list)
    for (link, library, test), folds in sorted(tests.items()):
        every = [row for part in folds.values() for row in part]
        # Each fold once: a card and its source are off as a whole.
        spread = math.sqrt(mean(mean(row.off**2 for row in part) for part in folds.values()))
        error = mean(abs(row.error) for row in every)
        told[test].append(f"{link} with {library} {error:.1%} ({math.exp(spread):.2f}, {len(folds)}, {len(every)})")
    return [f"- `{test}`: MAPE (spread, folds, rows): {'; '.join(told[test])}." for test in sorted(told)]
