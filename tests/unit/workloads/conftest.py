"""TensorFlow as all tests of one process share it: what it computes on is said once, before anything is computed."""

from __future__ import annotations

import os
from typing import Any

import pytest


@pytest.fixture(scope="session")
def tensorflow() -> Any:
    """TensorFlow with the CPU split into two logical devices, so that sharing a batch can be tried."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return tf
