"""The layer in front of moto: it knows which call comes in, remembers it, lets it go wrong, and else passes it on."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any
from urllib.parse import unquote

from tests.doubles.aws import backends
from tests.doubles.aws.objects import ACCOUNT
from tests.doubles.aws.permissions import TRIED, Judge
from tests.doubles.aws.requests import operation_of
from tests.doubles.aws.scenario import Fault
from tests.doubles.aws.trail import CLOUDTRAIL, looked_up
from tests.doubles.aws.world import World
from tests.faults.harness import EndedBy

Environ = dict[str, Any]
Start = Callable[..., Any]
NO_IMAGE = b"ami-00000000000000000"
CLOUDWATCH = "monitoring"
"""By the name under which it is signed for."""
FREE_TIER = "freetier"
DIGEST_OF_NOTHING = '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}'
"""What the registry beside the double has under every name."""
_SCOPE = re.compile(r"Credential=[^/]+/\d+/([^/]+)/([^/]+)/aws4_request")
_CODE = re.compile(rb"<Errors><Error><Code>([^<]+)</Code>")
_PAGE_SIZE = re.compile(rb"MaxResults=\d+")


_DENIED = {
    "ec2": "UnauthorizedOperation",
    "s3": "AccessDenied",
    "iam": "AccessDenied",
    "sts": "AccessDenied",
    "monitoring": "AccessDenied",
}
_GLOBAL = ("iam", "sts")
"""Services without a region, which such a policy leaves out."""


class Dropped(ConnectionError):
    """The connection ends without an answer; the server only sees that it is gone."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call as it came in. `key` is an object's for S3; `body` what was sent with it."""

    service: str
    region: str
    operation: str
    key: str = ""
    body: bytes = field(default=b"", repr=False)

    def to_json(self) -> dict[str, str]:
        return {"service": self.service, "region": self.region, "operation": self.operation, "key": self.key}


@dataclass
class Armed:
    """A fault with what it has seen of calls."""

    rule: Fault
    chance: Random
    call_count: int = 0
    hits: int = 0

    def meets(self, call: Call, seconds: float) -> bool:
        rule = self.rule
        if rule.operation not in ("*", call.operation) or rule.service not in (None, call.service):
            return False
        if rule.region not in (None, call.region) or not _within(rule, seconds):
            return False
        self.call_count += 1
        if self.call_count <= rule.skip or (rule.times is not None and self.hits >= rule.times):
            return False
        if self.chance.random() >= rule.chance:
            return False
        self.hits += 1
        return True


@dataclass
class Front:
    """A WSGI application. `answer` is moto's, `world` the one that is played in."""

    answer: Callable[[Environ, Start], Iterable[bytes]]
    world: World
    armed: list[Armed] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    judge: Judge = field(default_factory=Judge)
    refusals: list[str] = field(default_factory=list)
    """The codes with which AWS itself has refused calls of EC2, in their order."""

    def arm(self, rules: Iterable[Fault]) -> None:
        for rule in rules:
            seed = f"{self.world.scenario.seed}/{len(self.armed)}/{rule.operation}"
            self.armed.append(Armed(rule, Random(seed)))

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        if environ["PATH_INFO"].startswith("/v2/"):
            return _registry(start)
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        call = call_of(environ, body)
        self.calls.append(call)
        seconds = (self.world.now - self.world.began).total_seconds()
        fault = next((known.rule for known in self.armed if known.meets(call, seconds)), None)
        if fault is not None and fault.effect == "error":
            return _refuse(call, fault, start)
        if fault is not None and fault.effect == "lost_request":
            raise Dropped
        if call.service == CLOUDWATCH:
            backends.tell_turns(self.world)
        scenario = self.world.scenario
        if scenario.image_first and NO_IMAGE in call.body:
            return _refuse(call, Fault(code="InvalidAMIID.NotFound", message="The image id does not exist"), start)
        missing = self.judge.refusal(call, environ, scenario.policies, scenario.withheld) if scenario.policies else ""
        if missing:
            return _refuse(call, _not_allowed(call, missing), start)
        words = self.world.unmet.meets(call, self.world.now)
        if words is not None:
            refusal = Fault(code=words.code, message=words.message, status=words.status)
            return _refuse(call, refusal, start) if words.code else _empty(call, start)
        carry_out = self._recording(call, start if fault is None else _nobody)
        answered = _of_ours(call, self.world, carry_out)
        given = answered or list(self._passed_on(environ, body, carry_out))
        if call.service == "ec2" and (found := _CODE.search(b"".join(given))):
            self.refusals.append(found.group(1).decode())
        if fault is not None:
            raise Dropped
        return given

    def _recording(self, call: Call, start: Start) -> Start:
        """What was carried out is remembered as made at this instant."""

        def begin(status: str, *rest: Any) -> Any:
            if status.startswith("2"):
                self.world.unmet.note_creation(call, self.world.now)
            return start(status, *rest)

        return begin

    def forget_calls(self) -> None:
        self.calls.clear()
        self.refusals.clear()
        self.judge = Judge()

    def _passed_on(self, environ: Environ, body: bytes, start: Start) -> Iterable[bytes]:
        self.world.catch_up()
        self.world.request = body
        paged = f"MaxResults={self.world.scenario.page_size}"
        if b"Action=Describe" in body:
            body = _PAGE_SIZE.sub(paged.encode(), body)
            environ["CONTENT_LENGTH"] = str(len(body))
        query = environ.get("QUERY_STRING", "")
        environ["QUERY_STRING"] = re.sub(r"MaxResults=\d+", paged, query)
        environ["wsgi.input"] = io.BytesIO(body)
        self.world.caller = EndedBy.COMMAND
        try:
            return list(self.answer(environ, start))
        finally:
            self.world.caller = None


