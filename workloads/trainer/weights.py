"""The weights that a run begins with: found or downloaded, checked, and put into the net."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainplan.workloads.pretrained import PUBLISHED_WEIGHTS, WEIGHTS_FILE, PublishedWeights
from trainplan.workloads.terms import IMAGENET, Preset
from trainplan.workloads.trainer.downloads import Archive, fetched_file
from trainplan.workloads.trainer.errors import BadInputError
from trainplan.workloads.trainer.model import IMAGENET_NORMALISATION, Normalisation

if TYPE_CHECKING:
    from trainplan.workloads.job import TrainingJob

_WITH_WEIGHTS = frozenset({"Conv2D", "BatchNormalization", "Dense"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _LayerWeights:
    """One layer of the file: the class of Keras and its arrays, in Keras' order."""

    kind: str
    arrays: tuple[Any, ...]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [tuple(array.shape) for array in self.arrays]


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseWeights:
    """Weights of another training: how it scaled its images, and its layers from the first to the last."""

    normalisation: Normalisation
    layers: tuple[_LayerWeights, ...]
    source: str


def read_weights(
    keras: Any,
    job: TrainingJob,
    run_dir: Path,
    data_dir: Path,
    published: Mapping[Preset, PublishedWeights] = PUBLISHED_WEIGHTS,
) -> BaseWeights | None:
    """What `model.weights` names; None for a job that begins at random.

    A file is taken from the run directory, else from the path in the job. Weights of ImageNet are downloaded once into
    `data_dir`. Raises BadInputError where they cannot be had, or are not what they should be.
    """
    if job.model.weights is None:
        return None
    if job.model.weights == IMAGENET:
        assert job.model.preset is not None
        return _of_imagenet(keras, job.model.preset, data_dir, published)
    in_run = run_dir / WEIGHTS_FILE
    return _of_file(keras, in_run if in_run.is_file() else Path(job.model.weights))


def put_weights(base: BaseWeights, model: Any) -> frozenset[str]:
    """Put the weights into the layers of `model` up to the last, whose classes are the job's own; returns their names.

    All convolutions and batch norms must fit. A hidden dense layer is taken where it has the same shape and all before
    it were taken; else it and those behind it begin at random. Raises BadInputError.
    """
    layers = [layer for layer in model.layers if type(layer).__name__ in _WITH_WEIGHTS]
    features = [layer for layer in layers if not _is_dense(layer)]
    theirs = [layer for layer in base.layers if layer.kind != "Dense"]
    if len(theirs) != len(features):
        raise BadInputError(
            f"{base.source} has {len(theirs)} convolutions and batch norms, this net {len(features)}: model.weights "
            "needs a file of a net with the same blocks"
        )
    names = set()
    for layer, values in zip(features, theirs, strict=True):
        if _shapes(layer) != values.shapes:
            raise BadInputError(
                f"{base.source} does not fit this net: {layer.name} has weights of {_text(_shapes(layer))}, the file "
                f"of {_text(values.shapes)}; model.weights needs a file of a net with the same blocks"
            )
        layer.set_weights(list(values.arrays))
        names.add(layer.name)
    hidden = [layer for layer in layers if _is_dense(layer)][:-1]
    for layer, values in zip(hidden, [layer for layer in base.layers if layer.kind == "Dense"][:-1], strict=False):
        if _shapes(layer) != values.shapes:
            break
        layer.set_weights(list(values.arrays))
        names.add(layer.name)
    return frozenset(names)


def _is_dense(layer: Any) -> bool:
    return type(layer).__name__ == "Dense"


def _shapes(layer: Any) -> list[tuple[int, ...]]:
    return [tuple(weight.shape) for weight in layer.weights]


def _text(shapes: Sequence[tuple[int, ...]]) -> str:
    return ", ".join("x".join(map(str, shape)) for shape in shapes)


def _of_imagenet(
    keras: Any, preset: Preset, data_dir: Path, published: Mapping[Preset, PublishedWeights]
) -> BaseWeights:
    file = published[preset]
    without = "leave out model.weights and model.freeze and write batch_norm: true, to begin at random"
    archive = Archive(name=file.name, origin=file.origin, md5=file.md5, without=without)
    path = fetched_file(archive, data_dir / "weights")
    make = {Preset.VGG16: keras.applications.VGG16, Preset.VGG19: keras.applications.VGG19}[preset]
    try:
        model = make(include_top=False, weights=str(path), input_shape=(32, 32, 3))
    except (OSError, ValueError, KeyError) as error:
        raise BadInputError(f"{path} cannot be read ({error}); delete it and start again") from error
    layers = _layers(model)
    # The weights are for blue, green, red; the images of a run are red, green, blue.
    first = layers[0]
    flipped = _LayerWeights(kind=first.kind, arrays=(first.arrays[0][:, :, ::-1, :].copy(), *first.arrays[1:]))
    return BaseWeights(
        normalisation=IMAGENET_NORMALISATION, layers=(flipped, *layers[1:]), source=f"{file.name} (ImageNet)"
    )


def _of_file(keras: Any, path: Path) -> BaseWeights:
    try:
        model = keras.models.load_model(path, compile=False)
    except (OSError, ValueError, KeyError, TypeError) as error:
        first_line = next(iter(str(error).splitlines()), type(error).__name__)
        raise BadInputError(
            f"model.weights: {path} cannot be read as a Keras model: {first_line}; give the output/model.keras of a run"
        ) from error
    scaling = [layer for layer in model.layers if type(layer).__name__ == "Rescaling"]
    if len(scaling) != 1:
        raise BadInputError(
            f"model.weights: {path} does not say how its images were scaled, so it is no model.keras of a run"
        )
    config = scaling[0].get_config()
    offset = config["offset"]
    normalisation = Normalisation(
        scale=float(config["scale"]),
        offset=tuple(map(float, offset)) if isinstance(offset, list | tuple) else float(offset),
    )
    return BaseWeights(normalisation=normalisation, layers=_layers(model), source=str(path))


def _layers(model: Any) -> tuple[_LayerWeights, ...]:
    return tuple(
        _LayerWeights(kind=type(layer).__name__, arrays=tuple(layer.get_weights()))
        for layer in model.layers
        if type(layer).__name__ in _WITH_WEIGHTS
    )
