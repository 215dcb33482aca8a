"""Reading price lists again: what `plan prices` and a first estimate share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from trainplan.planner import __version__
from trainplan.planner.cli.streams import unfiltered
from trainplan.planner.clock import SystemClock
from trainplan.planner.errors import PlanError, ThisMachineError
from trainplan.pricing.catalog import CatalogError
from trainplan.pricing.refresh import Outcome, known_of, refresh
from trainplan.pricing.sources import READERS
from trainplan.pricing.sources.http import TRIES, Limits, UrllibHttp
from trainplan.pricing.sources.news import Asking, news_of
from trainplan.pricing.sources.reading import SourceError
from trainplan.providers.registry import is_estimated_only

CLOUDS = tuple(name for name in READERS if not is_estimated_only(name))
"""The vendors that are read where nobody names one: most people have no key of those at which nothing is launched."""
_BAR_WIDTH = 24


def refreshed(
    names: Sequence[str],
    home: Path,
    say: Callable[[str], None],
    *,
    regions: frozenset[str] = frozenset(),
    accept: bool = False,
    tries: int = TRIES,
) -> list[Outcome | SourceError]:
    """Refresh one provider after the other, of `regions` alone (empty: of all); an error of one stops no other.

    `say` is told what came of each kind of list, and a bar shows how many have come where stderr is a terminal. Each
    request is sent at most `tries` times. Raises PlanError where the catalog cannot be read or written.
    """
    clock, limits = SystemClock(), Limits()
    with errors_in_words(), _bar(limits) as show:
        http = UrllibHttp(clock.sleep, f"trainplan/{__version__}", tries, limits)
        asking = Asking(http=http, environment=os.environ, now=clock.now(), say=say, regions=regions)
        return [_refreshed(name, asking, home, say, show, accept=accept) for name in names]


def _refreshed(
    name: str,
    asking: Asking,
    home: Path,
    say: Callable[[str], None],
    show: Callable[[str, int, int], None],
    *,
    accept: bool,
) -> Outcome | SourceError:
    def say_of(line: str) -> None:
        say(f"{name}: {line}")

    def progress(done: int, of: int) -> None:
        show(name, done, of)

    try:
        news = news_of(known_of(name, home), replace(asking, say=say_of, progress=progress))
        return refresh(name, news, home, accept=accept)
    except SourceError as error:
        return SourceError(f"{name}: {error.message}", error.hint)


@contextmanager
def _bar(limits: Limits) -> Iterator[Callable[[str, int, int], None]]:
    """A bar on stderr that is gone afterwards; where that is no terminal, nothing."""
    if not sys.stderr.isatty():
        yield _ignore
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(file=unfiltered(sys.stderr), highlight=False)
    columns = TextColumn("{task.description}"), BarColumn(bar_width=_BAR_WIDTH), TextColumn("{task.fields[read]}")
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as progress:
        task = progress.add_task("prices", total=None, read="")

        def show(name: str, done: int, of: int) -> None:
            read = f"{done} of {of} lists, {limits.received / 1e6:.1f} MB"
            progress.update(task, description=name, completed=done, total=of, read=read)

        yield show


def _ignore(*values: object) -> None:
    """Show nothing."""


def outcome_line(provider: str, outcome: Outcome | SourceError) -> str:
    """What came of reading a provider's prices, in a line below an estimate."""
    if isinstance(outcome, SourceError):
        return f"{outcome.message}; the known prices are used"
    why = "; ".join(dict.fromkeys(text for _, text in outcome.failed))
    if not outcome.read:
        return f"{provider}: its prices were not read: {why}; the known prices are used"
    if outcome.hold_reasons:
        return f"{provider}: its list changes too much to be believed; plan prices refresh {provider} shows how"
    held_count = len(outcome.merged.held_prices)
    held = f"; {held_count:,} held back (plan prices show --held)" if held_count else ""
    return f"{provider}: {outcome.changes.text}{f'; not read: {why}' if why else ''}{held}"


def is_used(outcome: Outcome | SourceError) -> bool:
    """Whether prices were read and are used."""
    return isinstance(outcome, Outcome) and bool(outcome.read) and not outcome.hold_reasons


def refreshed_beside(home: Path) -> bool:
    """Refresh the clouds beside an estimate, each request sent once, and say in a line each what came of it.

    Whether any prices may have changed. Never raises PlanError: the known prices are used."""
    try:
        with refresh_lock(home):
            outcomes = refreshed(CLOUDS, home, _ignore, tries=1)
    except PlanError as error:
        sys.stderr.write(f"prices were not read: {error.message}; the known prices are used\n")
        return False
    for provider, outcome in zip(CLOUDS, outcomes, strict=True):
        sys.stderr.write(f"{outcome_line(provider, outcome)}\n")
    return any(map(is_used, outcomes))


def refresh_daily(home: Path) -> None:
    """What `prices.refresh = "daily"` does before estimates and launches: refresh once a day, never where `CI` is set.

    The day is written down before: without a network nobody waits twice."""
    today, last = str(SystemClock().now().date()), home / "refreshed-daily"
    if os.environ.get("CI"):
        return
    try:
        if last.is_file() and last.read_text(encoding="utf-8") == today:
            return
        home.mkdir(parents=True, exist_ok=True)
        last.write_text(today, encoding="utf-8")
    except (OSError, ValueError):
        return
    refreshed_beside(home)


@contextmanager
def refresh_lock(home: Path) -> Iterator[None]:
    """One refresh at a time in a state folder. Raises ThisMachineError, also where the folder cannot be written."""
    from filelock import FileLock, Timeout

    lock = FileLock(home / "prices.lock", timeout=0)
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise ThisMachineError("another refresh is under way", "wait for it to end") from None
    except (OSError, NotImplementedError) as error:  # NotImplementedError: a file system without locks
        message = f"prices cannot be kept in {home}: {getattr(error, 'strerror', None) or error}"
        raise ThisMachineError(message, "set PLAN_HOME to a folder that can be written") from None
    try:
        yield
    finally:
        lock.release()


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
