"""Every code of Azure's that is known, as the error it calls for: said at once, by an operation, and deep inside."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.rows import each_row
from trainplan.providers.azure.errors import CODES, refusal, telling
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

TABLE: dict[type[ProviderError], tuple[str, ...]] = {
    CapacityError: (
        "SkuNotAvailable", "AllocationFailed", "OverconstrainedAllocationRequest", "ZonalAllocationFailed",
        "OverconstrainedZonalAllocationRequest", "SpotPriceGreaterThanProvidedMaxPrice",
    ),
    QuotaError: ("QuotaExceeded",),
    BadRequestError: (
        "AzureSpotFeatureNotEnabledForSubscription", "AzureSpotIsNotSupportedForThisVMSize", "InvalidParameter",
        "InvalidTemplateDeployment", "ImageNotFound", "GalleryImageNotFound", "MarketplacePurchaseEligibilityFailed",
    ),
    PermissionDeniedError: (
        "AuthorizationFailed", "ReadOnlyDisabledSubscription", "MissingSubscriptionRegistration",
        "RequestDisallowedByPolicy", "LinkedAuthorizationFailed",
    ),
    CredentialsError: ("InvalidAuthenticationToken", "ExpiredAuthenticationToken"),
    ThrottledError: ("TooManyRequests",),
    TransientError: (
        "InternalServerError", "NetworkingInternalOperationError", "AnotherOperationInProgress", "Conflict",
        "PrincipalNotFound", "NicReservedForAnotherVm",
    ),
    InstanceNotFoundError: ("ResourceNotFound", "ResourceGroupNotFound"),
}  # fmt: skip
"""From Microsoft's documents, not from the product's own table."""
QUOTA = (
    "Operation could not be completed as it results in exceeding approved {name} quota. Additional details - "
    "Deployment Model: Resource Manager, Location: eastus, Current Limit: 0, Current Usage: 0, Additional Required: 4, "
    "(Minimum) New Limit Required: 4. Setup Alerts when Quota reaches threshold."
)


def body(code: str, message: str = "it is so", **more: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, **more}}


ROWS = [(code, kind) for kind, codes in TABLE.items() for code in codes]


@each_row(("code", "kind"), ROWS)
def test_a_code_counts_whatever_the_status(code: str, kind: type[ProviderError]) -> None:
    """A create that fails later is told with status 200; a 409 is a stockout as well as a conflict."""
    for status in (200, 400, 403, 409):
        error = refusal(status, body(code), "PUT virtualMachines")
        assert (type(error), error.code) == (kind, code), status
        assert "PUT virtualMachines" in error.message
        assert "it is so" in error.message


@each_row(("code", "kind"), [row for row in ROWS if row[0] not in ("Conflict", "InvalidTemplateDeployment")])
def test_the_code_that_says_something_is_inside(code: str, kind: type[ProviderError]) -> None:
    inner = [{"code": "ResourceDeploymentFailure", "details": [{"code": code, "message": "within"}]}]
    for outer in ("InvalidTemplateDeployment", "DeploymentFailed", "Conflict"):
        error = refusal(400, body(outer, details=inner), "PUT virtualMachines")
        assert (type(error), error.code) == (kind, code), outer
        assert "within" in error.message


def test_of_several_known_codes_the_innermost_counts_and_of_unknown_ones_the_outermost() -> None:
    """What is inside says why; of codes that nobody knows, the first is the one that a search finds."""
    full = body("OverconstrainedAllocationRequest", details=[{"code": "QuotaExceeded", "message": "within"}])
    assert telling(full) == ("QuotaExceeded", "within")
    assert telling(body("NeverHeardOf", details=[{"code": "NorOfThis", "message": "within"}])).code == "NeverHeardOf"


def test_an_error_within_a_message_is_found() -> None:
    message = '{"error": {"code": "SkuNotAvailable", "message": "none here"}}'
    assert telling(body("BadRequest", message)).code == "SkuNotAvailable"


@pytest.mark.parametrize(
    ("message", "quota"),
    [
        ("standardNCASv3_T4Family Cores", "standardNCASv3_T4Family Cores"),
        ("Total Regional Cores", "Total Regional Cores"),
        ("Total Regional Low Priority Cores", "Total Regional Low Priority Cores"),
        ("LowPriorityCores", "LowPriorityCores"),
    ],
)
def test_a_quota_is_named_with_what_it_has_to_be(message: str, quota: str) -> None:
    error = refusal(409, body("OperationNotAllowed", QUOTA.format(name=message)), "PUT virtualMachines")
    assert isinstance(error, QuotaError)
    assert error.quota == quota
    assert "from 0 to 4" in error.hint
    assert "https://" in error.hint


@pytest.mark.parametrize(
    "code",
    [
        "IPv4StandardSkuPublicIpCountLimitReached", "IPv4BasicSkuPublicIpCountLimitReached",
        "StaticPublicIPCountLimitReached", "PublicIPCountLimitReached",
    ],
)  # fmt: skip
@pytest.mark.parametrize("within", ["message", "details"])
def test_a_limit_of_addresses_is_a_quota_also_inside_a_bad_request(code: str, within: str) -> None:
    """In the form of a reported deployment error: the code is in JSON text that is the message of a BadRequest."""
    said = "Cannot create more than 3 public IP addresses for this subscription in this region."
    inner = {"error": {"code": code, "message": said, "details": []}}
    outer = (
        body("BadRequest", json.dumps(inner)) if within == "message" else body("BadRequest", details=[inner["error"]])
    )
    error = refusal(400, outer, "PUT virtualMachines")
    assert isinstance(error, QuotaError)
    assert (error.code, error.quota) == (code, "public IP addresses")
    assert said in error.message


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("The server rejected the request because too many requests have been received.", ThrottledError),
        ("VM size is not allowed for this image.", BadRequestError),
    ],
)
def test_not_allowed_is_read_by_its_text(message: str, kind: type[ProviderError]) -> None:
    assert type(refusal(409, body("OperationNotAllowed", message), "x")) is kind


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, CredentialsError), (408, TransientError), (429, ThrottledError), (500, TransientError),
     (503, TransientError), (400, UnrecognizedError), (404, UnrecognizedError), (409, UnrecognizedError)],
)  # fmt: skip
def test_an_unknown_code_stays_unknown_but_for_what_its_status_says(status: int, kind: type[ProviderError]) -> None:
    error = refusal(status, body("NeverHeardOf"), "x")
    assert (type(error), error.code) == (kind, "NeverHeardOf")


@pytest.mark.parametrize("reply", [None, {}, [], "text", {"error": None}, {"error": {"details": ["x"]}}])
def test_whatever_comes_is_an_error(reply: Any) -> None:
    assert refusal(418, reply, "x").code == "418"


def test_every_error_says_what_to_do() -> None:
    assert all(hint for kind, hint in CODES.values() if kind is not InstanceNotFoundError)
