"""What XLA's memory analysis says of a training step, for nets of the VGG family and other presets, as a CSV table.

Needs jax beside this project; compiles and runs nothing. For the CPU:
`PYTHONPATH=. python benchmarks/memory_xla.py > tests/data/xla_memory.csv`. For a TPU chip that is not there (with
libtpu installed; minutes a case), which computes in bf16 where a CPU does not:
`PYTHONPATH=. python benchmarks/memory_xla.py --tpu v5e:2x2 'vgg11 32 128 amp_bf16 sgd'`.
"""

from __future__ import annotations

import argparse
import csv
import functools
import os
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib
from jax.experimental.topologies import get_topology_desc
from jax.sharding import SingleDeviceSharding

from trainplan.workloads.graph import Graph, Kind, Operator, OperatorFigures
from trainplan.workloads.job import TrainingJob

# The CPU compiler's own scheduler orders a step for concurrency, at up to twice the memory; without it, it orders
# for memory as the compilers for accelerators do. Only the environment reaches it: as an option of `compile` it is
# taken and changes nothing (jax 0.10.2).
SCHEDULER = "--xla_cpu_enable_concurrency_optimized_scheduler=false"

# Net, pixels a side, batch, precision, optimizer. 1,000 classes.
CASES = (
    "vgg11 224 32 fp32 sgd", "vgg11 224 256 fp32 sgd", "vgg11 128 64 fp32 sgd", "vgg11 96 64 fp32 sgd",
    "vgg11 32 128 fp32 sgd", "vgg11_bn 224 64 fp32 sgd", "vgg11_bn 32 512 fp32 sgd",
    "vgg13 224 64 fp32 adam", "vgg13 64 256 fp32 sgd", "vgg13_bn 64 128 fp32 adam", "vgg13 32 64 fp32 adam",
    "vgg16 224 16 fp32 sgd", "vgg16 224 32 fp32 sgd", "vgg16 224 128 fp32 sgd", "vgg16 224 256 fp32 sgd",
    "vgg16 224 32 fp32 adam", "vgg16_bn 224 32 fp32 sgd", "vgg16_bn 224 128 fp32 sgd", "vgg16 128 64 fp32 sgd",
    "vgg16_bn 128 64 fp32 sgd", "vgg16 64 512 fp32 sgd", "vgg16 64 128 fp32 adam", "vgg16 32 1024 fp32 sgd",
    "vgg19 224 16 fp32 sgd", "vgg19 256 64 fp32 sgd", "vgg19 128 256 fp32 adam", "vgg19 64 128 fp32 sgd",
    "vgg19_bn 32 256 fp32 adam", "vgg19 224 256 fp32 sgd",
    "resnet18 224 32 fp32 sgd", "squeezenet1_1 224 64 fp32 sgd", "alexnet 224 128 fp32 sgd",
    "resnet50 224 32 fp32 sgd", "mobilenet_v2 224 32 fp32 sgd", "densenet121 224 16 fp32 sgd",
    "inception_v3 299 16 fp32 sgd", "efficientnet_b0 224 32 fp32 sgd", "convnext_tiny 224 16 fp32 sgd",
    "mobilenet_v3_large 224 32 fp32 sgd", "resnet34 224 32 fp32 adam", "alexnet 224 512 fp32 sgd",
    "resnet101 224 16 fp32 adam", "lenet 32 2048 fp32 sgd", "squeezenet1_1 224 64 fp32 adam",
    "resnet34 160 32 fp32 sgd", "squeezenet1_1 128 32 fp32 sgd", "efficientnet_b1 160 16 fp32 sgd",
    "vgg11 224 128 amp_bf16 sgd", "vgg16 224 32 amp_bf16 sgd", "vgg16 128 64 amp_bf16 sgd",
    "vgg16 32 1024 amp_bf16 sgd", "vgg19_bn 224 64 amp_bf16 sgd",
)  # fmt: skip
COLUMNS = (
    "net", "image_size", "batch", "precision", "optimizer", "argument_bytes", "output_bytes", "alias_bytes",
    "temp_bytes", "jax", "jaxlib", "python", "backend", "xla_flags", "measured_on",
)  # fmt: skip

Parameters = list[dict[str, Any]]
NORMS = (Kind.BATCH_NORM, Kind.LAYER_NORM)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=CASES, help="other cases, each quoted: 'vgg16 224 32 fp32 sgd'")
    parser.add_argument("--flags", default=SCHEDULER, help="XLA_FLAGS to compile with; empty: XLA's own defaults")
    parser.add_argument("--tpu", help="compile for a chip of this topology instead, for example v5e:2x2")
    options = parser.parse_args()
    os.environ["XLA_FLAGS"] = options.flags  # read when the first thing is compiled
    jax.config.update("jax_platforms", "cpu")
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    target = options.tpu or "cpu"
    chip = None if options.tpu is None else SingleDeviceSharding(get_topology_desc(options.tpu, "tpu").devices[0])
    for case in options.cases:
        name, size, batch, precision, optimizer = case.split()
        stats = analysis(a_graph(name, int(size)), int(batch), precision, optimizer, chip)
        versions = (jax.__version__, jaxlib.__version__, sys.version.split()[0], target, "" if chip else options.flags)
        writer.writerow([*case.split(), *stats, *versions, time.strftime("%Y-%m-%d")])
        sys.stdout.flush()
    return 0


