"""What can go wrong at a provider: one class per reaction of the caller, never one per vendor code.

ProviderError
├── CredentialsError       stop; the person signs in
├── PermissionDeniedError  stop; the person grants what is named
├── QuotaError             skip this region (all, where it counts them together), family and market; names the quota
├── CapacityError          next zone, region, offer
├── ThrottledError         wait, then again with the same token
├── TransientError         again with the same token, then look up what exists
├── BadRequestError        stop; the request is wrong and will stay wrong
├── InstanceNotFoundError  it is gone: teardown is done
├── IncompleteListingError not every placement has answered: absence is not known
├── MachineError           this machine cannot: no engine, no disk, no memory
└── UnrecognizedError      look up what exists, stop, show the vendor's code
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainplan.providers.base import OwnedResource
    from trainplan.workloads.wording import Text


class ProviderError(Exception):
    """`message` says what happened on which input, `hint` what to do next, `code` is the vendor's own."""

    def __init__(self, message: str, *, hint: str | Text = "", code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = str(hint)
        self.code = code


class CredentialsError(ProviderError):
    """No sign-in was found, or it has expired."""


class PermissionDeniedError(ProviderError):
    """Signed in, but not allowed."""


class QuotaError(ProviderError):
    """The account may not have this many; `quota` names the limit to raise, `everywhere`: it counts all regions."""

    def __init__(
        self, message: str, *, quota: str, everywhere: bool = False, hint: str | Text = "", code: str | None = None
    ) -> None:
        super().__init__(message, hint=hint, code=code)
        self.quota = quota
        self.everywhere = everywhere


class CapacityError(ProviderError):
    """The provider has none left here, now; `elsewhere` are the zones that it recommends instead."""

    def __init__(
        self, message: str, *, elsewhere: tuple[str, ...] = (), hint: str | Text = "", code: str | None = None
    ) -> None:
        super().__init__(message, hint=hint, code=code)
        self.elsewhere = elsewhere


class ThrottledError(ProviderError):
    """Too many calls; the same call later will do."""


class TransientError(ProviderError):
    """The call may or may not have taken effect."""


class BadRequestError(ProviderError):
    """The provider will never accept this request."""


class AnotherVersionError(BadRequestError):
    """A recorded request names files of another version of trainplan, which this one cannot send."""


class InstanceNotFoundError(ProviderError):
    """The provider does not know it: it is gone."""


class IncompleteListingError(ProviderError):
    """Some placements did not answer; `resources` are those of the others, `unanswered` names the silent ones."""

    def __init__(
        self, message: str, *, resources: tuple[OwnedResource, ...], unanswered: tuple[str, ...], hint: str | Text = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.resources = resources
        self.unanswered = unanswered


class MachineError(ProviderError):
    """This computer lacks what the run needs."""


class UnrecognizedError(ProviderError):
    """A code that is in no table."""
