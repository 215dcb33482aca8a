"""What was read from the file of `model.python` or `model.onnx`: its graph, and the file itself, which travels with the
job."""

from __future__ import annotations

import base64
import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from trainplan.workloads.graph import GraphError
from trainplan.workloads.graph_file import graph_from_json
from trainplan.workloads.values import Value

if TYPE_CHECKING:
    from trainplan.workloads.graph import Graph

MOST_SOURCE_CHARACTERS = 128 * 1024
"""Of a Python file: a network takes a few thousand."""
_MOST_PACKED_CHARACTERS = 4 * 1024 * 1024
_MOST_GRAPH_BYTES = 16 * 1024 * 1024

PLAIN_RANGE = (-1.0, 1.0)
"""The values of pixels that a network is given unless its own first layers expect others."""

_ESTIMATED_ONLY = (
    "task: other: the trainer trains classifiers, and does not train it; a script of your own does (docs/own-script.md)"
)

Size = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]


class ReadNetwork(Value):
    """A network as it was read for images of one size. `plan` writes this, and no person.

    `sha256` is that of the file. `source` is the text of a Python file ("" for ONNX), which the trainer runs. `packed`
    is the graph. `own_layers` are the names of layers in it that are not Keras' own, `pixel_range` the lowest and the
    highest value of a pixel that its first layers expect, `is_classifier` whether its output is a number for each
    class, `notes` what else is to be told of the file.
    """

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    source: Annotated[str, Field(max_length=MOST_SOURCE_CHARACTERS)] = ""
    packed: Annotated[str, Field(max_length=_MOST_PACKED_CHARACTERS)]
    image_size: Size
    channels: Size
    classes: Size
    own_layers: tuple[Annotated[str, Field(max_length=200)], ...] = ()
    pixel_range: tuple[float, float] = PLAIN_RANGE
    is_classifier: bool = True
    notes: tuple[Annotated[str, Field(max_length=1_000)], ...] = ()

    @property
    def read_for(self) -> tuple[int, int, int]:
        """Image size in pixels, channels and classes."""
        return self.image_size, self.channels, self.classes

    def graph(self) -> Graph:
        """The network. Raises GraphError where `packed` is no graph, or one of other images."""
        graph = _unpacked(self.packed)
        is_of_others = self.is_classifier and graph.classes != self.classes
        if is_of_others or graph.input_shape != (self.image_size, self.image_size, self.channels):
            raise GraphError("the graph of the job is of other images or classes than it says")
        return graph

    def lines(self) -> tuple[str, ...]:
        """What a person is told of the network beside its figures: layers that are not Keras', operators that nobody
        knows, and what was noted when it was read."""
        names = ", ".join(self.own_layers)
        own = (f"layers of your own: {names}; plan predict cannot load a model that holds them",) if names else ()
        unknown = self.graph().unknown
        by_bytes = (f"not known, and counted by their bytes: {', '.join(unknown)}",) if unknown else ()
        low, high = self.pixel_range
        scaled = (f"its first layers expect pixels from {low:g} to {high:g}, which the trainer gives them",)
        other = () if self.is_classifier else (_ESTIMATED_ONLY,)
        pixels = scaled if self.pixel_range != PLAIN_RANGE else ()
        return (*own, *by_bytes, *other, *self._frozen_lines(), *pixels, *self.notes)

    def _frozen_lines(self) -> tuple[str, ...]:
        """Of weights in a Python file that are not trained: its network begins at random."""
        count = self.graph().parameters - self.graph().trained_parameters
        if not self.source or not count:
            return ()
        return (
            f"{count:,} of its parameters are frozen (trainable = False) and stay as they are drawn at random: train "
            "them, or take a VGG preset with model.weights",
        )


def packed(graph_text: str) -> str:
    """A graph's text (`trainplan.workloads.graph_file.graph_json`) in a few thousand characters."""
    return base64.b64encode(zlib.compress(graph_text.encode(), 9)).decode()


@lru_cache(maxsize=16)
def _unpacked(text: str) -> Graph:
    try:
        inflating = zlib.decompressobj()
        data = inflating.decompress(base64.b64decode(text, validate=True), _MOST_GRAPH_BYTES)
        if inflating.unconsumed_tail:
            raise GraphError(f"the graph of the job is larger than {_MOST_GRAPH_BYTES // 1024**2} MiB")
        return graph_from_json(data.decode())
    except GraphError:
        raise
    except (ValueError, zlib.error) as error:
        raise GraphError(f"the graph of the job cannot be read: {error}") from None
