"""Google Cloud Storage's JSON API on loopback: buckets, whole and resumable uploads, ranges, pages, generations."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.doubles.serving import QuickHandler, Serving

CHUNK_UNIT = 256 * 1024
_MOST_ROWS = 1000
_OBJECT = re.compile(r"^(?:/download)?/storage/v1/b/([^/]+)/o/(.+)$")
_OBJECTS = re.compile(r"^/storage/v1/b/([^/]+)/o$")
_BUCKET = re.compile(r"^/storage/v1/b/([^/]+)$")
_UPLOAD = re.compile(r"^/upload/storage/v1/b/([^/]+)/o$")


class RefusedError(Exception):
    """An answer that is not a success."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = json.dumps(
            {"error": {"code": status, "message": message, "errors": [{"reason": reason, "message": message}]}}
        ).encode()


@dataclass(slots=True)
class Stored:
    """One object."""

    data: bytes
    generation: int


@dataclass(slots=True)
class Session:
    """A resumable upload. `data` is what is there; `done` once it is whole."""

    bucket: str
    name: str
    size: int | None
    precondition: int | None
    data: bytes = b""
    is_done: bool = False


@dataclass(slots=True)
class World:
    """What Google has. `tokens` None lets everybody in; `foreign` are other people's buckets.

    `takes_at_most` bytes of a piece of a resumable upload are kept, and the answer says so, as Google may.
    """

    buckets: dict[str, dict[str, Any]] = field(default_factory=dict)
    objects: dict[str, dict[str, Stored]] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)
    tokens: set[str] | None = None
    takes_at_most: int | None = None
    calls: list[tuple[str, str]] = field(default_factory=list)
    generation: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)

    def bucket(self, name: str) -> dict[str, Stored]:
        if name in self.foreign:
            raise RefusedError(403, "forbidden", "you do not have storage.objects.list access")
        if name not in self.buckets:
            raise RefusedError(404, "notFound", "The specified bucket does not exist.")
        return self.objects[name]

    def keep(self, bucket: str, name: str, data: bytes, precondition: int | None) -> dict[str, str]:
        """The object's resource, once it is there whole."""
        there = self.bucket(bucket)
        found = there[name].generation if name in there else 0
        if precondition is not None and precondition != found:
            raise RefusedError(412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")
        self.generation += 1
        there[name] = Stored(data, self.generation)
        return resource(bucket, name, there[name])


def resource(bucket: str, name: str, stored: Stored) -> dict[str, str]:
    return {
        "kind": "storage#object",
        "bucket": bucket,
        "name": name,
        "size": str(len(stored.data)),
        "generation": str(stored.generation),
        "md5Hash": md5(stored.data),
    }


def md5(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data).digest()).decode()


class GcsDouble(Serving):
    """The server, in threads of this process; `with` starts and ends it."""

    def __init__(self) -> None:
        self.world = World()
        world = self.world

        class Handler(_Handler):
            there = world

        super().__init__(Handler)


@dataclass(frozen=True, slots=True)
class Request:
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def precondition(self) -> int | None:
        given = self.query.get("ifGenerationMatch")
        return None if given is None else int(given)


Answer = tuple[int, dict[str, str], bytes]


class _Handler(QuickHandler):
    there: World

    def do(self) -> None:
        parts = urlsplit(self.path)
        asked = Request(
            self.command,
            parts.path,
            {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()},
            {name.lower(): value for name, value in self.headers.items()},
            self.rfile.read(int(self.headers.get("Content-Length") or 0)),
        )
        try:
            with self.there.lock:
                self.there.calls.append((asked.method, asked.path))
                status, headers, body = answered(self.there, asked)
        except RefusedError as error:
            status, headers, body = error.status, {"Content-Type": "application/json"}, error.body
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = do

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


def answered(world: World, request: Request) -> Answer:
    if (
        world.tokens is not None
        and request.headers.get("authorization", "").removeprefix("Bearer ") not in world.tokens
    ):
        raise RefusedError(401, "authError", "Invalid Credentials")
    if request.path == "/storage/v1/b":
        return _create(world, request) if request.method == "POST" else _buckets(world, request)
    if found := _BUCKET.match(request.path):
        world.bucket(found[1])
        return _json({name: value for name, value in world.buckets[found[1]].items() if name != "project"})
    if found := _OBJECTS.match(request.path):
        return _page(world, request, found[1])
    if found := _UPLOAD.match(request.path):
        return _piece(world, request) if "upload_id" in request.query else _uploaded(world, request, found[1])
    if found := _OBJECT.match(request.path):
        return _object(world, request, found[1], unquote(found[2]))
    raise RefusedError(404, "notFound", f"no such method: {request.method} {request.path}")


def told_of(request: Request) -> dict[str, str]:
    """What is put or fetched: `bucket`, `object`, and of what is put the bytes in base64 (`data`)."""
    if found := _OBJECT.match(request.path):
        return {"bucket": found[1], "object": unquote(found[2])}
    found = _UPLOAD.match(request.path)
    assert found
    if request.query.get("uploadType") != "multipart":
        return {"bucket": found[1], "object": request.query.get("name", "")}
    told, data = _in_two(request)
    return {"bucket": found[1], "object": told["name"], "data": base64.b64encode(data).decode()}


def _json(value: object) -> Answer:
    return 200, {"Content-Type": "application/json; charset=UTF-8"}, json.dumps(value).encode()


