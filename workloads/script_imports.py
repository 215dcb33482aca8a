"""What a script imports: files beside it, which travel with it, and packages that it needs. Nothing of it runs."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

MOST_FILES = 200
REPORTING = "trainplan_run"
"""It can be imported in every run, whether a copy lies beside the script or not."""


class Imported(NamedTuple):
    """A module that is imported, `level` dots above the package of the file. `is_needed`: nothing around the statement
    says that the script can do without it."""

    module: str
    names: tuple[str, ...]
    level: int
    is_needed: bool


def imports_of(tree: ast.Module) -> list[Imported]:
    """All imports of a module, in functions too."""
    top = {id(node) for node in tree.body}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [Imported(alias.name, (), 0, id(node) in top) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            found.append(Imported(node.module or "", names, node.level, id(node) in top))
    return found


def neighbours_of(
    imported: Imported, importer: PurePosixPath, folder: Path, inside: PurePosixPath
) -> Iterator[PurePosixPath]:
    """The files below `folder` that an import in `importer` reads, as paths from there; no links that lead out of it.
    The script lies `inside`, where Python looks first, and then in the folder itself."""
    parts = tuple(imported.module.split(".")) if imported.module else ()
    if imported.level:
        above = importer.parent.parts
        if imported.level - 1 > len(above):
            return
        bases = [PurePosixPath(*above[: len(above) - imported.level + 1])]
    elif not parts or parts[0] == REPORTING:
        return
    else:
        bases = [inside, PurePosixPath()]
    for base in bases:
        found = [_file(PurePosixPath(base, *parts[: count + 1]), folder) for count in range(len(parts))]
        found += [_file(PurePosixPath(base, *parts, name), folder) for name in imported.names if name.isidentifier()]
        if not parts:
            found.append(_file(base, folder))
        if any(found):  # a folder alone, without a module in it, is no package
            yield from (path for path in found if path is not None)
            return


def _file(module: PurePosixPath, folder: Path) -> PurePosixPath | None:
    """A package counts before a module of its name, as in Python."""
    for path in (module / "__init__.py", module.with_name(f"{module.name}.py")) if module.parts else ():
        whole = folder / path
        if whole.is_file() and whole.resolve().is_relative_to(folder.resolve()):
            return path
    return None


def packages_of(imports: list[Imported]) -> set[str]:
    """The top-level names that have to be installed."""
    names = {one.module.partition(".")[0] for one in imports if one.is_needed and not one.level}
    return names - sys.stdlib_module_names - {REPORTING, ""}
