"""Which providers there are: a name and where its factory is, imported when it is chosen."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from providers.errors import BadRequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from providers.base import Provider, ProviderSettings
    from providers.billed import BillTeller

FACTORIES = {
    "local": "providers.local.provider:make",
    "sim": "providers.sim.provider:make",
    "aws": "providers.aws.provider:make",
    "azure": "providers.azure.provider:make",
    "gcp": "providers.gcp.provider:make",
}

_BILLS = {
    "aws": "providers.aws.billed:make",
    "azure": "providers.azure.billed:make",
    "gcp": "providers.gcp.billed:make",
}


def names() -> tuple[str, ...]:
    return tuple(FACTORIES)


def provider(name: str, settings: ProviderSettings) -> Provider:
    """The provider of this name. Raises BadRequestError for a name that is not there, or options that are wrong."""
    if name not in FACTORIES:
        raise BadRequestError(f"there is no provider {name!r}", hint=f"known: {', '.join(FACTORIES)}")
    return cast("Provider", _made(FACTORIES[name])(settings))


def bill_teller(name: str, settings: ProviderSettings) -> BillTeller | None:
    """Who lists what bills in the account; None for a provider without bills. Raises BadRequestError."""
    return None if name not in _BILLS else cast("BillTeller", _made(_BILLS[name])(settings))


def _made(where: str) -> Callable[[ProviderSettings], object]:
    module, _, factory = where.partition(":")
    return cast("Callable[[ProviderSettings], object]", getattr(import_module(module), factory))
