"""The folders of `plan export --to kaggle`, read and pushed by Kaggle's own command to a double of its API on loopback.

The double is stricter than Kaggle: it takes no kernel whose data sets or kernels were not created before, no machine
that kaggle 2.2.5 does not name, no session beyond twelve hours, and no title that does not resolve to its id.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.unit.planner.cli.command import plan

PYTHON = ROOT / ".build" / "places" / "bin" / "python"
pytestmark = pytest.mark.skipif(
    not PYTHON.exists() and os.environ.get("CI") != "true", reason="make check installs Kaggle's command"
)
USER = "ada-l"
JOB = """\
name: cats
model: {preset: vgg11, classes: 10, image_size: 32}
data: {name: cifar10}
epochs: 2
global_batch_size: 64
"""
COMMAND = """\
import sys
import kagglesdk.kaggle_env as environment
environment._env_to_endpoint[environment.KaggleEnv.PROD] = sys.argv.pop(1)
from kaggle.cli import main
sys.exit(main())
"""
MACHINES = ("NvidiaTeslaT4", "TpuV5E8")


@dataclass(slots=True)
class Api:
    """What Kaggle has of the account: data sets with their files, and kernels as they were pushed."""

    url: str = ""
    data_sets: dict[str, dict[str, int]] = field(default_factory=dict)
    kernels: dict[str, dict[str, Any]] = field(default_factory=dict)
    uploads: dict[str, tuple[str, int]] = field(default_factory=dict)

    def answer(self, call: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        match call:
            case "IntrospectToken":
                return 200, {"active": True, "username": USER}
            case "GetDatasetStatus":
                return 404, {}
            case "StartBlobUpload":
                token = f"upload-{len(self.uploads)}"
                self.uploads[token] = body["name"], int(body["contentLength"])
                return 200, {"token": token, "createUrl": f"{self.url}/blob/{token}"}
            case "CreateDataset":
                return self._data_set(body)
            case "SaveKernel":
                return self._kernel(body)
            case _:
                return 501, {}

    def _data_set(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if not _resolves(body["title"], body["slug"]) or not 6 <= len(body["slug"]) <= 50:
            return 400, {"error": "title"}
        files = [self.uploads[file["token"]] for file in body["files"]]
        self.data_sets[f"{body['ownerSlug']}/{body['slug']}"] = dict(files)
        return 200, {"ref": body["slug"], "url": "https://kaggle.example", "status": "ok"}

    def _kernel(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        known = {
            *("slug", "newTitle", "text", "language", "kernelType", "datasetDataSources", "kernelDataSources"),
            *("isPrivate", "enableGpu", "enableTpu", "enableInternet", "sessionTimeoutSeconds", "machineShape"),
        }
        is_right = (
            known >= body.keys()
            and _resolves(body["newTitle"], body["slug"].partition("/")[2])
            and body["machineShape"] in MACHINES
            and 0 < body["sessionTimeoutSeconds"] <= 12 * 3600
            and all(source in self.data_sets for source in body["datasetDataSources"])
            and all(source in self.kernels for source in body.get("kernelDataSources", []))
            and body["isPrivate"]
        )
        if not is_right:
            return 400, {"error": "kernel"}
        self.kernels[body["slug"]] = body
        return 200, {"ref": body["slug"], "url": "https://kaggle.example", "versionNumber": 1}


def _resolves(title: str, slug: str) -> bool:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()) == slug


@pytest.fixture
def api() -> Iterator[Api]:
    state = Api()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, reply = state.answer(self.path.rpartition("/")[2], json.loads(data or b"{}"))
            self._reply(status, reply)

        def do_PUT(self) -> None:
            token = self.path.rpartition("/")[2]
            size = len(self.rfile.read(int(self.headers["Content-Length"])))
            self._reply(200 if state.uploads[token][1] == size else 400, {})

        def log_message(self, format: str, *args: object) -> None:
            del format, args

        def _reply(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    Thread(target=server.serve_forever, daemon=True).start()
    yield state
    server.shutdown()
    server.server_close()


def kaggle(api: Api, line: str, home: Path) -> subprocess.CompletedProcess[str]:
    """A line that `plan export` printed, given to Kaggle's own command."""
    words = shlex.split(line)
    assert words[0] == "kaggle"
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "KAGGLE_CONFIG_DIR": str(home)}
    return subprocess.run(
        [str(PYTHON), "-c", COMMAND, api.url, *words[1:]],
        env={**environment, "KAGGLE_API_TOKEN": "a" * 32},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("device", "machine"), [("T4", "NvidiaTeslaT4"), ("TPU v5e", "TpuV5E8")])
def test_kaggles_own_command_takes_every_line(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, machine: str
) -> None:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
    job = tmp_path / "job.yaml"
    job.write_text(JOB + ("" if device == "T4" else "precision: amp_bf16\nxla: true\n"), encoding="utf-8")
    out = tmp_path / "out"
    made = plan("export", job, "--to", "kaggle", "--out", out, "--user", USER, "--device", device, "--json")
    assert made.code == 0, made.err
    first = made.json["commands"]
    later = [first[-1].replace("session-1", name) for name in ("session-even", "session-odd")]
    for line in (*first, *later):
        said = kaggle(api, line, tmp_path)
        assert said.returncode == 0, said.stderr[-2000:]
        assert "rror" not in said.stdout, said.stdout
        assert "retired" not in said.stderr
        assert "does not resolve" not in said.stdout
    (name,) = {kernel.partition("/")[2].removesuffix("-a") for kernel in api.kernels if kernel.endswith("-a")}
    assert re.fullmatch("cats-[0-9a-f]{8}", name)
    assert set(api.data_sets[f"{USER}/{name}-trainer"]) == {
        "job.json", "sessions.json", "trainplan_trainer-0-py3-none-any.whl",
    }  # fmt: skip
    assert api.kernels.keys() == {f"{USER}/{name}-a", f"{USER}/{name}-b"}
    assert api.kernels[f"{USER}/{name}-a"]["kernelDataSources"] == [f"{USER}/{name}-b"]
    for kernel in api.kernels.values():
        assert kernel["machineShape"] == machine
        assert kernel["enableTpu"] == (device != "T4")
        assert kernel["text"] == (out / "session-1" / "train.py").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_double_takes_no_session_before_the_one_that_it_goes_on_from(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
    job = tmp_path / "job.yaml"
    job.write_text(JOB, encoding="utf-8")
    made = plan("export", job, "--to", "kaggle", "--out", tmp_path / "out", "--user", USER, "--json").json
    *_, push = made["commands"]
    assert kaggle(api, push, tmp_path).returncode != 0  # its data sets are not there
    assert not api.kernels
