"""What software can train on which hardware: the known combinations of architecture, host, driver and framework."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from trainplan.workloads.terms import Framework

if TYPE_CHECKING:
    from trainplan.workloads.job import TrainingJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """One combination that trains: GPU generations by name, host processors, framework, NVIDIA driver branches.

    `framework_version` bounds the framework's own wheel. `driver` is the newest NVIDIA branch that still has the
    generation (None: any current one), `least_driver` the oldest that the wheel's CUDA runs on (None: no GPU).
    `least_capability`: below it the wheel has no code. `software` names what is installed on a rented machine (a row
    of providers/cloud/data/machines.toml). `keras_3` says whether its Keras is 3
    or newer, which a batch in parts and the recipes need. What is
    not `proven` was never seen to train, and counts only for a job that asks for it: that names its framework, and with
    `wants_devices` its devices too. `as_of`: when `source` was read.
    """

    architectures: frozenset[str]
    hosts: frozenset[str]
    framework: str
    framework_version: str
    driver: str | None = None
    least_driver: str | None = None
    least_capability: str = "0"
    software: str
    source: str
    as_of: str = "2026-11-21"
    keras_3: bool = True
    proven: bool = True
    wants_devices: bool = False


class Refusal(NamedTuple):
    """Hardware that nothing here trains on, or not with one framework, and why. No hosts: any. "": every framework."""

    architectures: frozenset[str]
    hosts: frozenset[str]
    reason: str
    source: str
    as_of: str = "2026-11-21"
    framework: str = ""


_X86 = frozenset({"x86_64"})
_ARM = frozenset({"arm64"})
_GPUS = frozenset({"kepler", "maxwell", "pascal", "volta", "turing", "ampere", "ada", "hopper"})
_WHEELS = "build_info.py of the TensorFlow wheels, read 2026-11-21"
_LAST_DRIVER = "driver 580 is the last branch for Maxwell, Pascal and Volta"
_CODE = "device code of the pinned wheels, read 2026-11-26"
_LAST_CUDNN = "cuDNN 9.10 is the last that has code below compute capability 7.5 in every library"
_NEW_GPUS = frozenset({"turing", "ampere", "ada", "hopper"})

RUNTIMES = (
    Runtime(
        architectures=frozenset({"kepler"}),
        hosts=_X86,
        framework="tensorflow",
        framework_version="<=2.14.1",
        driver="470",
        least_driver="450",
        least_capability="3.5",
        software="tensorflow-2.14-nvidia",
        source=f"{_WHEELS}: 2.14.1 is the last with sm_35 (CUDA 11.8)",
        keras_3=False,
    ),
    Runtime(
        architectures=frozenset({"maxwell"}),
        hosts=_X86,
        framework="tensorflow",
        framework_version="<=2.15.1",
        driver="580",
        least_driver="525",
        least_capability="5.0",
        software="tensorflow-2.15-nvidia",
        source=f"{_WHEELS}: 2.15.1 has sm_50, 2.18.1 and newer begin at sm_60; {_LAST_DRIVER}",
        keras_3=False,
    ),
    Runtime(
        architectures=frozenset({"pascal", "volta"}),
        hosts=_X86,
        framework="tensorflow",
        framework_version="<=2.21",
        driver="580",
        least_driver="525",
        least_capability="6.0",
        software="tensorflow-volta",
        source=f"{_WHEELS}: sm_60 and sm_70; {_LAST_CUDNN}, and TensorFlow 2.21.0 is built with 9.3.0; {_LAST_DRIVER}",
        as_of="2026-11-26",
    ),
    Runtime(
        architectures=frozenset({"turing", "ampere", "ada"}),
        hosts=_X86,
        framework="tensorflow",
        framework_version="<=2.21",
        least_driver="525",
        least_capability="7.5",
        software="tensorflow-nvidia",
        source=f"{_WHEELS}: 2.18.1 to 2.21.0 are CUDA 12.5.1 with sm_60, sm_70, sm_80, sm_89 and compute_90",
    ),
    Runtime(
        architectures=frozenset({"hopper"}),
        hosts=_X86,
        framework="tensorflow",
        framework_version="<=2.21",
        least_driver="555",
        least_capability="9.0",
        software="tensorflow-nvidia",
        source=f"{_WHEELS}: compute_90, compiled by the driver at the first run, which takes one that knows CUDA 12.5",
    ),
    Runtime(
        architectures=frozenset({"pascal", "volta"}),
        hosts=_X86,
        framework="jax",
        framework_version="0.10.2",
        driver="580",
        least_driver="525",
        least_capability="6.0",
        software="jax-volta",
        source=f"unproven: not tried. {_CODE}: {_LAST_CUDNN}, and JAX 0.10.2 is built with 9.8.0; {_LAST_DRIVER}",
        as_of="2026-11-26",
        proven=False,
    ),
    Runtime(
        architectures=_NEW_GPUS,
        hosts=_X86,
        framework="jax",
        framework_version="0.10.2",
        least_driver="525",
        least_capability="7.5",
        software="jax-nvidia",
        source=f"unproven: not tried in a cloud. {_CODE}: cuDNN from 7.5 on, all else from 6.0 on",
        as_of="2026-11-26",
        proven=False,
    ),
    Runtime(
        architectures=frozenset({"turing"}),
        hosts=_ARM,
        framework="jax",
        framework_version="0.10.2",
        least_driver="525",
        least_capability="7.5",
        software="jax-nvidia",
        source="unproven: not tried. The wheels for arm64 that the list pins have code for 7.5: JAX and NCCL from "
        "5.0 and 6.0 on, cuDNN for 7.5 itself (read out of them; those of the CUDA libraries were not)",
        as_of="2026-11-28",
        proven=False,
        wants_devices=True,
    ),
    Runtime(
        architectures=_NEW_GPUS,
        hosts=_X86,
        framework="torch",
        framework_version="2.15.0",
        least_driver="580",
        least_capability="7.5",
        software="torch-nvidia",
        source=f"unproven: not tried in a cloud. {_CODE}: all from 7.5 on, with CUDA 13.2",
        as_of="2026-11-26",
        proven=False,
    ),
    Runtime(
        architectures=frozenset({"tpu"}),
        hosts=_X86,
        framework="jax",
        framework_version="current",
        software="jax-tpu",
        source="Google's runtime table lists JAX first; tensorflow-tpu's last release is behind",
    ),
    Runtime(
        architectures=frozenset({"tpu"}),
        hosts=_X86,
        framework="tensorflow",
        framework_version="2.20.0",
        software="tensorflow-tpu",
        source="unproven: tensorflow-tpu 2.20.0 is the last, and Keras 3 is reported failing under TPUStrategy",
        proven=False,
        wants_devices=True,
    ),
    Runtime(
        architectures=frozenset({"cpu"}),
        hosts=_X86,
        framework="tensorflow",
        framework_version="<=2.21",
        software="tensorflow-cpu",
        source="trained by the project's own tests",
    ),
    Runtime(
        architectures=frozenset({"cpu"}),
        hosts=_ARM,
        framework="tensorflow",
        framework_version="<=2.21",
        software="tensorflow-cpu",
        source="unproven: TensorFlow 2.21.0 has a wheel for Linux on arm64 (manylinux_2_27), never tried here",
        proven=False,
        wants_devices=True,
    ),
    *(
        Runtime(
            architectures=frozenset({"cpu"}),
            hosts=hosts,
            framework=framework,
            framework_version=version,
            software=f"{framework}-cpu",
            source="unproven: not tried in a cloud; the trainer trains with it on this computer",
            as_of="2026-11-26",
            proven=False,
            wants_devices=hosts is _ARM,
        )
        for framework, version in (("jax", "0.10.2"), ("torch", "2.15.0"))
        for hosts in (_X86, _ARM)
    ),
)

REFUSALS = (
    Refusal(
        frozenset({"blackwell"}),
        frozenset(),
        "no TensorFlow wheel has code for Blackwell, and compiling compute_90 for it is reported unreliable",
        _WHEELS,
    ),
    Refusal(_GPUS, _ARM, "TensorFlow has CUDA for x86_64 hosts alone", "the files of TensorFlow 2.21.0"),
    Refusal(
        frozenset({"kepler", "maxwell", "pascal", "volta"}),
        frozenset(),
        "PyTorch 2.15.0 and its libraries (CUDA 13.2) have no code below compute capability 7.5; TensorFlow has",
        _CODE,
        "2026-11-26",
        "torch",
    ),
    Refusal(
        frozenset({"kepler", "maxwell"}),
        frozenset(),
        "the NCCL that JAX 0.10.2 is installed with has no code below compute capability 6.0; TensorFlow has",
        _CODE,
        "2026-11-26",
        "jax",
    ),
    Refusal(frozenset({"tpu"}), _ARM, "Google's TPU hosts are x86_64", "Google's machine types"),
)


@cache
def runtimes_for(
    architecture: str, host: str, capability: str | None = None, *, unproven: bool = False
) -> tuple[Runtime, ...]:
    """Every known combination for an accelerator generation (`cpu` for none) on a host processor.

    `capability` is the device's compute capability, None where it has none. With `unproven` also what nobody tried.
    """
    rows = (row for row in RUNTIMES if architecture in row.architectures and host in row.hosts)
    rows = (row for row in rows if row.proven or unproven)
    return tuple(row for row in rows if capability is None or _version(capability) >= _version(row.least_capability))


def why_not(architecture: str, host: str, capability: str | None = None, framework: str = "") -> str | None:
    """Why nothing is known to train there; None where something is. With a framework: why it does not."""
    if _that_train(runtimes_for(architecture, host, capability, unproven=bool(framework)), framework):
        return None
    for row in REFUSALS:
        if (
            architecture in row.architectures
            and (not row.hosts or host in row.hosts)
            and row.framework in ("", framework)
        ):
            return row.reason
    if any(_that_train(runtimes_for(architecture, host), framework)):
        return f"no TensorFlow wheel has code for compute capability {capability}"
    runtimes = _that_train(runtimes_for(architecture, host, unproven=True), framework)
    return runtimes[0].source if runtimes else f"no software is known for {framework or architecture} on {host}"


def _that_train(rows: tuple[Runtime, ...], framework: str) -> tuple[Runtime, ...]:
    return tuple(row for row in rows if framework in ("", row.framework))


class ChosenSoftware(NamedTuple):
    """The framework that a job trains with somewhere; `runtime` is None where only the job's own image can have it."""

    framework: Framework
    runtime: Runtime | None


