"""Run in the container of a rented machine before it trains: does the accelerator compute what a network needs?

    python gate_program.py FRAMEWORK KIND COUNT PRECISION      # such as: jax gpu 1 amp_bf16

Lists the devices, and runs a matrix multiplication, a convolution, a pooling and a batch norm on the first, forward and
backward, in the precision of the job: a library can lack the code of a GPU for one of them alone. Inputs are chosen so
that the results are known. Ends with PASSED, or with a code that is not 0 and what failed. A library that ends the
process leaves the name of the step as the last line.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, Callable, Sequence

PASSED = "ACCELERATOR VISIBLE"
TRYING = "trying the "
_DTYPES = {"amp_fp16": "float16", "amp_bf16": "bfloat16"}
_IMAGES, _SIDE, _CHANNELS, _FILTERS = 2, 8, 16, 32
_EPSILON = 1e-3
_SCALE = (1 + _EPSILON) ** -0.5
_PIXELS = _IMAGES * _SIDE * _SIDE * _CHANNELS
_PRODUCTS = _IMAGES * (_SIDE - 2) ** 2 * _FILTERS * 9 * _CHANNELS
_TOLERANCE = 0.02
_MOST_LETTERS = 400

# By step: the method that runs it, and what the sums of its output and of its gradients are.
STEPS = {
    # Of ones, 64 x 64: every element of the product and of both gradients is 64.
    "matrix multiplication": ("multiplication", (64.0**3, 64.0**3, 64.0**3)),
    # Of ones: every product of an input with a weight is 1, and each sum counts all of them once.
    "convolution": ("convolution", (1.0 * _PRODUCTS, 1.0 * _PRODUCTS, 1.0 * _PRODUCTS)),
    # Each window of 2 x 2 holds 0, 1, 2, 3: its largest is 3, and its gradient goes to that one.
    "pooling": ("pooling", (3.0 * _PIXELS / 4, _PIXELS / 4)),
    # Inputs x of mean 0 and variance 1, and weights w = 1 + x + u with u of mean 0 and uncorrelated to x. The sum of
    # w * output and the gradient of the scale are the part of x in w, the gradient of x is the part of u (its product
    # with u is summed), that of the offset the part of 1.
    "batch norm": ("batch_norm", (_PIXELS * _SCALE, _PIXELS * _SCALE, _PIXELS * _SCALE, 1.0 * _PIXELS)),
}


def main(arguments: Sequence[str]) -> int:
    """Return 0; raises SystemExit with what is wrong."""
    framework, kind, count, precision = arguments
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    library = importlib.import_module(framework)
    engine = ENGINES[framework](library, kind, precision)
    _say(" ".join(map(str, (framework, library.__version__, "sees", len(engine.devices), kind + ":", *engine.devices))))
    if len(engine.devices) < int(count):
        raise SystemExit("promised: " + count)
    check(engine)
    _say(PASSED)
    return 0


def check(engine: Any) -> None:
    """Run every step. Raises SystemExit naming the one that fails or computes wrongly."""
    for name, (method, expected) in STEPS.items():
        _say(TRYING + name)
        try:
            sums = [float(value) for value in getattr(engine, method)()]
        except Exception as error:  # noqa: BLE001 whatever a library raises
            text = " ".join(str(error).split())[:_MOST_LETTERS]
            raise SystemExit("the " + name + " failed: " + type(error).__name__ + ": " + text) from None
        if len(sums) != len(expected) or not all(map(_is_near, sums, expected)):
            raise SystemExit("the " + name + " computes " + str(sums) + " in place of " + str(list(expected)))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _is_near(value: float, expected: float) -> bool:
    return abs(value - expected) <= _TOLERANCE * abs(expected)  # False for what is not a number


def _images(rows: Sequence[Sequence[float]]) -> Any:
    """Images as nested lists (batch, height, width, channels) that repeat a tile of 2 x 2 pixels."""
    tiled = [[[rows[row % 2][column % 2]] * _CHANNELS for column in range(_SIDE)] for row in range(_SIDE)]
    return [tiled] * _IMAGES


ONES = _images(((1.0, 1.0), (1.0, 1.0)))
WINDOWS = _images(((0.0, 1.0), (2.0, 3.0)))
INPUT = _images(((1.0, -1.0), (1.0, -1.0)))
BACK = _images(((1.0, 1.0), (-1.0, -1.0)))
WEIGHTS = _images(((3.0, 1.0), (1.0, -1.0)))


class TensorFlow:
    """The steps as TensorFlow runs them, one operation after another; channels last, as Keras has them."""

    def __init__(self, tf: Any, kind: str, precision: str) -> None:
        self.tf, self.dtype = tf, _DTYPES.get(precision, "float32")
        self.kind = kind.upper()
        tf.config.experimental.enable_tensor_float_32_execution(precision != "fp32")
        if self.kind == "TPU":
            resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=os.environ.get("TPU_NAME", "local"))
            tf.config.experimental_connect_to_cluster(resolver)
            tf.tpu.experimental.initialize_tpu_system(resolver)
            self.devices = tf.config.list_logical_devices("TPU")
        else:
            self.devices = tf.config.list_physical_devices(self.kind)

    def multiplication(self) -> list[Any]:
        ones = [[1.0] * 64] * 64
        return self._sums(self.tf.linalg.matmul, self._of(ones), self._of(ones))

    def convolution(self) -> list[Any]:
        images = self._of(ONES)
        kernel = self._of([[[[1.0] * _FILTERS] * _CHANNELS] * 3] * 3)
        return self._sums(lambda x, w: self.tf.nn.conv2d(x, w, 1, "VALID"), images, kernel)

    def pooling(self) -> list[Any]:
        return self._sums(lambda x: self.tf.nn.max_pool2d(x, 2, 2, "VALID"), self._of(WINDOWS))

    def batch_norm(self) -> list[Any]:
        tf = self.tf
        weights, back = self._of(WEIGHTS), self._of(BACK)

        def weighted(x: Any, scale: Any, offset: Any) -> Any:
            return weights * tf.compat.v1.nn.fused_batch_norm(x, scale, offset, epsilon=_EPSILON)[0]

        scale, offset = self._of([1.0] * _CHANNELS, "float32"), self._of([0.0] * _CHANNELS, "float32")
        return self._sums(weighted, self._of(INPUT), scale, offset, back=back)

    def _of(self, values: Any, dtype: Any = None) -> Any:
        with self.tf.device(self.kind + ":0"):
            return self.tf.constant(values, dtype or self.dtype)

    def _sums(self, function: Callable[..., Any], *inputs: Any, back: Any = None) -> list[Any]:
        tf = self.tf
        with tf.device(self.kind + ":0"), tf.GradientTape() as tape:
            for one in inputs:
                tape.watch(one)
            total = tf.reduce_sum(tf.cast(function(*inputs), "float32"))
        with tf.device(self.kind + ":0"):
            first, *others = tape.gradient(total, inputs)
            first = first if back is None else first * back
            return [total.numpy(), *(tf.reduce_sum(tf.cast(one, "float32")).numpy() for one in (first, *others))]


class Jax:
    """The steps as JAX compiles them."""

    def __init__(self, jax: Any, kind: str, precision: str) -> None:
        self.jax, self.numpy = jax, importlib.import_module("jax.numpy")
        self.dtype = _DTYPES.get(precision, "float32")
        jax.config.update("jax_default_matmul_precision", "float32" if precision == "fp32" else "tensorfloat32")
        kinds = {"cuda": "gpu", "rocm": "gpu"}
        self.devices = [one for one in jax.local_devices() if kinds.get(one.platform, one.platform) == kind]

    def multiplication(self) -> list[Any]:
        ones = self._of([[1.0] * 64] * 64)
        return self._sums(lambda a, b: a @ b, ones, ones)

    def convolution(self) -> list[Any]:
        images = self._of(ONES)
        kernel = self._of([[[[1.0] * _FILTERS] * _CHANNELS] * 3] * 3)
        layout = ("NHWC", "HWIO", "NHWC")
        convolve = self.jax.lax.conv_general_dilated
        return self._sums(lambda x, w: convolve(x, w, (1, 1), "VALID", dimension_numbers=layout), images, kernel)

    def pooling(self) -> list[Any]:
        lax, size = self.jax.lax, (1, 2, 2, 1)
        pool = lax.reduce_window
        return self._sums(lambda x: pool(x, -float("inf"), lax.max, size, size, "VALID"), self._of(WINDOWS))

    def batch_norm(self) -> list[Any]:
        numpy, weights = self.numpy, self._of(WEIGHTS)

        def weighted(x: Any, scale: Any, offset: Any) -> Any:
            wide = x.astype("float32")
            mean, variance = wide.mean((0, 1, 2)), wide.var((0, 1, 2))
            normal = (wide - mean) / numpy.sqrt(variance + _EPSILON)
            return weights * (scale * normal + offset).astype(x.dtype)

        scale, offset = self._of([1.0] * _CHANNELS, "float32"), self._of([0.0] * _CHANNELS, "float32")
        return self._sums(weighted, self._of(INPUT), scale, offset, back=self._of(BACK))

    def _of(self, values: Any, dtype: Any = None) -> Any:
        return self.jax.device_put(self.numpy.asarray(values, dtype or self.dtype), self.devices[0])

    def _sums(self, function: Callable[..., Any], *inputs: Any, back: Any = None) -> list[Any]:
        def total(*values: Any) -> Any:
            return function(*values).astype("float32").sum()

        both = self.jax.value_and_grad(total, argnums=tuple(range(len(inputs))))
        value, (first, *others) = self.jax.jit(both)(*inputs)
        first = first if back is None else first * back
        return [value, *(one.astype("float32").sum() for one in (first, *others))]


class Torch:
    """The steps as PyTorch runs them, with cuDNN where it takes that; channels first."""

    def __init__(self, torch: Any, kind: str, precision: str) -> None:
        self.torch, self.functions = torch, importlib.import_module("torch.nn.functional")
        self.dtype = getattr(torch, _DTYPES.get(precision, "float32"))
        torch.set_float32_matmul_precision("highest" if precision == "fp32" else "high")
        torch.backends.cudnn.allow_tf32 = precision != "fp32"
        self.device_name = {"gpu": "cuda"}.get(kind, kind)
        # A processor is one device; PyTorch has nothing for TPUs here.
        self.devices = list(range({"gpu": torch.cuda.device_count(), "cpu": 1}.get(kind, 0)))

    def multiplication(self) -> list[Any]:
        ones = [[1.0] * 64] * 64
        return self._sums(self.torch.matmul, self._of(ones), self._of(ones))

    def convolution(self) -> list[Any]:
        images = self._of(ONES, images=True)
        kernel = self._of([[[[1.0] * 3] * 3] * _CHANNELS] * _FILTERS)
        return self._sums(self.functions.conv2d, images, kernel)

    def pooling(self) -> list[Any]:
        return self._sums(lambda x: self.functions.max_pool2d(x, 2), self._of(WINDOWS, images=True))

    def batch_norm(self) -> list[Any]:
        weights, back = self._of(WEIGHTS, images=True).detach(), self._of(BACK, images=True).detach()
        normal = self.functions.batch_norm

        def weighted(x: Any, scale: Any, offset: Any) -> Any:
            return weights * normal(x, None, None, scale, offset, training=True, eps=_EPSILON)

        scale = self._of([1.0] * _CHANNELS, self.torch.float32)
        offset = self._of([0.0] * _CHANNELS, self.torch.float32)
        return self._sums(weighted, self._of(INPUT, images=True), scale, offset, back=back)

    def _of(self, values: Any, dtype: Any = None, *, images: bool = False) -> Any:
        made = self.torch.tensor(values, dtype=dtype or self.dtype, device=self.device_name)
        made = made.permute(0, 3, 1, 2).contiguous() if images else made
        return made.requires_grad_()

    def _sums(self, function: Callable[..., Any], *inputs: Any, back: Any = None) -> list[Any]:
        total = function(*inputs).float().sum()
        total.backward()
        first, *others = (one.grad for one in inputs)
        first = first if back is None else first * back
        return [total.item(), *(one.float().sum().item() for one in (first, *others))]


ENGINES: dict[str, Any] = {"tensorflow": TensorFlow, "jax": Jax, "torch": Torch}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
