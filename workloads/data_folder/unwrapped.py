"""The folder within the folders that an archive puts around its content."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.data_folder.entries import is_hidden

if TYPE_CHECKING:
    from pathlib import Path


def unwrapped(folder: Path) -> Path:
    """Return the folder inside the single one that many archives have around everything; a single folder cannot be the
    only class.
    """
    while folder.is_dir():
        inside = [path for path in folder.iterdir() if not is_hidden(path.name)]
        if len(inside) != 1 or not inside[0].is_dir():
            break
        folder = inside[0]
    return folder
