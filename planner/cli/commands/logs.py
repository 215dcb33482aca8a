"""`plan logs`: what a run has said, of all its attempts."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from trainplan.planner.api import build
from trainplan.planner.cli import options
from trainplan.planner.cli.streams import has_failed
from trainplan.planner.runs.directory.printed import new_output
from trainplan.planner.runs.directory.progress import ProgressReader, unreadable_text
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.run import Phase, Run
from trainplan.planner.settings import Settings
from trainplan.providers.errors import InstanceNotFoundError
from trainplan.workloads.secret_rules import LineCover

FOLLOW_SECONDS = 0.5


def command(
    name: options.RunName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new output until the run ends")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the trainer's progress as JSON lines")] = False,
) -> None:
    """Print the trainer's output, or with --json its progress lines.

    What looks like a secret is shown as `…`.
    Control characters are shown as visible escapes (`\\x1b`) wherever the output goes: a pipe often ends at a terminal.
    """
    settings = options.settings()
    with build.journal(settings) as journal:
        run = journal.run(name)
        lines = _progress(run, settings, journal, follow) if as_json else _output(run, settings, journal, follow)
        cover = LineCover()
        for line in lines:
            sys.stdout.write(cover(line.rstrip("\n")) + "\n")
            sys.stdout.flush()
            if has_failed(sys.stdout):  # nobody reads on, however long the run goes on
                return


def _progress(run: Run, settings: Settings, journal: Journal, follow: bool) -> Iterator[str]:
    readers: dict[int, ProgressReader] = {}
    for now, _ in _rounds(run, journal, follow):
        # Anew in each round: an interrupted run may go on at another provider.
        store = build.provider(now.provider, settings).store(run.run_id)
        for attempt in now.attempts:
            reader = readers.setdefault(attempt.number, ProgressReader(store, attempt.number))
            yield from (json.dumps(line) for line in reader.new_lines())
    if skipped := unreadable_text(sum(reader.unreadable for reader in readers.values())):
        sys.stderr.write(f"{skipped}\n")


def _output(run: Run, settings: Settings, journal: Journal, follow: bool) -> Iterator[str]:
    counts: dict[str, int] = {}
    for now, is_last in _rounds(run, journal, follow):
        run = now
        store = build.provider(run.provider, settings).store(run.run_id)
        for attempt in run.attempts:
            yield from new_output(store, f"attempts/{attempt.number}/log", counts, is_last=is_last)
    if not any(counts.values()) and run.attempt is not None and run.attempt.ref is not None:
        try:
            yield from build.provider(run.provider, settings).logs(run.attempt.ref)
        except InstanceNotFoundError:
            yield "(no output was kept)"


def _rounds(run: Run, journal: Journal, follow: bool) -> Iterator[tuple[Run, bool]]:
    """The run as it stands, once; or while it goes on, attempt after attempt, and once more. With it, whether it is the
    last time."""
    clock = build.clock()
    while follow and (now := journal.run(run.run_id)).phase is not Phase.DONE:
        yield now, False
        clock.sleep(FOLLOW_SECONDS)
    # Once more after the end: what was written since the last round is still unread.
    yield journal.run(run.run_id), True
