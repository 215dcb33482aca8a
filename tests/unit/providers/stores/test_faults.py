"""What a store does when its network or its vendor does not: again, on from where it was, or an error that helps."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.doubles.proxy import Break, Fault
from tests.unit.providers.stores.test_contract import content
from tests.unit.providers.stores.worlds import World
from trainplan.providers.errors import (
    CredentialsError,
    PermissionDeniedError,
    ThrottledError,
    TransientError,
)
from trainplan.providers.stores.bucket import PART_BYTES, DamagedError
from trainplan.providers.stores.patience import Patience

pytestmark = pytest.mark.slow

SIZE = 3 * PART_BYTES + 4321
ATTEMPTS = Patience().attempts
# How each vendor's requests for a part and for the end of a large upload can be told from others.
PARTS = {"aws": ("PUT", "partNumber="), "gcp": ("PUT", "upload_id="), "azure": ("PUT", "comp=block&")}
ENDS = {"aws": ("POST", "uploadId="), "gcp": ("PUT", "upload_id="), "azure": ("PUT", "comp=blocklist")}


class KilledError(BaseException):
    """The process ends here."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(content(SIZE))
    return path


def killed_at_once(_: int) -> None:
    raise KilledError


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# --- calls that fail ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Break.LOST, Break.CLOSED])
def test_a_call_without_a_reply_is_made_again(away: World, kind: Break) -> None:
    store = away.store()
    store.put("f", b"before")
    away.break_with(Fault(kind, "PUT" if away.name != "gcp" else "POST", times=2))
    store.put("f", b"12345")
    away.break_with(Fault(kind, "GET", times=2))
    assert store.get("f") == b"12345"
    away.break_with(Fault(kind, "GET", times=1))
    assert list(store.list()) == ["f"]
    away.break_with(Fault(kind, "POST" if away.name == "aws" else "DELETE"))
    store.delete("f")
    assert list(store.list()) == []
    assert away.slept == [0.5, 1.0, 0.5, 1.0, 0.5, 0.5]


def test_half_an_answer_is_none(away: World) -> None:
    store = away.store()
    store.put("f", content(100_000))
    away.break_with(Fault(Break.CUT, "GET", part="f", times=2))
    assert store.get("f") == content(100_000)


def test_a_throttled_call_is_made_again_and_at_last_given_up(away: World) -> None:
    store = away.store()
    store.put("f", b"1")
    away.break_with(away.server.throttled(), times=3)
    assert store.get("f") == b"1"
    assert away.slept == [0.5, 1.0, 2.0]
    fault = away.break_with(away.server.throttled(), times=1000)
    with pytest.raises(ThrottledError):
        store.get("f")
    assert fault.hits == ATTEMPTS


def test_an_unreachable_store(away: World) -> None:
    store = away.store()
    store.put("f", b"1")
    away.break_with(Fault(Break.CLOSED, times=1000))
    for call in (lambda: store.get("f"), lambda: store.put("f", b"2"), lambda: store.list(), lambda: store.delete("f")):
        away.slept.clear()
        with pytest.raises(TransientError, match="does not answer") as raised:
            call()
        assert raised.value.hint
        assert sum(away.slept) == 31.5


def test_a_store_that_lets_nobody_in(away: World, tmp_path: Path) -> None:
    store = away.store()
    store.put("f", b"1")
    away.break_with(away.server.denied(), times=1000)
    for call in (
        lambda: store.get("f"),
        lambda: store.put("f", b"2"),
        lambda: store.list(),
        lambda: store.delete("f"),
        lambda: store.get_file("f", tmp_path / "f"),
    ):
        with pytest.raises(PermissionDeniedError) as raised:
            call()
        assert raised.value.code
    assert away.slept == []


def test_a_sign_in_that_has_ended(away: World) -> None:
    store = away.store()
    store.put("f", b"1")
    away.break_with(away.server.signed_out(), times=1000)
    with pytest.raises(CredentialsError) as raised:
        store.get("f")
    assert raised.value.hint


