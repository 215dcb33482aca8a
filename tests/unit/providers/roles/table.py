"""The table of docs/permissions/README.md: what each role reaches that is not of this product."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.conftest import ROOT
from tests.unit.providers.roles import aws, azure, google

DOCS = ROOT / "docs" / "permissions"
_PERSONS = {"client": "who launches", "setup": "who sets up", "machine": "a machine"}
NAMES = {"aws": "AWS", "gcp": "Google Cloud", "azure": "Azure"}


def rows(cloud: str) -> list[str]:
    """One line of the table for each role of a cloud."""
    return [
        f"| {NAMES[cloud]}: {_PERSONS.get(role, f'the {role}')} | {_as_text(reached)} |"
        for role, reached in _reached(cloud).items()
    ]


def _reached(cloud: str) -> Mapping[str, set[str]]:
    if cloud == "gcp":
        return google.reached(DOCS / cloud, google.NOW)
    if cloud == "azure":
        return azure.reached(DOCS / cloud, azure.NOW)
    return _on_aws(DOCS / cloud)


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
