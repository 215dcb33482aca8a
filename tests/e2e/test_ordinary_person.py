"""What a person without root has: containers of Docker and of Podman under their own umask, in a home that is closed.

The image is the product's, with what a script needs in place of TensorFlow: else each engine would build for minutes.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import urllib.request
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.conftest import ROOT
from tests.contract.conftest import docker, engine
from tests.doubles.waiting import until
from tests.e2e import ordinary
from tests.e2e.ordinary import Person, plan_words
from tests.e2e.test_own_script import COUNTS
from tests.unit.planner.planning.test_locked_script import wheel
from trainplan.providers.local.engine import CliEngine
from trainplan.providers.local.image import LOCAL_BASE

__all__ = ["docker", "engine"]  # the fixtures
pytestmark = pytest.mark.container

JOB = "name: mine\nscript: train.py\nargs: ['{pause}', '{steps}']\nconstraints: {{deadline: 20m}}\n"
LIGHT = {"common.txt": "numpy==2.4.6\npydantic==2.14.3\nPyYAML==6.0.3\n", "tensorflow-cpu.txt": ""}
# Shared memory beyond Docker's 64 MB, and a name for a user whom the image does not know.
LOOKS = """\
import getpass, shutil
getpass.getuser()
assert shutil.disk_usage("/dev/shm").total >= 2**30
"""


@pytest.fixture(scope="module")
def person() -> Iterator[Person]:
    if lacking := ordinary.missing():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"needs {lacking}")
    with ordinary.ordinary_person() as made:
        requirements = ROOT / "providers" / "local" / "data" / "requirements"
        for name, text in LIGHT.items():
            made.replace(requirements / name, text)
        yield made


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """A package index that listens on this computer alone, as a proxy of a firm may: its address."""
    folder = tmp_path / "simple" / "trainplan-above"
    folder.mkdir(parents=True)
    wheel(folder, "trainplan_above", "1.5")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/simple"
        server.shutdown()


@pytest.fixture(params=["docker", "podman"])
def where(request: pytest.FixtureRequest, person: Person, index: str) -> Iterator[str]:
    """The engine; Docker under the umask of a careful person, Podman without root under the usual one."""
    name: str = request.param
    person.environment = {
        "PLAN_ENGINE": name,
        "PLAN_BUILD_FLAGS": "--network=host",
        "PLAN_PODMAN_BUILD_FLAGS": "--isolation=chroot",
        "PLAN_HOME": str(person.home / f"of-{name}"),
        "PIP_EXTRA_INDEX_URL": index,
    }
    person.umask = 0o077 if name == "docker" else 0o022
    if name == "docker":
        request.getfixturevalue("docker")
    else:
        give_base_image(person, request.getfixturevalue("engine"))
    yield name
    person.plan("cleanup", "--provider", "local", "--yes")


def give_base_image(person: Person, engine: CliEngine) -> None:
    """Their Podman has images of its own."""
    if not engine.has_image(LOCAL_BASE):
        pytest.skip("make engine makes the base image")
    with subprocess.Popen(["podman", "save", LOCAL_BASE], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as saved:
        person.check("podman", "load", "--quiet", stdin=saved.stdout)


def test_a_script_is_built_for_launched_stopped_and_gone_on_with(person: Person, where: str) -> None:
    person.put("train.py", LOOKS + COUNTS)
    person.put("job.yaml", JOB.format(pause=0.05, steps=250))
    told = person.plan("doctor", "local")
    assert told.returncode == 0, told.stdout + told.stderr
    assert f"engine: {where} answers" in told.stdout

    launched = person.plan("launch", "job.yaml", "--provider", "local", "--yes", "--detach")
    assert launched.returncode == 0, launched.stderr
    runs = Path(person.environment["PLAN_HOME"]) / "runs"
    (run,) = (path.name for path in runs.iterdir())
    progress = runs / run / "attempts" / "1" / "progress.jsonl"
    until(lambda: progress.exists() and '"checkpoint"' in progress.read_text(), "it trains", seconds=120)
    assert person.plan("stop", run).returncode == 0
    person.plan("attach", run)
    again = person.plan(
        "launch", "job.yaml", "--provider", "local", "--yes", "--output", f"of-{where}-result", "--json"
    )
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["outcome"] == "succeeded"
    value = 0
    for step in range(1, 251):
        value = (value * 31 + step) % 1_000_003
    assert (person.home / f"of-{where}-result" / "value.txt").read_text() == str(value)

    assert person.wrongly_owned() == []
    assert stat.S_IMODE((person.home / f"of-{where}-result").stat().st_mode) == 0o777 & ~person.umask
    assert not person.check(where, "ps", "--all", "--quiet", "--filter", "label=trainplan-run").strip()
    assert not person.check(where, "volume", "ls", "--quiet").strip()


@pytest.mark.train
def test_a_process_trains_and_the_page_of_runs_is_served(person: Person) -> None:
    person.environment = {"PLAN_ENGINE": "process", "PLAN_HOME": str(person.home / "of-process")}
    person.put(
        "digits.yaml",
        "name: small\nmodel: {layers: [8, M], dense: [], image_size: 8}\ndata: {name: digits}\nepochs: 1\n"
        "global_batch_size: 64\n",
    )
    launched = person.plan("launch", "digits.yaml", "--provider", "local", "--yes", umask=0o022)
    assert launched.returncode == 0, launched.stderr
    assert "small" in person.plan("history").stdout
    with person.start(*plan_words("serve", "--port", "0")) as served:
        assert served.stdout is not None
        address = next(found[0] for line in served.stdout if (found := re.search(r"http://\S+token=\S+", line)))
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with browser.open(address, timeout=120) as page:
            assert b"small" in page.read()
        served.terminate()
    assert person.wrongly_owned() == []
    assert stat.S_IMODE(person.home.stat().st_mode) == 0o700
