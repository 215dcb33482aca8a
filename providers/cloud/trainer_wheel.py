"""The trainer as a rented machine installs it: this installation's own sources as a wheel, and pinned requirements."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Sequence
from pathlib import Path

from trainplan import workloads

WHEEL = "trainplan_trainer-0-py3-none-any.whl"
"""Always this version: what it holds is told by its hash, which stands in spec.json."""
_INFO = "trainplan_trainer-0.dist-info"
_METADATA = "Metadata-Version: 2.1\nName: trainplan-trainer\nVersion: 0\nSummary: The trainer of trainplan\n"
_FORMAT = "Wheel-Version: 1.0\nGenerator: trainplan\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_HERE = Path(__file__).parent
# Shared with the trainer image of this machine, so that both train with the same versions.
PINNED = _HERE / "data" / "pinned"
_REQUIREMENTS = (_HERE / "data" / "requirements", _HERE.parent / "local" / "data" / "requirements")


def wheel_bytes() -> bytes:
    """The wheel, made from the package where it is imported from: an installed wheel, an editable checkout, sources.

    Nothing is built and nothing is asked of a registry. Stored, not compressed, and without dates: the same sources are
    the same bytes on every machine.
    """
    members = {f"trainplan/workloads/{path.relative_to(_root()).as_posix()}": _text(path) for path in _files()}
    members["trainplan/__init__.py"] = _text(_root().parent / "__init__.py")
    members |= {f"{_INFO}/METADATA": _METADATA.encode(), f"{_INFO}/WHEEL": _FORMAT.encode()}
    record = "".join(f"{name},{_digest(data)},{len(data)}\n" for name, data in sorted(members.items()))
    members[f"{_INFO}/RECORD"] = f"{record}{_INFO}/RECORD,,\n".encode()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as wheel:
        for name, data in sorted(members.items()):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            wheel.writestr(entry, data)
    return archive.getvalue()


def requirements(names: Sequence[str]) -> str:
    """The pinned packages of these files, one after another, as pip reads them. Raises KeyError for no such file."""
    return "".join(_requirements(name) for name in names)


def pinned(name: str) -> str:
    """Return all packages of a software of machines.toml with the hashes of their wheels, as pip reads them with
    --require-hashes. `make pins` writes them. Raises KeyError for no such software.
    """
    path = PINNED / f"{name}.txt"
    if not path.is_file():
        raise KeyError(name)
    return _text(path).decode()


def asked_for(name: str) -> str:
    """The packages of a software that are named themselves, in exact versions; pinned() has what these need, too.

    Raises KeyError for no such software.
    """
    return _requirements("common") + _requirements(name)


def _requirements(name: str) -> str:
    for folder in _REQUIREMENTS:
        if (folder / f"{name}.txt").is_file():
            return _text(folder / f"{name}.txt").decode()
    raise KeyError(name)


def _root() -> Path:
    return Path(workloads.__path__[0])


def _files() -> list[Path]:
    """But for what a person's computer alone uses: schemas for editors, recipes, and the readers of files of a network,
    a script and a job."""
    file_path = (path for path in _root().rglob("*") if path.is_file() and not path.name.endswith(".schema.json"))
    return sorted(path for path in file_path if not _is_left_out(path.relative_to(_root()).parts))


_OF_A_PERSONS_COMPUTER = {
    "network_reader", "recipes", "jobfile.py", "job_changes.py", "job_mistakes.py", "liveness.py", "memory.py",
    "runtimes.py", "script_command_line.py", "script_file.py", "script_folder.py", "script_parser.py", "wording.py",
}  # fmt: skip


def _is_left_out(parts: tuple[str, ...]) -> bool:
    if not _OF_A_PERSONS_COMPUTER.isdisjoint(parts[:2]):
        return True
    return any(part.startswith(".") or part == "__pycache__" for part in parts)


def _text(path: Path) -> bytes:
    # Line ends are the same everywhere, whatever the checkout made of them.
    return path.read_bytes().replace(b"\r\n", b"\n")


def _digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
