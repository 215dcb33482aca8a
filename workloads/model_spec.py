"""The net of a job, as a person writes it, with the weights that it begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from workloads.terms import IMAGENET, LAYER_LISTS, MAX_IMAGE_SIZE_PX, MAX_LAYERS, Preset
from workloads.values import Number, Value, refuse_all

if TYPE_CHECKING:
    from collections.abc import Iterator

# Whole numbers are strict: `classes: yes` is a slip, not one class.
Width = Annotated[int, Field(strict=True, ge=1, le=65_536)]
Classes = Annotated[int, Field(strict=True, ge=2, le=1_000_000)]
ImageSize = Annotated[int, Field(strict=True, ge=1, le=MAX_IMAGE_SIZE_PX)]
Step = Annotated[int, Field(strict=True, ge=1, le=65_536)] | Literal["M"]
_VGGS = LAYER_LISTS - {Preset.MNIST_CNN}


class ModelSpec(Value):
    """The net: a preset, or a layer list of 3x3 filters and `M` for a 2x2 max pool."""

    preset: Preset | None = Field(default=None, description="a net by name")
    layers: tuple[Step, ...] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_LAYERS,
        description="filters of each 3x3 convolution; M is a 2x2 max pool",
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
        refuse_all(self._contradictions())
        return self

    def _contradictions(self) -> Iterator[str]:
        if (self.preset is None) == (self.layers is None):
            yield "give either preset or layers, one of the two"
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
