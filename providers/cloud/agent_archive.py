"""The agent as one file that Python runs: agent.pyz, the same bytes for the same sources."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

from trainplan.workloads import output_files

AGENT = "agent.pyz"
_MAIN = "import sys\n\nfrom trainplan.providers.agent.__main__ import main\n\nsys.exit(main(sys.argv[1:]))\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)


def agent_bytes() -> bytes:
    """The archive. Stored, not compressed: compressors differ between machines, and its hash is in the user data."""
    text = io.BytesIO()
    with zipfile.ZipFile(text, "w", zipfile.ZIP_STORED) as archive:
        for name, data in sorted(_members().items()):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, data)
    return text.getvalue()


def agent_sha256() -> str:
    """Return the SHA-256 of the archive in hex."""
    return hashlib.sha256(agent_bytes()).hexdigest()


def reading_source() -> bytes:
    """The part that the first boot needs before it has the archive."""
    return _text(_home() / "agent" / "requests.py")


def _members() -> dict[str, bytes]:
    # The package's own __init__.py is for a newer Python than a rented machine may have.
    files = {"__main__.py": _MAIN.encode(), "trainplan/__init__.py": b""}
    files |= {"trainplan/providers/__init__.py": _text(_home() / "__init__.py")}
    files |= {
        "trainplan/workloads/__init__.py": b"",
        "trainplan/workloads/output_files.py": _text(Path(output_files.__file__)),
    }
    return files | {f"trainplan/providers/agent/{path.name}": _text(path) for path in (_home() / "agent").glob("*.py")}


def _text(path: Path) -> bytes:
    # Line ends are the same everywhere, whatever the checkout made of them.
    return path.read_bytes().replace(b"\r\n", b"\n")


def _home() -> Path:
    return Path(__file__).parents[1]
