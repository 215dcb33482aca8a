"""The agent's three stores against doubles on loopback: S3 is moto's, Google's and Azure's are our own."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlencode

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st
from moto.server import ThreadedMotoServer

from tests.unit.providers.agent.cloud import Cloud, cloud
from tests.unit.providers.agent.machine import drained
from trainplan.providers.agent import requests, store
from trainplan.providers.agent.gcs import check_md5
from trainplan.providers.agent.requests import Access, signed
from trainplan.providers.agent.s3 import S3Upload
from trainplan.providers.agent.store import AwayError, RefusedError, Store, download, upload
from trainplan.providers.agent.stores import open_store
from trainplan.providers.azure.permissions import DATA_ACTIONS

NOW = 1_795_262_400.0
EMPTY = hashlib.sha256(b"").hexdigest()


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@pytest.fixture
def double() -> Iterator[Cloud]:
    with cloud() as known:
        yield known


@pytest.fixture(params=["aws", "gcp", "azure"])
def access(request: pytest.FixtureRequest, double: Cloud, s3: str) -> Access:
    uri = {"aws": "s3://bucket/plan/r1", "gcp": "gs://bucket/plan/r1", "azure": "azblob://account/box/plan/r1"}
    boot = double.boot(request.param, uri[request.param])
    boot["endpoints"]["s3"] = s3
    found = Access(boot)
    if request.param == "aws":
        assert found.call("PUT", f"{s3}/bucket", body=_PLACEMENT)[0] in (200, 409)
        there = open_store(found)
        for path in there.list(""):
            there.delete(path)
    return found


_BLOBS = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"
_PLACEMENT = (
    b"<CreateBucketConfiguration><LocationConstraint>eu-west-1</LocationConstraint></CreateBucketConfiguration>"
)


@pytest.fixture
def run(access: Access, monkeypatch: pytest.MonkeyPatch) -> Store:
    return open_store(access)


def test_what_is_put_can_be_got_listed_and_deleted(run: Store) -> None:
    run.put("attempts/1/status.json", b"one")
    run.put("attempts/1/status.json", b"two")
    run.put("attempts/10/log/00001.log", b"ten")
    assert run.get("attempts/1/status.json") == b"two"
    assert run.list("attempts/1") == {"attempts/1/status.json": 3}
    run.delete("attempts/1/status.json")
    run.delete("attempts/1/status.json")
    assert run.list("attempts/1") == {}
    with pytest.raises(KeyError):
        run.get("attempts/1/status.json")
    with pytest.raises(KeyError):
        run.get("control/stop")


def test_parts_of_an_object(run: Store) -> None:
    run.put("a", b"0123456789")
    assert run.get("a", 4) == b"456789"
    assert run.get("a", 4, 3) == b"456"
    assert run.get("a", 8, 100) == b"89"
    assert run.get("a", 10) == b""
    assert run.get("a", 0, 4) == b"0123"


@pytest.mark.parametrize("name", ["a b+c%.txt", "ü/é~x", "a&b=c?d#e", "x" * 200])
def test_names_that_need_quoting(run: Store, name: str) -> None:
    run.put(f"odd/{name}", name.encode())
    assert run.get(f"odd/{name}") == name.encode()
    assert run.list("odd") == {f"odd/{name}": len(name.encode())}
    run.delete(f"odd/{name}")
    assert run.list("odd") == {}


def test_large_files_go_in_parts(run: Store, tmp_path: Path) -> None:
    data = bytes(range(256)) * (store.PART_BYTES // 128) + b"end"  # two parts and a bit
    (tmp_path / "large").write_bytes(data)
    digest = drained(upload(run, "checkpoints/step-1/state.npz", tmp_path / "large"))
    assert digest == hashlib.sha256(data).hexdigest()
    assert drained(download(run, "checkpoints/step-1/state.npz", tmp_path / "back", len(data), tmp_path)) == digest
    assert (tmp_path / "back").read_bytes() == data


@pytest.mark.parametrize("size", [0, 1, store.PART_BYTES])
def test_sizes_at_the_edges(run: Store, tmp_path: Path, size: int) -> None:
    (tmp_path / "file").write_bytes(b"x" * size)
    drained(upload(run, "file", tmp_path / "file"))
    assert run.list("")["file"] == size


def test_the_run_directory_may_be_the_whole_bucket(double: Cloud) -> None:
    run = open_store(Access(double.boot("gcp", "gs://bucket")))
    run.put("job.json", b"{}")
    run.put("a/b", b"")
    assert run.list("a") == {"a/b": 0}
    assert run.get("job.json") == b"{}"


def test_azure_is_asked_for_all_rights_to_blobs_of_the_machines_role_and_no_others(
    double: Cloud, tmp_path: Path
) -> None:
    """Which right each method takes is Microsoft's page "Permissions for calling data operations"."""
    rights = {"GET": "read", "PUT": "write", "DELETE": "delete"}
    run = open_store(Access(double.boot("azure", "azblob://account/box/plan")))
    run.put("a", b"one")
    run.get("a")
    run.list("")
    run.delete("a")
    (tmp_path / "large").write_bytes(b"0" * (store.PART_BYTES + 1))
    drained(upload(run, "large", tmp_path / "large"))
    asked = {method for method, path, _ in double.requests if path.startswith("/account/")}
    assert {f"{_BLOBS}/{rights[method]}" for method in asked} == set(DATA_ACTIONS)


