"""How long the command takes and how much memory it needs, as whole processes: medians over several runs.

Prints one line a case, and exits with 1 where a limit is passed; catalog_scale.py holds `plan estimate` to its limits:
`python benchmarks/start_up.py [--runs N] [--times-ten]`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PLAN = Path(sys.executable).parent / "plan"
JOB = ROOT / "examples" / "vgg16-imagenet.yaml"


@dataclass(frozen=True)
class Case:
    """A command line, and the most it may take in the median; None: no limit, it is there to compare with."""

    name: str
    arguments: tuple[str, ...]
    limit_seconds: float | None
    limit_mib: float | None = None


def cases(big: Path) -> list[Case]:
    estimate = (str(PLAN), "estimate", str(JOB))
    return [
        Case("python -c pass (the floor)", (sys.executable, "-c", "pass"), None),
        Case("import typer, pydantic, yaml", (sys.executable, "-c", "import typer, pydantic, yaml"), None),
        Case("plan --version", (str(PLAN), "--version"), 0.08),
        Case("plan estimate", estimate, None, 80),
        Case("plan estimate --include-retired", (*estimate, "--include-retired"), None, 80),
        Case("plan estimate --json", (*estimate, "--json"), None, 80),
        Case("plan estimate, ten times the offers", (*estimate, "--catalog", str(big)), None),
        Case("plan estimate --json, ten times", (*estimate, "--json", "--catalog", str(big)), None),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--compile-ten-times", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.compile_ten_times:
        make_ten_times(options.compile_ten_times)
        return 0
    runs = options.runs
    with tempfile.TemporaryDirectory() as folder:
        big = Path(folder) / "ten.sqlite"
        # In a process of its own: what this one ever held would count as the peak of those it starts.
        subprocess.run([sys.executable, __file__, "--compile-ten-times", str(big)], check=True)
        environment = os.environ | {"PLAN_HOME": str(Path(folder) / "home")}
        medians = {case.name: measure(case, runs, environment) for case in cases(big)}
    passed = report(medians, cases(big))
    return 0 if passed else 1


@dataclass(frozen=True)
class Figures:
    """Medians over the runs but for `peak_mib`; `cpu_seconds` is what the wall time would be on an idle machine."""

    wall_seconds: float
    cpu_seconds: float
    peak_mib: float


def measure(case: Case, runs: int, environment: dict[str, str]) -> Figures:
    """Figures of whole processes; the first run, which may compile byte code, is not counted."""
    seconds, busy, peaks = [], [], []
    for number in range(runs + 1):
        began = time.perf_counter()
        process = subprocess.Popen(case.arguments, stdout=subprocess.DEVNULL, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{case.name} ended with {process.returncode}")
        if number:
            seconds.append(time.perf_counter() - began)
            busy.append(usage.ru_utime + usage.ru_stime)
            peaks.append(usage.ru_maxrss / 1024)
    return Figures(statistics.median(seconds), statistics.median(busy), max(peaks))


def report(medians: dict[str, Figures], rows: list[Case]) -> bool:
    passed = True
    for case in rows:
        row = medians[case.name]
        late = case.limit_seconds is not None and row.wall_seconds > case.limit_seconds
        large = case.limit_mib is not None and row.peak_mib > case.limit_mib
        passed = passed and not late and not large
        limit = f"  (at most {case.limit_seconds} s)" if case.limit_seconds else ""
        missed = "  MISSED" if late or large else ""
        figures = f"{row.wall_seconds:7.3f} s wall {row.cpu_seconds:7.3f} s cpu {row.peak_mib:5.0f} MiB"
        print(f"{case.name:38} {figures}{limit}{missed}")
    for name, ten in (
        ("plan estimate", "plan estimate, ten times the offers"),
        ("plan estimate --json", "plan estimate --json, ten times"),
    ):
        ratio = medians[ten].wall_seconds / medians[name].wall_seconds
        print(f"{name}: ten times the offers take {ratio:.2f} times as long")
    return passed


def make_ten_times(target: Path) -> None:
    """The shipped text with every region nine times more under other names, compiled."""
    from trainplan.pricing.compile import compile_catalog

    shipped = ROOT / "pricing" / "data"
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder)
        for source in shipped.rglob("*"):
            if source.suffix in (".csv", ".toml"):
                copy = text / source.relative_to(shipped)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_text(_ten_times(source), encoding="utf-8")
        compile_catalog(text, target)


def _ten_times(source: Path) -> str:
    text = source.read_text(encoding="utf-8")
    if source.parent.name != "offers":
        return text
    header, *rows = text.splitlines()
    again = [f"{row.partition(',')[0]}-{copy},{row.partition(',')[2]}" for copy in range(1, 10) for row in rows]
    return "\n".join([header, *sorted([*rows, *again])]) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
