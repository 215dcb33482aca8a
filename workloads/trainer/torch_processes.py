"""What several processes of PyTorch need to train as one: mean gradients, common batch norm, parts of one mask.

Gradients are summed here and not by torch's DistributedDataParallel: that sums them where its wrapper's own forward
pass is called, and Keras' `fit` calls the model itself. The price is that the sums do not overlap the backward pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from trainplan.workloads.trainer.process_group import ProcessGroup

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchProcesses:
    """The processes of `group`, joined by torch.distributed; each has one device and an equal part of every batch."""

    torch: Any
    group: ProcessGroup

    def total(self, tensor: Any) -> Any:
        """The sum of all processes' tensors, as a new tensor; what a symbolic call of Keras gives has no values."""
        result = tensor.detach().clone().contiguous()
        if result.device.type != "meta":
            self.torch.distributed.all_reduce(result)
        return result

    def mean(self, tensors: list[Any]) -> list[Any]:
        """The means over all processes; the sums run at the same time."""
        results = [tensor.detach().contiguous() for tensor in tensors]
        for pending in [self.torch.distributed.all_reduce(result, async_op=True) for result in results]:
            pending.wait()
        return [result.div_(self.group.processes) for result in results]

    def whole(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The sum of what each process has counted."""
        device = "cuda" if self.torch.distributed.get_backend() == "nccl" else "cpu"
        result: npt.NDArray[np.int64] = self.total(self.torch.tensor(counts, device=device)).cpu().numpy()
        return result

    def model(self, keras: Any) -> Any:
        """A class of Keras models whose steps take the mean gradient, and whose metrics are of all processes."""
        return _model(keras, self)

    def dropout(self, keras: Any) -> Any:
        """A class of layers that draws the whole batch's mask, as one process does, and applies its own part."""
        return _dropout(keras, self)

    def batch_norm(self, keras: Any) -> Any:
        """A class of layers that normalises by the images of all processes."""
        return _batch_norm(keras, self)


@cache
def _model(keras: Any, processes: TorchProcesses) -> Any:
    torch = processes.torch

    class OfAllProcesses(keras.Model):  # type: ignore[misc]
        def train_step(self, data: Any) -> Any:
            """As Keras' own, but for the mean between gradients and optimizer."""
            images, labels, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
            predicted = self(images, training=True)
            self.zero_grad()
            loss = self.compute_loss(x=images, y=labels, y_pred=predicted, sample_weight=sample_weight, training=True)
            next(one for one in self.metrics if one.name == "loss").update_state(loss, sample_weight=len(images))
            self.optimizer.scale_loss(loss).backward()
            weights = self.trainable_weights
            # The mean is taken of scaled gradients: where one process has no finite ones, all skip the step.
            gradients = processes.mean([weight.value.grad for weight in weights])
            with torch.no_grad():
                self.optimizer.apply(gradients, weights)
            return self.compute_metrics(images, labels, predicted, sample_weight=sample_weight)

        def get_metrics_result(self) -> Any:
            """Parts are of equal size, so that the mean of their means is the batch's."""
            own = super().get_metrics_result()
            if not own:
                return own
            totals = processes.total(torch.stack([torch.as_tensor(value).float() for value in own.values()]))
            return dict(zip(own, totals / processes.group.processes, strict=True))

    return OfAllProcesses


@cache
def _dropout(keras: Any, processes: TorchProcesses) -> Any:
    group = processes.group

    class PartOfDropout(keras.layers.Dropout):  # type: ignore[misc]
        def call(self, inputs: Any, training: bool = False) -> Any:
            if not training or self.rate == 0:
                return inputs
            count = len(inputs)
            whole = keras.ops.ones((count * group.processes, *inputs.shape[1:]), dtype=inputs.dtype)
            mask = keras.random.dropout(whole, self.rate, seed=self.seed_generator)
            return inputs * mask[group.rank * count : (group.rank + 1) * count]

    return PartOfDropout


@cache
def _batch_norm(keras: Any, processes: TorchProcesses) -> Any:
    ops = keras.ops
    mean_over_processes = _differentiable_mean(processes)

    class CommonBatchNormalization(keras.layers.BatchNormalization):  # type: ignore[misc]
        def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
            if not (training and self.trainable) or inputs.device.type == "meta":
                return super().call(inputs, training=training, mask=mask)
            values = ops.cast(inputs, "float32")  # as Keras does: half precision has no room for squares
            axes = list(range(values.ndim - 1))
            own = ops.stack([ops.mean(values, axis=axes), ops.mean(ops.square(values), axis=axes)])
            mean, square = mean_over_processes(own)
            variance = square - ops.square(mean)
            for moving, new in ((self.moving_mean, mean), (self.moving_variance, variance)):
                moving.assign(moving * self.momentum + new.detach() * (1 - self.momentum))
            outputs = ops.batch_normalization(
                values, mean, variance, axis=-1, offset=self.beta, scale=self.gamma, epsilon=self.epsilon
            )
            return ops.cast(outputs, self.compute_dtype)

    return CommonBatchNormalization


def _differentiable_mean(processes: TorchProcesses) -> Any:
    """The mean over all processes, through which gradients flow: each process's part of it moves every one's loss."""

    class MeanOverProcesses(processes.torch.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(_: Any, own: Any) -> Any:
            return processes.total(own) / processes.group.processes

        @staticmethod
        def backward(_: Any, gradient: Any) -> Any:
            return processes.total(gradient) / processes.group.processes

    return MeanOverProcesses.apply
