"""One launch that is played once, and goes on from each of its points as if it had come there alone.

At a stop the client stands still, the home folder is copied and the cloud's double is put aside. Where the client is to
die, all that is left of it is what is in the copies, and nobody holds a lock or a file there. Where another command is
to act beside it, the client forks, and its copy goes on as the client would. When the verdict has been given, all that
is undone, and the launch goes on to its next stop. At its last stop nothing is copied: the client itself is killed, or
goes on.
"""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import socket
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from filelock import BaseFileLock

from tests.faults import clients
from tests.faults.cases import Then
from tests.faults.clients import Desk
from tests.faults.forks import STOPPED, copied, die, forked, result_of, served_copy
from tests.faults.points import PointedJournal, Points
from tests.faults.verdict import KINDS, MakeCloud, Trial, Verdict, a_home

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from tests.faults.harness import Ask

_OPEN = "/dev/fd"
"""What this process has open, by number, in every Unix."""


class Scene(Protocol):
    """One trial of a launch: answers its client, does what comes after it, and judges."""

    names: list[str]
    messages: list[str]

    def answer(self, message: tuple[Any, ...]) -> Any: ...

    def go_on(self, *, killed: bool) -> None:
        """What is done after the launch."""

    def verdict(self) -> Verdict: ...

    def broken(self, error: AssertionError) -> Verdict:
        """The verdict where a client broke down."""
        ...


@dataclass(frozen=True, slots=True)
class _SceneMessages:
    """What a client at a stop is to do: die there, or stand there while another command acts; the latter itself, or in
    a copy."""

    dies: bool
    copy: bool


def played(trials: Sequence[Trial], make_cloud: MakeCloud, scene_of: Callable[[Desk, Trial], Scene]) -> list[Verdict]:
    """The verdicts, in the order of the trials. All are of one launch (`launch_of`)."""
    assert len({launch_of(trial) for trial in trials}) == 1
    with a_home() as home:
        desk = Desk(home=home, case=trials[0].case, cloud=make_cloud(trials[0].case.name))
        launch = _Launch(desk, sorted(trials, key=at_point), scene_of)
        launch.play()
    return [launch.verdicts[trial] for trial in trials]


def launch_of(trial: Trial) -> tuple[str, bool]:
    """Trials for which it is the same are of one launch."""
    return trial.case.name, trial.then is Then.CLEANUP


def _stop(trial: Trial) -> int | None:
    """The point at which something happens to the launch; None where nothing does before its end."""
    if trial.then is Then.LEFT:
        return None
    return trial.case.most_points if trial.point is None else trial.point


def at_point(trial: Trial) -> float:
    """Where something happens to its launch, for the order of trials; the end is after all points."""
    stop = _stop(trial)
    return float("inf") if stop is None else stop


@dataclass
class _Launch:
    """`ahead` are the trials whose points are still to come, in the order of these."""

    desk: Desk
    ahead: list[Trial]
    scene_of: Callable[[Desk, Trial], Scene]
    verdicts: dict[Trial, Verdict] = field(default_factory=dict)

    def play(self) -> None:
        self.trial = self.ahead[-1]
        self.scene = self.scene_of(self.desk, self.trial)
        if self.trial.then is Then.CLEANUP:
            self.desk.cloud.plant()
        stops = frozenset(stop for trial in self.ahead if (stop := _stop(trial)) is not None)
        try:
            killed = forked(lambda ask: self._launched(ask, stops), self._answer, self._stopped)
            while len(self.ahead) > 1:  # nothing is to happen to the launch, or it ended before their points
                self._branch(self.ahead.pop(0), None)
        except AssertionError as error:
            for trial in self.ahead:
                self.verdicts[trial] = self.scene_of(self.desk, trial).broken(error)
            self.verdicts[self.trial] = self.scene.broken(error)
            return
        self.verdicts[self.trial] = _to_its_end(self.scene, lambda: killed)

    def _launched(self, ask: Ask, stops: frozenset[int]) -> None:
        """In the client."""
        points = Points(stops=stops)
        points.stopped = lambda number: _stand(points, number, self.desk.home, ask)
        clients.launch(self.desk, ask, points)

    def _answer(self, message: tuple[Any, ...]) -> Any:
        return self.scene.answer(message)

    def _stopped(self, line: Connection, message: tuple[Any, ...]) -> _SceneMessages | None:
        """The client stands at one of its stops, and asks what it is to do there until nothing is left to be done."""
        _, number, self.scene.names = message
        if not self.ahead or _stop(self.ahead[0]) != number:
            return None
        if len(self.ahead) == 1:
            return _SceneMessages(dies=self.ahead.pop().then.kills, copy=False)
        if self.ahead[0].then.kills:
            self._branch(self.ahead.pop(0), line)
            return self._stopped(line, message)
        self._branch(self.ahead.pop(0), line)
        return None  # to what the client says when its copy has ended

    def _branch(self, trial: Trial, line: Connection | None) -> None:
        with put_aside(self.desk):
            if self.desk.cloud.in_harness:
                self.verdicts[trial] = Verdict(trial=trial, **result_of(lambda: _record(self._branched(trial, line))))
            else:
                self.verdicts[trial] = self._branched(trial, line)

    def _branched(self, trial: Trial, line: Connection | None) -> Verdict:
        """The trial from here on."""
        scene = self.scene_of(self.desk, trial)
        scene.messages[:], scene.names = self.scene.messages, self.scene.names
        if line is None or trial.then.kills:
            return _to_its_end(scene, lambda: line is not None)
        return _to_its_end(scene, lambda: served_copy(line, _SceneMessages(dies=False, copy=True), scene.answer))


