"""Which refusals of AWS mean that something is too new to be known (providers.settling has how long that may last)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from providers.aws.errors import NO_SUCH_THING
from providers.aws.settings import PROVIDER
from providers.errors import PermissionDeniedError, ProviderError
from providers.settling import Pair, pair_of, settled

Answer = TypeVar("Answer")
NO_GROUP = "InvalidGroup.NotFound"
NO_BUCKET = "NoSuchBucket"
_PROFILE_CODES = ("InvalidParameterValue", "InvalidIamInstanceProfile")
_PROFILE = "instance profile"
_OF_BUCKETS = ("PutPublicAccessBlock", "PutBucketLifecycleConfiguration", "PutBucketTagging", "PutObject")

# (call, code, words of the refusal, what it does not find)
_SIGNS = (
    ("RunInstances", NO_GROUP, "", "security group"),
    ("RunInstances", "InvalidSubnetID.NotFound", "", "default network"),
    ("CreateSecurityGroup", "InvalidVpcID.NotFound", "", "default network"),
    ("DescribeSecurityGroups", NO_GROUP, "", "security group"),
    ("AddRoleToInstanceProfile", "NoSuchEntity", _PROFILE, _PROFILE),
    ("AddRoleToInstanceProfile", "NoSuchEntity", "", "role"),
    ("PutRolePolicy", "NoSuchEntity", "", "role"),
    ("CreateFunction", "InvalidParameterValueException", "cannot be assumed by lambda", "role"),
    ("CreateSchedule", "ValidationException", "execution role", "role"),
    ("CreateSchedule", NO_SUCH_THING, "", "schedule group"),
    *((operation, NO_BUCKET, "", "bucket") for operation in _OF_BUCKETS),
)


@dataclass(frozen=True)
class Settling:
    """`sleep` lets seconds go by; `has_profile` is whether IAM has the machines' instance profile, None: nobody tells.
    `report` gets a line where something is waited for."""

    sleep: Callable[[float], None]
    has_profile: Callable[[], bool | None]
    report: Callable[[str], None] = lambda _: None

    def __call__(self, operation: str, send: Callable[[], Answer]) -> Answer:
        """What `send`, a call of this name, returns. Raises ProviderError (providers.settling.settled)."""
        try:
            return settled(send, lambda error: self._too_new(operation, error), self.sleep, self.report)
        except PermissionDeniedError as error:
            if operation == "RunInstances" and is_about_the_profile(error) and self.has_profile():
                hint = "IAM has this instance profile and EC2 refuses it: look at its role, then launch again"
                raise PermissionDeniedError(error.message, hint=hint, code=error.code) from error
            raise

    def _too_new(self, operation: str, error: ProviderError) -> Pair | None:
        if operation == "RunInstances" and is_about_the_profile(error):
            return pair_of(PROVIDER, _PROFILE, operation) if self.has_profile() is not False else None
        for call, code, words, made in _SIGNS:
            if (call, code) == (operation, error.code) and words in error.message.lower():
                return pair_of(PROVIDER, made, operation)
        return None


def is_about_the_profile(error: ProviderError) -> bool:
    return isinstance(error, PermissionDeniedError) and error.code in _PROFILE_CODES
