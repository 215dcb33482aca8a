"""How many placements a reader visits who follows one launch from `Executor.follow` to the call that creates a machine.

`python -m tests.visits` launches on the fake provider and watches every call of a function of `planner/`. There are
two counts: every return of such a function, and those returns that lead back into another module. Clock, provider and
store are doubles and do not count.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType

from tests.doubles.desk import Desk
from tests.doubles.fake_provider import FakeProvider
from trainplan import planner
from trainplan.planner.runs.execution.executor import Executor

PLANNER = f"{planner.__path__[0]}/"


@dataclass
class Visits:
    """Returns, in their order: the function that was left, and the module that it was called from."""

    returns: list[tuple[str, str]] = field(default_factory=list)
    _callers: list[CodeType] = field(default_factory=list)
    _is_over: bool = False

    @property
    def between_modules(self) -> int:
        return sum(name.partition(":")[0] != module for name, module in self.returns)

    def watch(self, frame: FrameType, event: str, _: object) -> None:
        """For sys.setprofile: from `Executor.follow` on, until the provider is asked for a machine."""
        code = frame.f_code
        self._is_over = self._is_over or code is FakeProvider.launch.__code__
        is_counted = code.co_filename.startswith(PLANNER) and not code.co_name.startswith("<")
        if self._is_over or not is_counted or not (self._callers or code is Executor.follow.__code__):
            return
        if event == "call":
            self._callers.append(code)
        elif event == "return" and len(self._callers) > 1:
            self._callers.pop()
            module = code.co_filename.removeprefix(PLANNER)
            self.returns.append((f"{module}:{code.co_name}", self._callers[-1].co_filename.removeprefix(PLANNER)))


def visits(folder: Path) -> Visits:
    """What one launch on the fake provider visits; its run directory and journal are put into `folder`."""
    desk, seen = Desk(folder), Visits()
    sys.setprofile(seen.watch)
    try:
        desk.launch()
    finally:
        sys.setprofile(None)
        desk.close()
    return seen


def main() -> int:
    """Print both counts, and each function that was visited."""
    with tempfile.TemporaryDirectory() as folder:
        seen = visits(Path(folder))
    for name, module in seen.returns:
        sys.stdout.write(f"{name} -> {module}\n")
    sys.stdout.write(f"returns: {len(seen.returns)}, into another module: {seen.between_modules}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
