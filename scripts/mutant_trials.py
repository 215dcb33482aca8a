"""Trying one mutant: the tests that answer for its module, in a copy of the project, in limited time and memory."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Self

from scripts.mutant_list import ROOT, Mutant

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

COPIED = (
    "workloads",
    "pricing",
    "providers",
    "planner",
    "tests",
    "docs",
    "examples",
    "scripts",
    "benchmarks",
    ".build",
)
MOST_SAID = 2000
"""Characters of what a failing run says that are shown."""
SLOWER = 4.0
"""A mutant whose tests take so many times the processor time that they take without it does not end."""
SPARE_PROCESSOR_SECONDS = 10.0
SPARE_SECONDS = 60.0
"""By the clock more is spared, and more times over: other work on the computer must not decide over a mutant."""
SLOWER_BY_THE_CLOCK = 10.0
MOST_BYTES = 6 * 1024**3
"""Of address space: a mutant that fills a list without end must not fill the computer's memory."""
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


class Verdict(StrEnum):
    KILLED = "killed"
    TIMED_OUT = "timed out"
    SURVIVED = "survived"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a mutant. `by` is the test that failed, `tests` stands for the text of the tests that ran."""

    key: str
    module: str
    line: int
    operator: str
    was: str
    becomes: str
    verdict: Verdict
    by: str
    seconds: float
    tests: str

    @property
    def killed(self) -> bool:
        return self.verdict is not Verdict.SURVIVED


class Record:
    """The file of results, one JSON object a line; the last of a mutant counts.

    A mutant is what its whole module reads, so one whose module has changed since is tried again; a survivor is, too,
    when the tests that answer for it have changed.
    """

    def __init__(self, path: Path, root: Path = ROOT) -> None:
        self._path = path
        self._root = root
        self._known: dict[str, Result] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                result = Result(**{**row, "verdict": Verdict(row["verdict"])})
                self._known[result.key] = result

    def digest(self, tests: Sequence[str]) -> str:
        return digest(tests, self._root)

    def known(self, mutant: Mutant, tests: Sequence[str]) -> Result | None:
        """None where it is to be tried."""
        result = self._known.get(mutant.key)
        return result if result is not None and (result.killed or result.tests == self.digest(tests)) else None

    def add(self, result: Result) -> None:
        self._known[result.key] = result
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(result)) + "\n")


def digest(tests: Sequence[str], root: Path) -> str:
    """Of the names and texts of test modules."""
    texts = [f"{words}\n{(root / words.split()[0]).read_text(encoding='utf-8')}" for words in tests]
    return sha256("\n".join(texts).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Ran:
    """How a run of pytest ended: its exit status, None where it did not end in time, and how long it took."""

    status: int | None
    said: str
    seconds: float
    processor_seconds: float


class Copy:
    """A copy of a project, in which mutants are tried: the tree that somebody works in stays as it is.

    Python's compiled files are kept there between two trials, but for those of the module that is changed.
    """

    def __init__(self, root: Path = ROOT, *, spare_processor_seconds: float = SPARE_PROCESSOR_SECONDS) -> None:
        self._spare_processor_seconds = spare_processor_seconds
        self._folder = Path(tempfile.mkdtemp(prefix="trainplan-mutants-"))
        self.tree = self._folder / "tree"
        self._unchanged: dict[str, Ran] = {}
        for name in COPIED:
            if (root / name).is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "mutants*.jsonl")
                shutil.copytree(root / name, self.tree / name, ignore=ignored)
        for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile"):
            if (root / name).exists():
                shutil.copy(root / name, self.tree / name)
        self._shared = (root / os.environ.get("TRAINPLAN_SHARED", "../shared")).resolve()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def trial(self, mutant: Mutant, tests: Sequence[str]) -> Result:
        """Raises SystemExit where these tests fail without any change."""
        without = [self._without_change(words) for words in tests]
        seconds = SPARE_SECONDS + SLOWER_BY_THE_CLOCK * sum(ran.seconds for ran in without)
        processor_seconds = self._spare_processor_seconds + SLOWER * sum(ran.processor_seconds for ran in without)
        before = (self.tree / mutant.module).read_text(encoding="utf-8")
        self._put(mutant.module, mutant.source)
        began, verdict, by = time.monotonic(), Verdict.SURVIVED, ""
        for words in runs_of(tests):
            ran = self._run(words.split(), seconds, processor_seconds)
            if ran.status != 0:
                verdict = Verdict.TIMED_OUT if ran.status is None else Verdict.KILLED
                found = _FAILED.search(ran.said)
                by = found[1] if found and ran.status is not None else ""
                break
        took = time.monotonic() - began
        self._put(mutant.module, before)
        return Result(
            mutant.key, mutant.module, mutant.line, mutant.operator, mutant.was, mutant.becomes, verdict, by,
            round(took, 1), digest(tests, self.tree),
        )  # fmt: skip

    def _without_change(self, words: str) -> Ran:
        if words not in self._unchanged:
            ran = self._run(words.split(), None, None)
            if ran.status != 0:
                raise SystemExit(f"{words} fails without any change; make it pass first:\n{ran.said[-MOST_SAID:]}")
            self._unchanged[words] = ran
        return self._unchanged[words]

    def _put(self, module: str, source: str) -> None:
        path = self.tree / module
        path.write_text(source, encoding="utf-8")
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()

    def _run(self, words: Sequence[str], seconds: float | None, processor_seconds: float | None) -> Ran:
        """What it says goes to a file, and all that it has started ends with it: a pipe that a process which it left
        behind holds open would be waited for without end."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist"]
        command += [f"--basetemp={self._folder / 'temporary'}", *words]
        environment = {**os.environ, "TRAINPLAN_SHARED": str(self._shared)}
        environment["PYTHONPATH"] = os.pathsep.join([str(self.tree), environment.get("PYTHONPATH", "")])
        said, began, before = self._folder / "said", time.monotonic(), _processor_seconds()
        with said.open("wb") as file:
            process = subprocess.Popen(
                command, cwd=self.tree, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                start_new_session=True, preexec_fn=lambda: _limit(processor_seconds),
            )  # fmt: skip
            try:
                status: int | None = process.wait(seconds)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                _end_group(process)
        if status in (-signal.SIGXCPU, -signal.SIGKILL):
            status = None
        text = said.read_text(encoding="utf-8", errors="replace")
        return Ran(status, text, time.monotonic() - began, _processor_seconds() - before)


def runs_of(tests: Sequence[str]) -> list[str]:
    """One run for all plain paths, and one for each that chooses among its tests; the plain ones come first."""
    plain = " ".join(words for words in tests if " " not in words)
    return [*([plain] if plain else []), *(words for words in tests if " " in words)]


def _limit(processor_seconds: float | None) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    if processor_seconds is not None:
        limit = int(processor_seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """The process, and what it has started and left running."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
