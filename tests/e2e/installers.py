"""What tests of the installation share: the Pythons to install for, pip, pipx and uv, and an empty environment each."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

INSTALLERS = ("pip", "pipx", "uv")
_LIMIT_SECONDS = 900


def skip_or_fail(what: str, how: str) -> None:
    """Skip the test, or fail where CI=true: `make e2e` installs it."""
    (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"there is no {what}; {how}")


def tool(name: str) -> str:
    """The path of `uv` or `pipx`, beside this Python or on the path. Skips without."""
    path = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if path is None:
        skip_or_fail(name, "make .venv/.installers installs it")
        raise AssertionError
    return path


def interpreter(version: str) -> str:
    """A Python of this version: on the path, one that uv has installed, or one of pyenv. Skips without: no package
    index has Pythons to install."""
    names = [shutil.which(f"python{version}"), *_of_uv(version), *_of_pyenv(version)]
    for name in names:
        if name and _is(name, version):
            return str(name)
    pytest.skip(f"there is no Python {version} here; uv python install {version} gets one where it may download")


def run(
    words: Sequence[str | Path], *, folder: Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, in a folder outside of the checkout; a failure shows what it wrote."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    ran = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env=inherited | (environment or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_LIMIT_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, f"{' '.join(map(str, words))}\n{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}"
    return ran


def install(installer: str, python: str, package: str, folder: Path) -> tuple[Path, Path]:
    """Install a wheel or sdist (with extras: `FILE[all]`) into an environment that is empty but for what the installer
    puts there. The paths of `plan` and of the manual page."""
    environment = folder / "environment"
    match installer:
        case "pip":
            run([python, "-m", "venv", environment], folder=folder)
            run([environment / "bin" / "pip", "install", "--quiet", package], folder=folder)
            return environment / "bin" / "plan", environment / "share" / "man" / "man1" / "plan.1"
        case "pipx":
            places = {name: str(folder / name) for name in ("PIPX_HOME", "PIPX_BIN_DIR", "PIPX_MAN_DIR")}
            run([tool("pipx"), "install", "--python", python, package], folder=folder, environment=places)
            return folder / "PIPX_BIN_DIR" / "plan", folder / "PIPX_MAN_DIR" / "man1" / "plan.1"
        case _:
            places = {name: str(folder / name) for name in ("UV_TOOL_DIR", "UV_TOOL_BIN_DIR")}
            words = [tool("uv"), "tool", "install", "--quiet", "--python", python, package]
            run(words, folder=folder, environment=places)
            page = folder / "UV_TOOL_DIR" / "trainplan" / "share" / "man" / "man1" / "plan.1"
            return folder / "UV_TOOL_BIN_DIR" / "plan", page


def built(folder: Path, checkout: Path) -> dict[str, Path]:
    """The paths of a checkout's sdist (`sdist`), and of the wheel that is built from this sdist alone (`wheel`)."""
    run([tool("uv"), "build", "--quiet", "--out-dir", folder, checkout], folder=folder)
    return {"wheel": next(folder.glob("*.whl")), "sdist": next(folder.glob("*.tar.gz"))}


def _of_uv(version: str) -> list[str]:
    words = [tool("uv"), "python", "find", "--no-python-downloads", "--managed-python", version]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    return [ran.stdout.strip()] if ran.returncode == 0 else []


def _of_pyenv(version: str) -> list[str]:
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return [str(path) for path in sorted(versions.glob(f"{version}.*/bin/python"))]


def _is(name: str, version: str) -> bool:
    words = [name, "-c", "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    return ran.returncode == 0 and ran.stdout.strip() == version
