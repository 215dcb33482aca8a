"""How long a newcomer waits, from `git clone` to the first table and to the first trained model, as README.md says it.

Clones this repository's last commit into an empty folder, without its build outputs, and runs `make demo` there:
`python benchmarks/newcomer.py`. Packages come from where pip is set up for, so the figures hold for one network and one
machine. Exits with 1 where the demo fails or one of the moments never comes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
MOMENTS = {
    "first line of the first table": re.compile(r" *# +where "),
    "first step of the first training": re.compile(r"training on |epoch 1/"),
    "first model at home, with its receipt": re.compile(r" *model  +\S"),
}
"""What the output of `make demo` shows when it is reached."""


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="newcomer-") as name:
        folder = Path(name) / "trainplan"
        began = time.monotonic()
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", folder], check=True)
        seconds = {"clone": time.monotonic() - began}
        demo = subprocess.Popen(
            ["make", "demo"],
            cwd=folder,
            env=_environment(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert demo.stdout is not None
        for line in demo.stdout:
            for moment, sign in MOMENTS.items():
                if moment not in seconds and sign.match(line):
                    seconds[moment] = time.monotonic() - began
        code = demo.wait()
        seconds["end of the demo"] = time.monotonic() - began
    for moment, value in seconds.items():
        sys.stdout.write(f"{moment:40} {value:6.1f} s\n")
    missing = [moment for moment in MOMENTS if moment not in seconds]
    for moment in missing:
        sys.stdout.write(f"{moment:40} never\n")
    return 1 if code or missing else 0


def _environment() -> dict[str, str]:
    """That of somebody who has nothing of ours set."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PLAN_", "VIRTUAL_ENV", "MAKE"))}


if __name__ == "__main__":
    sys.exit(main())
