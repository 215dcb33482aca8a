"""`python -m tests.places.play FILE`: run the cells of a notebook with a kernel of this Python; print their output."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def main(path: Path) -> int:
    """Run the cells in order. A cell that raises ends it with its traceback."""
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(notebook)
    NotebookClient(notebook, timeout=None, kernel_name="python3").execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            sys.stdout.write(output.get("text", ""))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
