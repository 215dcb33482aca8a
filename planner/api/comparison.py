"""Two plans side by side: `Plan.compare`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from trainplan.planner.api.calls import Python
from trainplan.workloads.wording import written_in

if TYPE_CHECKING:
    from trainplan.planner.report.compare import Comparison as Compared
    from trainplan.planner.report.page import Page


class Comparison:
    """The cheapest and the fastest offer of two jobs, the first offer under both, and what differs.

    `print` shows what `plan estimate --compare` shows, a notebook draws it as a table. A is the plan that was asked to
    compare.
    """

    def __init__(self, compared: Compared) -> None:
        """Only for this package: `Plan.compare` compares."""
        self._compared = compared

    def to_dict(self) -> dict[str, Any]:
        """The document that `plan estimate --compare --json` prints (docs/output.md)."""
        from trainplan.planner.report.compare import comparison_json

        document: dict[str, Any] = json.loads(comparison_json(self._compared))
        return document

    @property
    def _page(self) -> Page:
        from trainplan.planner.report.compare_page import comparison_page

        with written_in(Python()):
            return comparison_page(self._compared)

    def __repr__(self) -> str:
        from trainplan.planner.report.plain_text import plain_text

        return plain_text(self._page)

    def _repr_html_(self) -> str:
        from trainplan.planner.report.notebook_cell import cell, page_blocks

        return cell(*page_blocks(self._page, "two jobs side by side"))
