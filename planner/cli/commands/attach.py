"""`plan attach`: follow a run that was left running, or continue one that was interrupted."""

from __future__ import annotations

import sys

from trainplan.planner.api import build
from trainplan.planner.api.following import to_follow
from trainplan.planner.cli import options
from trainplan.planner.cli.foreign_runs import take_over
from trainplan.planner.cli.live_view import LiveView
from trainplan.planner.cli.person import person
from trainplan.planner.cli.run_end import follow, print_ended_receipt
from trainplan.planner.runs.telling.news import News


def command(
    name: options.RunName,
    client: options.Client = None,
    as_json: options.Json = False,
) -> None:
    """Follow to the end; collect what a finished machine has left; launch an interrupted run again."""
    settings = options.settings()
    anyone = options.any_client(client)
    with LiveView(sys.stderr, build.clock().now) as view, build.journal(settings) as journal:
        run = journal.run(name)
        factory = build.providers(settings)
        other_client = person(view, News(journal, factory, build.clock()))
        runner = build.runner(journal, settings, view.show, run.provider, other_client, factory)
        if anyone:
            run = take_over(runner, run)
        request = build.further_requests(runner, run, factory, settings)
        ready = to_follow(run, runner, journal)
        if ready is None:
            print_ended_receipt(journal.run(run.run_id), journal, as_json)
            return
        follow(runner, ready, request, as_json)
