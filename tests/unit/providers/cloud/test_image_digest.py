"""A tag's digest: what registries answer, that nothing is believed unchecked, and which is asked next."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from trainplan.providers.cloud.image_digest import digest_of, mirrored
from trainplan.providers.errors import BadRequestError, TransientError

MANIFEST = b'{"schemaVersion": 2}'
DIGEST = f"sha256:{hashlib.sha256(MANIFEST).hexdigest()}"
Answer = tuple[int, dict[str, str], bytes]
Reply = Callable[[str, str], Answer]


class Registry:
    """Answers (path, authorization) as `reply` says, on loopback."""

    def __init__(self) -> None:
        self.reply: Reply = lambda path, authorization: (200, {}, MANIFEST)
        self.requests: list[str] = []
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.requests.append(self.path)
                status, headers, body = registry.reply(self.path, self.headers.get("Authorization") or "")
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.place = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def registries() -> Iterator[tuple[Registry, Registry]]:
    both = (Registry(), Registry())
    yield both
    for registry in both:
        registry.close()


def references(registries: tuple[Registry, Registry]) -> list[str]:
    return [f"{registry.place}/library/python:3.12" for registry in registries]


def test_the_answer_is_hashed(registries: tuple[Registry, Registry]) -> None:
    assert digest_of(references(registries)) == DIGEST
    assert registries[0].requests == ["/v2/library/python/manifests/3.12"]
    assert registries[1].requests == []


@pytest.mark.parametrize(
    "answer",
    [
        (429, {}, b"too many"),
        (500, {}, b""),
        (404, {}, b""),
        (401, {}, b""),
        (401, {"WWW-Authenticate": 'Basic realm="registry"'}, b""),
        (401, {"WWW-Authenticate": 'Bearer realm="file:///etc/passwd"'}, b""),
        (200, {"Docker-Content-Digest": "sha256:" + "0" * 64}, MANIFEST),
        (200, {}, b"x" * (4 * 1024 * 1024 + 1)),
    ],
)
def test_a_registry_that_does_not_tell_is_passed_over(registries: tuple[Registry, Registry], answer: Answer) -> None:
    registries[0].reply = lambda path, authorization: answer
    assert digest_of(references(registries)) == DIGEST
    registries[1].reply = lambda path, authorization: answer
    with pytest.raises(TransientError, match="no registry tells") as caught:
        digest_of(references(registries))
    assert all(registry.place in caught.value.message for registry in registries)
    assert "mirrors" in caught.value.hint


@pytest.mark.parametrize("headers", [{"token": "t1"}, {"access_token": "t1"}])
def test_an_anonymous_token_is_asked_for_where_the_registry_says(
    registries: tuple[Registry, Registry], headers: dict[str, str]
) -> None:
    registry = registries[0]
    challenge = f'Bearer realm="http://{registry.place}/token",service="here",scope="repository:library/python:pull"'

    def reply(path: str, authorization: str) -> Answer:
        if path.startswith("/token"):
            return 200, {}, json.dumps(headers).encode()
        if authorization == "Bearer t1":
            return 200, {"Docker-Content-Digest": DIGEST}, MANIFEST
        return 401, {"WWW-Authenticate": challenge}, b""

    registry.reply = reply
    assert digest_of(references(registries)[:1]) == DIGEST
    assert registry.requests[1] == "/token?service=here&scope=repository%3Alibrary%2Fpython%3Apull"


@pytest.mark.parametrize("body", [b"[]", b"not json", b"{}", b'{"token": 3}'])
def test_a_token_that_is_none(registries: tuple[Registry, Registry], body: bytes) -> None:
    registry = registries[0]
    challenge = {"WWW-Authenticate": f'Bearer realm="http://{registry.place}/token"'}
    registry.reply = lambda path, authorization: (200, {}, body) if path.startswith("/token") else (401, challenge, b"")
    with pytest.raises(TransientError):
        digest_of(references(registries)[:1])


def test_mirrors_come_first_and_the_public_ones_stay() -> None:
    public = ("docker.io/library/python:3.12", "public.example/docker/library/python:3.12")
    assert mirrored(public, ()) == public
    assert mirrored(public, ("here:5000", "there.example/hub/")) == (
        "here:5000/library/python:3.12",
        "there.example/hub/library/python:3.12",
        *public,
    )
    with pytest.raises(BadRequestError, match="is no registry"):
        mirrored(public, ("https://x y",))
