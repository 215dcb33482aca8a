"""What a finished run leaves: the model, its figures, what a person reads, and a manifest written last."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from trainplan.workloads.terms import Precision
from trainplan.workloads.trainer.checkpoint import linked
from trainplan.workloads.trainer.model import build, network_of
from trainplan.workloads.trainer.progress import write_atomically

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from trainplan.workloads.trainer.prepare import Ready

MODEL = "model.keras"
METRICS = "metrics.json"
MANIFEST = "manifest.json"


def write_output(folder: Path, serving_model: Any, metrics: dict[str, object], reports: dict[str, bytes]) -> None:
    """Write model, figures, `reports` by name, and the manifest of all. A manifest from before goes first, so that it
    never vouches for half a model.

    Raises OSError where the disk is full.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    # Keras tells the format by the suffix, so the unfinished file keeps it.
    unfinished = folder / f".new-{MODEL}"
    serving_model.save(unfinished)
    unfinished.replace(folder / MODEL)
    write_atomically(folder / METRICS, json.dumps(metrics, indent=1, allow_nan=False))
    for name, content in reports.items():
        (folder / name).write_bytes(content)
    rows = [_row(folder, name) for name in (MODEL, METRICS, *reports)]
    write_atomically(folder / MANIFEST, json.dumps(rows, indent=1, allow_nan=False))


def write_figures(folder: Path, name: str, text: str) -> None:
    """Write the figures of a pilot, which leaves no model, and the manifest of them. Raises OSError where the disk is
    full."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / name, text)
    write_atomically(folder / MANIFEST, json.dumps([_row(folder, name)], indent=1))


def adopt_output(folder: Path, source: Path, documents: Mapping[str, str]) -> None:
    """Make the output of one trial that of its sweep, with `documents` beside its files or in their place. Raises
    OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MANIFEST).unlink(missing_ok=True)
    names = [row["path"] for row in json.loads((source / MANIFEST).read_bytes())]
    for file in names:
        (folder / file).unlink(missing_ok=True)
        linked(source / file, folder / file)
    for name, text in documents.items():
        write_atomically(folder / name, text)
    rows = [_row(folder, file) for file in dict.fromkeys((*names, *documents))]
    write_atomically(folder / MANIFEST, json.dumps(rows, indent=1))


def plain_model(ready: Ready) -> Any:
    """The model as it is kept: in float32, for one device of one process, whatever it was trained with.

    Layers trained in mixed precision compute in 16 bits wherever they are loaded, which a CPU does many times more
    slowly; layers of several devices or processes are of the trainer, and Keras alone could not load them.
    """
    return _unfrozen(model_on_one_device(ready))


def model_on_one_device(ready: Ready) -> Any:
    """The serving model in float32 on one device: itself where it is that, else a copy with its weights."""
    if ready.job.precision in (Precision.FP32, Precision.TF32) and ready.together is None:
        return ready.models.serving
    keras = ready.toolkit.keras
    weights = ready.models.serving.get_weights()
    policy = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy("float32")
    try:
        job, size = ready.job, ready.split.train.size
        plain = build(keras, network_of(job), size, job.seed, preprocessing=ready.preprocessing).serving
    finally:
        keras.mixed_precision.set_global_policy(policy)
    plain.set_weights(weights)
    return plain


def _unfrozen(model: Any) -> Any:
    """The file keeps which layers are trainable; whoever trains it further would not expect some to stand still."""
    for layer in model.layers:
        layer.trainable = True
    return model


def _row(folder: Path, name: str) -> dict[str, object]:
    with (folder / name).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"path": name, "size_bytes": (folder / name).stat().st_size, "sha256": digest}
