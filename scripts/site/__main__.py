"""`python -m scripts.site source FOLDER` writes what Sphinx reads; `check FOLDER SITE` looks at what it built."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from scripts.site import check, source


def main(words: list[str]) -> int:
    """Do the one or the other. Returns 1 where a link leads nowhere, or something is loaded from elsewhere."""
    parser = argparse.ArgumentParser(prog="scripts.site")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("source").add_argument("folder", type=Path)
    looked_at = commands.add_parser("check")
    looked_at.add_argument("folder", type=Path)
    looked_at.add_argument("site", type=Path)
    given = parser.parse_args(words)
    if given.command == "source":
        source.write(given.folder)
        return 0
    check.write_llms(given.folder, given.site)
    wrong = check.broken(given.site)
    sys.stderr.writelines(f"{line}\n" for line in wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
