"""The net of a job, as a person writes it, with the weights that it begins with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_serializer, model_validator
from pydantic.json_schema import SkipJsonSchema

from trainplan.workloads.read_network import ReadNetwork
from trainplan.workloads.terms import IMAGENET, LAYER_LISTS, MAX_IMAGE_SIZE_PX, MAX_LAYERS, Preset
from trainplan.workloads.values import Number, Value, refuse_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import SerializerFunctionWrapHandler

# Whole numbers are strict: `classes: yes` is a slip, not one class.
Width = Annotated[int, Field(strict=True, ge=1, le=65_536)]
Classes = Annotated[int, Field(strict=True, ge=2, le=1_000_000)]
ImageSize = Annotated[int, Field(strict=True, ge=1, le=MAX_IMAGE_SIZE_PX)]
Step = Annotated[int, Field(strict=True, ge=1, le=65_536)] | Literal["M"]
_VGGS = LAYER_LISTS - {Preset.MNIST_CNN}
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
SOURCES = ("preset", "layers", "python", "onnx")
"""Keys of which a model has one."""
_LATER = ("python", "onnx", "read", "task")
_OF_VGG = ("dense", "dropout", "batch_norm", "weights", "freeze")


class ModelSpec(Value):
    """The net: a preset, a layer list of 3x3 filters and `M` for a 2x2 max pool, or a file of the person's own.

    `read` is what `plan` has read from that file.
    """

    preset: Preset | None = Field(default=None, description="a net by name")
    layers: tuple[Step, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_LAYERS,
        description="filters of each 3x3 convolution; M is a 2x2 max pool",
    )
    python: Annotated[str, Field(pattern=rf"^.+\.py:{_NAME}$", max_length=4_096)] | None = Field(
        default=None,
        description="a network of your own: a Python file and the function in it that builds a Keras model",
    )
    onnx: Annotated[str, Field(pattern=r"^.+\.onnx$", max_length=4_096)] | None = Field(
        default=None, description="an ONNX file, which can be estimated and not trained"
    )
    read: SkipJsonSchema[ReadNetwork | None] = None
    task: Literal["other"] | None = Field(
        default=None,
        description="other: no classifier but a network for segmentation, detection or the like, estimated only",
    )
    batch_norm: bool = Field(default=False, description="batch norm after each convolution (VGG nets)")
    image_size: ImageSize | None = Field(default=None, description="pixels a side; default: the data set's")
    image_size_multiplier: Annotated[Number, Field(gt=0, le=64)] = Field(
        default=1.0, description="scales the image size; images are resized to it"
    )
    dense: tuple[Width, ...] | None = Field(
        default=None, max_length=16, description="widths of the hidden dense layers"
    )
    classes: Classes | None = Field(default=None, description="default: the data set's")
    dropout: Annotated[Number, Field(ge=0, lt=1)] | None = Field(
        default=None, description="after each hidden dense layer"
    )
    weights: Annotated[str, Field(pattern=r"^(imagenet|.+\.keras)$")] | None = Field(
        default=None,
        description=(
            "weights to begin with: imagenet (vgg16, vgg19), or the model.keras of an earlier run: its path or, for "
            "rented machines, its address (s3://, gs://, az:// or https://)"
        ),
    )
    freeze: Annotated[str, Field(pattern=r"^block[1-9][0-9]?$")] | None = Field(
        default=None, description="with weights: layers up to and with this block, such as block4, are not trained"
    )

    @model_validator(mode="after")
    def _one_net(self) -> Self:
        if self is not OF_A_SCRIPT:
            refuse_all(self._contradictions())
        return self

    @model_serializer(mode="wrap")
    def _used(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = dump(self)
        for name in _LATER:  # later keys, without which a trainer of an earlier version can read the job
            if values.get(name) is None:
                values.pop(name, None)
        return values

    @property
    def file(self) -> Path | None:
        """The file of `python` or `onnx`; None for a net that needs none."""
        if self.python is not None:
            return Path(self.python.rpartition(":")[0])
        return None if self.onnx is None else Path(self.onnx)

    @property
    def builder(self) -> str:
        """The function of the Python file; "" without one."""
        return "" if self.python is None else self.python.rpartition(":")[2]

    def _contradictions(self) -> Iterator[str]:
        if sum(getattr(self, name) is not None for name in SOURCES) != 1:
            yield f"give one of {', '.join(SOURCES[:-1])} or {SOURCES[-1]}"
        if self.file is not None:
            yield from (
                f"model.{name} is for VGG nets, not for a file"
                for name in _OF_VGG
                if getattr(self, name) not in (None, False)
            )
            return
        if self.task is not None:
            yield "model.task is for a network of your own: python or onnx"
        values = {"dense": self.dense is not None, "dropout": self.dropout is not None, "batch_norm": self.batch_norm}
        is_fixed = self.preset is not None and self.preset not in _VGGS
        for name in (name for name, there in values.items() if there and is_fixed):
            yield f"the preset {self.preset} is fixed; {name} is for VGG nets"
        if self.freeze is not None and self.weights is None:
            yield "freeze needs weights: layers that begin at random have to be trained"
        if self.weights is not None and is_fixed:
            yield f"the preset {self.preset} has no blocks to begin with; weights is for VGG nets"
        elif self.weights == IMAGENET and (self.preset not in (Preset.VGG16, Preset.VGG19) or self.batch_norm):
            yield "weights: imagenet are published for the presets vgg16 and vgg19 without batch norm"


OF_A_SCRIPT = ModelSpec.model_construct(image_size=1, classes=2)
"""The net of a script, of which nothing is known: one pixel stands for its images."""
