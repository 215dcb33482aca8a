"""`make pins`: pin what a rented machine installs, with the hash of every wheel that pip takes there.

For each software of providers/cloud/data/machines.toml its requirement lists are resolved by uv, for the Python of its
container and the processors of the machines it may run on, and written to providers/cloud/data/pinned/NAME.txt. Commit
them together with the lists. Wheels that other packages ask for are taken as new as they are today, so that running
this again without a change of the lists renews them too; train once on each framework before such a change goes out.

What is pinned for GPUs is fetched (3 GB a list, in a temporary folder, 10 GB in all) and the compute capability from
which each wheel has device code is read out of it (scripts/device_code.py). It stands in the pinned file; a wheel that
lacks the code for a GPU of workloads/runtimes.py is refused. Nothing is written unless all lists are right.
Needs the network: package indexes as pip is set up for.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from scripts.device_code import DeviceCode, DeviceCodeError, code_in_wheel, lowest_of, spelled, tenfold
from trainplan.pricing.catalog import Catalog
from trainplan.providers.cloud.images import Software, table
from trainplan.providers.cloud.trainer_wheel import PINNED, requirements
from trainplan.workloads.runtimes import RUNTIMES

_OF_A_CLUSTER = ("3.11", "3.13")
ALSO_PYTHON = {f"{name}-{kind}": _OF_A_CLUSTER for name in ("jax", "tensorflow", "torch") for kind in ("cpu", "nvidia")}
"""A job that is exported (extensions/export) is installed with the Python of a person's own cluster, and the
end-to-end tests install jax-cpu with Debian 12's (tests/e2e/yard/images/public). PyTorch has no wheels for 3.11."""
_LIBC = "manylinux_2_36"
"""Of Debian 12, on which the containers are."""
_MACHINES = {"cpu": ("x86_64", "aarch64"), "gpu": ("x86_64", "aarch64"), "tpu": ("x86_64",)}


@dataclass(frozen=True, order=True)
class Environment:
    """What pip runs in: the version of Python, and the processor as uname tells it."""

    python: str
    machine: str


@dataclass
class Pin:
    """One version of one package: in which environments it is installed, and the SHA-256 of its wheels there."""

    environments: set[Environment] = field(default_factory=set)
    hashes: set[str] = field(default_factory=set)


Pins = dict[tuple[str, str], Pin]
"""By name and version."""
WheelCode = dict[str, "DeviceCode"]
"""The device code of a wheel, by the file in it."""
NOT_CALLED = {
    "nvidia-cufft-cu11": "no network has a Fourier transform",
    "nvidia-cufft-cu12": "no network has a Fourier transform; from 11.4 on its code is not in fat binaries",
    "nvidia-cufft": "the same",
    "nvidia-nvshmem-cu12": "messages that GPUs send by themselves, which only a program that asks for them uses",
}
"""Packages that may lack the code for a GPU, and why training does not miss it."""


def main(names: Sequence[str]) -> int:
    """Pin every software, or those that are named. Returns 1 where nothing was written."""
    rows = table().software
    try:
        texts = pinned_texts([rows[name] for name in names or rows], pinned, code_of)
    except KeyError as error:
        sys.stderr.write(f"nothing was written: there is no software {error}; there are {', '.join(rows)}\n")
        return 1
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"nothing was written: {error}\n")
        return 1
    PINNED.mkdir(exist_ok=True)
    for name, text in texts.items():
        (PINNED / f"{name}.txt").write_text(text, encoding="utf-8")
    return 0


