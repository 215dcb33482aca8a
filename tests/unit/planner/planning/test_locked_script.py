"""Locking what a script needs: by pip, from a folder of wheels, with a hash for each."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.builders import a_script
from trainplan.planner.errors import BadInputError, ThisMachineError
from trainplan.planner.planning.locked_script import (
    Environment,
    Locked,
    check_requirement,
    lock_text,
    own_indexes,
    refuse_python,
    resolved,
    run_pip,
    with_lock,
)
from trainplan.planner.planning.script_lacks import left_behind_lines, missing, versions
from trainplan.planner.settings import load_settings
from trainplan.workloads.job import TrainingJob

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


def wheel(folder: Path, name: str, version: str, *needs: str) -> str:
    """A wheel of one empty module; its SHA-256."""
    path, info = folder / f"{name}-{version}-py3-none-any.whl", f"{name}-{version}.dist-info"
    required = "".join(f"Requires-Dist: {need}\n" for need in needs)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", "HERE = True\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{required}")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only index that pip knows."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name, value in {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(name, value)
    return folder


@pytest.mark.slow
def test_a_requirement_is_locked_with_all_that_it_needs(wheels: Path) -> None:
    below = wheel(wheels, "trainplan_below", "2.0")
    above = wheel(wheels, "trainplan_above", "1.5", "trainplan_below>=1")
    found = resolved(["trainplan-above>=1"], Environment(HERE), run_pip)
    assert sorted(found) == [Locked("trainplan-above", "1.5", above), Locked("trainplan-below", "2.0", below)]


@pytest.mark.slow
def test_what_comes_with_the_framework_is_not_locked_again(wheels: Path) -> None:
    from trainplan.providers.cloud.trainer_wheel import pinned

    digest = wheel(wheels, "trainplan_above", "1.5", "numpy")
    wheel(wheels, "numpy", versions(pinned("tensorflow-cpu"))["numpy"])
    found = resolved(["trainplan-above"], Environment("3.12", "tensorflow-cpu"), run_pip)
    assert found == [Locked("trainplan-above", "1.5", digest)]


@pytest.mark.slow
def test_what_the_framework_only_needs_may_be_another_version(wheels: Path) -> None:
    """Data sets of Hugging Face want an older fsspec than PyTorch brings."""
    from trainplan.providers.cloud.trainer_wheel import asked_for, pinned

    for name, version in versions(asked_for("tensorflow-cpu")).items():
        wheel(wheels, name.replace("-", "_"), version)
    wheel(wheels, "rich", versions(pinned("tensorflow-cpu"))["rich"])
    older, above = wheel(wheels, "rich", "1.0"), wheel(wheels, "trainplan_above", "1.5", "rich<2", "numpy")
    found = resolved(["trainplan-above"], Environment("3.12", "tensorflow-cpu"), run_pip)
    assert sorted(found) == [Locked("rich", "1.0", older), Locked("trainplan-above", "1.5", above)]
    wheel(wheels, "trainplan_odd", "1.0", "keras<1")
    with pytest.raises(BadInputError, match=r"trainplan-odd 1\.0 depends on keras<1"):
        resolved(["trainplan-odd"], Environment("3.12", "tensorflow-cpu"), run_pip)


@pytest.mark.slow
def test_wheels_of_any_older_glibc_are_taken(wheels: Path) -> None:
    """PyTorch needs NVIDIA's, which are for glibc 2.27: without them pip took the first accelerate of all."""
    wheel(wheels, "trainplan_above", "1.5")
    path = wheels / "trainplan_above-1.5-py3-none-any.whl"
    path.rename(wheels / "trainplan_above-1.5-py3-none-manylinux_2_27_x86_64.whl")
    (found,) = resolved(["trainplan-above"], Environment("3.12", "tensorflow-cpu"), run_pip)
    assert found.version == "1.5"


@pytest.mark.slow
@pytest.mark.parametrize("need", ["trainplan-nowhere", "trainplan-above>=9", "git+https://127.0.0.1:9/x.git", "==="])
def test_what_cannot_be_locked_is_told_before_anything_is_made(wheels: Path, need: str) -> None:
    wheel(wheels, "trainplan_above", "1.5")
    with pytest.raises(BadInputError, match="cannot be locked"):
        resolved([need], Environment(HERE), run_pip)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["{}", "evil @ file://{}", "-e {}", "--index-url=http://127.0.0.1:9/{}", "../{}"])
def test_a_strangers_requirement_runs_nothing_on_this_computer(wheels: Path, tmp_path: Path, form: str) -> None:
    """pip builds what is no wheel, to learn its metadata, and to build runs what stands there."""
    folder = tmp_path / "evil"
    folder.mkdir()
    mark = tmp_path / "ran"
    (folder / "setup.py").write_text(f"open({str(mark)!r}, 'w')\nimport setuptools; setuptools.setup(name='evil')\n")
    with pytest.raises(BadInputError, match="cannot be locked"):
        resolved([form.format(folder)], Environment(HERE), run_pip)
    assert not mark.exists()


@pytest.mark.parametrize(
    "need",
    ["pandas", "pandas >= 2, != 2.1.*", "pandas[parquet,aws]~=2.1", 'rich (>=13); python_version < "3.12"', "a==1!2.0"],
)
def test_a_package_with_versions_is_asked_for_as_it_is_written(need: str) -> None:
    check_requirement(need)


