"""What the TPU API and Cloud Tasks say, as ours: every row of the tables."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.rows import each_row
from trainplan.providers.base import LABEL_ATTEMPT, LABEL_CLIENT, LABEL_DEADLINE, LABEL_RUN, EndKind, InstanceState
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
from trainplan.providers.gcp.tpu.api import Refused, refusal_of
from trainplan.providers.gcp.tpu.errors import CODES, INFO, REACTIONS_BY_TEXT, error_of, is_off, operation_error
from trainplan.providers.gcp.tpu.reply import (
    NODES,
    RESOURCES,
    instance,
    location_of,
    owned_node,
    owned_resource,
    ref_of,
    said_of,
)

NAME = "projects/p/locations/us-central1-b/queuedResources/plan-r1-2"
LABELS = {
    LABEL_RUN: "r1",
    LABEL_ATTEMPT: "2",
    LABEL_DEADLINE: "20261121t180000z",
    LABEL_CLIENT: "c0ffee",
}
STOCKOUT = (
    'There is no more capacity in the zone "us-central1-b"; you can try in another zone where Cloud TPU Nodes are '
    "offered (see https://cloud.google.com/tpu/docs/regions) [EID: 0x1]"
)
QUOTA = (
    "Quota limit 'TPUV3sPreemptiblePodPerProjectPerZoneForTPUAPI' has been exceeded. Limit: 0 in zone us-central1-b."
)


def resource(state: str, **more: Any) -> dict[str, Any]:
    node = {"acceleratorType": "v3-8", "labels": LABELS}
    told = {"state": state, **more}
    return {"name": NAME, "state": told, "tpu": {"nodeSpec": [{"node": node}]}, "createTime": "2026-11-21T12:00:00Z"}


def node(state: str, **more: Any) -> dict[str, Any]:
    name = NAME.replace("queuedResources", "nodes")
    return {"name": name, "state": state, "labels": LABELS, "createTime": "2026-11-21T12:01:00.123456789Z", **more}


@each_row(
    ("status", "message", "kind"),
    [
        ("RESOURCE_EXHAUSTED", STOCKOUT, CapacityError),
        ("RESOURCE_EXHAUSTED", QUOTA, QuotaError),
        ("RESOURCE_EXHAUSTED", "Quota exceeded for quota metric 'Reads' and limit 'Reads per minute'", QuotaError),
        ("RESOURCE_EXHAUSTED", "Quota exceeded for 'Read requests' and limit 'Requests per minute'", ThrottledError),
        ("RESOURCE_EXHAUSTED", "no", UnrecognizedError),
        ("FAILED_PRECONDITION", "Insufficient reserved capacity. Contact customer support", CapacityError),
        ("FAILED_PRECONDITION", "Queued resource is ACTIVE", UnrecognizedError),
        ("INVALID_ARGUMENT", "Cannot delete node while in state PREEMPTED", CapacityError),
        ("INVALID_ARGUMENT", "there is no v9-8", BadRequestError),
        ("INVALID_ARGUMENT", "This user agent is not allowed to use the machine type", BadRequestError),
        ("INTERNAL", "stockout", CapacityError),
        ("INTERNAL", "an error", TransientError),
        ("NOT_FOUND", "Resource was not found", InstanceNotFoundError),
        ("NOT_FOUND", "Location us-x1-a is not found or access is unauthorized.", CapacityError),
        ("PERMISSION_DENIED", "Permission denied on 'locations/us-x1-a' (or it may not exist).", CapacityError),
        ("PERMISSION_DENIED", "Permission 'tpu.nodes.get' denied", PermissionDeniedError),
        ("UNAUTHENTICATED", "expired", CredentialsError),
        ("UNAVAILABLE", "", TransientError),
        ("CANCELLED", "", TransientError),
        ("DEADLINE_EXCEEDED", "", TransientError),
        ("ABORTED", "", TransientError),
        ("UNKNOWN", "", TransientError),
        ("ALREADY_EXISTS", "", BadRequestError),
        ("OUT_OF_RANGE", "", BadRequestError),
        ("UNIMPLEMENTED", "", BadRequestError),
        ("DATA_LOSS", "", UnrecognizedError),
    ],
)
def test_each_code_calls_for_one_reaction(status: str, message: str, kind: type[ProviderError]) -> None:
    found = error_of(Refused(status, message), "tpu CreateQueuedResource")
    assert type(found) is kind
    assert found.code == status
    assert found.message.startswith(("tpu CreateQueuedResource", "Google says"))
    assert found.hint or kind is InstanceNotFoundError


def test_a_quota_is_named() -> None:
    found = error_of(Refused("RESOURCE_EXHAUSTED", QUOTA), "tpu")
    assert isinstance(found, QuotaError)
    assert found.quota == "TPUV3sPreemptiblePodPerProjectPerZoneForTPUAPI"
    failure = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"subject": "TPUV4s/us"}]}
    found = error_of(Refused("RESOURCE_EXHAUSTED", "too many", [failure]), "tpu")
    assert isinstance(found, QuotaError)
    assert found.quota == "TPUV4s/us"


REASONS: dict[str, type[ProviderError]] = {
    "SERVICE_DISABLED": PermissionDeniedError,
    "BILLING_DISABLED": PermissionDeniedError,
    "IAM_PERMISSION_DENIED": PermissionDeniedError,
    "RATE_LIMIT_EXCEEDED": ThrottledError,
    "ACCESS_TOKEN_EXPIRED": CredentialsError,
}
"""What each of Google's own reasons (google/api/error_reason.proto) means for a launch, by Google's comment on it."""


@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_says_more_than_its_code(reason: str) -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}]
    found = error_of(Refused("UNKNOWN", "no", details), "tpu", "tpu")
    assert (type(found), found.code) == (REASONS[reason], reason)
    assert is_off(found) is (reason == "SERVICE_DISABLED")
    assert "{" not in found.hint


def test_every_reason_is_one_of_googles() -> None:
    from google.api import error_reason_pb2

    assert set(REASONS) == set(INFO)
    assert set(INFO) <= set(error_reason_pb2.ErrorReason.keys())


def test_no_code_of_google_rpc_is_forgotten() -> None:
    from google.rpc import code_pb2

    said = {status for statuses, _, _ in REACTIONS_BY_TEXT for status in statuses}
    known = {*CODES, *said, "OK", "DATA_LOSS"}
    assert set(code_pb2.Code.keys()) <= known


@pytest.mark.parametrize(
    ("http", "text", "status", "message"),
    [
        (403, json.dumps({"error": {"status": "PERMISSION_DENIED", "message": "no"}}), "PERMISSION_DENIED", "no"),
        (409, json.dumps({"error": {"code": 409, "message": "there"}}), "ABORTED", "there"),
        (503, "<html>", "UNAVAILABLE", "<html>"),
        (500, "", "INTERNAL", ""),
        (429, "[]", "RESOURCE_EXHAUSTED", "[]"),
        (418, "tea", "UNKNOWN", "tea"),
    ],
)
def test_a_reply_is_judged_by_its_body(http: int, text: str, status: str, message: str) -> None:
    found = refusal_of(http, text)
    assert (found.status, found.message) == (status, message)


def test_an_operation_that_failed_is_judged_as_a_reply_is() -> None:
    assert operation_error({"name": "o", "done": False}, "tpu") is None
    assert isinstance(operation_error({"error": {"code": 8, "message": STOCKOUT}}, "tpu"), CapacityError)
    assert isinstance(operation_error({"error": {"code": 15, "message": "lost"}}, "tpu"), UnrecognizedError)


def test_every_state_of_google_is_known() -> None:
    from google.cloud import tpu_v2

    assert set(RESOURCES) == set(tpu_v2.QueuedResourceState.State.__members__)
    assert set(NODES) == set(tpu_v2.Node.State.__members__)


@pytest.mark.parametrize("word", RESOURCES)
def test_each_state_of_a_queued_resource(word: str) -> None:
    state, end, _ = RESOURCES[word]
    found = instance(resource(word), None)
    assert (found.state, found.end) == (state, end)
    assert (found.run_id, found.attempt, found.ref.region) == ("r1", 2, "us-central1")
    assert found.ref.id == "tpu/us-central1-b/plan-r1-2"
    assert bool(found.reason) is (found.state is InstanceState.ENDED)


@each_row("word", NODES)
def test_each_state_of_a_node(word: str) -> None:
    state, end, _ = NODES[word]
    found = instance(resource("ACTIVE"), node(word))
    assert (found.state, found.end) == (state, end)
    assert found.launched_at is not None
    assert found.launched_at.isoformat() == "2026-11-21T12:01:00.123456+00:00"


def test_a_request_that_waited_in_vain_says_what_google_says() -> None:
    found = instance(resource("FAILED", failedData={"error": {"code": 8, "message": STOCKOUT}}), None)
    assert (found.state, found.end, found.reason) == (InstanceState.ENDED, EndKind.NO_CAPACITY, STOCKOUT)
    found = instance(resource("FAILED", failedData={"error": {"code": 8, "message": QUOTA}}), None)
    assert (found.end, found.reason) == (EndKind.NO_CAPACITY, QUOTA)


def test_a_request_that_failed_for_another_reason_was_lost() -> None:
    found = instance(resource("FAILED", failedData={"error": {"code": 7, "message": "no account"}}), None)
    assert (found.end, found.reason, found.bills) == (EndKind.LOST, "no account", False)


@pytest.mark.parametrize(
    "word", ["CREATING", "ACCEPTED", "WAITING_FOR_RESOURCES", "PROVISIONING", "FAILED", "STATE_UNSPECIFIED"]
)
def test_nothing_is_charged_for_a_request_without_a_node(word: str) -> None:
    assert instance(resource(word), None).bills is False


@each_row(("word", "bills"), [(word, word not in ("CREATING", "STATE_UNSPECIFIED")) for word in NODES])
def test_a_node_is_charged_for_from_ready_on(word: str, bills: bool) -> None:
    found = instance(resource("ACTIVE"), node(word))
    assert (found.bills, found.bills_from) == (bills, found.launched_at if bills else None)


@pytest.mark.parametrize("word", ["SUSPENDING", "SUSPENDED", "DELETING"])
def test_what_had_a_node_was_charged_for_since_nobody_knows_when(word: str) -> None:
    found = instance(resource(word), None)
    assert (found.bills, found.bills_from) == (True, None)


def test_who_suspended_it_is_told() -> None:
    assert instance(resource("SUSPENDED", stateInitiator="SERVICE"), None).end is EndKind.RECLAIMED
    assert instance(resource("SUSPENDED", stateInitiator="USER"), None).end is EndKind.KILLED


def test_a_state_that_is_new_ends_the_attempt_and_says_so() -> None:
    for found in (instance(resource("DREAMING"), None), instance(resource("ACTIVE"), node("DREAMING"))):
        assert (found.state, found.end) == (InstanceState.ENDED, EndKind.LOST)
        assert "DREAMING" in str(found.reason)


def test_what_lists_show_is_told_by_its_labels() -> None:
    queued, machine = owned_resource(resource("ACTIVE")), owned_node(node("READY"))
    assert queued is not None
    assert machine is not None
    assert (queued.kind, queued.instance, queued.id) == ("queued resource", True, "tpu/us-central1-b/plan-r1-2")
    assert (machine.kind, machine.instance, machine.id) == ("node", False, "tpunode/us-central1-b/plan-r1-2")
    for found in (queued, machine):
        assert (found.run_id, found.attempt, found.client) == ("r1", 2, "c0ffee")
        assert found.deadline is not None
        assert found.deadline.isoformat() == "2026-11-21T18:00:00+00:00"
    assert owned_node({**node("READY"), "labels": {"team": "others"}}) is None


@pytest.mark.parametrize(
    "identity", ["", "nonsense", "gce/us-central1-b/x", "tpu/us-central1-b", "tpu//x", "tpu/a/b/c"]
)
def test_another_id_is_none_of_a_tpu(identity: str) -> None:
    assert location_of(identity) is None


def test_an_id_leads_back() -> None:
    location = location_of("tpunode/us-central1-b/plan-r1-2")
    assert location is not None
    assert ref_of(location).id == "tpu/us-central1-b/plan-r1-2"
    assert location.full("p", "queuedResources") == NAME


def test_what_the_api_says_stands_in_for_a_console() -> None:
    sick = node(
        "READY", health="UNHEALTHY_MAINTENANCE", healthDescription="soon", symptoms=[{"symptomType": "LOW_MEMORY"}]
    )
    lines = said_of(resource("ACTIVE"), sick)
    assert lines[:3] == ["queued resource: ACTIVE", "node: READY, health UNHEALTHY_MAINTENANCE", "soon"]
    failed = said_of(resource("FAILED", failedData={"error": {"message": STOCKOUT}}), None)
    assert failed == ["queued resource: FAILED", f"queued resource: {STOCKOUT}"]
