"""Build hook: a wheel, editable or not, carries the tables compiled from their text, and the manual page."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MAN_PAGE = Path(".build") / "man" / "plan.1"


class TablesBuildHook(BuildHookInterface[Any]):
    """Compiles the price catalog and the measurements, and writes plan(1), before the wheel's files are collected."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Compile both into the source tree, from where the wheel takes them as artifacts; the page goes below .build.

        The page is written from the command tree, which needs what the package itself needs
        (`require-runtime-dependencies` in pyproject.toml)."""
        root = Path(self.root)
        before = [*sys.path]
        sys.path.insert(0, str(root))
        # The links of src/trainplan are not everywhere: an sdist has none, nor has a checkout on some Windows.
        package = sys.modules["trainplan"] = ModuleType("trainplan")
        package.__path__ = [str(root)]
        try:
            from scripts.man_page import man_page
            from trainplan.planner.throughput.compile import DATA, TARGET, compile_measurements
            from trainplan.pricing.catalog import SHIPPED_CATALOG
            from trainplan.pricing.compile import TEXT_DIR, compile_catalog

            compile_catalog(TEXT_DIR, SHIPPED_CATALOG)
            compile_measurements(DATA, TARGET)
            page = root / MAN_PAGE
            page.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory() as folder:
                self._name_extensions(Path(folder))
                page.write_text(man_page(), encoding="utf-8")
            build_data["shared_data"][str(MAN_PAGE)] = "share/man/man1/plan.1"
        finally:
            sys.path[:] = before

    def _name_extensions(self, folder: Path) -> None:
        """Let the command tree find the extensions of this package, which is not installed yet, by its entry points."""
        groups = self.metadata.core.entry_points
        made = folder / f"{self.metadata.core.name}-{self.metadata.version}.dist-info"
        made.mkdir()
        (made / "METADATA").write_text(f"Name: {self.metadata.core.name}\n", encoding="utf-8")
        lines = []
        for group, entries in groups.items():
            lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
        (made / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        sys.path.insert(0, str(folder))
