"""Which providers there are: a name and where its factory is, imported when it is chosen."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from providers.errors import BadRequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from providers.base import Provider, ProviderSettings

FACTORIES = {
    "local": "providers.local.provider:make",
    "sim": "providers.sim.provider:make",
    "aws": "providers.aws.provider:make",
    "azure": "providers.azure.provider:make",
    "gcp": "providers.gcp.provider:make",
}


def names() -> tuple[str, ...]:
    return tuple(FACTORIES)


def provider(name: str, settings: ProviderSettings) -> Provider:
    """The provider of this name. Raises BadRequestError for a name that is not there, or options that are wrong."""
    if name not in FACTORIES:
        raise BadRequestError(f"there is no provider {name!r}", hint=f"known: {', '.join(FACTORIES)}")
    module, _, factory = FACTORIES[name].partition(":")
    make = cast("Callable[[ProviderSettings], Provider]", getattr(import_module(module), factory))
    return make(settings)
