"""What the pilots of a command act with: lines on stderr, a question at the terminal, and what Ctrl-C means there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trainplan.planner.api import build
from trainplan.planner.api.launching import Desk
from trainplan.planner.api.piloting import PilotDesk
from trainplan.planner.cli.live_view import LiveView
from trainplan.planner.cli.person import person
from trainplan.planner.cli.screen import show
from trainplan.planner.runs.telling.news import News
from trainplan.providers import interrupts

if TYPE_CHECKING:
    from trainplan.planner.report.page import Page
    from trainplan.planner.runs.proposal.make_proposal import Surroundings


def pilot_desk(around: Surroundings, *, is_agreed: bool) -> PilotDesk:
    """Shows on stderr; `is_agreed` where --yes was typed."""

    @contextmanager
    def opened() -> Iterator[Desk]:
        with (
            LiveView(sys.stderr, build.clock().now) as view,
            build.journal(around.settings) as journal,
            interrupts.noted(),
        ):
            client = person(view, News(journal, around.provider_of, build.clock()))
            yield Desk(around=around, journal=journal, view=view, person=client, show=show_aside)

    return PilotDesk(around=around, show=show_aside, opened=opened, is_agreed=is_agreed)


def show_aside(page: Page) -> None:
    """Show a page on stderr: stdout is for the answer."""
    show(page, stream=sys.stderr)
