"""Error codes of AWS, translated into the classes of `trainplan.providers.errors`, one for each reaction of the
caller."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from trainplan.providers.aws.settings import PROVIDER
from trainplan.providers.cloud.propagation import Pair, pair_of, settled
from trainplan.providers.errors import (
    BadRequestError,
    CapacityError,
    CredentialsError,
    InstanceNotFoundError,
    MachineError,
    PermissionDeniedError,
    ProviderError,
    QuotaError,
    ThrottledError,
    TransientError,
    UnrecognizedError,
)
from trainplan.workloads.extras import install_hint
from trainplan.workloads.wording import Command, Option, Text

DRY_RUN = "DryRunOperation"
"""The code of a dry run that would have been let through."""
DUPLICATE_GROUP = "InvalidGroup.Duplicate"
CONFLICT = "ConflictException"
NO_SUCH_THING = "ResourceNotFoundException"
_DENIED_BY_ORGANISATION = "explicit deny in a service control policy"
"""How AWS words what an organisation closes, whatever a policy of the account allows
(https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html)."""
_SIGN_IN = "aws sso login, or aws configure"
_PERMISSIONS = "docs/permissions/aws/ lists the permissions; plan doctor aws shows what is missing"
_ELSEWHERE = "another zone, region or machine may have one"
_QUOTAS = "ask for more under Service Quotas, or choose another region, market or machine"
_REPORT = Text(Command("launch", Option.DRY_RUN), " shows what was sent; correct what AWS reports first")
_ACCOUNT = "look into the account's own messages from AWS"
_AGAIN = "try again"

# Code -> (our error, what to do). Codes of EC2's errors overview, of IAM, STS, SSM, Service Quotas and the Scheduler.
_REACTIONS: tuple[tuple[type[ProviderError], str | Text, str], ...] = (
    # Nothing left here, now.
    (CapacityError, _ELSEWHERE,
     "InsufficientInstanceCapacity InsufficientHostCapacity InsufficientReservedInstanceCapacity "
     "InsufficientCapacity InsufficientCapacityOnHost UnfulfillableCapacity ReservationCapacityExceeded "
     "InsufficientVolumeCapacity"),
    (CapacityError, "spot costs more than on demand there now: choose another region or on demand",
     "SpotMaxPriceTooLow"),
    (CapacityError, "the zone does not have this machine; another may",
     "Unsupported UnsupportedOperation UnsupportedHostConfiguration"),
    (CapacityError, "the zone's network is full; another zone has its own", "InsufficientFreeAddressesInSubnet"),
    # The account may not have so many.
    (QuotaError, _QUOTAS,
     "VcpuLimitExceeded InstanceLimitExceeded MaxSpotInstanceCountExceeded MaxSpotInstanceRequestsExceeded "
     "VolumeLimitExceeded MaxIOPSLimitExceeded NetworkInterfaceLimitExceeded SecurityGroupLimitExceeded "
     "ServiceQuotaExceededException LimitExceededException"),
    # Who is signed in.
    (CredentialsError, _SIGN_IN,
     "AuthFailure ExpiredToken ExpiredTokenException InvalidClientTokenId UnrecognizedClientException "
     "InvalidAccessKeyId SignatureDoesNotMatch MissingAuthenticationToken MissingAuthenticationTokenException "
     "IncompleteSignature"),
    (CredentialsError, "set this computer's clock, then sign in again: aws sso login",
     "RequestExpired InvalidSignatureException"),
    # What they may do.
    (PermissionDeniedError, _PERMISSIONS, "UnauthorizedOperation AccessDenied AccessDeniedException NotAuthorized"),
    (PermissionDeniedError,
     Text("the first spot machine of an account needs a role: aws iam create-service-linked-role "
          "--aws-service-name spot.amazonaws.com; or ", Option.MARKET("on_demand")),
     "AuthFailure.ServiceLinkedRoleCreationNotPermitted"),
    (PermissionDeniedError, f"AWS still verifies this account; {_ACCOUNT}", "PendingVerification"),
    (PermissionDeniedError, "the account has not been opened for this region or service", "OptInRequired"),
    (PermissionDeniedError, f"AWS has blocked this account; {_ACCOUNT}", "Blocked"),
    (PermissionDeniedError, "plan setup aws makes it", "InvalidIamInstanceProfile"),
    # The request is wrong, and stays wrong.
    (BadRequestError, _REPORT,
     "InvalidParameterValue InvalidParameterCombination InvalidParameter InvalidParameterException "
     "InvalidRequest InvalidInput InvalidInstanceType InvalidBlockDeviceMapping InvalidUserData.Malformed "
     "InvalidSubnetID.NotFound InvalidVpcID.NotFound InvalidGroup.NotFound InvalidGroupId.Malformed "
     "InvalidKeyPair.NotFound MissingParameter MissingInput ValidationError ValidationException UnknownParameter"),
    (BadRequestError, "the image is gone; name another in the setting `image`", "InvalidAMIID.NotFound"),
    (BadRequestError, "name another image in the setting `image`", "InvalidAMIID.Malformed"),
    (BadRequestError, "the image is not ready; name another in the setting `image`", "InvalidAMIID.Unavailable"),
    (BadRequestError, "an attempt cannot be sent again with other parameters; launch the job again",
     "IdempotentParameterMismatch"),
    (BadRequestError, "aws ec2 create-default-vpc --region REGION makes the default network",
     "VPCIdNotSpecified DefaultVpcDoesNotExist"),
    # Too many calls.
    (ThrottledError, "wait a little",
     "RequestLimitExceeded Throttling ThrottlingException RequestThrottled RequestThrottledException "
     "TooManyRequestsException EC2ThrottledException"),
    # Nobody knows whether it took effect.
    (TransientError, _AGAIN,
     "InternalError InternalFailure InternalServerError InternalServerException ServerInternal ServiceFailure "
     "ServiceException ServiceUnavailable ServiceUnavailableException Unavailable RequestTimeout "
     "RequestTimeoutException"),
    # It is gone.
    (InstanceNotFoundError, "",
     "InvalidInstanceID.NotFound InvalidInstanceID.Malformed InvalidVolume.NotFound "
     "InvalidNetworkInterfaceID.NotFound InvalidSpotInstanceRequestID.NotFound"),
)  # fmt: skip
CODES: Mapping[str, tuple[type[ProviderError], str | Text]] = {
    code: (kind, hint) for kind, hint, codes in _REACTIONS for code in codes.split()
}
_CHOOSING = re.compile(r"choosing ((?:[a-z0-9-]+(?:, )?)+)")
"""EC2 names the zones that have some: "... or choosing us-east-1b, us-east-1c." """
_FREE_TIER = "not eligible for Free Tier"
_MOST_SAID = 400
Answer = TypeVar("Answer")
NO_GROUP = "InvalidGroup.NotFound"
NO_BUCKET = "NoSuchBucket"
_PROFILE_CODES = ("InvalidParameterValue", "InvalidIamInstanceProfile")
_PROFILE = "instance profile"
_OF_BUCKETS = ("PutPublicAccessBlock", "PutBucketLifecycleConfiguration", "PutBucketTagging", "PutObject")

# (call, code, words of the refusal in lower case, the resource that the call does not find yet)
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
    # Terraform's provider sends it again for any AccessDeniedException; which words AWS has is assumed.
    *(
        ("CreateBudgetAction", code, "assume", "role")
        for code in ("AccessDeniedException", "InvalidParameterException")
    ),
    ("CreateSchedule", NO_SUCH_THING, "", "schedule group"),
    *((operation, NO_BUCKET, "", "bucket") for operation in _OF_BUCKETS),
)


def error_of(code: str, status: int, text: str, what: str) -> ProviderError:
    """The ProviderError for an error code; an unknown code with a status of 500 or more is a TransientError.

    `what` names the object of the call in messages. The error is returned, not raised.
    """
    message = f"{what}: {_short(text) or 'refused'}"
    # EC2 uses these two codes for a wrong request as well; only the words tell these cases apart.
    if code == "InvalidParameterCombination" and _FREE_TIER in text:
        hint = "the account is on the free plan: plan doctor aws names what EC2 creates on it, and how it is ended"
        return PermissionDeniedError(message, hint=hint, code=code)
    if code == "InvalidParameterValue" and "IAM Instance Profile" in text:
        return PermissionDeniedError(message, hint="plan setup aws makes the instance profile", code=code)
    if code in CODES:
        return _error_of(*CODES[code], message, code)
    if status >= 500:
        return TransientError(message, hint=_AGAIN, code=code)
    return UnrecognizedError(f"{what}: AWS says {code}: {_short(text)}", hint="look up what exists", code=code)


def is_denied_by_organisation(error: object) -> bool:
    """Whether a service control policy closes this for the whole account."""
    return isinstance(error, PermissionDeniedError) and _DENIED_BY_ORGANISATION in error.message


@contextlib.contextmanager
def translated(what: str, error_of: Callable[[str, int, str, str], ProviderError] = error_of) -> Iterator[None]:
    """Raise errors of the SDK as ProviderErrors. `what` names the object of the call in messages; `error_of` knows the
    codes of the service."""
    try:
        from botocore import exceptions as sdk
        from botocore.parsers import ResponseParserError
    except ImportError as error:
        raise MachineError("boto3 is not installed here", hint=install_hint("aws")) from error
    try:
        yield
    except sdk.ClientError as error:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        reply: Mapping[str, Any] = error.response.get("Error", {})
        raise error_of(str(reply.get("Code", "")), status, str(reply.get("Message", "")), what) from error
    except (sdk.NoCredentialsError, sdk.PartialCredentialsError, sdk.TokenRetrievalError, sdk.SSOError) as error:
        raise CredentialsError(f"there is no sign-in for AWS: {error}", hint=_SIGN_IN) from error
    except (sdk.ProfileNotFound, sdk.ConfigParseError, sdk.ParamValidationError, sdk.NoRegionError) as error:
        raise BadRequestError(f"{what}: {error}", hint="look into ~/.aws/config and the settings") from error
    except (sdk.HTTPClientError, sdk.ConnectionError, sdk.IncompleteReadError, sdk.ResponseStreamingError) as error:
        raise TransientError(
            f"{what} does not answer: {error}", hint="check the network connection, then try again"
        ) from error
    except ResponseParserError as error:  # no BotoCoreError
        raise TransientError(
            f"{what}: the answer is none of AWS's", hint="see whether a proxy answers in its place, then try again"
        ) from error
    except sdk.BotoCoreError as error:
        raise UnrecognizedError(f"{what}: {error}", hint="look up what exists", code=type(error).__name__) from error


def _error_of(kind: type[ProviderError], hint: str | Text, message: str, code: str) -> ProviderError:
    if kind is QuotaError:
        return QuotaError(message, quota=code, hint=hint, code=code)
    if kind is CapacityError:
        match = _CHOOSING.search(message)
        elsewhere = tuple(match.group(1).split(", ")) if match else ()
        return CapacityError(message, elsewhere=elsewhere, hint=hint, code=code)
    return kind(message, hint=hint, code=code)


def _short(message: str) -> str:
    """Return the message without the encoded part, which only the account's owner can decode."""
    text = message.partition(" Encoded authorization failure message:")[0]
    return text if len(text) <= _MOST_SAID else f"{text[:_MOST_SAID]}…"


