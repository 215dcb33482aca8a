"""`plan serve`: prints the address that is valid once, ends with Ctrl-C or by itself, refuses what is not its own."""

from __future__ import annotations

import socket
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.doubles.clock import NOON
from tests.unit.planner.cli.command import plan


class Passing:
    """A clock that goes on by ten minutes whenever it is read."""

    def __init__(self, at_look: Callable[[], None] = lambda: None) -> None:
        self._now = NOON
        self._at_look = at_look

    def now(self) -> datetime:
        self._at_look()
        self._now += timedelta(minutes=10)
        return self._now

    def sleep(self, seconds: float) -> None:
        """Nothing waits here."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("trainplan.planner.api.build.clock", Passing)
    monkeypatch.setattr("trainplan.extensions.serve.server.POLL_SECONDS", 0.001)
    return tmp_path / "home"


def test_the_address_is_printed_and_the_server_ends_by_itself() -> None:
    said = plan("serve", "--json")
    assert said.json["address"].startswith("http://127.0.0.1:")
    assert "/enter?token=" in said.json["address"]
    assert (said.code, said.err.splitlines()[-1]) == (0, "nobody has looked for 30 minutes: ended")
    assert plan("serve").out.startswith("http://127.0.0.1:")


def test_ctrl_c_is_how_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[None] = []

    def interrupted() -> None:
        looks.append(None)
        if len(looks) > 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("trainplan.planner.api.build.clock", lambda: Passing(interrupted))
    said = plan("serve")
    assert (said.code, "ended" in said.err, "error" in said.err) == (0, False, False)


def test_a_port_that_is_taken_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        said = plan("serve", "--port", str(other.getsockname()[1]))
    assert (said.code, said.hint) == (9, "--port takes another one")
    assert plan("serve", "--port", "80").code == 2


def test_a_home_that_is_a_link_is_refused(home: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    home.symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    said = plan("serve")
    assert (said.code, said.out) == (9, "")
    assert said.error == f"{home} is a link, which may lead to somebody else's runs"
