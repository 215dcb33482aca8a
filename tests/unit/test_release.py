"""What `make release` refuses (scripts/release.py)."""

from __future__ import annotations

import pytest

from scripts.release import faults

CHANGELOG = "# Changelog\n\n## [0.2.0] - 2027-01-31\nMore.\n\n## [0.1.0] - unreleased\n"
GOOD = {
    "version": "0.2.0",
    "tags": "latest\nv0.2.0\n",
    "changed": "",
    "changelog": CHANGELOG,
    "homes": {"0.1.0", "0.2.0"},
}


def test_a_commit_with_the_tag_of_its_version_is_released() -> None:
    assert faults(**GOOD) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tags": ""}, "no tag v0.2.0"),
        ({"tags": "v0.2.1"}, "no tag v0.2.0"),
        ({"changed": " M README.md\n"}, "changed or new"),
        ({"changelog": CHANGELOG.replace("2027-01-31", "unreleased")}, "no heading '## [0.2.0] - YYYY-MM-DD'"),
        ({"homes": {"0.1.0"}}, "no home of 0.2.0"),
    ],
)
def test_what_speaks_against_a_release_is_told(change: dict[str, object], said: str) -> None:
    (line,) = faults(**GOOD | change)  # type: ignore[arg-type]
    assert said in line
