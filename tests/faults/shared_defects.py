"""Planted defects that are the same at every provider."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import trainplan.providers.cloud.launch as rented
from trainplan.providers.errors import (
    CapacityError,
    CredentialsError,
    IncompleteListingError,
    InstanceNotFoundError,
    TransientError,
)

if TYPE_CHECKING:
    Plant = Callable[[], None]


def refused_without_an_answer(provider: Any) -> Plant:
    """A create without an answer is taken as refused."""

    def plant() -> None:
        real = provider.launch

        def launched(self: Any, request: Any) -> Any:
            try:
                return real(self, request)
            except TransientError as error:
                raise CapacityError(error.message) from error

        provider.launch = launched

    return plant


def gone_without_a_sign_in(provider: Any) -> Plant:
    """An expired sign-in is taken as a machine that is gone."""

    def plant() -> None:
        real = provider.get

        def got(self: Any, ref: Any) -> Any:
            try:
                return real(self, ref)
            except CredentialsError as error:
                raise InstanceNotFoundError(error.message) from error

        provider.get = got

    return plant


def taken_as_whole(provider: Any) -> Plant:
    """A list that is not whole is taken as whole."""

    def plant() -> None:
        real = provider.list_owned

        def listed(self: Any, run_id: Any = None) -> Any:
            try:
                return real(self, run_id)
            except IncompleteListingError as error:
                return error.resources

        provider.list_owned = listed

    return plant


def only_powers_off() -> None:
    """A machine switches itself off at its end, and nothing of it is deleted."""
    real = rented.Rented.machine

    def part(self: Any, request: Any, end: Any, identity: str = "", data_disk_gib: int = 0) -> Any:
        return real(self, request, {"kind": "power_off"}, identity, data_disk_gib)

    rented.Rented.machine = part
