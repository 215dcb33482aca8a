"""The client that a home is: kept, made once, kept through a move and an upgrade, and never taken along by a copy."""

from __future__ import annotations

import json
import resource
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier

import pytest

from tests.builders import a_run, an_attempt
from tests.doubles.clock import NOON
from tests.unit.planner.runs.journal.entries import add
from trainplan.planner.errors import BadInputError
from trainplan.planner.home.client import FILE, Client, client_of, own_client
from trainplan.planner.home.computer import Computer, this_computer
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.run import Phase
from trainplan.planner.settings import load_settings

ALPHA = Computer(host_name="alpha", machine_id="a" * 32)
BETA = Computer(host_name="beta", machine_id="b" * 32)
CONTAINER = Computer(host_name="trainer")
"""As many images have it: one host name, no id of the system."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may take a byte more, whoever writes it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def stored_client(home: Path) -> dict[str, object]:
    return dict(json.loads((home / FILE).read_text()))


@pytest.mark.parametrize("computer", [ALPHA, CONTAINER])
def test_an_id_is_made_once_and_kept(home: Path, computer: Computer) -> None:
    first = client_of(home, computer)
    assert len(first.id) == 16
    assert int(first.id, 16) >= 0
    assert first.notice == ""
    assert client_of(home, computer) == first


def test_two_containers_of_one_host_name_and_home_are_two_clients(tmp_path: Path) -> None:
    """A new home does not inherit the hash of host name and path, which is the same in both."""
    homes = [tmp_path / name / "root" for name in ("one", "two")]
    clients = [client_of(home, CONTAINER) for home in homes]
    assert clients[0].id != clients[1].id


def test_first_commands_at_once_get_one_id(home: Path) -> None:
    barrier = Barrier(8)

    def command(_: int) -> Client:
        barrier.wait()
        return client_of(home, ALPHA)

    with ThreadPoolExecutor(8) as pool:
        assert len({client.id for client in pool.map(command, range(8))}) == 1
    assert sorted(path.name for path in home.iterdir() if path.suffix != ".lock") == [FILE]


def test_a_home_that_is_moved_keeps_its_id(home: Path, tmp_path: Path) -> None:
    before = client_of(home, ALPHA)
    home.rename(tmp_path / "moved")
    assert client_of(tmp_path / "moved", ALPHA) == before
    assert stored_client(tmp_path / "moved")["home"] == str(tmp_path / "moved")


def test_a_copy_on_another_computer_takes_a_new_id_and_says_so_once(home: Path, tmp_path: Path) -> None:
    before = client_of(home, ALPHA)
    shutil.copytree(home, tmp_path / "copy")
    copied = client_of(tmp_path / "copy", BETA)
    assert copied.id != before.id
    assert copied.notice == (
        f"{tmp_path / 'copy'} is a copy of {home} on alpha: it has the new client id {copied.id}; runs of client "
        f"{before.id} in its journal are left to that client"
    )
    assert copied.whose(before.id) == f"client {before.id} on alpha"
    again = client_of(tmp_path / "copy", BETA)
    assert (again.id, again.notice, again.others) == (copied.id, "", {before.id: "alpha"})
    assert client_of(home, ALPHA) == before


def test_a_home_that_comes_back_to_its_computer_has_its_id_again(home: Path, tmp_path: Path) -> None:
    before = client_of(home, ALPHA)
    shutil.copytree(home, tmp_path / "away")
    client_of(tmp_path / "away", BETA)
    shutil.rmtree(home)
    shutil.move(tmp_path / "away", home)
    back = client_of(home, ALPHA)
    assert back.id == before.id
    assert back.notice == ""


def test_a_copy_on_the_same_computer_takes_a_new_id(home: Path, tmp_path: Path) -> None:
    before = client_of(home, ALPHA)
    shutil.copytree(home, tmp_path / "copy")
    copied = client_of(tmp_path / "copy", ALPHA)
    assert copied.id != before.id
    assert copied.notice
    assert client_of(tmp_path / "copy", ALPHA).id == copied.id
    assert client_of(home, ALPHA) == before


def test_a_copy_at_the_same_path_in_a_container_of_the_same_name_is_noticed(home: Path, tmp_path: Path) -> None:
    """Neither the path, the host name nor the system tells: the file itself does."""
    before = client_of(home, CONTAINER)
    shutil.copytree(home, tmp_path / "copy")
    home.rename(tmp_path / "the other container")
    (tmp_path / "copy").rename(home)
    assert client_of(home, CONTAINER).id != before.id


def test_copies_of_copies_never_share_an_id(home: Path, tmp_path: Path) -> None:
    first = client_of(home, ALPHA)
    shutil.copytree(home, tmp_path / "second")
    second = client_of(tmp_path / "second", BETA)
    shutil.copytree(tmp_path / "second", tmp_path / "third")
    third = client_of(tmp_path / "third", Computer(host_name="gamma", machine_id="c" * 32))
    assert len({first.id, second.id, third.id}) == 3
    assert set(third.others) == {first.id, second.id}


@pytest.mark.parametrize(
    ("here", "same_file", "same_volume", "same"),
    [
        (ALPHA, True, False, True),
        (Computer(host_name="renamed", machine_id="a" * 32), True, False, True),
        (Computer(host_name="alpha", machine_id="b" * 32), True, True, False),  # a cloned machine
        (Computer(host_name="alpha"), True, True, False),
    ],
)
def test_the_systems_own_id_tells_computers_apart(
    here: Computer, same_file: bool, same_volume: bool, same: bool
) -> None:
    assert ALPHA.is_same(here, same_file=same_file, same_volume=same_volume) is same


@pytest.mark.parametrize(
    ("host_name", "same_file", "same_volume", "same"),
    [
        ("trainer", True, False, True),
        ("trainer", False, False, False),
        ("4f2b61d0a9c8", True, False, False),  # an image that has a home in it
        ("4f2b61d0a9c8", True, True, True),  # the next container over the same volume
    ],
)
def test_without_one_the_file_and_the_host_name_do(
    host_name: str, same_file: bool, same_volume: bool, same: bool
) -> None:
    assert CONTAINER.is_same(Computer(host_name=host_name), same_file=same_file, same_volume=same_volume) is same


def test_computers_that_share_a_home_are_one_where_a_person_calls_them_so(home: Path) -> None:
    one, other = (Computer(host_name=name, machine_id=name * 32, override="cluster") for name in "ab")
    assert client_of(home, one) == client_of(home, other)


def test_a_name_of_the_computer_cannot_stand_in_the_home(home: Path, tmp_path: Path) -> None:
    home.mkdir()
    (home / "settings.toml").write_text('computer = "mine"\n')
    with pytest.raises(BadInputError, match="wherever it is copied"):
        load_settings({"PLAN_HOME": str(home)}, tmp_path / "none")
    (tmp_path / "machine.toml").write_text('computer = "mine"\n')
    assert load_settings({"PLAN_HOME": str(tmp_path / "x")}, tmp_path / "machine.toml").computer == "mine"
    assert load_settings({"PLAN_HOME": "x", "PLAN_COMPUTER": "c"}, tmp_path / "machine.toml").computer == "c"


@pytest.mark.parametrize("text", ["", "uninitialized\n", "0" * 32, "no id", "\u00e9" * 16])
def test_a_system_without_an_id_has_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "machine-id").write_text(text, encoding="utf-8")
    assert this_computer(root=tmp_path).machine_id is None


def test_the_id_of_the_system_is_not_written_down_as_it_is(tmp_path: Path) -> None:
    own = "0123456789abcdef0123456789abcdef"
    (tmp_path / "var" / "lib" / "dbus").mkdir(parents=True)
    (tmp_path / "var" / "lib" / "dbus" / "machine-id").write_text(f"{own}\n")
    here = this_computer(root=tmp_path)
    assert here.machine_id not in (None, own)
    assert this_computer(root=tmp_path) == here


def test_a_home_that_cannot_be_written_says_so(home: Path) -> None:
    home.mkdir(parents=True)
    with full_disk():
        client = client_of(home, ALPHA)
        again = client_of(home, ALPHA)
    assert f"cannot be kept in {home / FILE}: " in client.notice
    assert (again.id, again.notice) == (client.id, "")
    assert {path.name for path in home.iterdir()} <= {"client.lock"}


def test_a_known_home_that_is_mounted_elsewhere_and_cannot_be_written_keeps_its_id(home: Path, tmp_path: Path) -> None:
    before = client_of(home, ALPHA)
    home.rename(tmp_path / "moved")
    with full_disk():
        assert client_of(tmp_path / "moved", ALPHA) == before


def test_a_home_that_is_no_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("in the way")
    client = client_of(tmp_path / "home", ALPHA)
    assert "no machine is known as ours by its label" in client.notice


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', "[" * 5000])
def test_a_damaged_file_is_told_and_put_aside(home: Path, text: str) -> None:
    before = client_of(home, ALPHA)
    (home / FILE).write_text(text)
    client = client_of(home, ALPHA)
    assert client.id != before.id
    assert str(home / FILE) in client.notice
    assert (home / "client.damaged").read_text() == text
    assert client_of(home, ALPHA) == Client(id=client.id)


def test_a_file_of_a_newer_version_is_left_as_it_is(home: Path) -> None:
    home.mkdir()
    (home / FILE).write_text('{"format": 2}')
    client = client_of(home, ALPHA)
    assert "written by a newer version of plan" in client.notice
    assert client_of(home, ALPHA).id == client.id
    assert stored_client(home) == {"format": 2}


def test_runs_of_a_journal_stay_its_homes_though_the_file_of_the_client_is_of_a_newer_version(home: Path) -> None:
    before = client_of(home, ALPHA)
    with Journal.open(home / "journal.sqlite") as journal:
        run = a_run(Phase.RUNNING, made=(an_attempt(client=before.id),))
        add(journal, run)
        journal.add_attempt(run, {}, NOON)
    (home / FILE).write_text('{"format": 99}')
    assert client_of(home, ALPHA).owns(run)


def test_the_settings_name_the_home(tmp_path: Path) -> None:
    settings = load_settings({"PLAN_HOME": str(tmp_path / "home")}, tmp_path / "none")
    assert own_client(settings) == own_client(settings)
