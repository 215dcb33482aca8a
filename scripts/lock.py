"""`make lock`: pin what CI installs, with the hash of every wheel that pip takes there.

The libraries of trackers are pinned apart, in requirements/trackers.txt: they have an environment of their own. So have
the programs of places that jobs are exported to (requirements/places.txt), and what builds the site
(requirements/site.txt), and what checks a release (requirements/release.txt).

What pyproject.toml asks for (the package itself, what builds it, and the extras of EXTRAS) is resolved by uv for each
Python of PYTHONS on Linux, and written to requirements/ci.txt, which `make set-up` installs from where it fits. Commit
it together with pyproject.toml. Needs the network: package indexes as pip is set up for.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

from scripts.pins import Environment, as_text, resolved

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements" / "ci.txt"
TRACKERS_LOCK = ROOT / "requirements" / "trackers.txt"
PLACES_LOCK = ROOT / "requirements" / "places.txt"
PLACES = "kaggle>=2.2\nsix\nhuggingface_hub>=2.4\nibm-vpc>=0.36\n"
"""What reads the folders of `plan export` at its place: never a part of the product. kaggle 2.2.5 imports six and does
not ask for it."""
SITE_LOCK = ROOT / "requirements" / "site.txt"
SITE = "sphinx>=9\nfuro>=2025.12\nmyst-parser>=5\n"
"""What `make site` builds the documentation with."""
RELEASE_LOCK = ROOT / "requirements" / "release.txt"
RELEASE = "twine>=6\n"
"""What `make release` checks a wheel and an sdist with."""
TRACKERS = ("mlflow", "wandb", "trackio")
"""Extras that `make check` installs beside the others."""
EXTRAS = ("dev", "train-cpu", "train-jax", "convert")
"""What `make set-up` installs."""
PYTHONS = ("3.11", "3.12", "3.13")
BESIDES = ("pip", "editables")
"""What installs, and what hatchling asks for besides where a package is installed in place."""


def requirements() -> str:
    """The requirements, one a line. Raises OSError."""
    project_table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project, build = project_table["project"], project_table["build-system"]["requires"]
    extras = [line for name in EXTRAS for line in project["optional-dependencies"][name]]
    return "\n".join([*project["dependencies"], *build, *BESIDES, *extras]) + "\n"


def of_trackers() -> str:
    """The requirements of the trackers' libraries, one a line. Raises OSError."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    return "\n".join(line for name in TRACKERS for line in extras[name]) + "\n"


def locked(lock: Path = LOCK) -> dict[str, str]:
    """Versions by name, in small letters with hyphens, as the lock has them for any environment. Raises OSError."""
    rows = re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", lock.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in rows}


def main() -> int:
    """Pin what CI installs."""
    for name, path, text in (
        ("CI", LOCK, requirements()),
        ("trackers", TRACKERS_LOCK, of_trackers()),
        ("places", PLACES_LOCK, PLACES),
        ("site", SITE_LOCK, SITE),
        ("release", RELEASE_LOCK, RELEASE),
    ):
        pins, environments = resolved(name, text, [Environment(python, "x86_64") for python in PYTHONS])
        path.parent.mkdir(exist_ok=True)
        path.write_text(as_text("`make lock` from pyproject.toml", pins, environments), encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)}: {len(pins)} packages\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
