"""Do the programs of docs/api.md pass a strict type checker, as a user's own would?"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

PROGRAMS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.DOTALL)
WRONG = """
import trainplan

plan = trainplan.estimate(trainplan.Job.read("job.yaml"))
cost: str = plan[0].usd
trainplan.launch(plan[0])
"""


def _checked(program: str, folder: Path) -> str:
    file = folder / "program.py"
    file.write_text(program, encoding="utf-8")
    # Outside the repository: its own settings are not a user's.
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary", str(file)]
    cache = ["--cache-dir", str(ROOT / ".mypy_cache" / "users")]
    return subprocess.run([*command, *cache], cwd=folder, capture_output=True, text=True, check=False).stdout


def test_the_programs_of_the_page_are_typed(tmp_path: Path) -> None:
    functions = [f"def program_{number}() -> None:\n{_indented(text)}" for number, text in enumerate(PROGRAMS)]
    assert len(functions) > 3
    assert _checked("\n\n".join(functions), tmp_path) == ""


def test_a_wrong_program_is_refused(tmp_path: Path) -> None:
    told = _checked(WRONG, tmp_path)
    assert 'expression has type "float", variable has type "str"' in told
    assert 'Missing named argument "max_cost_usd"' in told


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())
