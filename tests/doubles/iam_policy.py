"""An AWS policy as IAM would judge by it: only what is allowed, with the few conditions that ours have."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.doubles.needs import Need


@dataclass
class Policy:
    """`used` are the actions and resources by which something was allowed, by the name of their statement."""

    document: Mapping[str, Any]
    used: set[tuple[str, str]] = field(default_factory=set)

    @classmethod
    def read(cls, path: Path, account: str, bucket: str) -> Policy:
        text = path.read_text(encoding="utf-8").replace("ACCOUNT", account).replace("BUCKET", bucket)
        return cls(json.loads(text))

    def without(self, actions: Collection[str]) -> Policy:
        """The same policy with these actions left out."""
        kept = [
            {**row, "Action": [name for name in row["Action"] if name not in actions]}
            for row in self.document["Statement"]
        ]
        return Policy({**self.document, "Statement": kept})

    def allows(self, need: Need) -> bool:
        found = False
        for row in self.document["Statement"]:
            assert row["Effect"] == "Allow"
            actions = [text for text in row["Action"] if text == need.action]
            resources = [text for text in row["Resource"] if fnmatchcase(need.resource, text)]
            if actions and resources and _holds(row.get("Condition", {}), need.context):
                found = True
                self.used |= {(row["Sid"], text) for text in (*actions, *resources)}
        return found

    def unused(self) -> set[tuple[str, str]]:
        """What nothing was allowed by."""
        all_of_it = {
            (row["Sid"], text) for row in self.document["Statement"] for text in (*row["Action"], *row["Resource"])
        }
        return all_of_it - self.used

    def refused(self, needs: Iterable[Need]) -> list[str]:
        return sorted({str(need) for need in needs if not self.allows(need)})


def _holds(conditions: Mapping[str, Mapping[str, Any]], context: Mapping[str, str]) -> bool:
    for operator, keys in conditions.items():
        for key, wanted in keys.items():
            texts = wanted if isinstance(wanted, list) else [wanted]
            given = context.get(key)
            match operator:
                case "StringEquals" | "ArnEquals":
                    holds = given in texts
                case "StringLike":
                    holds = given is not None and any(fnmatchcase(given, text) for text in texts)
                case "Null":
                    holds = (given is None) == (texts == ["true"])
                case _:
                    raise AssertionError(f"{operator} is not known here")
            if not holds:
                return False
    return True
