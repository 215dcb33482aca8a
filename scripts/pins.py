"""`make pins`: pin what a rented machine installs, with the hash of every wheel that pip takes there.

For each software of providers/cloud/data/machines.toml its requirement lists are resolved by uv, for the Python of its
container and the processors of the machines it may run on, and written to providers/cloud/data/pinned/NAME.txt. Commit
them together with the lists. Wheels that other packages ask for are taken as new as they are today, so that running
this again without a change of the lists renews them too; train once on each framework before such a change goes out.
Needs the network: package indexes as pip is set up for.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from providers.cloud.images import Software, table
from providers.cloud.trainer_wheel import PINNED, requirements

if TYPE_CHECKING:
    from collections.abc import Sequence

ALSO_PYTHON = {"jax-cpu": ("3.11",)}
"""The end-to-end tests install it into a container with Debian 12's own Python (tests/e2e/yard/images/public)."""
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


def main() -> int:
    PINNED.mkdir(exist_ok=True)
    for software in table().software.values():
        pins, environments = pinned(software)
        lists = " and ".join(f"{name}.txt" for name in software.requirements)
        text = as_text(f"`make pins` from {lists}", pins, environments)
        (PINNED / f"{software.name}.txt").write_text(text, encoding="utf-8")
        sys.stdout.write(f"{software.name}: {len(pins)} packages on {', '.join(map(_spelled, sorted(environments)))}\n")
    return 0


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
    sys.exit(main())
