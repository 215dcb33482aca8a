"""The accelerator must be visible: to the machine, to the framework in the container, and again every minute."""

from __future__ import annotations

import pkgutil
from typing import TYPE_CHECKING

from trainplan.providers.agent.gate_program import ENGINES, PASSED, TRYING

if TYPE_CHECKING:
    from trainplan.providers.agent.processes import ProcessResult
    from trainplan.providers.agent.spec import Device

LOOK_SECONDS = 60.0
CONFIRM_SECONDS = 5.0
LIMIT_SECONDS = 60.0
"""A driver that has lost its device may not answer at all."""
_GPUS = ("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
# A machine has files of one of the two kinds, and ls fails for the other.
_CHIPS = ("sh", "-c", "ls -d /dev/accel[0-9]* /dev/vfio/[0-9]* 2>/dev/null || true")


def program(device: Device, framework: str, precision: str) -> tuple[str, ...]:
    """The command that proves, in the container, that the framework sees what was promised and can train on it:
    gate_program.py. Raises KeyError for a framework that nobody knows.
    """
    if framework not in ENGINES:
        raise KeyError(framework)
    return ("python", "-c", _source(), framework, device.kind, str(device.count), precision)


def _source() -> str:
    # Through the loader: on the machine, the agent lies in one archive.
    return (pkgutil.get_data(__package__, "gate_program.py") or b"").decode()


def refusal(device: Device, outside: ProcessResult, inside: ProcessResult) -> str:
    """Why nothing is trained, from what the machine and the container said; "" where all is well."""
    if not (outside.code or inside.code) and PASSED in inside.output:
        return ""
    what = f"the machine does not show the {device.count} x {device.name} that it was rented for"
    tried = [line[len(TRYING) :] for line in inside.output.splitlines() if line.startswith(TRYING)]
    if tried and not outside.code:
        what = f"the {device.name} that was rented failed at the {tried[-1]}, which training needs"
    return f"{what}; nothing was trained\nthe machine says:\n{outside.output}\nthe container says:\n{inside.output}"


def look(device: Device) -> tuple[str, ...]:
    """The command that shows one line for each device, on the machine and in the container alike."""
    return _GPUS if device.kind == "gpu" else _CHIPS


def judge_gate(process: ProcessResult, count: int) -> ProcessResult:
    """The same with a code that is not 0 where fewer than `count` are shown."""
    if process.code or count_devices(process) >= count:
        return process
    return type(process)(1, f"{process.output}\n{count_devices(process)} of {count}")


def least_on_host(device: Device) -> int:
    """Device files that must be there: a chip of the older TPUs has one for the two devices that a framework sees."""
    return device.count if device.kind == "gpu" else -(-device.count // 2)


def count_devices(process: ProcessResult) -> int:
    """Return one line for each device."""
    return sum(1 for line in process.output.splitlines() if line.strip())
