"""`make sizes`: how large an installation with each extra is, as a table in docs/installation.md.

Each extra of pyproject.toml is installed by itself, with uv, into an empty environment of this Python; what was there
before is taken off. Sizes are those of the files of the packages, without the byte code that Python writes beside them.
`python -m scripts.extra_sizes` prints the table, `--write` puts it into the page with today's date. Needs the network:
package indexes as pip is set up for.
"""

from __future__ import annotations

import argparse
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trainplan.planner.clock import SystemClock

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "installation.md"
BEGIN, END = "<!-- sizes: python -m scripts.extra_sizes --write -->", "<!-- /sizes -->"
NOT_FOR_USE = ("dev",)
"""Extras for those who change the project."""
FRAMEWORK = re.compile(r"tensorflow\b|tensorflow-cpu\b")


@dataclass(frozen=True, slots=True)
class Installation:
    """What the packages of one environment take, in bytes, and how many there are."""

    size_bytes: int
    packages: int

    @property
    def megabytes(self) -> float:
        return self.size_bytes / 1e6


def extras() -> dict[str, list[str]]:
    """Requirements by the name of the extra, as pyproject.toml has them. Raises OSError."""
    table: dict[str, list[str]] = _project()["optional-dependencies"]
    return {name: lines for name, lines in table.items() if name not in NOT_FOR_USE}


def requirements(names: Sequence[str]) -> list[str]:
    """What the command and these extras ask for, extras of extras resolved. Raises KeyError for no such extra."""
    lines: list[str] = list(_project()["dependencies"])
    for name in names:
        for line in extras()[name]:
            nested = re.fullmatch(r"trainplan\[(.+)\]", line)
            lines += requirements(nested[1].split(",")) if nested else [line]
    return list(dict.fromkeys(lines))


def without_framework(lines: Sequence[str]) -> list[str]:
    """The requirements without TensorFlow: its own dependencies go with it, but for those that others have too."""
    return [line for line in lines if not FRAMEWORK.match(line)]


def measured(lines: Sequence[str]) -> Installation:
    """Install the package and these requirements into an empty environment, and measure it.

    Raises subprocess.CalledProcessError where one cannot be installed.
    """
    with tempfile.TemporaryDirectory(prefix="trainplan-size-") as name:
        uv = _uv()
        environment = Path(name) / "environment"
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, environment], check=True)
        before = _bytes_below(environment)
        python = environment / "bin" / "python"
        words: list[str | Path] = [uv, "pip", "install", "--quiet", "--no-compile-bytecode", "--python", python]
        subprocess.run([*words, "--requirements", "-"], input="\n".join(lines), text=True, check=True)
        subprocess.run([*words, "--no-deps", ROOT], check=True)
        return Installation(_bytes_below(environment) - before, len(list(environment.rglob("*.dist-info"))))


def table() -> str:
    """The table, a line for each extra. Raises subprocess.CalledProcessError where one cannot be installed."""
    rows = ["| extra | packages | MB | of these, without TensorFlow |", "|---|---:|---:|---:|"]
    for name in ["", *extras()]:
        lines = requirements([name] if name else [])
        whole = measured(lines)
        rest = without_framework(lines)
        beside = f"{measured(rest).megabytes:,.0f}" if rest != lines else ""
        rows.append(f"| {f'`{name}`' if name else '(none)'} | {whole.packages} | {whole.megabytes:,.0f} | {beside} |")
        sys.stderr.write(f"{rows[-1]}\n")
    return "\n".join(rows)


def with_table(page: str, text: str) -> str:
    """The page with this text between its marks. Raises ValueError for a page without them."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def main(arguments: Sequence[str]) -> int:
    """Print how large each extra is; with --write also into docs/installation.md."""
    parser = argparse.ArgumentParser(prog="python -m scripts.extra_sizes", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--write", action="store_true", help="also write the table into docs/installation.md")
    options = parser.parse_args(arguments)
    system = f"Python {platform.python_version()}, {platform.system()} on {platform.machine()}"
    text = f"Measured on {SystemClock().now():%Y-%m-%d} with {system}:\n\n{table()}"
    sys.stdout.write(f"{text}\n")
    if options.write:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), text), encoding="utf-8")
    return 0


def _project() -> dict[str, dict[str, list[str]]]:
    project: dict[str, dict[str, list[str]]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return project


def _bytes_below(folder: Path) -> int:
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files if "__pycache__" not in path.parts)


def _uv() -> str:
    beside = Path(sys.executable).parent / "uv"
    uv = str(beside) if beside.is_file() else shutil.which("uv")
    if uv is None:
        raise SystemExit("there is no uv; make .venv/.installers installs it")
    return uv


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