@dataclass(frozen=True)
class Settling:
    """Repeats calls that do not find a newly created resource yet.

    `sleep` waits for so many seconds. `has_profile` says whether IAM has the instance profile of the machines, None if
    that is unknown. `report` gets a line for each wait.
    """

    sleep: Callable[[float], None]
    has_profile: Callable[[], bool | None]
    report: Callable[[str], None] = lambda _: None

    def __call__(self, operation: str, send: Callable[[], Answer]) -> Answer:
        """What `send`, a call of this name, returns. Raises ProviderError
        (trainplan.providers.cloud.propagation.settled)."""
        try:
            return settled(send, lambda error: self.too_new(operation, error), self.sleep, self.report)
        except PermissionDeniedError as error:
            if operation == "RunInstances" and is_about_the_profile(error) and self.has_profile():
                hint = "IAM has this instance profile and EC2 refuses it: look at its role, then launch again"
                raise PermissionDeniedError(error.message, hint=hint, code=error.code) from error
            raise

    def too_new(self, operation: str, error: ProviderError) -> Pair | None:
        """The new resource that a call of this name does not find yet; None if waiting does not help."""
        # EC2 refuses a new profile and a missing one with the same code; IAM tells which of the two it is.
        if operation == "RunInstances" and is_about_the_profile(error):
            return pair_of(PROVIDER, _PROFILE, operation) if self.has_profile() is not False else None
        for call, code, words, text in _SIGNS:
            if (call, code) == (operation, error.code) and words in error.message.lower():
                return pair_of(PROVIDER, text, operation)
        return None


def is_about_the_profile(error: ProviderError) -> bool:
    """Whether the error says that the instance profile is missing or may not be passed on."""
    return isinstance(error, PermissionDeniedError) and error.code in _PROFILE_CODES
