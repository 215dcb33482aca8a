"""What may stand in an account between runs, looked up, and the calls that make or remove it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from providers.aws.account import Account, Identity
from providers.aws.errors import NO_SUCH_THING
from providers.aws.policies import policy
from providers.aws.settings import INSTANCE_PROFILE
from providers.base import SetupStep, VendorRequest
from providers.errors import PermissionDeniedError, ProviderError
from providers.stores.settings import StoreSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GONE = ("NoSuchEntity", NO_SUCH_THING, "InvalidGroup.NotFound", "NoSuchBucket", "404", "NoSuchTagSet")
"""What says that there is none."""
TAGS = [{"Key": "trainplan", "Value": "1"}]
"""On whatever is made here."""
SPOT_ROLE = "AWSServiceRoleForEC2Spot"


@dataclass(frozen=True)
class Standing:
    """`store` is what the person has set for the bucket. Every look raises ProviderError."""

    account: Account
    store: StoreSettings

    @property
    def bucket(self) -> str:
        return self.store.bucket or f"trainplan-{self.account.identity().account}-{self.home}"

    @property
    def home(self) -> str:
        return self.account.api.home

    def call(self, service: str, operation: str, **parameters: object) -> VendorRequest:
        """A call in the home region."""
        return request(service, self.home, operation, parameters)

    def found(self, service: str, operation: str, asked: Mapping[str, Any], region: str = "") -> Any:
        """What is told of something; None where there is none."""
        try:
            return self.account.api.call(service, region or self.home, operation, asked)
        except ProviderError as error:
            if error.code in GONE:
                return None
            raise

    def has_bucket(self) -> bool:
        """Raises PermissionDeniedError where the name is somebody else's."""
        try:
            return self.found("s3", "HeadBucket", {"Bucket": self.bucket}) is not None
        except ProviderError as error:
            if error.code != "403":
                raise
            hint = "name another bucket in the setting `bucket`"
            raise PermissionDeniedError(
                f"{self.bucket} is not yours, or you may not see it", hint=hint, code="403"
            ) from error

    def has_made_bucket(self) -> bool:
        """Whether it was made here, with everything about it."""
        told = self.found("s3", "GetBucketTagging", {"Bucket": self.bucket})
        return any(tag in (told or {}).get("TagSet", ()) for tag in TAGS)

    def machine_role_lacks(self) -> str:
        """In words, why machines could not read their run directory; "" where they can, or nobody tells.

        The role names one bucket: with another one set, every fetch of a machine would be refused while it bills.
        """
        if self.account.settings.instance_profile != INSTANCE_PROFILE:
            return ""
        wanted = policy("machine", self.account.identity(), self.bucket)
        if not self.account.role_lacks(INSTANCE_PROFILE, wanted):
            return ""
        return f"the role {INSTANCE_PROFILE} does not let machines use the bucket {self.bucket}"

    def role(self, name: str) -> Any:
        return self.found("iam", "GetRole", {"RoleName": name})


def step(name: str, detail: str, calls: Sequence[VendorRequest]) -> SetupStep | None:
    """None where there is nothing to do."""
    return SetupStep(name=name, detail=detail, calls=tuple(calls)) if calls else None


def request(service: str, region: str, operation: str, parameters: Mapping[str, object]) -> VendorRequest:
    return VendorRequest(service=f"{service}.{region}", operation=operation, parameters=parameters)


def role_arn(who: Identity, name: str) -> str:
    return f"arn:{who.partition}:iam::{who.account}:role/{name}"
