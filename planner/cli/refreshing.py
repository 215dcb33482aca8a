"""Reading price lists again: what `plan prices` and a first estimate share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trainplan.planner import __version__
from trainplan.planner.clock import SystemClock
from trainplan.planner.errors import ThisMachineError
from trainplan.pricing.catalog import CatalogError
from trainplan.pricing.refresh import Outcome, known_of, refresh
from trainplan.pricing.sources.http import TRIES, UrllibHttp
from trainplan.pricing.sources.news import Asking, news_of
from trainplan.pricing.sources.reading import SourceError


def make_asking(say: Callable[[str], None], regions: frozenset[str], tries: int = TRIES) -> Asking:
    """How the lists are asked for: with this computer's environment, now, each request at most `tries` times.

    Of `regions` alone (empty: of all); `say` is told of each part that was read.
    """
    clock = SystemClock()
    return Asking(
        http=UrllibHttp(clock.sleep, f"trainplan/{__version__}", tries),
        environment=os.environ,
        now=clock.now(),
        say=say,
        regions=regions,
    )


def refresh_provider(name: str, asking: Asking, home: Path, *, accept: bool) -> Outcome | SourceError:
    """Refresh one provider after the other; an error of one does not stop the others."""
    sys.stderr.write(f"{name}: reading\n")
    try:
        return refresh(name, news_of(known_of(name, home), asking), home, accept=accept)
    except SourceError as error:
        return SourceError(f"{name}: {error.message}", error.hint)


@contextmanager
def refresh_lock(home: Path) -> Iterator[None]:
    """One refresh at a time in a state folder. Raises ThisMachineError."""
    from filelock import FileLock, Timeout

    try:
        home.mkdir(parents=True, exist_ok=True)
        with FileLock(home / "prices.lock", timeout=0):
            yield
    except Timeout:
        raise ThisMachineError("another refresh is under way", "wait for it to end") from None


@contextmanager
def errors_in_words() -> Iterator[None]:
    """Files that cannot be read or written are errors in words: ThisMachineError."""
    try:
        yield
    except CatalogError as error:
        raise ThisMachineError(str(error), error.hint) from None
    except (OSError, ValueError) as error:
        hint = "look at $PLAN_HOME, or install again"
        raise ThisMachineError(f"the prices cannot be read or written: {error}", hint) from None
