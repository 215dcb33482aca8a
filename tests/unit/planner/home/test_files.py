"""Nothing of a home can be read by other users: what is created, what was left open, what cannot be mended."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.desk import TINY, own_home
from tests.doubles import fake_provider
from tests.doubles.clock import FakeClock
from tests.doubles.fake_machine import done_at_once
from tests.doubles.fake_provider import FACTORY, FakeProvider
from tests.unit.planner.cli.command import plan
from trainplan.planner.home.files import NAMES, mended, persons_files, private_files
from trainplan.planner.settings import load_settings
from trainplan.providers.local.store import FolderStore

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """What most people have."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where commands keep their state; this machine's runs are over at once."""
    own_home(tmp_path, monkeypatch)
    monkeypatch.setitem(*FACTORY)
    (tmp_path / "job.yaml").write_text(TINY)
    made = FakeProvider(FakeClock(), [done_at_once], tidy=True)
    fake_provider.PROVIDERS.append(made)
    yield tmp_path / "home"
    fake_provider.PROVIDERS.remove(made)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def open_to_others(folder: Path) -> list[str]:
    """What a group or others may do anything with, in the folder and of it."""
    return [
        str(path) for path in (folder, *folder.rglob("*")) if path.lstat().st_mode & 0o077 and not path.is_symlink()
    ]


def launch() -> str:
    said = plan("launch", "job.yaml", "--provider", "local", "--yes", "--output", "model")
    assert said.code == 0, said.err
    return said.err


def test_what_a_launch_creates_is_for_its_user_alone(home: Path) -> None:
    launch()
    assert (home / "journal.sqlite").exists()
    assert open_to_others(home) == []
    assert (mode(home), mode(home / "journal.sqlite")) == (0o700, 0o600)


def test_a_home_has_nothing_that_would_not_be_mended(home: Path) -> None:
    launch()
    plan("cleanup", "--provider", "local", "--yes")
    assert {path.name for path in home.iterdir()} <= NAMES
    assert {load_settings(os.environ).calibrations.name, load_settings(os.environ).measurements.name} <= NAMES


def test_the_model_has_the_modes_that_the_person_set(home: Path) -> None:
    launch()
    model = home.parent / "model"
    assert mode(model) == 0o755
    assert {mode(path) for path in model.rglob("*") if path.is_file()} == {0o644}
    assert plan("init", "new.yaml").code == 0
    assert mode(home.parent / "new.yaml") == 0o644


def test_the_commands_umask_ends_with_it(home: Path) -> None:
    assert plan("status").code == 0
    with private_files(), persons_files():
        assert os.umask(0o022) == 0o022


def left_open(home: Path) -> None:
    """A home whose folders and files other users of the computer may read."""
    for folder in ("locks", "runs/r1/attempts/1/log"):
        (home / folder).mkdir(parents=True)
    for name in ("settings.toml", "locks/r1.lock", "runs/r1/job.json", "runs/r1/attempts/1/log/output.log"):
        (home / name).touch()
    assert len(open_to_others(home)) == 11


def test_a_home_that_was_open_is_mended_with_one_line(home: Path) -> None:
    left_open(home)
    first, second = plan("status"), plan("status")
    line = f"{home} could be read by other users of this computer (mode 0755); it is private now\n"
    assert first.err.count(line) == 1
    assert "could be read" not in second.err
    assert open_to_others(home) == []


def test_a_link_is_not_followed(home: Path, tmp_path: Path) -> None:
    left_open(home)
    (tmp_path / "linked").touch()
    (home / "runs" / "link").symlink_to(tmp_path / "linked")
    assert mended(home).endswith("it is private now")
    assert mode(tmp_path / "linked") == 0o644


def test_what_its_owner_may_do_stays(home: Path) -> None:
    left_open(home)
    (home / "runs" / "r1" / "job.json").chmod(0o555)
    mended(home)
    assert mode(home / "runs" / "r1" / "job.json") == 0o500


def with_other_things(home: Path) -> None:
    (home / "data").mkdir()


def of_everybody(home: Path) -> None:
    home.chmod(0o1777)


def of_a_group(home: Path) -> None:
    home.chmod(0o2755)


def of_another_user(home: Path) -> None:
    if os.geteuid():
        pytest.skip("only root gives a folder away")
    os.chown(home, 12345, -1)


@pytest.mark.parametrize("share", [with_other_things, of_everybody, of_a_group, of_another_user])
def test_a_folder_that_is_not_plans_alone_stays_as_it_is_and_is_told(home: Path, share: Callable[[Path], None]) -> None:
    left_open(home)
    share(home)
    before = {path: mode(path) for path in (home, *home.rglob("*"))}
    for _ in range(2):  # what the first command leaves there makes it no home of plan
        said = plan("history")
        assert said.code == 0
        assert f"other users of this computer can read {home}" in said.err
        assert "set PLAN_HOME to a folder of its own" in said.err
    assert {path: mode(path) for path in before} == before


@pytest.mark.parametrize("bits", [0o2775, 0o775, 0o777])
def test_a_folder_that_others_may_write_to_is_refused_and_stays_as_it_is(home: Path, bits: int) -> None:
    (home / "data").mkdir(parents=True)
    home.chmod(bits)
    said = plan("history")
    assert said.code == 2
    assert f"PLAN_HOME: other users may write to {home} (mode {bits:04o})" in said.err
    assert "set it to a folder of your own" in said.err
    assert mode(home) == bits
    assert [path.name for path in home.iterdir()] == ["data"], "nothing was put there"


def test_a_file_in_the_placement_of_a_home_is_called_one(home: Path) -> None:
    home.touch(mode=0o644)
    said = plan("history")
    assert said.code == 2
    assert f"error: PLAN_HOME: {home} is a file" in said.err
    assert "private" not in said.err
    assert mode(home) == 0o644


def test_a_persons_whole_home_stays_and_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left_open(home)
    monkeypatch.setenv("HOME", str(home))
    assert "it is a whole home folder" in mended(home)
    assert mode(home) == 0o755


def test_a_folder_that_may_not_be_changed_is_told() -> None:
    """Not even root may change it."""
    from pathlib import Path

    home = Path("/proc/self")
    if not home.is_dir():
        pytest.skip("there is no /proc")
    assert "which stays as it is" in mended(home)


def test_no_home_is_nothing_to_mend(home: Path) -> None:
    assert mended(home) == ""
    assert not home.exists()


def test_a_bad_home_is_no_reason_to_give_no_help(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAN_HOME", "~a-user-that-is-not-there/x")
    assert plan("--help").code == 0


def test_run_directories_are_private(home: Path) -> None:
    with private_files():
        store = FolderStore(home / "runs" / "r1")
        store.put("job.json", b"{}")
        (home / "source").write_bytes(b"x")
        store.put_file("output/model.keras", home / "source")
    assert open_to_others(home) == []
    assert load_settings(os.environ, home / "none").home == home
