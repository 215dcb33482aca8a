"""What speaks against a release, one line each: `make release` builds nothing until there is nothing left.

The version stands in planner/__init__.py. The tag of the commit has to say the same (docs/adr/0053-one-name.md).
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from trainplan.planner import __version__

ROOT = Path(__file__).parent.parent


def faults(version: str, tags: str, changed: str, changelog: str, homes: set[str]) -> list[str]:
    """What speaks against releasing `version` from a commit with these tags, one a line, and from a working tree in
    which git says that this has changed, with this changelog and these kept homes."""
    found = []
    if f"v{version}" not in tags.split():
        found.append(
            f"the commit has no tag v{version}: git tag v{version} (the version is that of planner/__init__.py)"
        )
    if changed.strip():
        found.append("files are changed or new: commit them, or put them away")
    if not re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE):
        found.append(f"CHANGELOG.md has no heading '## [{version}] - YYYY-MM-DD'")
    if version not in homes:
        found.append(f"no home of {version} is kept for later versions: python -m scripts.keep_home")
    return found


def main() -> int:
    """Print what speaks against a release of this checkout; 1 where anything does. Raises CalledProcessError."""
    lines = faults(
        __version__,
        _git("tag", "--points-at", "HEAD"),
        _git("status", "--porcelain"),
        (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        {path.name for path in (ROOT / "tests" / "data" / "homes").iterdir()},
    )
    for line in lines:
        sys.stderr.write(f"error: {line}\n")
    return 1 if lines else 0


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
