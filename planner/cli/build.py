"""The composition root: builds the objects that commands work with."""

from __future__ import annotations

import os
from collections.abc import Callable

from planner.clock import Clock, SystemClock
from planner.events import Event
from planner.journal import Journal
from planner.runner import Runner
from planner.settings import Settings
from providers.base import Provider, ProviderSettings
from providers.registry import provider as make_provider


def clock() -> Clock:
    return SystemClock()


def journal(settings: Settings) -> Journal:
    return Journal.open(settings.journal)


def provider(name: str, settings: Settings) -> Provider:
    """The provider of this name, with the person's settings for it."""
    return make_provider(
        name,
        ProviderSettings(
            home=settings.home, options=settings.provider_options, environment=os.environ, now=clock().now
        ),
    )


def runner(asked: Provider, kept: Journal, settings: Settings, listen: Callable[[Event], None]) -> Runner:
    return Runner(asked, kept, settings, clock(), listen)
