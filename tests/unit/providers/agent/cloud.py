"""The clouds on loopback, as far as the agent asks: metadata, Google's and Azure's stores, secrets, delete calls."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

AWS_KEY = ("AKIDEXAMPLE", "secret", "session")
EXPIRES = "2030-01-01T00:00:00Z"


@dataclass
class Cloud:
    """What the double knows and was asked."""

    url: str = ""
    objects: dict[str, bytes] = field(default_factory=dict)
    blocks: dict[str, bytes] = field(default_factory=dict)
    sessions: dict[str, bytearray] = field(default_factory=dict)
    imds_tokens: list[str] = field(default_factory=list)
    spot: dict[str, str] | None = None
    google: dict[str, str] = field(default_factory=lambda: {"instance/preempted": "FALSE"})
    events: list[dict[str, Any]] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)
    secrets: dict[str, Any] = field(default_factory=dict)
    answers: dict[str, int] = field(default_factory=dict)
    """The status of a delete call, by path; 404 for others."""
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    faults: list[int | str] = field(default_factory=list)
    """For the next calls of a store, in order: a status to answer with, "lost" (done, but the reply is cut), "ok"."""
    page: int = 1000
    identities: tuple[str, ...] = ()
    """Paths of the managed identities of a machine at Azure, where the test cares."""

    def endpoints(self) -> dict[str, str]:
        names = ("metadata", "s3", "gcs", "blob", "secretsmanager", "gcp_secrets", "key_vault", "ecr", "acr", "arm")
        return {name: self.url for name in (*names, "compute", "tpu")}

    def boot(self, cloud: str, run_uri: str) -> dict[str, Any]:
        return {"cloud": cloud, "run_uri": run_uri, "region": "eu-west-1", "endpoints": self.endpoints()}

    def calls_of(self, method: str, part: str) -> list[dict[str, str]]:
        return [headers for verb, path, headers in self.requests if verb == method and part in path]


@contextlib.contextmanager
def cloud() -> Iterator[Cloud]:
    known = Cloud()

    class Handler(_Handler):
        double = known

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    known.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield known
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    double: Cloud
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        parts = urlsplit(self.path)
        heads = {name.lower(): value for name, value in self.headers.items()}
        self.double.requests.append((self.command, self.path, heads))
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        for pattern, answer in _ROUTES:
            if found := re.match(pattern, f"{self.command} {unquote(parts.path)}"):
                store = answer in (_gcs, _gcs_upload, _gcs_session, _blob)
                fault = self.double.faults.pop(0) if store and self.double.faults else "ok"
                if isinstance(fault, int):
                    return self.out(fault, b"not now")
                status, data, more = answer(self.double, found, query, heads, body)
                if fault == "lost":
                    self.close_connection = True
                    return None
                return self.out(status, data, more)
        return self.out(404, b"")

    do_GET = do_PUT = do_POST = do_DELETE = handle_any

    def out(self, status: int, data: bytes, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (more or {}).items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


Answer = tuple[int, bytes, dict[str, str]]


def _json(value: Any, status: int = 200) -> Answer:
    return status, json.dumps(value).encode(), {}


def _imds_token(cloud: Cloud, match: Any, query: Any, heads: Any, body: bytes) -> Answer:
    if not heads.get("x-aws-ec2-metadata-token-ttl-seconds"):
        return 400, b"", {}
    cloud.imds_tokens.append(f"token{len(cloud.requests)}")
    return 200, cloud.imds_tokens[-1].encode(), {}


def _imds(cloud: Cloud, match: Any, query: Any, heads: Any, body: bytes) -> Answer:
    if heads.get("x-aws-ec2-metadata-token") not in cloud.imds_tokens:
        return 401, b"", {}
    path = match.group(1)
    if path == "spot/instance-action":
        return _json(cloud.spot) if cloud.spot else (404, b"", {})
    if path == "iam/security-credentials/":
        return 200, b"role\n", {}
    if path == "iam/security-credentials/role":
        keys = dict(zip(("AccessKeyId", "SecretAccessKey", "Token"), AWS_KEY, strict=True))
        return _json({**keys, "Expiration": EXPIRES})
    return 404, b"", {}


def _google(cloud: Cloud, match: Any, query: Any, heads: Any, body: bytes) -> Answer:
    if heads.get("metadata-flavor") != "Google":
        return 403, b"", {}
    if match.group(1) == "instance/service-accounts/default/token":
        return _json({"access_token": "google-token", "expires_in": 3599})
    said = cloud.google.get(match.group(1))
    return (404, b"", {}) if said is None else (200, said.encode(), {})


def _azure_identity(cloud: Cloud, match: Any, query: Any, heads: Any, body: bytes) -> Answer:
    if heads.get("metadata") != "true":
        return 400, b"", {}
    named = query.get("msi_res_id")
    if named not in cloud.identities and (named or len(cloud.identities) > 1):
        said = "Identity not found" if named else "Multiple user assigned identities exist, please specify which"
        return _json({"error": "invalid_request", "error_description": said}, 400)
    return _json({"access_token": f"azure-token {query['resource']}", "expires_in": "86399"})


def _azure_name(cloud: Cloud, match: Any, query: Any, heads: Any, body: bytes) -> Answer:
    return 200, b"vm-1", {}


def _azure_events(cloud: Cloud, match: Any, query: Any, heads: Any, body: bytes) -> Answer:
    if heads.get("metadata") != "true" or "api-version" not in query:
        return 400, b"", {}
    if body:
        cloud.acknowledged += [row["EventId"] for row in json.loads(body)["StartRequests"]]
        return 200, b"", {}
    return _json({"DocumentIncarnation": 1, "Events": cloud.events})


def _span(data: bytes, heads: dict[str, str], header: str) -> Answer:
    found = re.match(r"bytes=(\d+)-(\d*)", heads.get(header, ""))
    if not found:
        return 200, data, {}
    start, last = int(found.group(1)), int(found.group(2) or len(data) - 1)
    return (416, b"", {}) if start >= len(data) else (206, data[start : last + 1], {})


def _md5(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data).digest()).decode()


def _gcs(cloud: Cloud, match: Any, query: Any, heads: Any, body: bytes) -> Answer:
    if heads.get("authorization") != "Bearer google-token":
        return 401, b"", {}
    verb, name = match.group(1), match.group(2)
    if not name:
        names = sorted(path for path in cloud.objects if path.startswith(query["prefix"]))
        start = int(query.get("pageToken", "0"))
        rows = [{"name": path, "size": str(len(cloud.objects[path]))} for path in names[start : start + cloud.page]]
        more = {"nextPageToken": str(start + cloud.page)} if start + cloud.page < len(names) else {}
        return _json({"items": rows, **more} if rows else more)
    if name not in cloud.objects:
        return _json({"error": {"code": 404}}, 404)
    if verb == "DELETE":
        del cloud.objects[name]
        return 204, b"", {}
    assert query["alt"] == "media"
    return _span(cloud.objects[name], heads, "range")


def _gcs_upload(cloud: Cloud, match: Any, query: Any, heads: Any, body: bytes) -> Answer:
    if query["uploadType"] == "media":
        cloud.objects[query["name"]] = body
        return _json({"name": query["name"], "md5Hash": _md5(body)})
    cloud.sessions[query["name"]] = bytearray()
    return 200, b"", {"location": f"{cloud.url}/session/{query['name']}"}


def _gcs_session(cloud: Cloud, match: Any, query: Any, heads: Any, body: bytes) -> Answer:
    """As Google: bytes must begin where the last ended, in multiples of 256 KiB but for the end."""
    name = match.group(1)
    data = cloud.sessions[name]
    span = re.match(r"bytes (\*|(\d+)-(\d+))/(\d+)", heads["content-range"])
    assert span is not None
    total = int(span.group(4))
    if body:
        if int(span.group(2)) != len(data):
            return 400, b"out of order", {}
        assert int(span.group(3)) + 1 - int(span.group(2)) == len(body)
        assert len(data) + len(body) == total or len(body) % 262_144 == 0
        data += body
    if len(data) == total:
        cloud.objects[name] = bytes(data)
        return _json({"name": name, "md5Hash": _md5(bytes(data))})
    return 308, b"", {"range": f"bytes=0-{len(data) - 1}"} if data else {}


def _blob(cloud: Cloud, match: Any, query: Any, heads: Any, body: bytes) -> Answer:
    if heads.get("authorization") != "Bearer azure-token https://storage.azure.com/":
        return 403, b"", {}
    if "x-ms-version" not in heads or "x-ms-date" not in heads:
        return 400, b"MissingRequiredHeader", {}
    verb, name, kind = match.group(1), match.group(2), query.get("comp")
    if "content-md5" in heads and heads["content-md5"] != _md5(body):
        return 400, b"Md5Mismatch", {}
    if kind == "list":
        return _blob_list(cloud, query)
    if verb == "PUT":
        return _blob_put(cloud, name, kind, query, heads, body)
    if name not in cloud.objects:
        return 404, b"<Error><Code>BlobNotFound</Code></Error>", {}
    if verb == "DELETE":
        del cloud.objects[name]
        return 202, b"", {}
    return _span(cloud.objects[name], heads, "x-ms-range")


def _blob_list(cloud: Cloud, query: dict[str, str]) -> Answer:
    names = sorted(path for path in cloud.objects if path.startswith(query["prefix"]))
    start = int(query.get("marker", "0"))
    rows = "".join(
        f"<Blob><Name>{escape(path)}</Name><Properties><Content-Length>{len(cloud.objects[path])}</Content-Length>"
        "</Properties></Blob>"
        for path in names[start : start + cloud.page]
    )
    more = str(start + cloud.page) if start + cloud.page < len(names) else ""
    text = f"<EnumerationResults><Blobs>{rows}</Blobs><NextMarker>{more}</NextMarker></EnumerationResults>"
    return 200, f'\ufeff<?xml version="1.0" encoding="utf-8"?>{text}'.encode(), {}


def _blob_put(cloud: Cloud, name: str, kind: str | None, query: Any, heads: Any, body: bytes) -> Answer:
    if kind == "block":
        cloud.blocks[f"{name} {query['blockid']}"] = body
        return 201, b"", {}
    if kind == "blocklist":
        ids = re.findall(r"<Latest>(.*?)</Latest>", body.decode())
        cloud.objects[name] = b"".join(cloud.blocks[f"{name} {block}"] for block in ids)
        return 201, b"", {}
    assert heads["x-ms-blob-type"] == "BlockBlob"
    cloud.objects[name] = body
    return 201, b"", {}


def _json_service(cloud: Cloud, match: Any, query: Any, heads: Any, body: bytes) -> Answer:
    """ECR and Secrets Manager: one address, the call in a header."""
    assert "Credential=AKIDEXAMPLE/" in heads["authorization"]
    assert heads["x-amz-security-token"] == AWS_KEY[2]
    asked = json.loads(body)
    if heads["x-amz-target"] == "secretsmanager.GetSecretValue":
        value = cloud.secrets.get(asked["SecretId"])
        return _json({"SecretString": value}) if value else _json({"__type": "ResourceNotFoundException"}, 400)
    token = base64.b64encode(f"AWS:password of {asked['registryIds'][0]}".encode()).decode()
    return _json({"authorizationData": [{"authorizationToken": token}]})


def _google_secret(cloud: Cloud, match: Any, query: Any, heads: Any, body: bytes) -> Answer:
    value = cloud.secrets.get(match.group(1))
    if heads.get("authorization") != "Bearer google-token" or value is None:
        return 403, b"", {}
    return _json({"payload": {"data": base64.b64encode(value.encode()).decode()}})


def _key_vault(cloud: Cloud, match: Any, query: Any, heads: Any, body: bytes) -> Answer:
    if heads.get("authorization") != "Bearer azure-token https://vault.azure.net":
        return 401, b"", {}
    return _json({"value": cloud.secrets[match.group(1)]})


def _acr(cloud: Cloud, match: Any, query: Any, heads: Any, body: bytes) -> Answer:
    asked = parse_qs(body.decode())
    assert asked["access_token"] == ["azure-token https://management.azure.com/"]
    return _json({"refresh_token": f"refresh for {asked['service'][0]}"})


def _managed(cloud: Cloud, match: Any, query: Any, heads: Any, body: bytes) -> Answer:
    return cloud.answers.get(f"{match.group(1)} {match.group(2)}", 404), b"", {}


_ROUTES = [
    (r"PUT /latest/api/token$", _imds_token),
    (r"GET /latest/meta-data/(.*)$", _imds),
    (r"GET /computeMetadata/v1/(.*)$", _google),
    (r"GET /metadata/identity/oauth2/token$", _azure_identity),
    (r"GET /metadata/instance/compute/name$", _azure_name),
    (r"(?:GET|POST) /metadata/scheduledevents$", _azure_events),
    (r"(GET|DELETE) /storage/v1/b/bucket/o/?(.*)$", _gcs),
    (r"POST /upload/storage/v1/b/bucket/o$", _gcs_upload),
    (r"PUT /session/(.*)$", _gcs_session),
    (r"(GET|PUT|DELETE) /account/box/?(.*)$", _blob),
    (r"POST /$", _json_service),
    (r"GET /v1/(projects/.*):access$", _google_secret),
    (r"GET /secrets/(.*)$", _key_vault),
    (r"POST /oauth2/exchange$", _acr),
    (r"(DELETE|POST) (/.*)$", _managed),
]
