"""The composition root: builds the objects that commands work with."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Protocol, runtime_checkable

from planner.cli.person import Nobody
from planner.client import Client, own_client
from planner.clock import Clock, ProviderClock, SystemClock
from planner.errors import BadInputError
from planner.events import Event
from planner.journal import Journal
from planner.launch import Person
from planner.runner import Runner
from planner.settings import Settings
from pricing.given import OfferSource
from pricing.offers import OfferQuery
from providers.base import Provider, ProviderSettings, Timekeeper
from providers.billed import BillTeller
from providers.registry import bill_teller as make_bill_teller
from providers.registry import names
from providers.registry import provider as make_provider
from providers.sign_ins import may_be_signed_in


@runtime_checkable
class Closing(Protocol):
    """What some providers can do besides: let go of their connections at the end of a command."""

    def close(self) -> None: ...


_OPEN: list[Closing] = []
_TOLD: set[str] = set()
"""The providers whose clock the person was told of by this command."""


def clock() -> Clock:
    return SystemClock()


def clock_of(asked: Provider) -> Clock:
    """The time that a provider lives in: a simulated cloud has its own, others tell theirs with their answers."""
    return asked if isinstance(asked, Timekeeper) else ProviderClock(asked, clock(), _tell_once)


def _tell_once(provider: str, text: str) -> None:
    if provider not in _TOLD:
        _TOLD.add(provider)
        sys.stderr.write(f"{text}\n")


def provider_names(given: str | None) -> tuple[str, ...]:
    """The provider that was asked for, or all of them. Raises BadInputError for one that is not there."""
    if given is not None and given not in names():
        raise BadInputError(f"there is no provider {given!r}", f"known: {', '.join(names())}")
    return (given,) if given else names()


def is_used(name: str, settings: Settings) -> bool:
    """Whether a provider needs no credentials, or there are settings or traces of credentials for it here."""
    return bool(settings.clouds.get(name)) or may_be_signed_in(name, os.environ)


def given(providers: Sequence[str], settings: Settings) -> Callable[[OfferSource], OfferSource] | None:
    """The offers of the simulated cloud, where it alone was asked for: the catalog has what can really be rented."""
    if tuple(providers) != ("sim",):
        return None
    from pricing.given import GivenOffers
    from providers.sim.catalogue import RATES

    return lambda catalog: GivenOffers(provider("sim", settings).offers(OfferQuery()), RATES, catalog)


def client(settings: Settings) -> Client:
    """The client that this home is; what the person has to know of it goes to stderr."""
    found = own_client(settings)
    if found.notice:
        sys.stderr.write(f"{found.notice}\n")
    return found


def journal(settings: Settings) -> Journal:
    client(settings)  # before the journal is brought to its newest schema: that tells which ids were this home's
    return Journal.open(settings.journal, _tell)


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def provider(name: str, settings: Settings) -> Provider:
    """The provider of this name, with the person's settings for it; its connections are closed by `let_go`.

    What a vendor's SDK logs is kept off the terminal: what matters of it comes as an error of ours. Without a handler
    Python would write it to standard error.
    """
    _keep_logs_quiet()
    made = make_provider(name, _options_of(name, settings))
    if isinstance(made, Closing):
        _OPEN.append(made)
    return made


def bill_teller(name: str, settings: Settings) -> BillTeller | None:
    """Who lists what bills in the account of this provider; None where there is no account."""
    _keep_logs_quiet()
    return make_bill_teller(name, _options_of(name, settings))


def _keep_logs_quiet() -> None:
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(logging.NullHandler())


def _options_of(name: str, settings: Settings) -> ProviderSettings:
    return ProviderSettings(
        home=settings.home, options=settings.options_of(name), environment=os.environ, now=clock().now
    )


def let_go() -> None:
    """Close what the providers of this command hold open; the command is over."""
    _TOLD.clear()
    while _OPEN:
        _OPEN.pop().close()


def providers(settings: Settings) -> Callable[[str], Provider]:
    """Makes each provider when it is first asked for."""
    return cache(lambda name: provider(name, settings))


def runner(
    kept: Journal,
    settings: Settings,
    listen: Callable[[Event], None],
    where: str,
    person: Person | None = None,
    made: Callable[[str], Provider] | None = None,
) -> Runner:
    """Acts on runs at the provider `where`, in its time; `made` gives the providers that the command has already."""
    made = made or providers(settings)
    return Runner(made, kept, settings, clock_of(made(where)), listen, person or Nobody())
