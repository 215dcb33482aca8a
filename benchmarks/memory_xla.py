"""What XLA's memory analysis says of a training step, for the nets of the VGG family, as a CSV table.

Needs jax beside this project; compiles and runs nothing. For the CPU:
`PYTHONPATH=. python benchmarks/memory_xla.py > tests/data/xla_memory.csv`. For a TPU chip that is not there (with
libtpu installed; minutes a case), which computes in bf16 where a CPU does not:
`PYTHONPATH=. python benchmarks/memory_xla.py --tpu v5e:2x2 'vgg11 32 128 amp_bf16 sgd'`.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib
from jax.experimental.topologies import get_topology_desc
from jax.sharding import SingleDeviceSharding

from workloads.layers import Conv, Dense, Flatten, Layer, MaxPool, Net, figures
from workloads.vgg import VGG_DENSE, VGG_DROPOUT, VGG_FEATURES, Head, vgg

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
    "vgg11 224 128 amp_bf16 sgd", "vgg16 224 32 amp_bf16 sgd", "vgg16 128 64 amp_bf16 sgd",
    "vgg16 32 1024 amp_bf16 sgd", "vgg19_bn 224 64 amp_bf16 sgd",
)  # fmt: skip
COLUMNS = (
    "net", "image_size", "batch", "precision", "optimizer", "argument_bytes", "output_bytes", "alias_bytes",
    "temp_bytes", "jax", "jaxlib", "python", "backend", "xla_flags", "measured_on",
)  # fmt: skip

Parameters = list[dict[str, Any]]


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
        stats = analysis(a_vgg(name, int(size)), int(batch), precision, optimizer, chip)
        versions = (jax.__version__, jaxlib.__version__, sys.version.split()[0], target, "" if chip else options.flags)
        writer.writerow([*case.split(), *stats, *versions, time.strftime("%Y-%m-%d")])
        sys.stdout.flush()
    return 0


def a_vgg(name: str, size: int) -> Net:
    plain = name.removesuffix("_bn")
    head = Head(dense=VGG_DENSE, dropout=VGG_DROPOUT, classes=1000)
    return vgg(name, VGG_FEATURES[plain], head, (size, 3), batch_norm=name != plain)


def analysis(
    net: Net, batch: int, precision: str, optimizer: str, chip: SingleDeviceSharding | None = None
) -> tuple[int, int, int, int]:
    """Bytes of arguments, outputs, what the two share (the state is donated), and temporaries."""
    weights = weight_shapes(net)
    state = (weights, [weights] * (2 if optimizer == "adam" else 1))
    side, channels = net.image_size, net.channels
    shapes = (
        state,
        jax.ShapeDtypeStruct((batch, side, side, channels), jnp.uint8),
        jax.ShapeDtypeStruct((batch,), jnp.int32),
        jax.eval_shape(lambda: jax.random.key(0)),
    )
    if chip is not None:
        shapes = jax.tree.map(lambda one: jax.ShapeDtypeStruct(one.shape, one.dtype, sharding=chip), shapes)
    step = training_step(net, jnp.bfloat16 if precision == "amp_bf16" else jnp.float32)
    memory = jax.jit(step, donate_argnums=0).lower(*shapes).compile().memory_analysis()
    return (
        memory.argument_size_in_bytes,
        memory.output_size_in_bytes,
        memory.alias_size_in_bytes,
        memory.temp_size_in_bytes,
    )


def weight_shapes(net: Net) -> Parameters:
    shapes: list[dict[str, tuple[int, ...]]] = []
    before: tuple[int, ...] = (net.image_size, net.image_size, net.channels)
    for layer, row in zip(net.layers, figures(net), strict=True):
        match layer:
            case Conv():
                kernel = (layer.kernel, layer.kernel, before[2], layer.filters)
                shapes.append({"kernel": kernel, "bias": (layer.filters,)})
                if layer.batch_norm:
                    shapes[-1]["scale"] = (layer.filters,)
            case Dense():
                shapes.append({"kernel": (before[0], layer.units), "bias": (layer.units,)})
            case _:
                shapes.append({})
        before = row.output_shape
    return [{name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in one.items()} for one in shapes]


def training_step(net: Net, kind: Any) -> Any:
    """Forward, backward and update: momentum with one slot, Adam with two; weights and slots stay in fp32."""

    def loss(weights: Parameters, images: Any, labels: Any, key: Any) -> Any:
        logits = forward(net, weights, images, key, kind)
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


def forward(net: Net, weights: Parameters, images: Any, key: Any, kind: Any) -> Any:
    value = (images.astype(jnp.float32) / 127.5 - 1).astype(kind)
    for number, (layer, own) in enumerate(zip(net.layers, weights, strict=True)):
        cast = {name: one.astype(kind) for name, one in own.items()}
        value = applied(layer, cast, value, jax.random.fold_in(key, number))
    return value.astype(jnp.float32)


def applied(layer: Layer, own: dict[str, Any], value: Any, key: Any) -> Any:
    match layer:
        case Conv():
            return convolved(layer, own, value)
        case MaxPool():
            # By a reshape, whose gradient is a comparison. The CPU compiler turns the gradient of a pooling window
            # into scatters with 4-byte indices, several times the images' own size; no accelerator does.
            images, height, width, channels = value.shape
            even = value[:, : height // 2 * 2, : width // 2 * 2]
            return even.reshape(images, height // 2, 2, width // 2, 2, channels).max((2, 4))
        case Flatten():
            return value.reshape(value.shape[0], -1)
        case Dense():
            return densely(layer, own, value, key)


def convolved(layer: Conv, own: dict[str, Any], value: Any) -> Any:
    strides = (layer.stride, layer.stride)
    numbers = ("NHWC", "HWIO", "NHWC")
    out = jax.lax.conv_general_dilated(value, own["kernel"], strides, "SAME", dimension_numbers=numbers)
    if layer.batch_norm:
        wide = out.astype(jnp.float32)
        normal = (wide - wide.mean((0, 1, 2))) * jax.lax.rsqrt(wide.var((0, 1, 2)) + 1e-3)
        out = normal.astype(value.dtype) * own["scale"]
    return jax.nn.relu(out + own["bias"])


def densely(layer: Dense, own: dict[str, Any], value: Any, key: Any) -> Any:
    out = value @ own["kernel"] + own["bias"]
    if layer.softmax:
        return out
    out = jax.nn.relu(out)
    if layer.dropout:
        mask = jax.random.bernoulli(key, 1 - layer.dropout, out.shape)
        out = jnp.where(mask, out / (1 - layer.dropout), 0)
    return out


if __name__ == "__main__":
    raise SystemExit(main())
