"""What a script needs installed, locked before its launch: exact versions with the hashes of their wheels.

pip resolves, on this computer, for each Python that the script may run in; nothing is installed here. What comes with
the framework is taken as it is there, and is not locked again.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trainplan.planner.errors import BadInputError, ThisMachineError
from trainplan.planner.planning.script_lacks import (
    left_behind_lines,
    missing,
    missing_text,
    normal_name,
    script_name,
    versions,
)
from trainplan.providers.cloud.images import table
from trainplan.providers.cloud.trainer_wheel import asked_for, pinned
from trainplan.providers.registry import CLUSTER, is_here
from trainplan.workloads.pip_faults import PipFault, pip_fault
from trainplan.workloads.script_file import is_requirement

if TYPE_CHECKING:
    from trainplan.planner.settings import Settings
    from trainplan.workloads.job import TrainingJob

MOST_SECONDS = 300.0
"""For one resolution: pip downloads what has no metadata of its own."""
_GLIBC_MINOR = 36
_PLATFORMS = (*(f"manylinux_2_{minor}_x86_64" for minor in range(_GLIBC_MINOR, 4, -1)), "manylinux2014_x86_64")
"""What runs on Debian 12, whose glibc is 2.36: pip takes a platform that is named as it is, and none below it."""
_OWN_INDEX = ("index-url", "extra-index-url", "find-links")
_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input")


class Environment(NamedTuple):
    """A Python that a script may run in: its version, and the software that comes with it (a row of machines.toml).

    Without a `software` it is this very Python, with what is installed in it.
    """

    python: str
    software: str = ""


THIS_PYTHON = Environment(f"{sys.version_info.major}.{sys.version_info.minor}")


class Locked(NamedTuple):
    """One package that is to be installed."""

    name: str
    version: str
    sha256: str


Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


def run_pip(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run it to its end. Raises ThisMachineError where it takes too long."""
    try:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=MOST_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise ThisMachineError(f"pip did not find what the script needs within {MOST_SECONDS:.0f} s") from None


def with_lock(
    job: TrainingJob, provider: str, settings: Settings, say: Callable[[str], object], run: Run = run_pip
) -> TrainingJob:
    """The job with what its script needs, locked for the machines of a provider; any other job as it is.

    Raises BadInputError for what cannot be locked, ThisMachineError where there is no pip.
    """
    read = job.read_script
    if read is None:
        return job
    is_this_python = is_here(provider) and settings.options_of(provider).get("engine") == "process"
    refuse_python(job, [THIS_PYTHON.python] if is_this_python or provider == CLUSTER else pythons_of(job))
    if job.container is None and provider != CLUSTER and (names := missing(job, is_this_python=is_this_python)):
        text = missing_text(job, names)
        if not read.dependencies:
            raise BadInputError(
                text,
                "name the packages under requirements, or put the files beside the script; files above it travel with "
                f"script: {{file: {Path(str(job.script)).parent.name}/{script_name(job)}, folder: ..}}",
            )
        say(f"{text}, unless another package brings it")
    for line in left_behind_lines(job):
        say(line)
    if not read.dependencies:
        return job
    if importlib.util.find_spec("pip") is None:
        raise ThisMachineError("this Python has no pip, which locks what a script needs", "python -m ensurepip")
    where = environments(job, provider, settings)
    say(f"locking what {script_name(job)} needs ({', '.join(read.dependencies)})")
    # A container of this computer gets pip's settings (providers/local/outside.py).
    if own := () if is_here(provider) else own_indexes(run):
        say(
            f"pip has {' and '.join(own)} set here; a rented machine asks the public index alone: what only yours has "
            "fails there, once it is paid for"
        )
    text = lock_text({one: resolved(read.dependencies, one, run) for one in where})
    return job.model_copy(update={"read_script": read.model_copy(update={"locked": text})})


def pythons_of(job: TrainingJob) -> list[str]:
    """The versions of Python in the containers of the job's framework."""
    rows = [row for name, row in table().software.items() if name.startswith(f"{job.framework}-")]
    return sorted({row.container.python for row in rows})


