"""What a rented machine fetches before its first step, item by item, for each row of software it may train with.

Prints a table in MB of 10^6 bytes, and exits with 1 where a row passes the limit of 4 GB:
`python benchmarks/first_step.py [--data NAME] [--json] [--measure [SOFTWARE ...]]`.
Sizes of containers and packages are those of providers/cloud/data/machines.toml, with their source there; our own parts
are measured here. `--measure` asks pip for the wheels that it would choose today, and the index for their sizes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainplan.providers.cloud.agent_archive import agent_bytes, reading_source
from trainplan.providers.cloud.images import HostImage, Software, table
from trainplan.providers.cloud.trainer_wheel import requirements, wheel_bytes
from trainplan.workloads.datasets import DATASETS

LIMIT_MB = 4000.0
DOCKER_MB = 65.0
"""docker.io, containerd and runc, where the machine's image has none: Size in Debian 12's index, 2026-11-21."""
LISTS_MB = 60.0
"""Lists of packages, and NVIDIA's container toolkit: an allowance, not measured."""
# What the containers' glibc (2.36) takes; pip has to be told each.
PLATFORMS = ("manylinux2014_x86_64", *(f"manylinux_2_{minor}_x86_64" for minor in range(17, 37)))
_MB = 1e6
_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One software on the worst of its hosts; `packages` is None where nobody has measured it."""

    software: str
    host: float
    container: float
    packages: float | None
    agent: float
    trainer: float
    data: float

    @property
    def total(self) -> float | None:
        if self.packages is None:
            return None
        return self.host + self.container + self.packages + self.agent + self.trainer + self.data

    @property
    def passes(self) -> bool:
        return self.total is None or self.total <= LIMIT_MB


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=sorted(DATASETS), default="cifar10", help="the job's data set")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", nargs="*", metavar="SOFTWARE", help="ask the index; all rows where none is named")
    options = parser.parse_args(arguments)
    measured = {} if options.measure is None else measure(options.measure or table().software)
    rows = [row_of(software, options.data, measured.get(name)) for name, software in table().software.items()]
    print(as_json(rows) if options.json else as_table(rows, options.data))
    return 0 if all(row.passes for row in rows) else 1


def row_of(software: Software, data: str, packages: float | None = None) -> Row:
    """The row of machines.toml, item by item, in MB; `packages` in the place of what the row says."""
    return Row(
        software=software.name,
        host=_host_mb(software.kind, table().hosts),
        container=float(software.container.download_mb),
        packages=software.download_mb if packages is None else packages,
        agent=(len(agent_bytes()) + len(reading_source())) / _MB,
        trainer=(len(wheel_bytes()) + len(requirements(software.requirements))) / _MB,
        data=DATASETS[data].download_bytes / _MB,
    )


def _host_mb(kind: str, hosts: Iterable[HostImage]) -> float:
    """What has to be installed on the worst image that this kind of machine may start from."""
    images = [host for host in hosts if host.kind != "none" and _kind(host) == kind]
    return DOCKER_MB + LISTS_MB if any(not host.docker for host in images) else 0.0


def _kind(host: HostImage) -> str:
    return next((kind for kind in ("cpu", "tpu") if kind in host.architectures), "gpu")


def as_table(rows: Sequence[Row], data: str) -> str:
    titles = ("software", "docker", "container", "packages", "agent", "trainer", data, "total", "")
    lines = [f"{titles[0]:24}" + "".join(f"{title:>11}" for title in titles[1:])]
    for row in rows:
        parts = (row.host, row.container, row.packages, row.agent, row.trainer, row.data, row.total)
        verdict = "" if row.total is None else "ok" if row.passes else "TOO MUCH"
        lines.append(f"{row.software:24}" + "".join(f"{_text(part):>11}" for part in parts) + f"{verdict:>11}")
    return "\n".join([*lines, "", *_notes()])


def _notes() -> list[str]:
    sources = {software.name: f"{software.source} ({software.as_of})" for software in table().software.values()}
    containers = {
        container.name: f"{container.source} ({container.as_of})" for container in table().containers.values()
    }
    return [
        f"MB of 10^6 bytes; the limit is {LIMIT_MB:,.0f}. docker: {DOCKER_MB:.0f} where the image has none, and "
        f"{LISTS_MB:.0f} allowed for lists and NVIDIA's toolkit. agent, trainer: measured.",
        *(f"container {name}: {source}" for name, source in containers.items()),
        *(f"packages of {name}: {source}" for name, source in sources.items()),
    ]


def _text(megabytes: float | None) -> str:
    if megabytes is None:
        return "?"
    return f"{megabytes:,.2f}" if megabytes < 10 else f"{megabytes:,.0f}"


def as_json(rows: Sequence[Row]) -> str:
    names = ("software", "host", "container", "packages", "agent", "trainer", "data", "total")
    return json.dumps([{name: getattr(row, name) for name in names} for row in rows], indent=1)


def measure(names: Iterable[str]) -> dict[str, float]:
    """MB of the wheels that pip would install, by software; what cannot be resolved is told and left out."""
    megabytes = {}
    for name in names:
        software = table().software[name]
        try:
            sizes = wheel_sizes(software)
        except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
            sys.stderr.write(f"{name}: not measured: {error}\n")
            continue
        megabytes[name] = sum(sizes.values()) / _MB
        sys.stderr.write(f"{name}: {len(sizes)} wheels, {megabytes[name]:,.0f} MB\n")
    return megabytes


def wheel_sizes(software: Software) -> dict[str, int]:
    """Bytes by address of the wheels, for Linux on x86_64. Raises OSError, SubprocessError, ValueError, KeyError."""
    with tempfile.TemporaryDirectory() as folder:
        pinned = Path(folder) / "requirements.txt"
        pinned.write_text(requirements(software.requirements), encoding="utf-8")
        platforms = [word for name in PLATFORMS for word in ("--platform", name)]
        words = [
            *(sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"),
            *("--disable-pip-version-check", "--only-binary=:all:", "--report", "-", "--target", f"{folder}/none"),
            *("--python-version", software.container.python, *platforms, "-r", str(pinned)),
        ]
        result = subprocess.run(words, capture_output=True, text=True, timeout=1800, check=False)
    if result.returncode:
        raise ValueError(next(iter(result.stderr.strip().splitlines()[-1:]), "pip failed"))
    rows: list[dict[str, Any]] = json.loads(result.stdout)["install"]
    return {row["download_info"]["url"]: _bytes_of(row["download_info"]["url"]) for row in rows}


def _bytes_of(url: str) -> int:
    with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=_SECONDS) as answer:
        return int(answer.headers["Content-Length"])


if __name__ == "__main__":
    sys.exit(main())
