"""The image of machines in QEMU, a machine saved twice before its deadline, and where it is noted how late one was."""

from __future__ import annotations

import fcntl
import os
import pickle
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import pytest

from tests.conftest import ROOT
from tests.e2e.computer.computer import ARMED, Computer, Hardware, Saved, disc, power_on, resume
from tests.e2e.computer.yard import ComputerYard
from tests.e2e.conftest import pulled_trainer
from tests.e2e.yard import images
from tests.unit.providers.cloud.booted import boot
from trainplan.providers.cloud.bootstrap import start_up

if TYPE_CHECKING:
    from trainplan.providers.local.engine import CliEngine

GRACE_SECONDS = 60.0
"""Of the switch of a machine that is saved late; with the 300 s that are shipped a trial takes four minutes more."""
BOOT_SECONDS = 240.0
BEFORE_SECONDS = 40.0
SHORT_GRACE = (
    f"sed -i 's/^GRACE = 300$/GRACE = {GRACE_SECONDS:.0f}/' /usr/local/lib/trainplan/switch.py; "
    "systemctl restart trainplan-switch"
)
_BOOK = ROOT / ".build" / "machine" / "trials.tsv"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What boots machines installs QEMU and takes minutes: `make machine` asks for all (MACHINE=true), CI for what is
    not marked e2e."""
    here = Path(__file__).parent
    for item in items:
        in_ci = os.environ.get("CI") == "true" and not item.get_closest_marker("e2e")
        if here in item.path.parents and not in_ci and os.environ.get("MACHINE") != "true":
            item.add_marker(pytest.mark.skip(reason="make machine boots machines in QEMU"))
    if os.environ.get("MACHINE") == "true":  # the longest first, so that no worker is idle at the end
        items.sort(key=lambda item: -minutes(item))


def minutes(item: pytest.Item) -> float:
    """How long it takes, about, where it is more than some."""
    mark = item.get_closest_marker("minutes")
    return float(mark.args[0]) if mark else 0.0


@pytest.fixture(scope="session")
def image() -> Path:
    """The folder of kernel, initial disk and disk; made where it is not there, by the first of several workers."""
    _BOOK.parent.mkdir(parents=True, exist_ok=True)
    words = ["flock", str(_BOOK.parent / "lock"), str(ROOT / "scripts" / "machine.sh")]
    made = subprocess.run(words, capture_output=True, text=True, check=True)
    return ROOT / made.stdout.strip()


@pytest.fixture
def late(record_property: Callable[[str, object], None]) -> Callable[[str, float], None]:
    """Notes how many seconds after its deadline a machine was off; negative before it."""

    def note(name: str, seconds: float) -> None:
        record_property("seconds_late", round(seconds, 1))
        with _BOOK.open("a", encoding="utf-8") as book:
            book.write(f"{name}\t{seconds:.0f}\n")

    return note


@dataclass(frozen=True, slots=True)
class Base:
    """One machine, saved as soon as its switch was armed and again shortly before its deadline (its clock's)."""

    early: Saved
    late: Saved
    deadline: float


@pytest.fixture(scope="session")
def base(image: Path, testrun_uid: str) -> Iterator[Base]:
    """Saved by the first worker that needs it, and removed by the last; its clock stands still meanwhile."""
    places = _BOOK.parent / f"saved-{testrun_uid}"
    places.mkdir(exist_ok=True)
    book = places / "base"
    with (places / "used").open("w") as used, (places / "made").open("w") as made:
        fcntl.flock(used, fcntl.LOCK_SH)
        fcntl.flock(made, fcntl.LOCK_EX)
        if not book.exists():
            book.write_bytes(pickle.dumps(_saved(image, Path(mkdtemp(dir=places)))))
        fcntl.flock(made, fcntl.LOCK_UN)
        yield pickle.loads(book.read_bytes())
        with suppress(BlockingIOError):  # others use it
            fcntl.flock(used, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(places)  # two gigabytes


def _saved(image: Path, places: Path) -> Base:
    now = datetime.now(UTC).replace(microsecond=0)  # noqa: TID251  it lives in the real time
    ends = now + timedelta(seconds=BOOT_SECONDS)
    text = start_up(boot(boot_deadline=ends, deadline=now + timedelta(hours=1), requested_at=now))
    computer = power_on(Hardware(image=image), places / "computer", disc(text))
    try:
        assert computer.says(ARMED), computer.text()[-3000:]
        early = computer.save(places / "early")
        computer.run(SHORT_GRACE)
        assert computer.says(ARMED, times=2), computer.text()[-3000:]
        wait_seconds = ends.timestamp() - BEFORE_SECONDS - float(computer.run("date +%s.%N"))
        assert wait_seconds > 0, "too busy a computer: the deadline of the machine came before it was armed"
        time.sleep(wait_seconds)  # noqa: TID251
        late = computer.save(places / "late")
    finally:
        computer.remove()
    return Base(early, late, ends.timestamp())


@pytest.fixture
def at(base: Base, tmp_path: Path) -> Iterator[Callable[[bool], Computer]]:
    """The machine early, or shortly before its deadline."""
    running: list[Computer] = []

    def go_on(early: bool) -> Computer:
        running.append(resume(base.early if early else base.late, tmp_path))
        return running[-1]

    yield go_on
    for computer in running:
        computer.remove()


@pytest.fixture(scope="session")
def yard(image: Path) -> Iterator[ComputerYard]:
    """In place of the yard whose machines are containers."""
    with ComputerYard(image) as made:
        yield made


@pytest.fixture(scope="session")
def trainer_image(yard: ComputerYard, engine: CliEngine) -> str:
    """As in the yard of containers, one of which pulls it here too."""
    yard.image = images.machine()
    return pulled_trainer(yard, engine)