def pinned_texts(
    rows: Iterable[Software],
    pin: Callable[[Software], tuple[Pins, set[Environment]]],
    code_in: Callable[[Software, str, Path], Mapping[str, WheelCode]],
) -> dict[str, str]:
    """The pinned list of each software, by name: `pin` resolves it, `code_in` reads the device code of its wheels.

    Raises OSError, and ValueError where a list cannot be resolved, its code not be read, or does not reach a GPU.
    """
    texts = {}
    with tempfile.TemporaryDirectory() as wheels:
        for software in rows:
            pins, environments = pin(software)
            lists = " and ".join(f"{name}.txt" for name in software.requirements)
            text = as_text(f"`make pins` from {lists}", pins, environments)
            if software.kind == "gpu":
                code = code_in(software, text, Path(wheels))
                check_reach(software.name, code, capabilities(software.name))
                text = with_capabilities(text, {name: lowest_of(found) for name, found in code.items()})
            texts[software.name] = text
            where = ", ".join(map(_spelled, sorted(environments)))
            sys.stdout.write(f"{software.name}: {len(pins)} packages on {where}\n")
    return texts


def capabilities(name: str) -> dict[str, int]:
    """Compute capability, times 10, of each device that some row of workloads/runtimes.py trains with this software."""
    with Catalog.open() as catalog:
        devices = [device for device in catalog.devices.values() if device.compute_capability]
    found = {}
    for row in (row for row in RUNTIMES if row.software == name):
        for device in devices:
            capability = tenfold(str(device.compute_capability))
            if device.architecture in row.architectures and capability >= tenfold(row.least_capability):
                found[device.name] = capability
        found[f"a device of {row.least_capability}"] = tenfold(row.least_capability)
    return found


def check_reach(name: str, code: Mapping[str, WheelCode], wanted: Mapping[str, int]) -> None:
    """Raises ValueError naming each wheel of a software that has no code for a GPU which it is to train on."""
    if not code:
        raise DeviceCodeError(f"{name}: none of its wheels has device code")
    lacking = []
    for package, files in sorted(code.items()):
        for device, capability in wanted.items():
            bad = [file for file, found in files.items() if not found.runs_on(capability)]
            if bad and package not in NOT_CALLED:
                lacking.append(
                    f"{package} has no code for {device} ({spelled(capability)}) in {', '.join(sorted(bad))}"
                )
                break
    if lacking:
        raise ValueError(f"{name}: {'; '.join(lacking)}; pin another version in its requirement list")


def code_of(software: Software, text: str, folder: Path) -> dict[str, WheelCode]:
    """The device code of what pip installs of a pinned list on x86_64, by package. Raises OSError and ValueError."""
    listed, wheels = folder / f"{software.name}.txt", folder / "wheels"
    listed.write_text(text, encoding="utf-8")
    platforms = [f"--platform=manylinux_2_{minor}_x86_64" for minor in range(17, int(_LIBC.rpartition("_")[2]) + 1)]
    words = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"),
        *("--only-binary=:all:", "--require-hashes", "--dest", str(wheels), "--requirement", str(listed)),
        *("--python-version", software.container.python, "--platform=manylinux2014_x86_64", *platforms),
    ]
    result = subprocess.run(words, capture_output=True, text=True, timeout=1800, check=False)
    if result.returncode:
        raise ValueError(f"{software.name}: not fetched: {' '.join(result.stderr.split())[-400:]}")
    named = dict(re.findall(r"^([a-z0-9.-]+)==([^ ;\\]+)", text, re.MULTILINE))
    found = {}
    for name, version in named.items():
        for wheel in wheels.glob(f"{name.replace('-', '_')}-{version}-*.whl"):
            if code := _code_in(wheel):
                found[name] = code
    return found


_code_in = cache(code_in_wheel)  # the lists have many wheels in common


def with_capabilities(text: str, lowest: Mapping[str, int]) -> str:
    """The same list with a line for each package that has device code, after the first."""
    first, _, rest = text.partition("\n")
    lines = [f"# {name} has device code from compute capability {spelled(code)} on." for name, code in lowest.items()]
    return "\n".join([first, *sorted(lines), rest])


def capabilities_in(text: str) -> dict[str, int]:
    """What `with_capabilities` wrote: compute capability, times 10, by package."""
    found = re.findall(r"^# (\S+) has device code from compute capability (\S+) on\.$", text, re.MULTILINE)
    return {name: tenfold(capability) for name, capability in found}


