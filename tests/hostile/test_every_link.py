"""From this computer to the model and back: each part that a hostile writer can swap or cut is named and not used.

Checkpoints stand in test_bucket_writer.py, model, manifest and progress in test_swapped_results.py.
"""

from __future__ import annotations

import base64
import hashlib
import io
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.providers.agent.machine import Rented
from tests.unit.providers.cloud.test_machine import a_placement, part, spec_of
from trainplan.providers.agent import requests
from trainplan.providers.agent.requests import Access
from trainplan.providers.agent.spec import SpecError, read_spec
from trainplan.providers.cloud.agent_archive import AGENT
from trainplan.providers.cloud.machine import SPEC, MachinePart
from trainplan.providers.cloud.trainer_wheel import WHEEL
from trainplan.providers.errors import BadRequestError

CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "swapped": lambda data: bytes(len(data)),
    "cut": lambda data: data[:-1],
    "empty": lambda _: b"",
    "longer": lambda data: data + b"\n",
}


def path_of(machine_part: MachinePart, name: str) -> str:
    return next(stored.path for stored in machine_part.objects if stored.path.rpartition("/")[2] == name)


def run_directory(machine_part: MachinePart) -> dict[str, bytes]:
    return {stored.path: stored.data for stored in machine_part.objects}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", [AGENT, SPEC])
def test_the_machine_takes_no_other_agent_and_no_other_spec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, change: str
) -> None:
    """The part of the start-up text that fetches both: its hashes stand in the user data, in no bucket."""
    made = part()
    files, path = run_directory(made), path_of(made, name)
    sha256 = made.boot.agent_sha256 if name == AGENT else made.boot.spec_sha256
    files[path] = CHANGES[change](files[path])
    boot, target = tmp_path / "boot.json", tmp_path / "target"
    boot.write_text('{"cloud": "gcp", "run_uri": "gs://bucket/plan/r1", "region": "", "endpoints": {}}')

    def answer(_: Access, method: str, url: str) -> tuple[int, dict[str, str], bytes]:
        assert method == "GET"
        return 200, {}, next(data for known, data in files.items() if known.rpartition("/")[2] in url)

    monkeypatch.setattr(Access, "call", answer)
    assert requests.main([str(boot), path, sha256, str(target)]) == 3
    assert list(tmp_path.iterdir()) == [boot]
    files[path] = run_directory(made)[path]
    assert requests.main([str(boot), path, sha256, str(target)]) == 0
    assert target.read_bytes() == files[path]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["job.json", "requirements.txt", WHEEL])
def test_the_agent_takes_no_other_job_trainer_or_list_of_packages(tmp_path: Path, name: str, change: str) -> None:
    made = part()
    spec = spec_of(made)
    rented = Rented(tmp_path, files=spec.files, job_sha256=spec.job_sha256)
    rented.store.objects |= run_directory(made)
    path = path_of(made, name)
    rented.store.objects[path] = CHANGES[change](rented.store.objects[path])
    ending = rented.run()
    assert (ending.state, ending.reason) == ("failed", "NOT_FETCHED")
    assert f"{path} is not what was promised" in rented.status["message"]
    assert rented.docker.calls_of("docker", "create") == rented.docker.calls_of("docker", "run") == []
    assert not [found for found in rented.paths.root.rglob(name) if found.is_file()]


def test_what_was_sent_is_taken(tmp_path: Path) -> None:
    made = part()
    rented = Rented(tmp_path, files=spec_of(made).files, job_sha256=spec_of(made).job_sha256)
    rented.store.objects |= run_directory(made)
    assert rented.run().state == "done"
    assert (rented.paths.root / "machine" / WHEEL).is_file()


def a_wheel(content: bytes) -> bytes:
    made = io.BytesIO()
    info = "tiny-1.dist-info"
    files = {
        "tiny.py": content,
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny\nVersion: 1\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    digests = {
        name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=") for name, data in files.items()
    }
    record = "".join(f"{name},sha256={digests[name].decode()},{len(data)}\n" for name, data in files.items())
    with zipfile.ZipFile(made, "w") as wheel:
        for name, data in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n".encode()}.items():
            wheel.writestr(zipfile.ZipInfo(name), data)
    return made.getvalue()


def test_pip_takes_no_other_wheel_than_the_pinned_one(tmp_path: Path) -> None:
    """pip itself, with the options of the machine, beside a package index that gives something else."""
    options = "--only-binary :all: --require-hashes"
    assert options.split()[-1] in spec_of(part()).setup[2]
    good, wheels = a_wheel(b"good = True\n"), tmp_path / "wheels"
    wheels.mkdir()
    pins = tmp_path / "requirements.txt"
    pins.write_text(f"tiny==1 --hash=sha256:{hashlib.sha256(good).hexdigest()}\n")
    for content, taken in ((b"good = True\n", True), (b"evil = True\n", False)):
        (wheels / "tiny-1-py3-none-any.whl").write_bytes(a_wheel(content))
        target = tmp_path / f"installed-{taken}"
        words = ["install", "--quiet", "--disable-pip-version-check", "--no-index", "--isolated", "--no-cache-dir"]
        words += [*options.split(), "--find-links", str(wheels), "--target", str(target), "-r", str(pins)]
        done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=False)
        assert (done.returncode == 0) is taken, done.stderr
        assert (target / "tiny.py").exists() is taken
    assert "tiny==1" in done.stderr
    pins.write_text("tiny==1\n")
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=False)
    assert done.returncode != 0, "a package without a hash is none"


@pytest.mark.parametrize("image", ["registry.example/train:latest", "registry.example/train@sha256:" + "a" * 63])
def test_an_image_is_named_by_its_digest_or_not_at_all(tmp_path: Path, image: str) -> None:
    """What the engine then pulls it checks against the digest itself."""
    text = next(stored.data for stored in part().objects if stored.path.endswith(SPEC)).decode()
    with pytest.raises(SpecError, match="is not named by its digest"):
        read_spec(text.replace(spec_of(part()).images[0], image))
    rented = Rented(tmp_path)
    assert rented.run().state == "done"
    pulled = [words[-1] for words in rented.docker.calls_of("docker", "pull")]
    assert pulled
    assert all("@sha256:" in name for name in pulled)
    created = [word for words in rented.docker.calls_of("docker", "create") for word in words if "/train" in word]
    assert created
    assert all("@sha256:" in name for name in created)


@pytest.mark.parametrize("digest", ["", "sha256:", "sha256:" + "A" * 64, "latest"])
def test_no_image_is_launched_whose_digest_nobody_knows(digest: str) -> None:
    with pytest.raises(BadRequestError, match="the digest of"):
        part(context=a_placement(image_digest=digest))
