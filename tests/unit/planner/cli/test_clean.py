"""The command in a process of its own: what it imports, what it runs without, and a reader that has gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders import small_catalog
from tests.conftest import ROOT

HEAVY = {
    "tensorflow", "keras", "jax", "torch", "numpy", "sklearn", "PIL", "matplotlib",
    "boto3", "botocore", "google", "azure", "requests", "httpx", "urllib3", "aiohttp",
}  # fmt: skip
POSIX_ONLY = ("fcntl", "resource", "pwd", "grp", "termios")


def python(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Code in a new interpreter that finds this checkout first; state and working folder below `folder`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PLAN_")}
    there = {"PLAN_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=kept | there | environment, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip


SCRIPT = """
import json, socket, sys

class NoSocket(socket.socket):
    def __init__(self, *arguments, **more):
        raise AssertionError("a socket was opened")

socket.socket = NoSocket
socket.create_connection = socket.getaddrinfo = NoSocket
from trainplan.planner.cli.main import run
code = run({arguments!r})
print(json.dumps({{"code": code, "modules": sorted(sys.modules)}}), file=sys.stderr)
"""


def modules_of(folder: Path, line: str) -> set[str]:
    """What is imported after a command that went well; a socket would have ended it."""
    done = python(SCRIPT.format(arguments=line.split()), folder, AWS_PROFILE="work")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stderr.splitlines()[-1])
    assert said["code"] == 0, done.stderr
    return set(said["modules"])


EXAMPLE = ROOT / "examples" / "vgg16-imagenet.yaml"
CLOUDS = {f"trainplan.providers.{cloud}" for cloud in ("aws", "azure", "gcp")}
OF_A_LAUNCH = {"trainplan.workloads.trainer", "trainplan.providers.local.provider"}


@pytest.mark.parametrize(
    ("line", "spared"),
    [
        ("--version", {"typer", "pydantic", "rich", "yaml", "sqlite3", "trainplan.planner.planning.build_plan"}),
        ("devices", {"trainplan.workloads.job", "yaml"}),
        ("status", CLOUDS),
        ("estimate --model vgg16 --dataset cifar10", OF_A_LAUNCH | {"yaml"}),
        (f"estimate {EXAMPLE} --json", OF_A_LAUNCH | {"trainplan.planner.report.estimate_page", "rich"}),
        (f"estimate {EXAMPLE} --include-retired --all", OF_A_LAUNCH),
        (f"estimate {EXAMPLE} --explain 1", OF_A_LAUNCH),
    ],
)
def test_a_command_touches_no_network_and_imports_only_what_it_uses(
    tmp_path: Path, line: str, spared: set[str]
) -> None:
    found = modules_of(tmp_path, line)
    assert {name.partition(".")[0] for name in found} & HEAVY == set()
    assert found & spared == set()


WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ImportError(f"there is no {{name}} on this system")

sys.meta_path.insert(0, Missing())
for name in {blocked!r}:
    sys.modules.pop(name, None)
from trainplan.planner.cli.main import run
for line in {lines!r}:
    code = run(line.split())
    assert code == 0, (line, code)
    print("ran", line, file=sys.stderr)
"""


def test_the_command_runs_where_posix_modules_are_missing(tmp_path: Path) -> None:
    """macOS has them, Windows has none of them; fcntl, pwd and their like may not be needed for anything here."""
    catalog = small_catalog(tmp_path)
    lines = [
        "--version",
        "--help",
        "init job.yaml --model mnist-cnn --dataset mnist",
        f"estimate job.yaml --catalog {catalog}",
        f"estimate job.yaml --json --catalog {catalog}",
        f"estimate job.yaml --explain 1 --catalog {catalog}",
        "devices",
        "history",
        "status",
        "launch job.yaml --provider local --dry-run",
    ]
    done = python(WITHOUT.format(blocked=POSIX_ONLY, lines=lines), tmp_path, PLAN_ENGINE="process")
    assert done.returncode == 0, done.stderr
    assert [line[4:] for line in done.stderr.splitlines() if line.startswith("ran ")] == lines


COMMAND = "import sys; sys.argv[1:] = {arguments!r}; from trainplan.planner.cli.main import main; main()"


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return python(COMMAND.format(arguments=list(arguments)), folder)


def test_the_process_leaves_with_the_code_and_keeps_its_streams_apart(tmp_path: Path) -> None:
    good = command(tmp_path, "history")
    assert (good.returncode, good.stderr) == (0, "")
    bad = command(tmp_path, "estimate", "nowhere.yaml")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr == "error: there is no file nowhere.yaml\nhint: plan init writes one\n"


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["devices", "--json"], 0, ""),
        (["history"], 0, ""),
        (["--version"], 0, ""),
        (["stop", "x"], 2, "error: there is no run 'x'\nhint: plan history lists them\n"),
    ],
)
def test_a_reader_that_has_gone_is_no_error(
    tmp_path: Path, arguments: list[str], code: int, message: str, *, buffered: bool
) -> None:
    """`plan devices | head -1`."""
    read, write = os.pipe()
    os.close(read)
    there = os.environ | {"PLAN_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    there["PYTHONUNBUFFERED"] = "" if buffered else "1"
    text = COMMAND.format(arguments=arguments)
    try:
        done = subprocess.run(
            [sys.executable, "-c", text], cwd=tmp_path, env=there, stdout=write, stderr=subprocess.PIPE, text=True,
            timeout=300, check=False,
        )  # fmt: skip
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (code, message)


def test_names_that_are_no_text_are_answered_in_a_narrow_locale(tmp_path: Path) -> None:
    """A file name in another encoding, on a terminal that shows ASCII alone."""
    name = b"caf\xe9.yaml"
    arguments = f"['init', os.fsdecode({name!r})]"
    code = f"import os, sys; sys.argv[1:] = {arguments}; from trainplan.planner.cli.main import main; main()"
    narrow = {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    done = python(code, tmp_path, **narrow)
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 0
