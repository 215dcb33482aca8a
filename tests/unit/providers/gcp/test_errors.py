"""What Google says went wrong, row by row, as the error that calls for the right reaction."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.rows import each_row
from tests.unit.providers.gcp.conftest import World
from trainplan.providers.base import PreflightState
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
from trainplan.providers.gcp.errors import CODES, ErrorDetail, error_of, error_of_operation, error_of_reply, in_short

REPLIES: list[tuple[int, str, str, type[ProviderError]]] = [
    (401, "authError", "Invalid Credentials", CredentialsError),
    (401, "required", "Login Required", CredentialsError),
    (403, "forbidden", "Required 'compute.instances.create' permission for 'projects/p'", PermissionDeniedError),
    (403, "IAM_PERMISSION_DENIED", "Permission denied", PermissionDeniedError),
    (403, "accessNotConfigured", "Compute Engine API has not been used in project 1 before", PermissionDeniedError),
    (403, "SERVICE_DISABLED", "Compute Engine API has not been used", PermissionDeniedError),
    (403, "USER_PROJECT_DENIED", "Caller does not have required permission to use project p", PermissionDeniedError),
    (403, "QUOTA_PROJECT_NOT_SET", "our own code for SERVICE_DISABLED (test_sign_in.py)", CredentialsError),
    (403, "billingNotEnabled", "This API method requires billing to be enabled", PermissionDeniedError),
    (403, "forbidden", "Location us-central2-b is not found or access is unauthorized.", CapacityError),
    (403, "forbidden", "Permission denied on 'locations/us-central2-b' (or it may not exist).", CapacityError),
    (403, "quotaExceeded", "Quota 'NVIDIA_T4_GPUS' exceeded.  Limit: 0.0 in region us-central1.", QuotaError),
    (403, "rateLimitExceeded", "Rate Limit Exceeded", ThrottledError),
    (403, "userRateLimitExceeded", "User Rate Limit Exceeded", ThrottledError),
    (429, "rateLimitExceeded", "Rate Limit Exceeded", ThrottledError),
    (429, "", "Too many requests", ThrottledError),
    (400, "invalid", "Invalid value for field 'resource.name'", BadRequestError),
    (400, "invalid", "Machine type with name 'x' does not exist in zone 'us-east1-b'.", CapacityError),
    (400, "invalid", "This user agent is not allowed to use the machine type ct5lp-hightpu-1t", BadRequestError),
    (404, "notFound", "The resource 'projects/p/zones/z/instances/i' was not found", InstanceNotFoundError),
    (409, "alreadyExists", "The resource already exists", BadRequestError),
    (412, "conditionNotMet", "Precondition Failed", BadRequestError),
    (
        412,
        "conditionNotMet",
        "Location ZONE:us-east1-b violates constraint constraints/gcp.resourceLocations on the resource projects/p.",
        CapacityError,
    ),
    (400, "resourceNotReady", "The resource is not ready", TransientError),
    (500, "internalError", "Internal Error", TransientError),
    (503, "backendError", "Backend Error", TransientError),
    (502, "", "Bad Gateway", TransientError),
    (503, "insufficientCapacity", "no capacity", CapacityError),
    (403, "somethingNew", "nobody has seen this", UnrecognizedError),
    (418, "", "a teapot", UnrecognizedError),
    # A reply without a reason is judged by its status, as RFC 9110 defines it.
    (400, "", "Bad Request", BadRequestError),
    (401, "", "Unauthorized", CredentialsError),
    (403, "", "Forbidden", PermissionDeniedError),
    (404, "", "Not Found", InstanceNotFoundError),
    (408, "", "Request Timeout", TransientError),
    (412, "", "Precondition Failed", BadRequestError),
    (500, "", "Internal Server Error", TransientError),
    (503, "", "Service Unavailable", TransientError),
    (504, "", "Gateway Timeout", TransientError),
]
OPERATIONS: list[tuple[str, int, type[ProviderError]]] = [
    ("ZONE_RESOURCE_POOL_EXHAUSTED", 503, CapacityError),
    ("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", 503, CapacityError),
    ("RESOURCE_POOL_EXHAUSTED", 503, CapacityError),
    ("UNSUPPORTED_OPERATION", 400, CapacityError),
    ("RESOURCE_NOT_FOUND", 404, CapacityError),
    ("QUOTA_EXCEEDED", 403, QuotaError),
    ("RESOURCE_OPERATION_RATE_EXCEEDED", 429, ThrottledError),
    ("RESOURCE_NOT_READY", 400, TransientError),
    ("INTERNAL_ERROR", 500, TransientError),
    ("PERMISSION_DENIED", 403, PermissionDeniedError),
    ("VPC_NOT_FOUND", 404, BadRequestError),
    ("INVALID_FIELD_VALUE", 400, BadRequestError),
    ("SOMETHING_NEW", 503, UnrecognizedError),
]


@each_row(("status", "reason", "message", "kind"), REPLIES)
def test_a_reply_is_judged_by_its_reason(status: int, reason: str, message: str, kind: type[ProviderError]) -> None:
    rows = [{"reason": reason, "message": message}] if reason else []
    text = json.dumps({"error": {"code": status, "message": message, "errors": rows}})
    error = error_of_reply(status, text, "compute/instances.insert")
    assert type(error) is kind
    assert message in error.message
    assert error.code in (reason, str(status))


@pytest.mark.parametrize(("code", "status", "kind"), OPERATIONS)
def test_an_operation_is_judged_by_its_code(code: str, status: int, kind: type[ProviderError]) -> None:
    operation = {"error": {"errors": [{"code": code, "message": "as it says"}]}, "httpErrorStatusCode": status}
    error = error_of_operation(operation, "compute/instances.insert")
    assert type(error) is kind
    assert error.code == code


def test_every_code_of_the_table_is_tried() -> None:
    tried = {reason for _, reason, _, _ in REPLIES} | {code for code, _, _ in OPERATIONS}
    same = {"insufficientPermissions", "RATE_LIMIT_EXCEEDED", "operationRateExceeded", "BILLING_DISABLED"}
    same |= {"UserProjectAccountProblem", "badRequest", "invalidParameter"}
    same |= {"resourceInUseByAnotherResource", "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE"}  # test_machines.py
    assert set(CODES) <= tried | same
    assert not tried & same


def test_an_operation_without_an_error_is_none() -> None:
    assert error_of_operation({"status": "DONE"}, "compute/instances.insert") is None


def test_a_reply_that_is_no_json_keeps_its_text() -> None:
    error = error_of_reply(502, "<html>Bad Gateway</html>", "tpu/v2/projects/p")
    assert isinstance(error, TransientError)
    assert "Bad Gateway" in error.message


def test_a_quota_is_named_by_its_details_or_else_by_the_text() -> None:
    info = {"quotaInfo": {"limitName": "PREEMPTIBLE-NVIDIA-T4-GPUS-per-project-region"}}
    for details, text, name in (
        ((info,), "Quota exceeded", "PREEMPTIBLE-NVIDIA-T4-GPUS-per-project-region"),
        ((), "Quota 'CPUS' exceeded.  Limit: 8.0 in region us-east1.", "CPUS"),
        ((), "too much", "unknown"),
    ):
        error = error_of(
            ErrorDetail(code="QUOTA_EXCEEDED", status=403, message=text, details=details), "compute/insert"
        )
        assert isinstance(error, QuotaError)
        assert error.quota == name
        assert "quotas" in error.hint


def test_the_quota_over_all_regions_says_so() -> None:
    text = "Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 0.0 globally."
    error = error_of(ErrorDetail(code="quotaExceeded", status=403, message=text), "compute/insert")
    assert isinstance(error, QuotaError)
    assert error.everywhere
    assert "all regions" in error.hint
    here = error_of(ErrorDetail(code="quotaExceeded", status=403, message="Quota 'CPUS' exceeded."), "compute/insert")
    assert isinstance(here, QuotaError)
    assert not here.everywhere


def test_a_stockout_tells_where_there_is_room() -> None:
    info = {"errorInfo": {"metadatas": {"zonesAvailable": "us-central1-a,us-central1-f"}}}
    said = ErrorDetail(code="ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", status=503, message="no", details=(info,))
    error = error_of(said, "compute/insert")
    assert isinstance(error, CapacityError)
    assert error.elsewhere == ("us-central1-a", "us-central1-f")


def test_an_api_that_is_off_says_how_to_switch_it_on() -> None:
    error = error_of(ErrorDetail(code="accessNotConfigured", status=403, message="off"), "tpu/v2/projects/p")
    assert error.hint == "plan setup gcp switches it on, or gcloud services enable tpu.googleapis.com"
    assert in_short(error) == "the API tpu is off in this project"


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ({"status": 401, "code": "authError"}, CredentialsError),
        ({"status": 403, "code": "rateLimitExceeded"}, ThrottledError),
        ({"status": 503, "code": "backendError"}, TransientError),
        ({"effect": "lost_request"}, TransientError),
    ],
)
def test_googles_library_says_the_same(world: World, rule: dict[str, Any], kind: type[ProviderError]) -> None:
    """Through google-cloud-compute, whose classes are not asked; each call is sent once."""
    run = world.request()
    world.script("compute.zoneOperations.list", **rule, times=None)
    with pytest.raises(kind):
        world.provider.launch(run)


GARBLED = ("<html>502 Bad Gateway</html>", '{"kind": ', '{"items": 5, "id": {}}')
"""Instead of a reply: of a proxy on the way, cut off, with values of other kinds than Google's description says."""


@pytest.mark.parametrize("text", GARBLED)
def test_a_reply_that_cannot_be_read_is_an_answer_that_did_not_come(world: World, text: str) -> None:
    """google-cloud-compute gives such a reply to its parser, whose error is none of its own."""
    run = world.request()
    world.script("compute.zoneOperations.list", effect="garbled", message=text, times=None)
    with pytest.raises(TransientError, match="cannot be read"):
        world.provider.launch(run)


def test_a_create_whose_reply_cannot_be_read_is_found_again(world: World) -> None:
    run = world.request()
    world.script("compute.instances.insert", effect="garbled", message=GARBLED[0])
    with pytest.raises(TransientError, match="cannot be read"):
        world.provider.launch(run)
    assert world.provider.launch(run).run_id == run.run_id
    assert len(world.calls("compute.instances.insert")) == 1


@pytest.mark.parametrize("text", GARBLED[:2])
def test_a_reply_without_googles_library_is_read_with_the_same_care(world: World, text: str) -> None:
    world.script("compute.projects.get", effect="garbled", message=text, times=None)
    identity = world.provider.account.identity()
    assert identity.state is PreflightState.UNKNOWN
    assert "cannot be read" in identity.detail
