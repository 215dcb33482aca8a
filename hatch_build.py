"""Build hook: a wheel, editable or not, carries the tables compiled from their text."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class TablesBuildHook(BuildHookInterface[Any]):
    """Compiles the price catalog and the measurements before the files of the wheel are collected."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Compile both into the source tree, from where the wheel takes them as artifacts."""
        root = Path(self.root)
        sys.path.insert(0, str(root))
        try:
            from planner.throughput.compile import DATA, TARGET, compile_measurements
            from pricing.catalog import SHIPPED_CATALOG
            from pricing.compile import TEXT_DIR, compile_catalog

            compile_catalog(TEXT_DIR, SHIPPED_CATALOG)
            compile_measurements(DATA, TARGET)
        finally:
            sys.path.remove(str(root))
