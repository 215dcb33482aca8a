"""Brings in Keras on the framework the job names, and sets precision and seed before anything is built."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import sys
from dataclasses import dataclass
from typing import Any, assert_never

from trainplan.workloads.job import Framework, Precision
from trainplan.workloads.trainer.errors import BadInputError

# Keras 3 came with TensorFlow 2.16; before, the Keras that fits a TensorFlow is the one inside it.
_FIRST_TENSORFLOW_WITH_KERAS_3 = (2, 16)
_POLICIES = {Precision.AMP_FP16: "mixed_float16", Precision.AMP_BF16: "mixed_bfloat16"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolkit:
    """The modules a run works with. `module` is tensorflow, jax or torch itself."""

    framework: Framework
    keras: Any
    module: Any
    framework_version: str
    keras_version: str


def load(framework: Framework) -> Toolkit:
    """Import the framework and its Keras. Raises BadInputError where it is not installed here."""
    loaded = sys.modules.get("keras")
    if loaded is not None and _backend_of(loaded) != framework:
        raise BadInputError(f"keras is already loaded on {_backend_of(loaded)}; one process trains on one framework")
    os.environ["KERAS_BACKEND"] = framework.value
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    # torch's threads spin while they wait, which eats up a container's share of its cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        module = importlib.import_module(framework.value)
        keras = _keras_for(framework, module)
    except ModuleNotFoundError as error:
        raise BadInputError(
            f"framework {framework} needs {error.name}, which is not installed where the trainer runs; "
            "install it there, or write another framework in the job"
        ) from error
    return Toolkit(
        framework=framework,
        keras=keras,
        module=module,
        framework_version=str(module.__version__),
        keras_version=str(getattr(keras, "__version__", "") or importlib.metadata.version("keras")),
    )


def configure(toolkit: Toolkit, precision: Precision, seed: int) -> None:
    """Seed every generator and set what `precision` asks for; call before building a model.

    fp32 turns TF32 off where a device would use it by itself.
    """
    toolkit.keras.utils.set_random_seed(seed)
    toolkit.keras.mixed_precision.set_global_policy(_POLICIES.get(precision, "float32"))
    allow_tf32 = precision is not Precision.FP32
    match toolkit.framework:
        case Framework.TENSORFLOW:
            # Not 0: beside a global seed of 0, tf.data refuses a shuffle whose seed is computed in the pipeline.
            toolkit.module.random.set_seed(seed + 1)
            toolkit.module.config.experimental.enable_tensor_float_32_execution(allow_tf32)
        case Framework.JAX:
            toolkit.module.config.update("jax_default_matmul_precision", "tensorfloat32" if allow_tf32 else "float32")
        case Framework.TORCH:
            toolkit.module.set_float32_matmul_precision("high" if allow_tf32 else "highest")
            toolkit.module.backends.cudnn.allow_tf32 = allow_tf32
        case _:
            assert_never(toolkit.framework)


def tensorflow_for_data(toolkit: Toolkit) -> Any | None:
    """TensorFlow as a reader of files, where it is installed; it leaves the accelerator to the job's framework."""
    if toolkit.framework is Framework.TENSORFLOW:
        return toolkit.module
    if importlib.util.find_spec("tensorflow") is None:
        return None
    tensorflow = importlib.import_module("tensorflow")
    for kind in ("GPU", "TPU"):
        tensorflow.config.set_visible_devices([], kind)
    return tensorflow


def _keras_for(framework: Framework, module: Any) -> Any:
    if framework is Framework.TENSORFLOW:
        version = tuple(int(part) for part in module.__version__.split(".")[:2])
        if version < _FIRST_TENSORFLOW_WITH_KERAS_3:
            return importlib.import_module("tensorflow.keras")
    return importlib.import_module("keras")


def _backend_of(keras: Any) -> str:
    return str(keras.backend.backend())