@pytest.mark.parametrize("kind", ["gcp", "azure"])
def test_long_lists_come_in_pages(double: Cloud, kind: str) -> None:
    double.page = 2
    uri = {"gcp": "gs://bucket/plan", "azure": "azblob://account/box/plan"}[kind]
    run = open_store(Access(double.boot(kind, uri)))
    for number in range(5):
        run.put(f"x/{number}", b"")
    assert list(run.list("x")) == [f"x/{number}" for number in range(5)]


def test_long_lists_of_s3_come_in_pages(s3: str, double: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "2")
    boot = double.boot("aws", "s3://bucket/pages")
    boot["endpoints"]["s3"] = s3
    access = Access(boot)
    access.call("PUT", f"{s3}/bucket", body=_PLACEMENT)
    run = open_store(access)
    for number in range(5):
        run.put(f"x/{number}", b"")
    assert list(run.list("x")) == [f"x/{number}" for number in range(5)]


@pytest.mark.parametrize("kind", ["gcp", "azure"])
@pytest.mark.parametrize("fault", [503, 429, 403, "lost"])
@pytest.mark.parametrize("at", range(4))
def test_an_upload_survives_faults_at_every_call(
    double: Cloud, tmp_path: Path, kind: str, fault: int | str, at: int
) -> None:
    uri = {"gcp": "gs://bucket/plan", "azure": "azblob://account/box/plan"}[kind]
    run = open_store(Access(double.boot(kind, uri)))
    data = b"0123456789abcdef" * (store.PART_BYTES // 16) + b"end"
    (tmp_path / "large").write_bytes(data)
    double.faults = [*["ok"] * at, fault, fault]
    drained(upload(run, "large", tmp_path / "large"))
    assert double.objects["plan/large"] == data


def test_a_lost_reply_of_s3_is_made_good(s3: str, double: Cloud, tmp_path: Path) -> None:
    boot = double.boot("aws", "s3://bucket/lost")
    boot["endpoints"]["s3"] = s3
    calls = {"n": 0}

    def flaky(*arguments: Any, **more: Any) -> Any:
        answer = requests.send(*arguments, **more)
        calls["n"] += 1
        if calls["n"] % 3 == 0 and "uploads=" not in arguments[1] and arguments[1].startswith(s3):
            raise OSError("the reply was lost")
        return answer

    access = Access(boot, send=flaky)
    calls["n"] = 0
    access.send("PUT", f"{s3}/bucket")
    run = open_store(access)
    data = b"0123456789abcdef" * (store.PART_BYTES // 8) + b"end"
    (tmp_path / "large").write_bytes(data)
    drained(upload(run, "large", tmp_path / "large"))
    assert open_store(Access(boot)).get("large") == data


@pytest.mark.parametrize("arrived", [bytes(16), bytes([255] * 16)])
def test_what_google_has_otherwise_than_it_was_sent_is_sent_again(arrived: bytes) -> None:
    """Every store that does not answer as it should is asked again; training goes on meanwhile."""
    reply = json.dumps({"md5Hash": base64.b64encode(arrived).decode()}).encode()
    with pytest.raises(AwayError, match="the stored data differs from what was sent"):
        check_md5(reply, hashlib.md5(b"a checkpoint").digest(), "x")


class _Finishing:
    """An S3 whose bucket has an object of the upload's name; the answers to its end come one after another."""

    def __init__(self, *answers: Exception) -> None:
        self._answers = iter(answers)

    def call(self, *_: Any, **__: Any) -> Any:
        raise next(self._answers)

    def get(self, *_: Any) -> bytes:
        return b"x"


def test_an_upload_that_is_refused_at_its_first_end_is_not_taken_for_the_object_that_was_there_before() -> None:
    """Else a checkpoint that was never stored counts as stored, and the machine may go."""
    upload = S3Upload(cast("Any", _Finishing(RefusedError("InvalidPart"))), "http://s3/x", "x", "id")
    with pytest.raises(RefusedError, match="InvalidPart"):
        upload.finish()


def test_an_upload_whose_end_was_answered_and_the_answer_lost_is_there() -> None:
    """S3 knows the upload no more, and has the object."""
    lost = _Finishing(AwayError("the reply was lost"), RefusedError("NoSuchUpload"))
    upload = S3Upload(cast("Any", lost), "http://s3/x", "x", "id")
    with pytest.raises(AwayError):
        upload.finish()
    upload.finish()


def test_what_the_store_will_not_do_is_told_apart_from_what_may_pass() -> None:
    for status in (401, 403, 404, 408, 409, 429, 500, 503):
        with pytest.raises(AwayError):
            store.raise_for_status(status, b"", "x")
    with pytest.raises(RefusedError):
        store.raise_for_status(400, b"InvalidArgument", "x")
    with pytest.raises(KeyError):
        store.raise_for_status(404, b"NoSuchKey", "x", reads=True)
    with pytest.raises(AwayError):
        store.raise_for_status(404, b"NoSuchBucket", "x", reads=True)


def test_nobody_there_is_away() -> None:
    def nobody(*arguments: Any, **more: Any) -> Any:
        raise ConnectionRefusedError("refused")

    run = open_store(Access({"cloud": "gcp", "run_uri": "gs://bucket/p", "region": ""}, send=nobody))
    for call in (lambda: run.put("a", b""), lambda: run.get("a"), lambda: run.list(""), lambda: run.delete("a")):
        with pytest.raises(AwayError):
            call()


def test_pauses_grow_and_end_at_a_minute() -> None:
    def away() -> None:
        raise AwayError("no")

    steps = store.patiently(away)
    assert [next(steps) for _ in range(7)] == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


def test_credentials_are_kept_until_shortly_before_they_expire(double: Cloud) -> None:
    now = [NOW]
    access = Access(double.boot("gcp", "gs://bucket/p"), now=lambda: now[0])
    access.credentials()
    access.credentials()
    assert len(double.calls_of("GET", "/token")) == 1
    now[0] += 3599 - 299
    access.credentials()
    assert len(double.calls_of("GET", "/token")) == 2


def test_a_token_never_follows_a_redirect_to_another_host() -> None:
    with cloud() as first, cloud() as other:
        first.google["instance/preempted"] = "FALSE"
        run = open_store(Access(first.boot("gcp", "gs://bucket/p")))
        first.faults = [302]
        with pytest.raises(RefusedError):
            run.put("a", b"")
        assert other.requests == []


# The examples of Amazon's own documentation ("Authenticating Requests", Signature Version 4, S3).
KEY = ("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", None)
AT = 1_369_353_600.0
PLACEMENT = "https://examplebucket.s3.amazonaws.com"
EXAMPLES = [
    (
        "GET",
        "/test.txt",
        {"Range": "bytes=0-9"},
        b"",
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    ),
    ("GET", "/?lifecycle", {}, b"", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
    ("GET", "/?max-keys=2&prefix=J", {}, b"", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    (
        "PUT",
        "/test%24file.text",
        {"Date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
        b"Welcome to Amazon S3.",
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    ),
]


@pytest.mark.parametrize(("method", "path", "headers", "body", "signature"), EXAMPLES)
def test_signatures_are_amazons(method: str, path: str, headers: dict[str, str], body: bytes, signature: str) -> None:
    got = signed(method, PLACEMENT + path, headers, body, ("us-east-1", "s3"), (KEY, AT))
    assert got["authorization"].endswith(f"Signature={signature}")


@given(
    name=st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30),
    body=st.binary(max_size=20),
    query=st.dictionaries(st.sampled_from(["prefix", "uploads", "x"]), st.text(max_size=10), max_size=2),
)
def test_signatures_are_botocores(name: str, body: bytes, query: dict[str, str]) -> None:
    url = f"{PLACEMENT}/{quote(name, safe='/-_.~')}?{urlencode(query, quote_via=quote, safe='')}".rstrip("?")
    ours = signed("PUT", url, {}, body, ("eu-west-1", "s3"), (("id", "key", "session"), AT))
    request = AWSRequest(method="PUT", url=url, data=body)
    request.headers["X-Amz-Date"] = ours["x-amz-date"]
    auth = S3SigV4Auth(Credentials("id", "key", "session"), "s3", "eu-west-1")
    request.context["timestamp"] = ours["x-amz-date"]
    request.headers["X-Amz-Security-Token"] = "session"
    request.headers["X-Amz-Content-SHA256"] = hashlib.sha256(body).hexdigest()
    del request.headers["X-Amz-Date"]
    request.headers["X-Amz-Date"] = ours["x-amz-date"]
    theirs = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
    assert ours["authorization"].endswith(f"Signature={theirs}")


def test_the_first_boot_fetches_and_checks(double: Cloud, tmp_path: Path) -> None:
    double.objects = {"plan/r1/agent.pyz": b"agent", "plan/r1/spec.json": b"{}"}
    boot = tmp_path / "boot.json"
    boot.write_text(json.dumps(double.boot("gcp", "gs://bucket/plan/r1")))
    targets = [str(tmp_path / name) for name in ("agent.pyz", "spec.json")]
    digests = [hashlib.sha256(data).hexdigest() for data in (b"agent", b"{}")]
    words = [str(boot), "agent.pyz", digests[0], targets[0], "spec.json", digests[1], targets[1]]
    assert requests.main(words) == 0
    assert [(tmp_path / name).read_bytes() for name in ("agent.pyz", "spec.json")] == [b"agent", b"{}"]
    double.objects["plan/r1/agent.pyz"] = b"another"
    assert requests.main(words) == 3
    assert (tmp_path / "agent.pyz").read_bytes() == b"agent", "what differs is not kept"
    del double.objects["plan/r1/agent.pyz"]
    assert requests.main(words) == 1