def test_one_lock_serves_all_pythons() -> None:
    old, new = Environment("3.11", "x"), Environment("3.12", "x")
    text = lock_text({old: [Locked("a", "1", "aa"), Locked("b", "1", "bb")], new: [Locked("a", "1", "cc")]})
    assert text == (
        "a==1 \\\n    --hash=sha256:aa \\\n    --hash=sha256:cc\n"
        'b==1 ; python_version == "3.11" \\\n    --hash=sha256:bb\n'
    )


def test_a_job_without_requirements_asks_nobody(tmp_path: Path) -> None:
    def never(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        raise AssertionError(command)

    job = a_script()
    settings = load_settings({"PLAN_HOME": str(tmp_path)})
    assert with_lock(job, "local", settings, print, never) is job


@pytest.mark.parametrize(
    ("provider", "engine", "is_told"), [("aws", "", True), ("local", "process", False), ("local", "", False)]
)
def test_an_index_of_ones_own_is_told_before_anything_is_rented(
    tmp_path: Path, provider: str, engine: str, is_told: bool
) -> None:
    """What only that one has failed on a machine that was paid for, without a word before."""
    read = {"sha256": "0" * 64, "source": "print(1)\n", "dependencies": ["ours>=1"]}
    job, said = a_script(read_script=read), list[str]()
    environment = {"PLAN_HOME": str(tmp_path), **({"PLAN_ENGINE": engine} if engine else {})}

    def refuses(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        settings = "global.index-url='https://me:password@index.example/simple'\nglobal.timeout='5'\n"
        listed = settings if "config" in command else ""
        return subprocess.CompletedProcess(command, 0 if listed else 1, listed, "ERROR: No matching distribution\n")

    with pytest.raises(BadInputError, match="No matching distribution"):
        with_lock(job, provider, load_settings(environment), said.append, refuses)
    assert [line for line in said if line.startswith("pip has index-url set here; ")] == said[1:]
    assert (len(said) == 2, "password" in str(said)) == (is_told, False)


def test_an_index_that_is_not_reached_is_no_fault_of_the_packages() -> None:
    """pip ends with `No matching distribution found` then too."""

    def unreached(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        said = (
            "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(...)': /simple/a/\n"
            "ERROR: No matching distribution found for a\n"
        )
        return subprocess.CompletedProcess(command, 1, "", said)

    with pytest.raises(ThisMachineError, match="the package index is not reached"):
        resolved(["a"], Environment(HERE), unreached)


@pytest.mark.slow
def test_pip_tells_its_settings(wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "pip.conf").write_text("[global]\nextra-index-url = https://index.example/simple\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    assert own_indexes(run_pip) == ("extra-index-url", "find-links")


def a_reader(**read: object) -> TrainingJob:
    return a_script(read_script={"sha256": "0" * 64, "source": "print(1)\n", **read})


def test_a_package_that_nobody_installs_is_named_before_anything_is_rented(tmp_path: Path) -> None:
    settings = load_settings({"PLAN_HOME": str(tmp_path)})
    job = a_reader(imports=["numpy", "PIL", "sklearn", "keras", "pandas_of_nobody"])
    for provider in ("aws", "sim", "local"):
        with pytest.raises(BadInputError, match="imports pandas_of_nobody: not beside it"):
            with_lock(job, provider, settings, print)
    assert with_lock(job, "slurm", settings, print) is job, "nobody knows what a cluster's Python has"
    here = load_settings({"PLAN_HOME": str(tmp_path), "PLAN_ENGINE": "process"})
    with pytest.raises(BadInputError, match="pandas_of_nobody"):
        with_lock(job, "local", here, print)
    assert with_lock(a_reader(imports=["pytest"]), "local", here, print).read_script is not None


def test_a_package_of_another_name_than_its_import_is_named_by_its_own(tmp_path: Path) -> None:
    settings = load_settings({"PLAN_HOME": str(tmp_path)})
    with pytest.raises(BadInputError, match=r"imports hydra \(package hydra-core\), wandb: "):
        with_lock(a_reader(imports=["hydra", "wandb"]), "sim", settings, print)
    headless = a_reader(imports=["cv2"], dependencies=["opencv-python-headless>=4"])
    assert not missing(headless, is_this_python=False)


def test_a_file_that_stays_here_is_told_with_how_it_travels() -> None:
    (line,) = left_behind_lines(a_reader(left_behind=["conf/a.yaml"]))
    assert "names conf/a.yaml beside it, which stays here" in line
    assert "folder: .}" in line
    files = [{"path": "conf/a.yaml", "source": "lr: 1"}]
    (line,) = left_behind_lines(a_reader(left_behind=["conf/a.yaml"], files=files))
    assert 'travels with it, and starts in another folder: write Path(__file__).parent / "conf/a.yaml"' in line


@pytest.mark.parametrize(
    ("requires", "is_refused"),
    [
        (">=3.99", True), ("<3.9", True), ("==3.8.*", True), ("~=3.8.2", True), (">=3.12,<3.12", True),
        ("", False), (">=3.9", False), ("~=3.12", False), ("==3.12.*", False), (">=3.12.4", False), (">3.11", False),
        ("!=3.11.*", False), ("<3.13,>=3.10", False), ("<=3.12", False),
    ],
)  # fmt: skip
def test_a_script_is_for_the_pythons_that_it_names(requires: str, is_refused: bool) -> None:
    job = a_reader(requires_python=requires)
    if is_refused:
        with pytest.raises(BadInputError, match=r"requires Python .*, and what it would run on has 3\.12"):
            refuse_python(job, ["3.12"])
    else:
        refuse_python(job, ["3.12"])
