"""What a finished run leaves: the model, its figures, and a manifest written last."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from workloads.trainer.progress import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

MODEL = "model.keras"
METRICS = "metrics.json"
MANIFEST = "manifest.json"


def write_output(folder: Path, serving_model: Any, metrics: dict[str, object]) -> None:
    """Write all three; a manifest from before goes first, so that it never vouches for half a model.

    Raises OSError where the disk is full.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    # Keras tells the format by the suffix, so the unfinished file keeps it.
    unfinished = folder / f".new-{MODEL}"
    serving_model.save(unfinished)
    unfinished.replace(folder / MODEL)
    write_atomically(folder / METRICS, json.dumps(metrics, indent=1))
    rows = [_row(folder / name) for name in (MODEL, METRICS)]
    write_atomically(folder / MANIFEST, json.dumps(rows, indent=1))


def _row(path: Path) -> dict[str, object]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"path": path.name, "size_bytes": path.stat().st_size, "sha256": digest}