def pinned(software: Software) -> tuple[Pins, set[Environment]]:
    """Pins by name and version, and the environments that have wheels of all of it. Raises OSError and ValueError."""
    usual = Environment(software.container.python, "x86_64")
    environments = [usual, *(Environment(usual.python, machine) for machine in _MACHINES[software.kind][1:])]
    environments += [Environment(python, usual.machine) for python in ALSO_PYTHON.get(software.name, ())]
    return resolved(software.name, requirements(software.requirements), environments)


def resolved(name: str, requirements: str, environments: Sequence[Environment]) -> tuple[Pins, set[Environment]]:
    """Pins of these requirements, and the environments that have wheels of all of it: the first has to, or there is
    none of the others to compare with. Raises OSError and ValueError."""
    pins: Pins = {}
    resolved_environments: set[Environment] = set()
    for environment in environments:
        # What was resolved first is held to: one version of each package wherever there is a wheel of it.
        constraints = "".join(f"{package}=={version}\n" for package, version in pins)
        try:
            rows = _resolved(requirements, constraints, environment)
        except ValueError as error:
            if environment == environments[0]:
                raise
            sys.stderr.write(f"{name} has no wheels on {_spelled(environment)}: {error}\n")
            continue
        resolved_environments.add(environment)
        for package, version, hashes in rows:
            pin = pins.setdefault((package, version), Pin())
            pin.environments.add(environment)
            pin.hashes |= hashes
    return pins, resolved_environments


def _resolved(requirements: str, constraints: str, environment: Environment) -> list[tuple[str, str, set[str]]]:
    """Name, version and hashes of each package. Raises ValueError with uv's words where there is no way."""
    with tempfile.TemporaryDirectory() as folder:
        lists, constraints_file, lock = (Path(folder) / name for name in ("in.txt", "held.txt", "pylock.toml"))
        lists.write_text(requirements, encoding="utf-8")
        constraints_file.write_text(constraints, encoding="utf-8")
        words = [
            *(sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-config", "--format", "pylock.toml"),
            *("--only-binary", ":all:", "--python-version", environment.python),
            *("--python-platform", f"{environment.machine}-{_LIBC}", "--constraints", str(constraints_file)),
            *("--output-file", str(lock), str(lists)),
        ]
        result = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
        if result.returncode:
            raise ValueError(" ".join(result.stderr.split())[-400:])
        rows = tomllib.loads(lock.read_text(encoding="utf-8"))["packages"]
    return [(row["name"], row["version"], {wheel["hashes"]["sha256"] for wheel in row["wheels"]}) for row in rows]


def as_text(source_text: str, pins: Pins, environments: set[Environment]) -> str:
    """As pip reads it with --require-hashes. `source_text` says by which command, and from what."""
    lines = [f"# Made by {source_text}, for {', '.join(map(_spelled, sorted(environments)))}."]
    for (name, version), pin in sorted(pins.items()):
        hashes = "".join(f" \\\n    --hash=sha256:{sha256}" for sha256 in sorted(pin.hashes))
        lines.append(f"{name}=={version}{_marker(pin.environments, environments)}{hashes}")
    return "\n".join(lines) + "\n"


def _marker(some: set[Environment], every: set[Environment]) -> str:
    if some == every:
        return ""
    machines, pythons = {environment.machine for environment in some}, {environment.python for environment in some}
    if some == {environment for environment in every if environment.machine in machines}:
        words = [f'platform_machine == "{machine}"' for machine in sorted(machines)]
    elif some == {environment for environment in every if environment.python in pythons}:
        words = [f'python_version == "{python}"' for python in sorted(pythons)]
    else:
        words = [
            f'(platform_machine == "{environment.machine}" and python_version == "{environment.python}")'
            for environment in sorted(some)
        ]
    return f" ; {' or '.join(words)}"


def _spelled(environment: Environment) -> str:
    return f"Python {environment.python} on {environment.machine}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
