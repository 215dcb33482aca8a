"""The folder within the folders that an archive puts around its content."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from trainplan.workloads.data_folder.entries import is_hidden
from trainplan.workloads.data_folder.values import IMAGE_SUFFIXES

_ABOUT_SUFFIXES = (".txt", ".md", ".rst", ".html", ".pdf")
_ABOUT_NAMES = ("readme", "license", "licence", "citation", "changelog")


def unwrapped(folder: Path, but: Collection[str] = ()) -> Path:
    """Return the folder inside the single one that many archives have around everything, or beside a README.

    A single folder that holds images itself, or whose name is one of `but`, is a class and is not entered.
    """
    while folder.is_dir():
        inside = [path for path in folder.iterdir() if not is_hidden(path.name) and not _is_about(path)]
        if len(inside) != 1 or not inside[0].is_dir() or inside[0].name in but or holds_images(inside[0]):
            break
        folder = inside[0]
    return folder


def _is_about(path: Path) -> bool:
    """Whether a file tells of the data, by its name."""
    if path.name.endswith(".labels.txt"):  # TensorFlow Datasets names the classes there.
        return False
    return path.suffix.lower() in _ABOUT_SUFFIXES or path.stem.lower() in _ABOUT_NAMES


def holds_images(folder: Path) -> bool:
    """Whether a file of the folder itself, not deeper, has the suffix of an image."""
    with os.scandir(folder) as entries:
        return any(entry.name.lower().endswith(IMAGE_SUFFIXES) and not is_hidden(entry.name) for entry in entries)