def _record(verdict: Verdict) -> dict[str, Any]:
    """All but its trial, which cannot be sent to another process if a defect is planted in it."""
    return {"names": verdict.names, **{kind: getattr(verdict, kind) for kind in KINDS}}


def _to_its_end(scene: Scene, killed: Callable[[], bool]) -> Verdict:
    try:
        scene.go_on(killed=killed())
    except AssertionError as error:
        return scene.broken(error)
    return scene.verdict()


@contextmanager
def put_aside(desk: Desk) -> Iterator[None]:
    """What the block does to the home folder and to the cloud's double is undone."""
    aside = _aside(desk.home)
    desk.home.rename(aside)  # whoever has a file of it open keeps that one
    shutil.copytree(aside, desk.home)
    desk.cloud.put_aside()
    try:
        yield
    finally:
        desk.cloud.take_up()
        shutil.rmtree(desk.home)
        aside.rename(desk.home)


# --- in the client -----------------------------------------------------------------------------------------------


def _stand(points: Points, number: int, home: Path, ask: Ask) -> None:
    """At a stop: the client or its copy does what is to be done there, and stops no more."""
    while (told := ask((STOPPED, number, points.names))) is not None:
        held = [lock for lock in gc.get_objects() if isinstance(lock, BaseFileLock) and lock.is_locked]
        if told.copy and not copied(ask):
            continue
        points.stops = frozenset()
        if told.dies:
            die()
        if told.copy:
            _apart(home, held)
        ask(("act",))
        return


def _apart(home: Path, locks: Sequence[BaseFileLock]) -> None:
    """A copy of a client lets go of what it shares with it: it has the journal and other files open in its own home
    folder, holds the locks there that the client held (the fork took them from it), and has no connection."""
    assert threading.active_count() == 1, "a thread of the client is missing in its copy"
    for journal in list(PointedJournal.opened):
        journal.open_again()
    files = {path.stat().st_ino: path for path in _aside(home).rglob("*")}
    for number in map(int, os.listdir(_OPEN)):  # noqa: PTH208  numbers, not paths
        with suppress(OSError):  # the list itself was open
            known = os.fstat(number)
            if known.st_ino in files:
                _open_again(number, home / files[known.st_ino].relative_to(_aside(home)))
            elif stat.S_ISSOCK(known.st_mode) and _goes_over_the_network(number):
                _close_from_afar(number)
    for lock in locks:
        lock.__init__(lock.lock_file, timeout=lock.timeout)  # type: ignore[misc]  # as if this process had made it
        lock.acquire(timeout=0)


def _open_again(number: int, path: Path) -> None:
    """A file that the client was writing or reading, from where it stood."""
    flags = fcntl.fcntl(number, fcntl.F_GETFL) & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR | os.O_APPEND)
    fresh = os.open(path, flags)
    os.lseek(fresh, os.lseek(number, 0, os.SEEK_CUR), os.SEEK_SET)
    os.dup2(fresh, number)
    os.close(fresh)


def _goes_over_the_network(number: int) -> bool:
    """Unlike the line to the harness."""
    found = socket.socket(fileno=number)
    try:
        return found.family != socket.AF_UNIX
    finally:
        found.detach()


def _close_from_afar(number: int) -> None:
    """A connection whose other side has closed it takes its place: whoever would use it opens another one."""
    ours, theirs = socket.socketpair()
    theirs.close()
    os.dup2(ours.fileno(), number)
    ours.close()


def _aside(home: Path) -> Path:
    return home.with_name(f"{home.name}-aside")
