"""The page of `plan serve` shows nothing and does nothing for anybody but the browser that came with the token."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doubles.clock import FakeClock
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import stubborn
from tests.extensions.serve.visitor import Typed, Visitor, serving
from tests.unit.planner.report.test_html import HOSTILE, Reader
from trainplan.extensions.serve.access import Access
from trainplan.extensions.serve.board import Home
from trainplan.extensions.serve.server import _MOST_CONNECTIONS
from trainplan.planner.errors import ThisMachineError
from trainplan.planner.runs.run import Run


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.close()


@pytest.fixture
def run(desk: Desk) -> Run:
    """One that goes on."""
    from trainplan.planner.runs.execution.executor import Detached

    desk.scripts(stubborn)
    planned = desk.planned()
    with pytest.raises(Detached):
        desk.executor().follow(planned, desk.request(), until_launched=True)
    return desk.journal.run(planned.run_id)


@pytest.fixture
def typed() -> Typed:
    return Typed()


@pytest.fixture
def visitor(desk: Desk, typed: Typed) -> Iterator[Visitor]:
    with serving(desk.settings.home, FakeClock(), typed) as made:
        yield made


def paths(run: Run) -> list[str]:
    return ["/", "/events", f"/runs/{run.run_id}", f"/runs/{run.run_id}/stop", f"/events?run={run.run_id}"]


def shows_nothing(body: str, run: Run) -> bool:
    return run.run_id not in body and run.job_name not in body


def test_without_the_cookie_there_is_nothing_to_see(visitor: Visitor, run: Run) -> None:
    for path in paths(run):
        reply = visitor.get(path)
        assert reply.status == 403, path
        assert shows_nothing(reply.body, run)
        assert "set-cookie" not in reply.headers


@pytest.mark.parametrize(
    "cookie",
    ["trainplan-{port}=guessed", "trainplan-{port}=", "trainplan-{port}", "trainplan=x; a=b", "\x01=\x02", "{port}=é"],
)
def test_a_cookie_that_is_guessed_is_refused(visitor: Visitor, run: Run, cookie: str) -> None:
    for path in paths(run):
        assert visitor.get(path, cookie=cookie.format(port=visitor.port)).status == 403


def test_the_token_is_exchanged_once_for_a_cookie_that_stays_with_this_page(visitor: Visitor, run: Run) -> None:
    token = visitor.token
    reply = visitor.get(f"/enter?token={token}")
    assert (reply.status, reply.headers["location"]) == (303, "/")
    cookie, *rules = reply.headers["set-cookie"].split("; ")
    assert set(rules) == {"Path=/", "HttpOnly", "SameSite=Strict"}
    assert token not in cookie
    replayed = visitor.get(f"/enter?token={token}")
    assert (replayed.status, "set-cookie" in replayed.headers) == (403, False)
    visitor.cookie = cookie
    assert visitor.get("/").status == 200
    assert run.run_id in visitor.get("/").body
    # The person who opens the printed address again has come in already.
    again = visitor.get(f"/enter?token={token}")
    assert (again.status, "set-cookie" in again.headers) == (303, False)


@pytest.mark.parametrize("token", ["", "guessed", "None", "a" * 43, "é", "%00", "&token=x"])
def test_a_guessed_token_is_refused_and_leaves_the_true_one_as_it_is(visitor: Visitor, token: str) -> None:
    assert visitor.get(f"/enter?token={token}").status == 403
    assert visitor.get("/enter").status == 403
    visitor.enter()


def test_every_server_has_its_own_secrets() -> None:
    one, other = Access(8_000), Access(8_000)
    assert one.address != other.address
    assert one.form_token not in one.address
    assert len(one.address.partition("token=")[2]) >= 43, "256 bits"


@pytest.mark.parametrize(
    "host",
    [None, "evil.example", "evil.example:{port}", "localhost:{port}", "127.0.0.1", "127.0.0.1:1", "127.0.0.1:{port}.",
     "127.0.0.1:{port}, evil.example", "127.0.0.1:{port}\r\nHost: evil.example", "[::1]:{port}", "2130706433:{port}"],
)  # fmt: skip
def test_a_name_that_was_made_to_lead_here_is_refused(
    visitor: Visitor, run: Run, typed: Typed, host: str | None
) -> None:
    """DNS rebinding: the page of evil.example, whose name leads to 127.0.0.1 now, has no other Host to send."""
    token = visitor.token
    visitor.enter()
    name = None if host is None else host.format(port=visitor.port)
    for path in [*paths(run), f"/enter?token={token}"]:
        reply = visitor.get(path, host=name)
        assert (reply.status, shows_nothing(reply.body, run)) == (403, True), path
    body = f"form={visitor.server.access.form_token}"
    assert visitor.post(f"/runs/{run.run_id}/stop", body, host=name).status == 403
    assert typed.lines == []


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1", "http://localhost:{port}", "",
     "http://127.0.0.1:{port}\r\nOrigin: null"],
)  # fmt: skip
def test_a_page_of_another_origin_is_refused(visitor: Visitor, run: Run, typed: Typed, origin: str) -> None:
    visitor.enter()
    given = origin.format(port=visitor.port)
    for path in paths(run):
        assert visitor.get(path, origin=given).status == 403, path
    body = f"form={visitor.server.access.form_token}"
    assert visitor.post(f"/runs/{run.run_id}/stop", body, origin=given).status == 403
    assert typed.lines == []


def test_a_stop_comes_from_a_form_of_the_page_alone(visitor: Visitor, run: Run, typed: Typed) -> None:
    path = f"/runs/{run.run_id}/stop"
    good = f"form={visitor.server.access.form_token}"
    assert visitor.post(path, good).status == 403, "without the cookie"
    visitor.enter()
    assert visitor.post(path, good, origin=None).status == 403, "without an Origin"
    assert visitor.post(path, "").status == 403
    assert visitor.post(path, "form=guessed").status == 403
    assert visitor.post(path, "form=").status == 403
    assert visitor.get(f"{path}?{good}").status == 200, "a GET asks and does nothing"
    assert visitor.post("/runs/nosuch/stop", good).status == 404
    assert visitor.post("/", good).status == visitor.post(f"/runs/{run.run_id}", good).status == 404
    assert not [line for line in typed.lines if line[0] == "stop"]
    assert visitor.post(path, f"form={visitor.form_token(run.run_id)}").status == 303
    assert [line for line in typed.lines if line[0] == "stop"] == [("stop", run.run_id, "--json")]


def test_a_form_that_is_too_long_or_of_no_length_is_not_read(visitor: Visitor, run: Run) -> None:
    visitor.enter()
    path = f"/runs/{run.run_id}/stop"
    assert visitor.post(path, "", content_length=None).status == 411
    assert visitor.post(path, "", content_length="-1").status == 411
    assert visitor.post(path, "", content_length="999999999999").status == 413
    assert visitor.post(path, "", transfer_encoding="chunked").status == 411


@pytest.mark.parametrize(
    "text",
    ["", "\r\n\r\n", "GET", "GET /\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "BREW / HTTP/1.1\r\n\r\n",
     "GET //[ HTTP/1.1\r\n\r\n", "\x16\x03\x01", "GET / HTTP/1.1\r\n" + "a: b\r\n" * 200],
)  # fmt: skip
def test_what_is_no_request_is_refused_and_the_server_goes_on(visitor: Visitor, run: Run, text: str) -> None:
    assert shows_nothing(visitor.raw(text).body, run)
    visitor.enter()
    assert visitor.get("/").status == 200


@pytest.mark.parametrize("text", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: a\r\n"])
def test_a_request_that_does_not_arrive_as_a_whole_is_closed(visitor: Visitor, text: bytes) -> None:
    visitor.server.request_seconds = 0.05
    with socket.create_connection(("127.0.0.1", visitor.server.server_port), timeout=60) as dripping:
        dripping.sendall(text)
        while dripping.recv(4096):
            continue


@pytest.mark.parametrize(
    "path",
    ["/runs/../../etc/passwd", "/runs/%2e%2e", "/runs/x/stop/", "/nosuch", "//evil.example/", "/[",
     "/events?run=nosuch", "/runs/" + "a" * 100, "/?a=1&b=2&c=3&d=4&e=5"],
)  # fmt: skip
def test_an_address_that_leads_nowhere_is_a_sentence(visitor: Visitor, path: str) -> None:
    visitor.enter()
    reply = visitor.get(path)
    assert reply.status in (400, 404)
    assert "Traceback" not in reply.body


def test_every_answer_forbids_all_but_itself(visitor: Visitor, run: Run) -> None:
    refused = visitor.get("/")
    visitor.enter()
    for reply in (refused, visitor.get("/"), visitor.get(f"/runs/{run.run_id}/stop"), visitor.get("/nosuch")):
        policy = reply.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; ")
        assert "unsafe" not in policy
        # The page's own policy names the hash of the style that stands in it: no other may be missing here.
        style = re.search(r"style-src &#x27;([^;]+)&#x27;", reply.body)
        assert style is not None
        assert style[1] in policy
        assert "frame-ancestors 'none'" in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "same-origin"
        assert reply.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in reply.headers


def test_a_hostile_name_becomes_no_element(desk: Desk, visitor: Visitor, run: Run) -> None:
    quiet = [name for name, _ in Reader(visitor.enter().get("/").body).elements]
    question = [name for name, _ in Reader(visitor.get(f"/runs/{run.run_id}/stop").body).elements]
    desk.journal._db.execute("UPDATE runs SET run_json = json_set(run_json, '$.job_name', ?)", (HOSTILE,))
    for path, before in (("/", quiet), (f"/runs/{run.run_id}/stop", question)):
        page = visitor.get(path).body
        assert [name for name, _ in Reader(page).elements] == before
        assert "alert(1)" in page
        assert "<script>alert" not in page
    with visitor.stream("/events") as news:
        message = next(news)
    assert "<img" not in message["html"]
    assert "&lt;img" in message["html"]


def test_many_connections_leave_the_server_standing(visitor: Visitor) -> None:
    """Any page may open connections to this computer: those beyond a few are closed at once."""
    idle = [socket.create_connection(("127.0.0.1", visitor.port)) for _ in range(_MOST_CONNECTIONS)]
    with socket.create_connection(("127.0.0.1", visitor.port)) as one_more:
        assert one_more.recv(1) == b""
    for connection in idle:
        connection.close()
    # Each placement is free as soon as its thread has noticed.
    assert 403 in (visitor.get("/").status for _ in range(1_000))
    visitor.enter()


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
def test_a_home_that_is_a_link_is_refused(desk: Desk, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(desk.settings.home, target_is_directory=True)
    with pytest.raises(ThisMachineError, match="is a link, which may lead to somebody else's runs"):
        Home(link)


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
def test_a_home_that_becomes_a_link_or_another_folder_is_shown_no_more(desk: Desk, visitor: Visitor, run: Run) -> None:
    visitor.enter()
    assert run.run_id in visitor.get("/").body
    home = desk.settings.home
    elsewhere = home.with_name("elsewhere")
    home.rename(elsewhere)
    home.symlink_to(elsewhere, target_is_directory=True)
    reply = visitor.get("/")
    assert (reply.status, run.run_id in reply.body) == (503, False)
    home.unlink()
    home.mkdir()
    reply = visitor.get("/")
    assert (reply.status, "was replaced by another folder" in reply.body) == (503, True)


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
def test_a_journal_that_is_a_link_is_refused(desk: Desk, tmp_path: Path) -> None:
    home = tmp_path / "mine"
    home.mkdir()
    (home / "journal.sqlite").symlink_to(desk.settings.journal)
    with pytest.raises(ThisMachineError, match="is a link"):
        Home(home)


def test_the_server_listens_on_loopback_alone(visitor: Visitor) -> None:
    assert visitor.server.server_address[0] == "127.0.0.1"
