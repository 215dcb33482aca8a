"""The secret of a home from which the keys of its runs are made: there is one, whoever makes it first."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PosixPath
from threading import Barrier

import pytest

from tests.builders import a_run
from trainplan.planner.errors import StateError
from trainplan.planner.runs.directory.run_keys import FILE, RunKeys

RUN = a_run()
AT_ONCE = 8


class Overtaken(PosixPath):
    """A path at which another process does something right after this one has looked whether a file is there."""

    meanwhile: Callable[[], object]

    def exists(self) -> bool:
        there = Path(self).exists()
        type(self).meanwhile()
        return there


def test_the_key_is_the_same_for_every_command_of_a_home_and_differs_between_homes(tmp_path: Path) -> None:
    first = RunKeys(tmp_path / "a").key(RUN)
    assert (len(first), RunKeys(tmp_path / "a").key(RUN)) == (64, first)
    assert RunKeys(tmp_path / "b").key(RUN) != first
    assert stat.S_IMODE((tmp_path / "a" / FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize("look", [1, 2])
def test_a_secret_that_another_process_made_a_moment_earlier_is_kept(tmp_path: Path, look: int) -> None:
    """Whoever has looked and found none may not put its own in the place of one that has come since."""
    looks, theirs = 0, ""

    def meanwhile() -> None:
        nonlocal looks, theirs
        looks += 1
        if looks == look:
            theirs = RunKeys(Path(tmp_path)).key(RUN)

    Overtaken.meanwhile = meanwhile
    mine = RunKeys(Overtaken(tmp_path)).key(RUN)
    assert mine == RunKeys(tmp_path).key(RUN)
    assert theirs in ("", mine), "the other process had used its secret already"


def test_of_many_that_make_the_secret_at_one_moment_all_use_the_same(tmp_path: Path) -> None:
    def key_of(home: Path, begin: Barrier) -> str:
        begin.wait()
        return RunKeys(home).key(RUN)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for number in range(8):
            home, begin = tmp_path / str(number), Barrier(AT_ONCE)
            keys = set(pool.map(key_of, [home] * AT_ONCE, [begin] * AT_ONCE))
            assert keys == {RunKeys(home).key(RUN)}
            assert [file.name for file in home.iterdir()] == [FILE], "nothing unfinished is left behind"


@pytest.mark.parametrize("text", ["", "{}", json.dumps({"format": 9, "since": "2026-01-01T00:00+00:00", "secret": ""})])
def test_a_damaged_secret_is_said_and_not_replaced(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(StateError, match="is damaged"):
        RunKeys(tmp_path).key(RUN)
    assert (tmp_path / FILE).read_text() == text


def test_a_file_system_without_hard_links_gets_the_secret_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refused)
    key = RunKeys(tmp_path).key(RUN)
    assert (RunKeys(tmp_path).key(RUN), [file.name for file in tmp_path.iterdir()]) == (key, [FILE])


@pytest.mark.parametrize("name", ["since", "secret"])
def test_a_file_with_one_changed_digit_is_damaged_and_gives_no_other_key(tmp_path: Path, name: str) -> None:
    """Another key would have the run's next machine refuse each checkpoint of the one before."""
    RunKeys(tmp_path).key(RUN)
    item = json.loads((tmp_path / FILE).read_bytes())
    item[name] = "1" + item[name][1:] if item[name][0] != "1" else "2" + item[name][1:]
    (tmp_path / FILE).write_text(json.dumps(item), encoding="utf-8")
    with pytest.raises(StateError, match=r"run-keys\.json is damaged"):
        RunKeys(tmp_path).key(RUN)
