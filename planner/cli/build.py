"""The composition root: builds the objects that commands work with."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache

from planner.cli.person import Nobody
from planner.clock import Clock, SystemClock
from planner.events import Event
from planner.journal import Journal
from planner.launch import Person
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


def providers(settings: Settings) -> Callable[[str], Provider]:
    """Makes each provider when it is first asked for."""
    return cache(lambda name: provider(name, settings))


def runner(kept: Journal, settings: Settings, listen: Callable[[Event], None], person: Person | None = None) -> Runner:
    return Runner(providers(settings), kept, settings, clock(), listen, person or Nobody())
