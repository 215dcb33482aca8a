"""Build hook: a wheel, editable or not, carries the price catalog compiled from the text tables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CatalogBuildHook(BuildHookInterface[Any]):
    """Compiles pricing/data/*.csv and *.toml before the files of the wheel are collected."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Compile the catalog into the source tree, from where the wheel takes it as an artifact."""
        root = Path(self.root)
        sys.path.insert(0, str(root))
        try:
            from pricing.catalog import SHIPPED_CATALOG
            from pricing.compile import TEXT_DIR, compile_catalog

            compile_catalog(TEXT_DIR, SHIPPED_CATALOG)
        finally:
            sys.path.remove(str(root))
