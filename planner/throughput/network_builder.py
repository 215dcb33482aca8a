"""What the networks of the measurements are written with: GraphBuilder, and the steps that most of them repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainplan.workloads.graph_builder import GraphBuilder, Window

if TYPE_CHECKING:
    from collections.abc import Iterable


class NetworkBuilder(GraphBuilder):
    """Each method gives the place of its last operator. Borders are those of PyTorch: the same on both sides."""

    def unit(
        self,
        position: int,
        channels: int,
        kernel: int | tuple[int, int],
        stride: int = 1,
        border: int | None = None,
        *,
        active: bool = True,
    ) -> int:
        """A convolution without bias, batch norm, and ReLU where `active`; the border keeps the image's size at a
        stride of 1 unless it is stated."""
        x = self.convolution(position, channels, window_of(kernel, stride, border), bias=False)
        x = self.batch_norm(x)
        return self.activation(x) if active else x

    def grouped(self, position: int, channels: int, window: Window, groups: int, *, active: bool = True) -> int:
        """The same with groups."""
        x = self.batch_norm(self.convolution(position, channels, window, groups=groups, bias=False))
        return self.activation(x) if active else x

    def plain(self, position: int, channels: int, kernel: int, stride: int = 1, border: int | None = None) -> int:
        """A convolution with a bias, and ReLU."""
        return self.activation(self.convolution(position, channels, window_of(kernel, stride, border)))

    def hidden(self, position: int, units: Iterable[int], classes: int) -> int:
        """Hidden dense layers over the whole image, and the last one."""
        x = self.flatten(position)
        for width in units:
            x = self.activation(self.dense(x, width))
        return self.dense(x, classes)

    def classes(self, position: int, classes: int) -> int:
        """The average of each channel, and the last dense layer."""
        return self.dense(self.global_pool(position), classes)


def window_of(kernel: int | tuple[int, int], stride: int = 1, border: int | None = None) -> Window:
    """With a border that keeps the image's size at a stride of 1, unless it is stated."""
    if border is not None:
        return Window(kernel, stride, border)
    height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
    rows, columns = (height - 1) // 2, (width - 1) // 2
    return Window(kernel, stride, (rows, rows, columns, columns))
