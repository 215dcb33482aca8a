"""Draws docs/architecture.md's diagram from the imports: `python -m scripts.draw_house` writes it, `--check` compares.

A box is a package or one of its folders; an arrow means that modules of the first import modules of the second when
they are imported or used. Imports for types alone are left out, and so are arrows that a longer path of arrows implies.
"""

from __future__ import annotations

import ast
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
PACKAGES = ("planner", "providers", "pricing", "workloads")
BEGIN, END = "<!-- diagram: python -m scripts.draw_house -->\n", "<!-- /diagram -->\n"


def imported_modules(tree: ast.AST) -> Iterator[str]:
    """The dotted names that a module imports, at its top or in its functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        else:
            yield from imported_modules(node)


def box_of(module: str) -> str | None:
    """The box that a dotted name belongs to: its folder within a package, else the package; None for third parties."""
    package, *rest = module.split(".")
    if package not in PACKAGES:
        return None
    is_folder = bool(rest) and (ROOT / package / rest[0] / "__init__.py").is_file()
    return f"{package}.{rest[0]}" if is_folder else package


def arrows() -> set[tuple[str, str]]:
    """Each pair of boxes of which the first imports the second."""
    pairs = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            source = box_of(module)
            targets = {box_of(name) for name in imported_modules(ast.parse(path.read_text(encoding="utf-8")))}
            pairs |= {(source, target) for target in targets if source and target and target != source}
    return pairs


def without_implied(pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """The arrows without those that a path of the others implies, taken away one by one in the order of their names."""
    arrows_kept = set(pairs)
    for source, target in sorted(pairs):
        others = arrows_kept - {(source, target)}
        if target in _reached(source, others):
            arrows_kept = others
    return arrows_kept


def _reached(start: str, pairs: set[tuple[str, str]]) -> set[str]:
    """Every box that a path of arrows leads to."""
    boxes, ahead = set(), [start]
    while ahead:
        box = ahead.pop()
        onward = {target for source, target in pairs if source == box} - boxes
        boxes |= onward
        ahead += onward
    return boxes


def diagram(pairs: set[tuple[str, str]]) -> str:
    """The arrows as a Mermaid flowchart, sorted, with a frame for each package."""
    boxes = {box for pair in pairs for box in pair}
    lines = ["```mermaid", "flowchart TD"]
    for package in PACKAGES:
        lines.append(f'  subgraph frame_{package}["{package}"]')
        lines += [f'    {name(box)}["{label(box)}"]' for box in sorted(boxes) if box.split(".")[0] == package]
        lines.append("  end")
    frames = [f"  frame_{above} ~~~ frame_{below}" for above, below in pairwise(PACKAGES)]
    lines += [f"  {name(source)} --> {name(target)}" for source, target in sorted(without_implied(pairs))]
    return "\n".join([*lines, *frames, "```", ""])


def name(box: str) -> str:
    """A box's name in Mermaid, which takes no dots."""
    return box.replace(".", "_")


def label(box: str) -> str:
    """What stands in a box."""
    return box.partition(".")[2] or f"modules of {box}/"


def with_diagram(page: str, figure: str) -> str:
    """The page with this diagram in the place of the one between the markers."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return head + BEGIN + figure + END + tail


def main() -> int:
    """Write the page, or compare: 1 where it is out of date."""
    page = PAGE.read_text(encoding="utf-8")
    fresh = with_diagram(page, diagram(arrows()))
    if "--check" in sys.argv:
        return int(fresh != page)
    PAGE.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
