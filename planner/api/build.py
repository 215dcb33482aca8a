"""The composition root: builds the objects that commands work with."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from trainplan.planner.api.told import tell
from trainplan.planner.clock import Clock, SystemClock
from trainplan.planner.errors import BadInputError, PlanError, from_provider
from trainplan.planner.home.client import Client, own_client
from trainplan.planner.runs.execution.nobody import Nobody
from trainplan.planner.runs.journal.journal import BUSY_MILLISECONDS, Journal
from trainplan.planner.runs.proposal.live_prices import Watchful
from trainplan.planner.runs.proposal.make_proposal import Surroundings
from trainplan.planner.runs.provider_clock import ProviderClock
from trainplan.planner.runs.runner import Runner
from trainplan.providers.abilities import Closing, Timekeeper
from trainplan.providers.base import Provider, ProviderSettings, RunStore
from trainplan.providers.cloud.sign_ins import may_be_signed_in
from trainplan.providers.errors import ProviderError
from trainplan.providers.registry import FACTORIES, is_plug_in, names, plug_in_problems
from trainplan.providers.registry import bill_teller as make_bill_teller
from trainplan.providers.registry import provider as make_provider
from trainplan.workloads.nearest import nearest_names, same_name

if TYPE_CHECKING:
    from trainplan.planner.runs.events import Event
    from trainplan.planner.runs.execution.create import MakeRequest
    from trainplan.planner.runs.execution.executor import Person
    from trainplan.planner.runs.run import Run
    from trainplan.planner.settings import Settings
    from trainplan.providers.cloud.bill import BillTeller

_OPEN: list[Closing] = []
_NOTED_PROVIDERS: set[str] = set()
"""The providers whose clock the person was told of by this command."""


def clock() -> Clock:
    """The clock of this computer."""
    return SystemClock()


def clock_of(cloud: Provider) -> Clock:
    """The time that a provider lives in: a simulated cloud has its own, others tell theirs with their answers."""
    return cloud if isinstance(cloud, Timekeeper) else ProviderClock(cloud, clock(), _tell_once)


def _tell_once(provider: str, text: str) -> None:
    if provider not in _NOTED_PROVIDERS:
        _NOTED_PROVIDERS.add(provider)
        tell(text)


def provider_names(value: str | None) -> tuple[str, ...]:
    """The provider that was asked for, or all of them; plug-ins that cannot be used are told then. Raises BadInputError
    for one that is not there."""
    if value is None:
        for line in plug_in_problems():
            tell(f"warning: {line}")
        return names()
    if same := same_name(value, FACTORIES):
        return (same,)
    if not is_plug_in(value):
        near = nearest_names(value, names())
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(names())}"
        raise BadInputError(f"there is no provider {value!r} to launch on", hint)
    return (value,)


def is_used(name: str, settings: Settings) -> bool:
    """Whether a provider needs no credentials, or there are settings or traces of credentials for it here."""
    return bool(settings.clouds.get(name)) or may_be_signed_in(name, os.environ)


def client(settings: Settings) -> Client:
    """The client that this home is; what the person has to know of it goes to stderr."""
    ours = own_client(settings)
    if ours.notice:
        tell(ours.notice)
    return ours


def journal(settings: Settings, busy_seconds: float = BUSY_MILLISECONDS / 1000) -> Journal:
    """The journal of the home. Raises StateError for one that another version wrote, or that another process writes
    for `busy_seconds`."""
    client(settings)
    return Journal.open(settings.journal, busy_seconds)


def provider(name: str, settings: Settings) -> Provider:
    """The provider of this name, with the person's settings for it; its connections are closed by `let_go`.

    What a vendor's SDK logs is kept off the terminal: what matters of it comes as an error of ours. Without a handler
    Python would write it to standard error.
    """
    _keep_logs_quiet()
    cloud = make_provider(name, _options_of(name, settings))
    if isinstance(cloud, Closing):
        _OPEN.append(cloud)
    return cloud


def bill_teller(name: str, settings: Settings) -> BillTeller | None:
    """Return the object that lists what bills in the account of this provider; None where there is no account."""
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
    _NOTED_PROVIDERS.clear()
    while _OPEN:
        _OPEN.pop().close()


def providers(settings: Settings) -> Callable[[str], Provider]:
    """Makes each provider when it is first asked for."""
    return cache(lambda name: provider(name, settings))


def runner(
    journal: Journal,
    settings: Settings,
    listen: Callable[[Event], None],
    where: str,
    person: Person | None = None,
    make_provider: Callable[[str], Provider] | None = None,
) -> Runner:
    """Acts on runs at the provider `where`, in its time. `make_provider` returns the providers that the command has."""
    make_provider = make_provider or providers(settings)
    runner = Runner(make_provider, journal, settings, clock_of(make_provider(where)), listen, person or Nobody())
    runner.wall = clock()
    return runner


def store_of(run: Run, settings: Settings) -> tuple[RunStore | None, str]:
    """A run's directory; None and why, where nobody is signed in to the cloud that it is in, or its SDK is missing."""
    try:
        return provider(run.provider, settings).store(run.run_id), ""
    except ProviderError as error:
        return None, from_provider(error).message
    except PlanError as error:
        return None, error.message


def surroundings(settings: Settings, *, calibrates: bool = False) -> Surroundings:
    """What a proposal is made with: providers are made when first asked for, and what is left out goes to stderr."""
    return Surroundings(
        settings=settings,
        provider_of=providers(settings),
        is_used=lambda name: is_used(name, settings),
        now=clock().now,
        say=tell,
        calibrates=calibrates,
    )


def further_requests(runner: Runner, run: Run, factory: Callable[[str], Provider], settings: Settings) -> MakeRequest:
    """Makes the further requests of a run that is in the journal, for placements that cost about what was agreed to."""
    watchful = Watchful(factory, clock_of(factory(run.provider)).now)
    return watchful.over(runner.request_maker(run, client=client(settings).id))