@dataclass(frozen=True)
class Organisation:
    """Before AWS's own answer: a policy of the account's organisation that denies regions all but global services, as
    AWS Control Tower's control of regions does."""

    answer: Callable[[Environ, Start], Iterable[bytes]]
    world: Callable[[], World]

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        scope = _SCOPE.search(environ.get("HTTP_AUTHORIZATION", ""))
        region, service = scope.groups() if scope else ("", "s3")
        if region not in self.world().scenario.denied_regions or service in _GLOBAL:
            return self.answer(environ, start)
        code = _DENIED.get(service, "AccessDeniedException")
        said = (
            f"You are not authorized to perform this operation. User: arn:aws:iam::{ACCOUNT}:user/moto is not "
            "authorized to perform it with an explicit deny in a service control policy. "
            "Encoded authorization failure message: x"
        )
        return _refuse(Call(service, region, "?"), Fault(code=code, message=said, status=403), start)


def call_of(environ: Environ, body: bytes) -> Call:
    """Which call this is, by the signature's scope and the service's own way of naming operations."""
    scope = _SCOPE.search(environ.get("HTTP_AUTHORIZATION", ""))
    region, service = scope.groups() if scope else ("us-east-1", "s3")
    path = unquote(environ["PATH_INFO"])
    operation = operation_of(service, environ, body)
    if b"DryRun=true" in body:
        operation += TRIED
    return Call(service, region, operation, path if service == "s3" else "", body)


def _within(rule: Fault, seconds: float) -> bool:
    return (rule.start is None or seconds >= rule.start) and (rule.end is None or seconds < rule.end)


def _refuse(call: Call, fault: Fault, start: Start) -> Iterable[bytes]:
    """The error in the words of the service's protocol."""
    code, said = fault.code, fault.message
    kind, body = "text/xml", f"<Error><Code>{code}</Code><Message>{said}</Message></Error>"
    headers = []
    if call.service == "ec2":
        body = f"<Response><Errors>{body}</Errors><RequestID>r</RequestID></Response>"
    elif call.service in ("iam", "sts", "elasticloadbalancing"):
        body = f"<ErrorResponse>{body}<RequestId>r</RequestId></ErrorResponse>"
    elif call.service != "s3":
        kind, body = "application/json", json.dumps({"__type": code, "message": said, "Message": said})
        headers = [("x-amzn-ErrorType", code)]
    data = body.encode()
    start(f"{fault.status} no", [("Content-Type", kind), ("Content-Length", str(len(data))), *headers])
    return [data]


def _not_allowed(call: Call, action: str) -> Fault:
    said = f"User: arn:aws:iam::{ACCOUNT}:user/moto is not authorized to perform: {action}"
    because = f"{said} because no identity-based policy allows the {action} action"
    return Fault(code=_DENIED.get(call.service, "AccessDeniedException"), message=because, status=403)


def _of_ours(call: Call, world: World, start: Start) -> list[bytes] | None:
    """What services answer of which moto has nothing; None: the call is of another."""
    if call.service == FREE_TIER:
        return _free_tier(call, world, start)
    if (call.service, call.operation) != (CLOUDTRAIL, "LookupEvents"):
        return None
    world.catch_up()
    status, told = looked_up(world, call.region, call.body)
    data = json.dumps(told).encode()
    start(f"{status} told", [("Content-Type", "application/x-amz-json-1.1"), ("Content-Length", str(len(data)))])
    return [data]


def _free_tier(call: Call, world: World, start: Start) -> list[bytes]:
    """AWS Free Tier, of which moto has nothing: one operation, in one region, in the shape of botocore's model."""
    scenario = world.scenario
    if (call.operation, call.region) != ("GetAccountPlanState", "us-east-1"):
        raise Dropped
    if scenario.plan == "none":
        fault = Fault(code="ResourceNotFoundException", message="The account has no plan.")
        return list(_refuse(call, fault, start))
    told: dict[str, Any] = {"accountId": ACCOUNT, "accountPlanType": scenario.plan, "accountPlanStatus": "ACTIVE"}
    if scenario.plan == "FREE":
        told["accountPlanStatus"] = "EXPIRED" if scenario.plan_has_ended else "ACTIVE"
        told["accountPlanRemainingCredits"] = {"amount": 100.0, "unit": "USD"}
        told["accountPlanExpirationDate"] = (world.began + timedelta(days=180)).timestamp()
    data = json.dumps(told).encode()
    start("200 OK", [("Content-Type", "application/x-amz-json-1.0"), ("Content-Length", str(len(data)))])
    return [data]


def _empty(call: Call, start: Start) -> Iterable[bytes]:
    """A list of EC2's without a row."""
    data = f"<{call.operation}Response><requestId>r</requestId></{call.operation}Response>".encode()
    start("200 OK", [("Content-Type", "text/xml"), ("Content-Length", str(len(data)))])
    return [data]


def _registry(start: Start) -> Iterable[bytes]:
    data = DIGEST_OF_NOTHING.encode()
    start("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(data)))])
    return [data]


def _nobody(*_: Any, **__: Any) -> Callable[[bytes], None]:
    return lambda data: None