# --- large files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Break.LOST, Break.CLOSED])
def test_parts_and_the_end_are_sent_again(away: World, source: Path, tmp_path: Path, kind: Break) -> None:
    store = away.store()
    method, part = PARTS[away.name]
    away.break_with(Fault(kind, method, part, times=2, skip=1))
    method, part = ENDS[away.name]
    away.break_with(Fault(kind, method, part, skip=0 if away.name != "gcp" else 5))
    sha256 = store.put_file("big", source)
    assert store.get_file("big", tmp_path / "back", sha256) == digest(source)


def test_an_upload_goes_on_in_another_process(away: World, source: Path, tmp_path: Path) -> None:
    heard: list[int] = []

    def killed(there: int) -> None:
        heard.append(there)
        if sum(heard) >= 2 * PART_BYTES:
            raise KilledError

    with pytest.raises(KilledError):
        away.store().put_file("big", source, killed)
    assert list(away.store().list()) == []
    method, part = PARTS[away.name]
    before = away.proxy.sent_bytes
    again: list[int] = []
    sha256 = away.store().put_file("big", source, again.append)
    assert away.proxy.sent_bytes - before < SIZE - 2 * PART_BYTES + 10_000
    assert away.proxy.count(method, part)
    assert sum(again) == SIZE
    assert away.store().get_file("big", tmp_path / "back", sha256) == digest(source)
    assert list((away.home / "uploads").iterdir()) == []


def test_a_changed_file_does_not_go_on_with_the_old_upload(away: World, source: Path, tmp_path: Path) -> None:
    with pytest.raises(KilledError):
        away.store().put_file("big", source, killed_at_once)
    source.write_bytes(content(SIZE + 7)[7:])
    sha256 = away.store().put_file("big", source)
    assert away.store().get_file("big", tmp_path / "back", sha256) == digest(source)


def test_an_upload_that_the_store_forgot_begins_anew(away: World, source: Path, tmp_path: Path) -> None:
    with pytest.raises(KilledError):
        away.store().put_file("big", source, killed_at_once)
    away.server.drop_uploads(away.bucket())
    sha256 = away.store().put_file("big", source)
    assert away.store().get_file("big", tmp_path / "back", sha256) == digest(source)


def test_a_file_that_changes_while_it_is_sent(away: World, source: Path) -> None:
    def grows(_: int) -> None:
        with source.open("ab") as file:
            file.write(b"more")

    with pytest.raises(DamagedError, match="changed while it was sent"):
        away.store().put_file("big", source, grows)
    assert list(away.store().list()) == []


def test_a_download_goes_on_in_another_process(away: World, source: Path, tmp_path: Path) -> None:
    sha256 = away.store().put_file("big", source)
    target, heard = tmp_path / "back", []

    def killed(there: int) -> None:
        heard.append(there)
        if sum(heard) >= 2 * PART_BYTES:
            raise KilledError

    with pytest.raises(KilledError):
        away.store().get_file("big", target, sha256, killed)
    assert not target.exists()
    before = len(away.proxy.requests)
    assert away.store().get_file("big", target, sha256) == digest(source)
    fetched = [path for method, path in away.proxy.requests[before:] if method == "GET" and "big" in path]
    assert len(fetched) == 3  # the third part, the rest, and that there is no more
    assert digest(target) == sha256


def test_a_damaged_half_of_a_download_is_fetched_again(away: World, source: Path, tmp_path: Path) -> None:
    sha256 = away.store().put_file("big", source)
    target = tmp_path / "back"
    (tmp_path / f".back.{sha256[:16]}.partial").write_bytes(b"something else")
    assert away.store().get_file("big", target, sha256) == digest(target) == sha256
    with pytest.raises(DamagedError):
        away.store().get_file("big", target, "0" * 64)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["back", "source"]


# --- many files --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_more_files_than_fit_on_a_page(away: World) -> None:
    bucket, store = away.bucket(endpoint=away.server.url), away.store()
    store.put("m/0000", b"")
    names = [f"{'m' if number < 1000 else 'n'}/{number:04}" for number in range(1, 1005)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: bucket.put(f"runs/r1/{name}", b"x"), names))
    away.break_with(Fault(Break.CLOSED, "GET", skip=1))
    assert store.list() == ["m/0000", *names]
    assert sum(store.sizes("m").values()) == 999
    # Only S3 deletes many at once.
    store.delete("" if away.name == "aws" else "n")
    assert len(store.list()) == (0 if away.name == "aws" else 1000)