def runtime_of(job: TrainingJob, architecture: str, host: str, capability: str | None = None) -> ChosenSoftware | None:
    """What a job trains with on that hardware; None where nothing is known to.

    A framework that the person wrote is never changed for another. Left to choose, it is the job's default where that
    is known, else the first that is. What is unproven counts only for a job that asks for it (`Runtime`), and what has
    no Keras 3 not for a job with a recipe. What is in an image of the person's own, only they know: JAX and PyTorch
    may be tried there on whatever trains at all.
    """
    rows = (row for row in runtimes_for(architecture, host, capability, unproven=True) if _asked_for(row, job))
    rows = (row for row in rows if row.keras_3 or not job.needs_keras_3)
    runtimes = tuple(rows)
    own = next((row for row in runtimes if row.framework == job.framework), None)
    if own is not None:
        return ChosenSoftware(framework=job.framework, runtime=own)
    if not runtimes:
        return None
    if "framework" not in job.model_fields_set:
        return ChosenSoftware(framework=Framework(runtimes[0].framework), runtime=runtimes[0])
    if job.container is None or job.framework is Framework.TENSORFLOW:
        return None
    return ChosenSoftware(framework=job.framework, runtime=None)


def _asked_for(row: Runtime, job: TrainingJob) -> bool:
    """Whether a job gets this row: what is unproven only by name."""
    if row.proven:
        return True
    is_named = "framework" in job.model_fields_set
    if row.wants_devices:
        return is_named and bool(job.constraints.devices)
    return is_named and row.framework == job.framework


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))
