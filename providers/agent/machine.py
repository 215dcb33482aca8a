"""What the agent finds on its machine."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from trainplan.providers.agent.clock import Clock
from trainplan.providers.agent.processes import Processes
from trainplan.providers.agent.requests import Access
from trainplan.providers.agent.spec import Paths, Spec
from trainplan.providers.agent.store import Store


@dataclass(frozen=True)
class AgentMachine:
    """What the agent works with; every part can be another in a test."""

    spec: Spec
    paths: Paths
    clock: Clock
    processes: Processes
    access: Access
    store: Store
    free_bytes: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free


def memory_bytes() -> int:
    """The memory of this machine, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
