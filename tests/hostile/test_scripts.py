"""Scripts that mean harm: each ends at its cap at the latest, and nothing of it is left.

Every script here would end by itself within a minute, and starts no more than a few dozen processes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.doubles.own_script import command, environment, left, lines, run
from tests.doubles.waiting import until

pytestmark = pytest.mark.slow

FORKS = """\
import os, time
for _ in range(60):
    if os.fork() == 0:
        os.setsid()
        time.sleep(60)
        os._exit(0)
time.sleep(60)
"""
HOPS = """\
import os, time
end = time.monotonic() + 60
while time.monotonic() < end:
    time.sleep(0.001)
    if os.fork():
        os._exit(0)
    os.setsid()
"""
DEAF = """\
import os, signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
time.sleep(60)
"""
PARRICIDE = "import os, signal, time\nos.fork()\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(60)\n"
NO_ROOM = """\
import resource, sys
import trainplan_run
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for step in range(1, 100):
    trainplan_run.report(step, images=1, total_steps=100)
with trainplan_run.checkpoint_folder() as folder:
    (folder / "weights").write_text("w")
"""
LINKS = """\
import os, shutil
from pathlib import Path
place, victim = Path(os.environ["TRAINPLAN_RUN_DIR"]), Path(os.environ["MARK"]).parent / "victim"
Path("link").symlink_to(victim)
Path("folder").symlink_to(victim.parent)
Path("result.txt").write_text("mine")
attempt = place / "attempts" / "1"
for name in ("progress.jsonl", "status.json", ".status.json.new"):
    (attempt / name).unlink(missing_ok=True)
    (attempt / name).symlink_to(victim)
(place / "output").symlink_to(victim.parent / "elsewhere")
"""
PIPES = """\
import os
from pathlib import Path
attempt = Path(os.environ["TRAINPLAN_RUN_DIR"]) / "attempts" / "1"
(attempt / "progress.jsonl").unlink(missing_ok=True)
os.mkfifo(attempt / "progress.jsonl")
"""
LINES = """\
import os
from pathlib import Path
path = Path(os.environ["TRAINPLAN_RUN_DIR"]) / "attempts" / "1" / "progress.jsonl"
with path.open("a") as file:
    for step in range(1_000_000):
        file.write('{"event": "step", "step": %d, "time": "2026-11-26T12:00:00+00:00"}\\n' % step)
    file.write('{"event": "step", "step": -7, "images_per_second": NaN}\\n{"event": "step", "step": 1e999}\\n')
    file.write("x" * 5_000_000 + "\\n[[[[\\n" + "[" * 100_000 + "\\n")
"""
FORGED = """\
import json, os
from pathlib import Path
import trainplan_run
assert trainplan_run.resume_from() is None
folder = Path(os.environ["TRAINPLAN_RUN_DIR"]) / "checkpoints"
for step, files in ((99, {"weights": "0" * 64}), (98, {"../../job.json": "x"}), (97, []), (96, {})):
    place = folder / f"step-{step:08}"
    place.mkdir(parents=True, exist_ok=True)
    (place / "weights").write_text("w")
    (place / "complete.json").write_text(json.dumps({"step": step, "files": files}))
"""


def capped(seconds: float = 4) -> tuple[str, str]:
    return "--deadline-unix", f"{time.time() + seconds:.0f}"


def test_a_script_that_forks_without_end_is_ended_with_all_of_it(tmp_path: Path) -> None:
    place = tmp_path / "run"
    (tmp_path / "bomb.py").write_text(FORKS)
    words = [
        sys.executable,
        "-P",
        "-m",
        "trainplan.workloads.trainer.keeper",
        "40",
        sys.executable,
        str(tmp_path / "bomb.py"),
    ]
    with subprocess.Popen(words, env=environment(place), stdin=subprocess.PIPE) as keeper:
        assert keeper.wait(timeout=60) == 98
    assert left(place) == []


@pytest.mark.parametrize(("source", "code"), [(HOPS, 0), (DEAF, 76)], ids=["hops", "deaf"])
def test_what_does_not_want_to_end_is_ended_at_its_cap(tmp_path: Path, source: str, code: int) -> None:
    """The first of the processes that hop has ended well, and with it the script."""
    place = tmp_path / "run"
    began = time.monotonic()
    done = run(place, source, *capped())
    assert done.returncode == code
    assert time.monotonic() - began < 45
    until(lambda: not left(place), "nothing is left", seconds=5)


def test_a_script_that_kills_its_keeper_is_ended_by_the_trainer(tmp_path: Path) -> None:
    place = tmp_path / "run"
    done = run(place, PARRICIDE)
    assert done.returncode == 70
    assert "signal 9" in done.stderr
    until(lambda: not left(place), "nothing is left", seconds=5)


def test_a_disk_without_room_fails_the_script_and_not_the_trainer(tmp_path: Path) -> None:
    place = tmp_path / "run"
    done = run(place, NO_ROOM)
    assert done.returncode == 70
    assert "Traceback" in done.stdout  # the script's own
    assert "error: the script ended with exit code 1" in done.stderr
    assert lines(place)[-1]["event"] == "phase"


def test_links_lead_nowhere(tmp_path: Path) -> None:
    place, victim = tmp_path / "run", tmp_path / "victim"
    victim.write_text("untouched")
    (tmp_path / "elsewhere").mkdir()
    done = run(place, LINKS)
    assert done.returncode == 0, done.stderr
    assert victim.read_text() == "untouched"
    assert list((tmp_path / "elsewhere").iterdir()) == []
    names = {row["path"] for row in json.loads((place / "output" / "manifest.json").read_text())}
    assert names == {"metrics.json", "result.txt"}
    assert lines(place)[-1]["event"] == "end"


@pytest.mark.parametrize("source", [PIPES, LINES], ids=["pipes", "lines"])
def test_what_it_writes_in_the_place_of_progress_holds_nobody_up(tmp_path: Path, source: str) -> None:
    place = tmp_path / "run"
    done = run(place, source, *capped(60))
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert (place / "output" / "metrics.json").is_file()


def test_a_forged_checkpoint_is_not_gone_on_from(tmp_path: Path) -> None:
    place = tmp_path / "run"
    assert run(place, FORGED).returncode == 0
    again = subprocess.run(
        command(place, FORGED, attempt=2), env=environment(place), capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip
    assert again.returncode == 0, again.stderr
    assert sum(line["event"] == "warning" for line in lines(place, 2)) == 4