def refuse_python(job: TrainingJob, pythons: Sequence[str]) -> None:
    """Raises BadInputError where a script is for none of these versions (3.12) of Python."""
    requires = job.read_script.requires_python if job.read_script is not None else ""
    if requires and job.container is None and not any(_is_for(requires, python) for python in pythons):
        raise BadInputError(
            f"{script_name(job)} requires Python {requires}, and what it would run on has {' or '.join(pythons)}",
            "change requires-python in its block of metadata, or name a container of your own",
        )


def _is_for(requires: str, python: str) -> bool:
    """Whether some release of a version such as 3.12 is among the versions that a specifier allows."""
    minor = _numbers(python)
    for sign, text in re.findall(r"(~=|===?|!=|<=|>=|<|>)\s*([^\s,]+)", requires):
        numbers = _numbers(text)
        asked, exact = numbers[:2], len(numbers) > 2
        allowed = {
            ">=": minor >= asked,
            ">": minor > asked or (exact and minor == asked),
            "<": minor < asked or (exact and numbers[2] > 0 and minor == asked),
            "<=": minor <= asked,
            "~=": minor == asked if exact else minor[:1] == asked[:1] and minor >= asked,
            "!=": minor[: len(asked)] != asked or exact,
        }
        if not allowed.get(sign, minor[: len(asked)] == asked):
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def environments(job: TrainingJob, provider: str, settings: Settings) -> list[Environment]:
    """The Pythons that the script may run in at a provider, and where the run may go on from there: a cluster's is
    taken to be of this one's version."""
    here = THIS_PYTHON.python
    rows = [row for name, row in table().software.items() if name.startswith(f"{job.framework}-")]
    contained = {Environment(row.container.python, f"{job.framework}-cpu") for row in rows}
    if not is_here(provider):
        own = Environment(here, f"{job.framework}-cpu")
        # Only where the framework's packages are pinned for this Python (PyTorch's are not for 3.11).
        is_pinned = f"Python {here} on" in pinned(own.software).partition("\n")[0]
        return sorted({own, *contained} if is_pinned or provider == CLUSTER else contained)
    if settings.options_of(provider).get("engine") == "process":
        return [THIS_PYTHON]
    return sorted({Environment(here), *contained})


def own_indexes(run: Run) -> tuple[str, ...]:
    """The settings by which pip takes packages from elsewhere than the public index on this computer, by name: what
    they say may hold a password."""
    lines = run([*_PIP, "config", "list"]).stdout.splitlines()  # each is PLACE.index-url='https://…'
    names = {line.partition("=")[0].rpartition(".")[2] for line in lines}
    return tuple(name for name in _OWN_INDEX if name in names)


def resolved(dependencies: Sequence[str], environment: Environment, run: Run) -> list[Locked]:
    """What is to be installed in one Python. Raises BadInputError, ThisMachineError where the index is not reached.

    What comes with the framework stays as it is. Where that cannot be (Lightning wants an older fsspec than PyTorch
    brings), the packages that were asked for there stay, and what these need may be another version.
    """
    for dependency in dependencies:
        check_requirement(dependency)
    there = versions(pinned(environment.software)) if environment.software else {}
    try:
        return _resolved(dependencies, environment, there, there, run)
    except _ConflictError:
        if not there:
            raise
    asked = versions(asked_for(environment.software))
    exact = [f"{name}=={version}" for name, version in asked.items()]
    return _resolved([*dependencies, *exact], environment, asked, there, run)


class _ConflictError(BadInputError):
    """No versions go together."""


