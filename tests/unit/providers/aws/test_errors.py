"""Every code of AWS as the reaction that it calls for, row by row, and what is not in any row."""

from __future__ import annotations

import boto3
import pytest
from botocore.config import Config

from tests.doubles.serving import QuickHandler, Serving
from tests.rows import each_row
from trainplan.providers.aws.errors import CODES, error_of, translated
from trainplan.providers.errors import (
    BadRequestError,
    CapacityError,
    CredentialsError,
    InstanceNotFoundError,
    PermissionDeniedError,
    ProviderError,
    QuotaError,
    ThrottledError,
    TransientError,
    UnrecognizedError,
)

# The table of what each code means for a launch, written down once more: a row that is changed here or there is seen.
TABLE: dict[type[ProviderError], str] = {
    CapacityError: """
        InsufficientInstanceCapacity InsufficientHostCapacity InsufficientReservedInstanceCapacity InsufficientCapacity
        InsufficientCapacityOnHost UnfulfillableCapacity ReservationCapacityExceeded SpotMaxPriceTooLow Unsupported
        UnsupportedOperation UnsupportedHostConfiguration InsufficientFreeAddressesInSubnet InsufficientVolumeCapacity
    """,
    QuotaError: """
        VcpuLimitExceeded InstanceLimitExceeded MaxSpotInstanceCountExceeded MaxSpotInstanceRequestsExceeded
        VolumeLimitExceeded MaxIOPSLimitExceeded NetworkInterfaceLimitExceeded SecurityGroupLimitExceeded
        ServiceQuotaExceededException LimitExceededException
    """,
    CredentialsError: """
        AuthFailure ExpiredToken ExpiredTokenException RequestExpired InvalidClientTokenId UnrecognizedClientException
        InvalidAccessKeyId SignatureDoesNotMatch InvalidSignatureException MissingAuthenticationToken
        MissingAuthenticationTokenException IncompleteSignature
    """,
    PermissionDeniedError: """
        UnauthorizedOperation AccessDenied AccessDeniedException NotAuthorized PendingVerification OptInRequired Blocked
        AuthFailure.ServiceLinkedRoleCreationNotPermitted InvalidIamInstanceProfile
    """,
    BadRequestError: """
        InvalidParameterValue InvalidParameterCombination InvalidParameter InvalidParameterException InvalidRequest
        InvalidInput InvalidInstanceType InvalidBlockDeviceMapping InvalidUserData.Malformed InvalidAMIID.NotFound
        InvalidAMIID.Malformed InvalidAMIID.Unavailable InvalidSubnetID.NotFound InvalidVpcID.NotFound
        InvalidGroup.NotFound InvalidGroupId.Malformed InvalidKeyPair.NotFound IdempotentParameterMismatch
        MissingParameter MissingInput
        ValidationError ValidationException UnknownParameter VPCIdNotSpecified DefaultVpcDoesNotExist
    """,
    ThrottledError: """
        RequestLimitExceeded Throttling ThrottlingException RequestThrottled RequestThrottledException
        TooManyRequestsException EC2ThrottledException
    """,
    TransientError: """
        InternalError InternalFailure InternalServerError InternalServerException ServerInternal ServiceFailure
        ServiceException ServiceUnavailable ServiceUnavailableException Unavailable RequestTimeout
        RequestTimeoutException
    """,
    InstanceNotFoundError: """
        InvalidInstanceID.NotFound InvalidInstanceID.Malformed InvalidVolume.NotFound
        InvalidNetworkInterfaceID.NotFound InvalidSpotInstanceRequestID.NotFound
    """,
}
ROWS = [(code, kind) for kind, codes in TABLE.items() for code in codes.split()]


@each_row(("code", "kind"), ROWS, ids=[code for code, _ in ROWS])
def test_each_code_is_one_reaction(code: str, kind: type[ProviderError]) -> None:
    error = error_of(code, 400, "what AWS says", "ec2 RunInstances in us-east-1")
    assert type(error) is kind
    assert (error.code, error.message) == (code, "ec2 RunInstances in us-east-1: what AWS says")
    assert bool(error.hint) is (kind is not InstanceNotFoundError)


def test_no_row_is_missing_in_either_table() -> None:
    assert {code for code, _ in ROWS} == set(CODES)


@pytest.mark.parametrize(
    ("status", "kind"), [(400, UnrecognizedError), (403, UnrecognizedError), (500, TransientError)]
)
def test_an_unknown_code_stays_unknown(status: int, kind: type[ProviderError]) -> None:
    error = error_of("SomethingNew", status, "of 2027", "ec2 RunInstances")
    assert (type(error), error.code) == (kind, "SomethingNew")
    if kind is UnrecognizedError:
        assert "SomethingNew: of 2027" in error.message


def test_the_free_plan_is_an_account_that_has_to_be_upgraded() -> None:
    said = "The specified instance type is not eligible for Free Tier. For a list of Free Tier instance types, run ..."
    error = error_of("InvalidParameterCombination", 400, said, "ec2 RunInstances")
    assert type(error) is PermissionDeniedError
    assert "free plan: plan doctor aws names what EC2 creates on it" in error.hint


def test_a_missing_instance_profile_is_a_missing_set_up() -> None:
    said = (
        "Value (trainplan-machine) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"
    )
    error = error_of("InvalidParameterValue", 400, said, "ec2 RunInstances")
    assert (type(error), error.hint) == (PermissionDeniedError, "plan setup aws makes the instance profile")


def test_zones_that_have_some_are_named() -> None:
    said = (
        "We currently do not have sufficient p3.2xlarge capacity in the Availability Zone you requested (us-east-1a). "
        "You can currently get p3.2xlarge capacity by not specifying an Availability Zone in your request or choosing "
        "us-east-1b, us-east-1c."
    )
    error = error_of("InsufficientInstanceCapacity", 500, said, "ec2 RunInstances")
    assert isinstance(error, CapacityError)
    assert error.elsewhere == ("us-east-1b", "us-east-1c")


def test_what_only_the_owner_can_decode_is_left_out() -> None:
    said = "You are not authorized to perform this operation. Encoded authorization failure message: aaaabbbb"
    assert error_of("UnauthorizedOperation", 403, said, "x").message.endswith("this operation.")


class _Proxy(QuickHandler):
    """Answers everything with its own page."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        page = b"<html><body>Sign in to the network<br></body></html>"
        self.send_response(200)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(("service", "call"), [("ec2", "describe_instances"), ("elbv2", "describe_load_balancers")])
def test_a_page_in_the_place_of_an_answer_is_no_answer(service: str, call: str) -> None:
    with Serving(_Proxy) as proxy:
        client = boto3.client(
            service, endpoint_url=proxy.url, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="s",
            config=Config(retries={"total_max_attempts": 1}),
        )  # fmt: skip
        with pytest.raises(TransientError, match="the answer is none of AWS's"), translated(call):
            getattr(client, call)()
