"""`make soak`: many random sequences at one cloud by several workers; seeds that fail are named, and end it with 1."""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import sys
from functools import partial
from typing import TYPE_CHECKING

from tests.faults.clouds import NAMES
from tests.faults.pilot_sequences import PilotSequence
from tests.faults.sequences import Sequence, played, template

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

_AT_A_TIME = {"sim": 20}
"""Sequences that a worker is given at once: those of a real cloud's double take seconds."""


def main(arguments: list[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    seeds = [asked.seed] if asked.seed is not None else range(asked.first, asked.first + asked.sequences)
    failed = tried = 0
    with template() as empty, _mapping(asked) as over:
        wrong_of = partial(_wrong, empty=empty, name=asked.provider, defect=asked.defect, pilots=asked.pilots)
        for wrong in over(wrong_of, seeds):
            tried += 1
            failed += bool(wrong)
            if wrong:
                sys.stderr.write(f"{wrong}\n")
                sys.stderr.flush()
            if wrong and asked.defect:
                break
    sys.stdout.write(f"sequences {tried}, failed {failed}\n")
    return 1 if failed else 0


@contextlib.contextmanager
def _mapping(options: argparse.Namespace) -> Iterator[Callable[[Callable[[int], str], Iterable[int]], Iterable[str]]]:
    """How the seeds are gone through; with one worker in this process."""
    if options.workers == 1:
        yield map
        return
    with multiprocessing.get_context("fork").Pool(options.workers) as pool:
        yield partial(pool.imap_unordered, chunksize=_AT_A_TIME.get(options.provider, 1))


def _wrong(seed: int, empty: Path, name: str, defect: str, *, pilots: bool = False) -> str:
    if defect:
        _plant(defect)
    try:
        played(seed, empty, name, PilotSequence if pilots else Sequence)
    except AssertionError as error:
        return str(error)
    return ""


def _plant(defect: str) -> None:
    """Once for each process: it stays."""
    from tests.faults.planted import planted

    if defect not in _PLANTED:
        planted(defect).plant()
        _PLANTED.add(defect)


_PLANTED: set[str] = set()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    parser.add_argument("--provider", default="sim", choices=NAMES)
    parser.add_argument("--sequences", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--pilots", action="store_true", help="launches are pilots under one cap (the sim alone)")
    parser.add_argument("--defect", default="", help="plant this one, and end with the first sequence that notices it")
    return parser


if __name__ == "__main__":
    sys.exit(main())