def _resolved(
    dependencies: Sequence[str], environment: Environment, held: dict[str, str], there: dict[str, str], run: Run
) -> list[Locked]:
    """The packages that are not `there`, while those of `held` have their versions."""
    with tempfile.TemporaryDirectory() as folder:
        report, constraints = Path(folder, "report.json"), Path(folder, "constraints.txt")
        requirements = Path(folder, "requirements.txt")
        requirements.write_text("\n".join(dependencies) + "\n", encoding="utf-8")
        words = ["install", "--dry-run", "--report", str(report), "--only-binary", ":all:", "-r", str(requirements)]
        if environment.software:
            constraints.write_text("".join(f"{name}=={version}\n" for name, version in held.items()))
            platforms = [word for name in _PLATFORMS for word in ("--platform", name)]
            words += ["--ignore-installed", "--target", str(Path(folder, "target")), "-c", str(constraints)]
            words += ["--python-version", environment.python, "--implementation", "cp", *platforms]
        process = run([*_PIP, *words])
        if process.returncode:
            if pip_fault(process.stderr) in (PipFault.UNREACHABLE, PipFault.NOT_TRUSTED):
                raise ThisMachineError(
                    f"the package index is not reached from here, so nothing can be locked: {_why(process.stderr)}",
                    "try again later; pip config list shows where pip looks, PIP_CERT and HTTPS_PROXY lead there",
                )
            conflict = _conflict(process.stdout)
            raise (_ConflictError if conflict or "ResolutionImpossible" in process.stderr else BadInputError)(
                f"what the script needs cannot be locked for Python {environment.python}: "
                f"{conflict or _why(process.stderr)}",
                "name packages that have wheels, by versions that go together; what comes with the framework is there",
            )
        rows = json.loads(report.read_text(encoding="utf-8"))["install"]
    found = [_locked(row) for row in rows]
    return [one for one in found if there.get(one.name) != one.version]


def check_requirement(requirement: str) -> None:
    """Raises BadInputError for what is no released package. pip would build it here, and run what a stranger wrote."""
    if not is_requirement(requirement):
        raise BadInputError(
            f"{requirement!r} cannot be locked: it is no package with its versions",
            "name a released package, such as pandas>=2; folders, addresses and options of pip are not taken",
        )


def lock_text(locks: dict[Environment, list[Locked]]) -> str:
    """The lock as pip reads it with --require-hashes; "" where nothing is to be installed anywhere."""
    pythons: dict[tuple[str, str], set[str]] = {}
    hashes: dict[tuple[str, str], set[str]] = {}
    for environment, rows in locks.items():
        for row in rows:
            pythons.setdefault((row.name, row.version), set()).add(environment.python)
            hashes.setdefault((row.name, row.version), set()).add(row.sha256)
    everywhere = {environment.python for environment in locks}
    lines = []
    for name, version in sorted(pythons):
        only = sorted(pythons[name, version])
        marker = "" if set(only) == everywhere else " or ".join(f'python_version == "{one}"' for one in only)
        lines.append(f"{name}=={version}{f' ; {marker}' if marker else ''}")
        lines[-1] += "".join(f" \\\n    --hash=sha256:{one}" for one in sorted(hashes[name, version]))
    return "".join(f"{line}\n" for line in lines)


def _locked(row: dict[str, dict[str, object]]) -> Locked:
    """Raises BadInputError for what no hash tells: a folder, or a commit of a repository."""
    metadata, archive = row["metadata"], row["download_info"].get("archive_info")
    name = normal_name(str(metadata["name"]))
    digests = archive.get("hashes") if isinstance(archive, dict) else None
    sha256 = digests.get("sha256") if isinstance(digests, dict) else None
    if not isinstance(sha256, str):
        raise BadInputError(f"{name} cannot be locked: it is no wheel with a hash", "name a released version of it")
    return Locked(name, str(metadata["version"]), sha256)


def _conflict(output: str) -> str:
    """What pip names as the cause of a conflict, its first two lines; "" for none."""
    _, found, text = output.partition("The conflict is caused by:\n")
    return "; ".join(line.strip() for line in text.splitlines()[:2] if line.strip())[:500] if found else ""


def _why(errors: str) -> str:
    lines = [line.removeprefix("ERROR: ") for line in errors.splitlines() if line.startswith("ERROR: ")]
    return (lines or errors.strip().splitlines() or ["pip does not say why"])[-1][:500]