def a_graph(name: str, size: int) -> Graph:
    """A preset, `_bn` with batch norm, for colour images and 1,000 classes."""
    plain = name.removesuffix("_bn")
    model = {"preset": plain, "image_size": size, "batch_norm": name != plain}
    job = {"name": "job", "model": model, "data": {"name": "imagenet"}, "epochs": 1, "global_batch_size": 1}
    return TrainingJob.model_validate(job).graph()


def analysis(
    graph: Graph, batch: int, precision: str, optimizer: str, chip: SingleDeviceSharding | None = None
) -> tuple[int, int, int, int]:
    """Bytes of arguments, outputs, what the two share (the state is donated), and temporaries."""
    weights = [weight_shapes(row) for row in graph.figures]
    state = (weights, [weights] * (2 if optimizer == "adam" else 1))
    shapes = (
        state,
        jax.ShapeDtypeStruct((batch, *graph.input_shape), jnp.uint8),
        jax.ShapeDtypeStruct((batch,), jnp.int32),
        jax.eval_shape(lambda: jax.random.key(0)),
    )
    if chip is not None:
        shapes = jax.tree.map(lambda one: jax.ShapeDtypeStruct(one.shape, one.dtype, sharding=chip), shapes)
    step = training_step(graph, jnp.bfloat16 if precision == "amp_bf16" else jnp.float32)
    memory = jax.jit(step, donate_argnums=0).lower(*shapes).compile().memory_analysis()
    return (
        memory.argument_size_in_bytes,
        memory.output_size_in_bytes,
        memory.alias_size_in_bytes,
        memory.temp_size_in_bytes,
    )


