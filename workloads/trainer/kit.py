"""What every layer of a net is made with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainplan.workloads.trainer.replicas import Replicas
from trainplan.workloads.trainer.torch_processes import TorchProcesses


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit:
    """`replicas` is for several devices of TensorFlow or several processes of PyTorch."""

    keras: Any
    seed: int
    replicas: Replicas | TorchProcesses | None
