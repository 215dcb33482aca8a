"""The standing reaper within the double: the very file that a set-up uploads, run as Lambda runs it.

Its SDK asks AWS within this process: nothing goes over the network, no fault of the scenario meets it, and its calls
are not among those of clients.
"""

from __future__ import annotations

import functools
import io
import sys
import threading
import zipfile
from collections.abc import Callable, Iterable
from datetime import datetime
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.handlers import BUILTIN_HANDLERS

from tests.doubles.aws.backends import HOME, REAPER
from tests.doubles.aws.objects import ACCOUNT
from trainplan.providers.aws.setup_steps import packed

Aws = Any
"""A WSGI application that answers for all of AWS."""
_ENTRY = "reaper.py"


def install(aws: Aws) -> None:
    """Whatever in this process asks AWS through the SDK is answered by `aws`, for good."""
    BUILTIN_HANDLERS.append(("before-send", _Within(aws)))


def reap(now: datetime) -> bool:
    """One turn of the schedule, and whether it succeeded: what the function raises counts as an error of its own."""
    try:
        _handler(_uploaded() or packed())({"time": f"{now:%Y-%m-%dT%H:%M:%SZ}"}, None)
    except RuntimeError:
        return False
    return True


def is_another() -> bool:
    """Whether the function is not the product's: it may fail even where there is nothing to end."""
    return _uploaded() not in (None, _ours())


@functools.cache
def _ours() -> bytes:
    return packed()


def _uploaded() -> bytes | None:
    """What was uploaded in this world; None where its scenario began with a reaper that stood already."""
    loaded = sys.modules.get("moto.awslambda.models")  # with the first call to Lambda, and not before
    if loaded is None:
        return None
    found = [row for row in loaded.lambda_backends[ACCOUNT][HOME].list_functions() if row.function_name == REAPER]
    return bytes(found[0].code_bytes) if found else None


@functools.cache
def _handler(code: bytes) -> Callable[[dict[str, str], object], object]:
    """Out of the archive, by the name that the function is made with."""
    with zipfile.ZipFile(io.BytesIO(code)) as archive:
        source = archive.read(_ENTRY).decode()
    module = ModuleType("reaper")
    exec(compile(source, _ENTRY, "exec"), module.__dict__)  # it is what Lambda does with it
    handler: Callable[[dict[str, str], object], object] = module.handler
    return handler


class _Within:
    """The SDK's way to AWS, one call after the other as the double's server has them."""

    def __init__(self, aws: Aws) -> None:
        self._aws = aws
        self._lock = threading.Lock()

    def __call__(self, request: AWSPreparedRequest, **_: object) -> AWSResponse:
        told: list[Any] = []
        with self._lock:
            body = b"".join(self._respond(request, lambda status, headers, *_: told.extend((status, headers))))
        status, headers = told
        return AWSResponse(request.url, int(status.split()[0]), dict(headers), _Raw(body))

    def _respond(self, request: AWSPreparedRequest, start: Callable[..., Any]) -> Iterable[bytes]:
        url, body = urlsplit(request.url), request.body or b""
        data = body.encode() if isinstance(body, str) else body
        named = {f"HTTP_{name.upper().replace('-', '_')}": _text(value) for name, value in request.headers.items()}
        environ = {
            "REQUEST_METHOD": request.method,
            "SCRIPT_NAME": "",
            "PATH_INFO": url.path or "/",
            "QUERY_STRING": url.query,
            "SERVER_NAME": url.hostname,
            "SERVER_PORT": "443",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "CONTENT_TYPE": named.get("HTTP_CONTENT_TYPE", ""),
            "CONTENT_LENGTH": str(len(data)),
            "wsgi.url_scheme": "https",
            "wsgi.input": io.BytesIO(data),
            **named,
        }
        return list(self._aws(environ, start))


class _Raw(io.BytesIO):
    """A body as the SDK reads it."""

    def stream(self, **_: object) -> Iterable[bytes]:
        yield self.read()


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode()
