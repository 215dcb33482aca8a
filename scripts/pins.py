"""`make pins`: pin what a rented machine installs, with the hash of every wheel that pip takes there.

For each software of providers/data/machines.toml its requirement lists are resolved by uv, for the Python of its
container and the processors of the machines it may run on, and written to providers/data/pinned/NAME.txt. Commit them
together with the lists. Wheels that other packages ask for are taken as new as they are today, so that running this
again without a change of the lists renews them too; train once on each framework before such a change goes out.
Needs the network: package indexes as pip is set up for.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from providers.launchable import Software, table
from providers.trainer_wheel import PINNED, requirements

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


def main() -> int:
    PINNED.mkdir(exist_ok=True)
    for software in table().software.values():
        pins, environments = pinned(software)
        (PINNED / f"{software.name}.txt").write_text(as_text(software, pins, environments), encoding="utf-8")
        sys.stdout.write(f"{software.name}: {len(pins)} packages on {', '.join(map(_spelled, sorted(environments)))}\n")
    return 0


def pinned(software: Software) -> tuple[dict[tuple[str, str], Pin], set[Environment]]:
    """Pins by name and version, and the environments that have wheels of all of it. Raises OSError and ValueError."""
    pins: dict[tuple[str, str], Pin] = {}
    usual = Environment(software.container.python, "x86_64")
    asked = [usual, *(Environment(usual.python, machine) for machine in _MACHINES[software.kind][1:])]
    asked += [Environment(python, usual.machine) for python in ALSO_PYTHON.get(software.name, ())]
    found: set[Environment] = set()
    for environment in asked:
        # What was resolved first is held to: one version of each package wherever there is a wheel of it.
        held = "".join(f"{name}=={version}\n" for name, version in pins)
        try:
            rows = _resolved(requirements(software.requirements), held, environment)
        except ValueError as error:
            if environment == usual:
                raise
            sys.stderr.write(f"{software.name} has no wheels on {_spelled(environment)}: {error}\n")
            continue
        found.add(environment)
        for name, version, hashes in rows:
            pin = pins.setdefault((name, version), Pin())
            pin.environments.add(environment)
            pin.hashes |= hashes
    return pins, found


def _resolved(wanted: str, held: str, environment: Environment) -> list[tuple[str, str, set[str]]]:
    """Name, version and hashes of each package. Raises ValueError with uv's words where there is no way."""
    with tempfile.TemporaryDirectory() as folder:
        lists, constraints, lock = (Path(folder) / name for name in ("in.txt", "held.txt", "pylock.toml"))
        lists.write_text(wanted, encoding="utf-8")
        constraints.write_text(held, encoding="utf-8")
        words = [
            *(sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-config", "--format", "pylock.toml"),
            *("--only-binary", ":all:", "--python-version", environment.python),
            *("--python-platform", f"{environment.machine}-{_LIBC}", "--constraints", str(constraints)),
            *("--output-file", str(lock), str(lists)),
        ]
        said = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
        if said.returncode:
            raise ValueError(" ".join(said.stderr.split())[-400:])
        rows = tomllib.loads(lock.read_text(encoding="utf-8"))["packages"]
    return [(row["name"], row["version"], {wheel["hashes"]["sha256"] for wheel in row["wheels"]}) for row in rows]


def as_text(software: Software, pins: dict[tuple[str, str], Pin], environments: set[Environment]) -> str:
    """As pip reads it with --require-hashes."""
    lists = " and ".join(f"{name}.txt" for name in software.requirements)
    lines = [f"# Made by `make pins` from {lists}, for {', '.join(map(_spelled, sorted(environments)))}."]
    for (name, version), pin in sorted(pins.items()):
        hashes = "".join(f" \\\n    --hash=sha256:{sha256}" for sha256 in sorted(pin.hashes))
        lines.append(f"{name}=={version}{_marker(pin.environments, environments)}{hashes}")
    return "\n".join(lines) + "\n"


def _marker(some: set[Environment], every: set[Environment]) -> str:
    if some == every:
        return ""
    machines, pythons = {known.machine for known in some}, {known.python for known in some}
    if some == {known for known in every if known.machine in machines}:
        words = [f'platform_machine == "{machine}"' for machine in sorted(machines)]
    elif some == {known for known in every if known.python in pythons}:
        words = [f'python_version == "{python}"' for python in sorted(pythons)]
    else:
        words = [
            f'(platform_machine == "{known.machine}" and python_version == "{known.python}")' for known in sorted(some)
        ]
    return f" ; {' or '.join(words)}"


def _spelled(environment: Environment) -> str:
    return f"Python {environment.python} on {environment.machine}"


if __name__ == "__main__":
    sys.exit(main())
