"""A script of the person's own, as each cloud's machine is sent it: run by the command and the wheel that it gets."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.builders import a_script
from tests.unit.providers.cloud.test_machine import part, spec_of
from trainplan.providers.cloud.images import Hardware, launchable
from trainplan.providers.cloud.launch import job_on_the_machine
from trainplan.providers.cloud.trainer_wheel import wheel_bytes

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="rented machines run Linux")]
COUNTS = """\
import sys
import trainplan_run
from pathlib import Path
folder = trainplan_run.resume_from()
value = int((folder / "value").read_text())
for step in range(3, 6):
    value += step
    trainplan_run.report(step, images=4, total_steps=5)
    with trainplan_run.checkpoint_folder() as folder:
        (folder / "value").write_text(str(value))
Path("value.txt").write_text(f"{value} {sys.argv[1:]}")
"""
# What no machine has: the wheel holds the trainer alone, while this Python has all of the product.
ALONE = """\
import re, runpy, sys
class NotThere:
    def find_spec(self, name, path=None, target=None):
        if re.match(r"(trainplan\\.)?(planner|pricing|providers|tests)(\\.|$)", name):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NotThere())
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("cloud", ["aws", "gcp", "azure"])
def test_it_goes_on_where_the_machine_before_it_ended(cloud: str, tmp_path: Path) -> None:
    hardware = Hardware(cloud, "T4", "turing", "x86_64", "7.5")
    digest = hashlib.sha256(COUNTS.encode()).hexdigest()
    script = a_script(read_script={"sha256": digest, "source": COUNTS}, args={"epochs": 3}, checkpoints=True)
    sent = part(hardware, job=job_on_the_machine(script, launchable(script, hardware), ()))
    (tmp_path / "job.json").write_bytes(sent.objects[0].data)
    left_by_the_first(tmp_path)
    with zipfile.ZipFile(io.BytesIO(wheel_bytes())) as wheel:
        wheel.extractall(tmp_path / "site")

    program, module_option, module, *arguments = spec_of(sent).command
    assert (program, module_option) == ("python", "-m")
    places = [word.replace("/run-dir", str(tmp_path)).replace("/data", str(tmp_path / "data")) for word in arguments]
    places[places.index("--deadline-unix") + 1] = "4000000000"
    done = subprocess.run(
        [sys.executable, "-P", "-c", ALONE, module, *places], capture_output=True, text=True, check=False, timeout=120,
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "attempts" / "2" / "progress.jsonl").read_text().splitlines()]
    start = next(line for line in lines if line["event"] == "start")
    assert (start["resumed_from_step"], start["total_steps"]) == (2, 5)
    assert (tmp_path / "output" / "value.txt").read_text() == "112 ['--epochs', '3']"
    manifest = json.loads((tmp_path / "output" / "manifest.json").read_text())
    assert [row["path"] for row in manifest] == ["metrics.json", "value.txt"]


def left_by_the_first(folder: Path) -> None:
    """A checkpoint as the agent brings it from the store, with what the machine before has signed."""
    place = folder / "checkpoints" / "step-00000002"
    place.mkdir(parents=True)
    (place / "value").write_text("100")
    files = {"value": hashlib.sha256(b"100").hexdigest()}
    (place / "complete.json").write_text(json.dumps({"step": 2, "files": files}))
    (place / "vouched.json").write_text("{}")
