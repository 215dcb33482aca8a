"""The table of docs/permissions/README.md: what each role reaches that is not of this product, then and now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.conftest import ROOT
from tests.unit.providers.roles import aws, azure, google

DOCS, BEFORE = ROOT / "docs" / "permissions", ROOT / "tests" / "data" / "roles_b318286"
_PERSONS = {"client": "who launches", "setup": "who sets up", "machine": "a machine"}
NAMES = {"aws": "AWS", "gcp": "Google Cloud", "azure": "Azure"}


def rows(cloud: str) -> list[str]:
    """One line of the table for each role of a cloud."""
    return [
        f"| {NAMES[cloud]}: {_PERSONS.get(role, f'the {role}')} | {_as_text(before)} | {_as_text(now)} |"
        for role, before, now in _rows(cloud)
    ]


def _rows(cloud: str) -> Iterator[tuple[str, set[str], set[str]]]:
    """Role, then what it reached in commit b318286 and what it reaches now."""
    if cloud == "gcp":
        then, now = google.reached(BEFORE / cloud, google.BEFORE), google.reached(DOCS / cloud, google.NOW)
    elif cloud == "azure":
        then, now = azure.reached(BEFORE / cloud, azure.BEFORE), azure.reached(DOCS / cloud, azure.NOW)
    else:
        then, now = _on_aws(BEFORE / cloud), _on_aws(DOCS / cloud)
    for role in now:
        yield role, then[role], now[role]


def _on_aws(folder: Path) -> dict[str, set[str]]:
    """An action that takes part in making something new is shown with the kind of thing that it uses."""
    return {
        role: {_with_kind(action, arn) for action, arn in found if action in aws.CONTENTS or _changes(action)}
        for role, found in aws.reached(folder).items()
    }


def _changes(action: str) -> bool:
    return not action.split(":")[1].startswith(("Describe", "Get", "List"))


def _with_kind(action: str, arn: str) -> str:
    uses = action in aws.USES
    return f"{action} (uses {arn.rsplit(':', 1)[1].partition('/')[0]})" if uses else action


def _as_text(permissions: Iterable[str]) -> str:
    names = sorted(f"`{name.removeprefix('Microsoft.')}`" for name in permissions)
    return f"{len(names)}: {', '.join(names)}" if names else "none"
