"""How the document of `plan estimate` is wanted: as JSON, as a page, as the table of its levers."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class DocumentForm(NamedTuple):
    """How the answer or its document is wanted; the options of these names, --wide, and whether it is Markdown."""

    as_json: bool = False
    html: Path | None = None
    levers: bool = False
    limit: int | None = None
    wide: bool = False
    as_markdown: bool = False

    @property
    def is_wanted(self) -> bool:
        """Whether the answer is made of the document, for which every placement and its price are read."""
        return self.as_json or self.html is not None or self.levers