def weight_shapes(row: OperatorFigures) -> dict[str, Any]:
    """The weights of an operator. Moving statistics are left out: they are of no size that matters."""
    operator, channels = row.operator, row.operator.shape.channels
    shapes: dict[str, tuple[int, ...]] = {}
    if row.kind is Kind.CONVOLUTION:
        shapes["kernel"] = (*operator.kernel, row.input_shapes[0].channels // operator.groups, channels)
    if row.kind is Kind.DENSE:
        shapes["kernel"] = (row.input_shapes[0].channels, channels)
    if row.kind is Kind.SCALE or (row.kind in NORMS and operator.scale):
        shapes["scale"] = (channels,)
    if operator.bias:
        shapes["bias"] = (channels,)
    return {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in shapes.items()}


def training_step(graph: Graph, kind: Any) -> Any:
    """Forward, backward and update: momentum with one slot, Adam with two; weights and slots stay in fp32."""

    def loss(weights: Parameters, images: Any, labels: Any, key: Any) -> Any:
        logits = forward(graph, weights, images, key, kind).reshape(images.shape[0], -1)
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()

    def step(state: tuple[Parameters, list[Parameters]], images: Any, labels: Any, key: Any) -> Any:
        weights, slots = state
        value, gradients = jax.value_and_grad(loss)(weights, images, labels, key)
        return updated(weights, slots, gradients), value

    return step


def updated(weights: Parameters, slots: list[Parameters], gradients: Parameters) -> tuple[Parameters, list[Parameters]]:
    if len(slots) == 1:
        speed = jax.tree.map(lambda slot, gradient: 0.9 * slot - 0.01 * gradient, slots[0], gradients)
        return jax.tree.map(jnp.add, weights, speed), [speed]
    mean = jax.tree.map(lambda slot, gradient: 0.9 * slot + 0.1 * gradient, slots[0], gradients)
    square = jax.tree.map(lambda slot, gradient: 0.999 * slot + 0.001 * gradient**2, slots[1], gradients)
    moved = jax.tree.map(lambda old, one, two: old - 0.001 * one / (jnp.sqrt(two) + 1e-7), weights, mean, square)
    return moved, [mean, square]


def forward(graph: Graph, weights: Parameters, images: Any, key: Any, kind: Any) -> Any:
    """The logits: a softmax at the end is left to the loss."""
    values = [(images.astype(jnp.float32) / 127.5 - 1).astype(kind)]
    for number, operator in enumerate(graph.operators[1:], 1):
        own = {name: one.astype(kind) for name, one in weights[number].items()}
        inputs = [values[position] for position in operator.inputs]
        values.append(applied(operator, own, inputs, jax.random.fold_in(key, number)))
    return values[-1].astype(jnp.float32)


def applied(operator: Operator, own: dict[str, Any], inputs: list[Any], key: Any) -> Any:
    value = inputs[0]
    match operator.kind:
        case Kind.CONVOLUTION:
            return convolved(operator, own, value)
        case Kind.DENSE:
            return value @ own["kernel"] + own.get("bias", 0)
        case Kind.BATCH_NORM | Kind.LAYER_NORM:
            return normed(operator, own, value)
        case Kind.MAX_POOL | Kind.AVERAGE_POOL:
            return pooled(operator, value)
        case Kind.DROPOUT:
            return dropped(operator, value, key)
        case Kind.ACTIVATION:
            return FUNCTIONS[operator.function](value)
        case Kind.SCALE:
            return value * own["scale"]
        case Kind.FLATTEN:
            return value.reshape(value.shape[0], *operator.shape)
        case _:
            return combined(operator.kind, inputs)


FUNCTIONS: dict[str, Any] = {
    "relu": jax.nn.relu,
    "relu6": jax.nn.relu6,
    "swish": jax.nn.silu,
    "gelu": functools.partial(jax.nn.gelu, approximate=False),
    "sigmoid": jax.nn.sigmoid,
    "hard_sigmoid": jax.nn.hard_sigmoid,
    "hard_swish": jax.nn.hard_swish,
}


def combined(kind: Kind, inputs: list[Any]) -> Any:
    match kind:
        case Kind.SOFTMAX | Kind.FIXED_SCALE:
            return inputs[0]
        case Kind.GLOBAL_AVERAGE_POOL:
            return inputs[0].mean((1, 2), keepdims=True)
        case Kind.CONCAT:
            return jnp.concatenate(inputs, -1)
        case Kind.ADD | Kind.MULTIPLY:
            return functools.reduce(jnp.add if kind is Kind.ADD else jnp.multiply, inputs)
        case _:
            raise NotImplementedError(f"no preset has {kind}")


def convolved(operator: Operator, own: dict[str, Any], value: Any) -> Any:
    top, bottom, left, right = operator.padding
    out = jax.lax.conv_general_dilated(
        value,
        own["kernel"],
        operator.stride,
        ((top, bottom), (left, right)),
        rhs_dilation=operator.dilation,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=operator.groups,
    )
    return out + own["bias"] if operator.bias else out


def normed(operator: Operator, own: dict[str, Any], value: Any) -> Any:
    axes = (0, 1, 2) if operator.kind is Kind.BATCH_NORM else (3,)
    wide = value.astype(jnp.float32)
    normal = (wide - wide.mean(axes, keepdims=True)) * jax.lax.rsqrt(wide.var(axes, keepdims=True) + operator.epsilon)
    return normal.astype(value.dtype) * own.get("scale", 1) + own["bias"]


def pooled(operator: Operator, value: Any) -> Any:
    top, bottom, left, right = operator.padding
    is_average = operator.kind is Kind.AVERAGE_POOL
    fill = 0 if is_average else jnp.finfo(value.dtype).min
    padded = jnp.pad(value, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
    if not is_average and operator.kernel == operator.stride:
        return by_reshape(operator, padded)
    if not is_average:
        return largest(padded, operator.kernel, operator.stride)
    windows = ((1, *operator.kernel, 1), (1, *operator.stride, 1), "VALID")
    return jax.lax.reduce_window(padded, 0.0, jax.lax.add, *windows) / (operator.kernel[0] * operator.kernel[1])


def by_reshape(operator: Operator, padded: Any) -> Any:
    """The same of windows that do not overlap; its gradient is a comparison too."""
    images, _, _, channels = padded.shape
    (height, width, _), (tall, wide) = operator.shape, operator.kernel
    even = padded[:, : height * tall, : width * wide]
    return even.reshape(images, height, tall, width, wide, channels).max((2, 4))


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def largest(value: Any, kernel: tuple[int, int], stride: tuple[int, int]) -> Any:
    """The largest pixel of each window, whose gradient is computed from input and output by comparison, as accelerators
    do. The CPU compiler would make scatters with 4-byte indices of it, several times the images' own size."""
    return jax.lax.reduce_window(value, -jnp.inf, jax.lax.max, (1, *kernel, 1), (1, *stride, 1), "VALID")


def largest_forward(value: Any, kernel: tuple[int, int], stride: tuple[int, int]) -> tuple[Any, tuple[Any, Any]]:
    out = largest(value, kernel, stride)
    return out, (value, out)


def largest_backward(
    kernel: tuple[int, int], stride: tuple[int, int], kept: tuple[Any, Any], gradient: Any
) -> tuple[Any]:
    value, out = kept
    total = jnp.zeros_like(value)
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            rows = slice(row, row + stride[0] * (out.shape[1] - 1) + 1, stride[0])
            columns = slice(column, column + stride[1] * (out.shape[2] - 1) + 1, stride[1])
            share = jnp.where(value[:, rows, columns] == out, gradient, 0)
            borders = [
                (begin.start, side - begin.stop, begin.step - 1)
                for begin, side in ((rows, value.shape[1]), (columns, value.shape[2]))
            ]
            total += jax.lax.pad(share, jnp.zeros((), share.dtype), ((0, 0, 0), *borders, (0, 0, 0)))
    return (total,)


largest.defvjp(largest_forward, largest_backward)


def dropped(operator: Operator, value: Any, key: Any) -> Any:
    shape = (value.shape[0], 1, 1, 1) if operator.function == "image" else value.shape
    mask = jax.random.bernoulli(key, 1 - operator.rate, shape)
    return jnp.where(mask, value / (1 - operator.rate), 0)


if __name__ == "__main__":
    raise SystemExit(main())