def _create(world: World, request: Request) -> Answer:
    wanted = json.loads(request.body)
    if wanted["name"] in world.buckets or wanted["name"] in world.foreign:
        raise RefusedError(409, "conflict", "The requested bucket name is not available.")
    world.buckets[wanted["name"]] = {**wanted, "project": request.query["project"]}
    world.objects[wanted["name"]] = {}
    return _json(wanted)


def _buckets(world: World, request: Request) -> Answer:
    prefix, project = request.query.get("prefix", ""), request.query["project"]
    rows = [
        {"name": name}
        for name, made in sorted(world.buckets.items())
        if name.startswith(prefix) and made["project"] == project
    ]
    return _json({"items": rows} if rows else {})


def _page(world: World, request: Request, bucket: str) -> Answer:
    names = sorted(name for name in world.bucket(bucket) if name.startswith(request.query.get("prefix", "")))
    after = base64.b64decode(request.query.get("pageToken", "")).decode()
    rest = [name for name in names if name > after]
    most = min(_MOST_ROWS, int(request.query.get("maxResults", _MOST_ROWS)))
    page: dict[str, Any] = {"items": [resource(bucket, name, world.objects[bucket][name]) for name in rest[:most]]}
    if len(rest) > most:
        page["nextPageToken"] = base64.b64encode(rest[most - 1].encode()).decode()
    return _json(page)


def _object(world: World, request: Request, bucket: str, name: str) -> Answer:
    there = world.bucket(bucket)
    if name not in there:
        raise RefusedError(404, "notFound", f"No such object: {bucket}/{name}")
    if request.method == "DELETE":
        if request.precondition not in (None, there[name].generation):
            raise RefusedError(412, "conditionNotMet", "the object has another generation")
        del there[name]
        return 204, {}, b""
    if request.query.get("alt") != "media":
        return _json(resource(bucket, name, there[name]))
    return _read(there[name], request.headers.get("range"))


def _read(stored: Stored, span: str | None) -> Answer:
    headers = {"Content-Type": "application/octet-stream", "x-goog-hash": f"md5={md5(stored.data)}"}
    if span is None:
        return 200, headers, stored.data
    start, _, end = span.removeprefix("bytes=").partition("-")
    if int(start) >= len(stored.data):
        raise RefusedError(416, "requestedRangeNotSatisfiable", "Request range not satisfiable")
    data = stored.data[int(start) : int(end) + 1 if end else None]
    last = int(start) + len(data) - 1
    return 206, {**headers, "Content-Range": f"bytes {start}-{last}/{len(stored.data)}"}, data


def _uploaded(world: World, request: Request, bucket: str) -> Answer:
    world.bucket(bucket)
    match request.query["uploadType"]:
        case "media":
            return _json(world.keep(bucket, request.query["name"], request.body, request.precondition))
        case "multipart":
            return _json(_kept_multipart(world, request, bucket))
        case "resumable":
            return _session(world, request, bucket)
        case kind:
            raise RefusedError(400, "invalid", f"uploadType {kind}")


def _kept_multipart(world: World, request: Request, bucket: str) -> dict[str, str]:
    """The hash in the metadata is checked."""
    told, data = _in_two(request)
    if told.get("md5Hash") not in (None, md5(data)):
        raise RefusedError(400, "invalid", "Provided MD5 hash does not match calculated MD5 hash")
    return world.keep(bucket, told["name"], data, request.precondition)


def _in_two(request: Request) -> tuple[dict[str, str], bytes]:
    """Metadata and bytes out of one body."""
    boundary = re.search(r'boundary="?([^";]+)', request.headers["content-type"])
    assert boundary
    _, metadata, media, _ = request.body.split(b"--" + boundary[1].encode(), 3)
    told = json.loads(metadata.partition(b"\r\n\r\n")[2])
    return told, media.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")


def _session(world: World, request: Request, bucket: str) -> Answer:
    told = json.loads(request.body) if request.body else {}
    size = request.headers.get("x-upload-content-length")
    token = f"session-{len(world.sessions) + 1}"
    world.sessions[token] = Session(
        bucket, told.get("name") or request.query["name"], int(size) if size else None, request.precondition
    )
    place = f"http://{request.headers['host']}/upload/storage/v1/b/{bucket}/o?uploadType=resumable&upload_id={token}"
    return 200, {"Location": place, "X-GUploader-UploadID": token}, b""


def _piece(world: World, request: Request) -> Answer:
    """A piece of a resumable upload, or the question how much is there (`bytes */SIZE`)."""
    session = world.sessions.get(request.query["upload_id"])
    if session is None:
        raise RefusedError(410, "gone", "the upload is not there any more")
    if not session.is_done:
        span, _, total = request.headers["content-range"].removeprefix("bytes ").partition("/")
        if span != "*":
            _take(world, session, int(span.partition("-")[0]), request.body, int(total))
        if len(session.data) < int(total):
            there = {"Range": f"bytes=0-{len(session.data) - 1}"} if session.data else {}
            return 308, there, b""
        world.keep(session.bucket, session.name, session.data, session.precondition)
        session.is_done = True
    return _json(resource(session.bucket, session.name, world.objects[session.bucket][session.name]))


def _take(world: World, session: Session, start: int, data: bytes, total: int) -> None:
    if start != len(session.data):
        raise RefusedError(503, "backendError", f"begins at {start}, there are {len(session.data)} bytes")
    if start + len(data) < total and len(data) % CHUNK_UNIT:
        raise RefusedError(400, "invalid", "a piece that is not the last is a multiple of 256 KiB")
    kept = data if world.takes_at_most is None else data[: world.takes_at_most]
    session.data += kept
