"""Patience with what was made a moment ago, which not every part of AWS knows yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from providers.aws.errors import NO_SUCH_THING
from providers.errors import PermissionDeniedError, ProviderError

Answer = TypeVar("Answer")
SETTLES_SECONDS = 120.0
"""How long something new is asked for again. EC2's page on eventual consistency says "a few minutes" at most, and names
a security group that was just made as its example
(https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html); for instance profiles users of Terraform
measured 5 to 10 s (hashicorp/terraform issue 2037), and IAM's page on troubleshooting promises no time at all
(https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot.html#troubleshoot_general_eventual-consistency)."""
ASKED_EVERY_SECONDS = 5.0
NO_GROUP = "InvalidGroup.NotFound"
_PROFILE_CODES = ("InvalidParameterValue", "InvalidIamInstanceProfile")
_ROLE = "execution role"
"""EventBridge Scheduler's words: the execution role you provide must allow it to assume the role."""


@dataclass(frozen=True)
class Settling:
    """`sleep` lets seconds go by; `has_profile` is whether IAM has the machines' instance profile, None: nobody tells.

    None of these refusals has made anything, so the same call can be sent again.
    """

    sleep: Callable[[float], None]
    has_profile: Callable[[], bool | None]

    def __call__(self, send: Callable[[], Answer]) -> Answer:
        """What `send` returns. Raises ProviderError: what was refused for another reason, or for longer than that."""
        waited = 0.0
        while True:
            try:
                return send()
            except ProviderError as error:
                if not self._is_too_new(error):
                    raise
                if waited >= SETTLES_SECONDS:
                    raise self._at_last(error) from error
            self.sleep(ASKED_EVERY_SECONDS)
            waited += ASKED_EVERY_SECONDS

    def _is_too_new(self, error: ProviderError) -> bool:
        if is_about_the_profile(error):
            return self.has_profile() is not False
        is_new_role = error.code == "ValidationException" and _ROLE in error.message
        return is_new_role or error.code in (NO_GROUP, NO_SUCH_THING)

    def _at_last(self, error: ProviderError) -> ProviderError:
        """The profile is there, so the hint must not say that it is missing."""
        if not is_about_the_profile(error) or not self.has_profile():
            return error
        hint = "IAM has this instance profile, and EC2 refuses it all the same: look at its role, then launch again"
        return PermissionDeniedError(error.message, hint=hint, code=error.code)


def is_about_the_profile(error: ProviderError) -> bool:
    return isinstance(error, PermissionDeniedError) and error.code in _PROFILE_CODES
