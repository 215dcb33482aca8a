"""`make soak`: many random sequences by several workers; the seeds that fail are named, and end it with 1."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from functools import partial
from typing import TYPE_CHECKING

from tests.faults.sequences import played, template

if TYPE_CHECKING:
    from pathlib import Path


def main(arguments: list[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    seeds = [asked.seed] if asked.seed is not None else range(asked.first, asked.first + asked.sequences)
    failed = 0
    with template() as empty, multiprocessing.get_context("fork").Pool(asked.workers) as pool:
        for wrong in pool.imap_unordered(partial(_wrong, empty=empty), seeds, chunksize=20):
            if wrong:
                failed += 1
                sys.stderr.write(f"{wrong}\n")
                sys.stderr.flush()
    sys.stdout.write(f"sequences {len(seeds)}, failed {failed}\n")
    return 1 if failed else 0


def _wrong(seed: int, empty: Path) -> str:
    try:
        played(seed, empty)
    except AssertionError as error:
        return str(error)
    return ""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    parser.add_argument("--sequences", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--workers", type=int, default=2)
    return parser


if __name__ == "__main__":
    sys.exit(main())
