"""Trying one mutant: the tests that answer for its module, in a copy of the project, in limited time and memory."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from enum import StrEnum
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Self

import pytest

from scripts.mutant_list import ROOT, Mutant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

PACKAGES = ("workloads", "pricing", "providers", "planner")
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
MOST_SECONDS = 900.0
"""What the tests of one module may take without any change."""
_LOOK_SECONDS = 0.05
NOT_RUN = "not train and not container"
"""What loads TensorFlow or needs a container engine takes too long for each mutant."""
MOST_BYTES = 6 * 1024**3
"""Of address space: a mutant that fills a list without end must not fill the computer's memory."""
LIBRARIES = {
    "": ("pydantic", "typer", "yaml"),
    "providers/agent": ("boto3", "moto.server"),
    "providers/aws": ("boto3", "botocore.session"),
    "providers/azure": ("azure.identity", "azure.storage.blob"),
    "providers/gcp": ("google.auth.transport.requests", "google.cloud.compute_v1", "google.cloud.tpu_v2"),
}
"""What the tests of modules below a folder load. Nothing of pytest's: its extensions have to be loaded by itself."""
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
        self._results: dict[str, Result] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                result = Result(**{**row, "verdict": Verdict(row["verdict"])})
                self._results[result.key] = result

    def digest(self, tests: Sequence[str]) -> str:
        return digest(tests, self._root)

    def result(self, mutant: Mutant, tests: Sequence[str]) -> Result | None:
        """None where it is to be tried."""
        result = self._results.get(mutant.key)
        return result if result is not None and (result.killed or result.tests == self.digest(tests)) else None

    def add(self, result: Result) -> None:
        self._results[result.key] = result
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
    output: str
    seconds: float
    processor_seconds: float


class Copy:
    """A copy of a project, in which mutants are tried: the tree that somebody works in stays as it is.

    Python's compiled files are kept there between two trials, but for those of the module that is changed.
    """

    def __init__(
        self,
        root: Path = ROOT,
        say: Callable[[str], None] = lambda _: None,
        *,
        results_file: Path | None = None,
        spare_processor_seconds: float = SPARE_PROCESSOR_SECONDS,
    ) -> None:
        self._say = say
        self._spare_processor_seconds = spare_processor_seconds
        self._folder = Path(tempfile.mkdtemp(prefix="trainplan-mutants-"))
        self.tree = self._folder / "tree"
        for name in COPIED:
            if (root / name).is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "mutants*.json*")
                shutil.copytree(root / name, self.tree / name, ignore=ignored)
        for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile"):
            if (root / name).exists():
                shutil.copy(root / name, self.tree / name)
        self._results_file = results_file
        self._unchanged = self._passed_before()
        self._shared = (root / os.environ.get("TRAINPLAN_SHARED", "../shared")).resolve()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def trial(self, mutant: Mutant, tests: Sequence[str]) -> Result:
        """The tests run one module after another. Raises SystemExit where one of them fails without any change."""
        _load_libraries(mutant.module)
        before = (self.tree / mutant.module).read_text(encoding="utf-8")
        began, verdict, by = time.monotonic(), Verdict.SURVIVED, ""
        for words in tests:
            without = self._without_change(words)
            self._put(mutant.module, mutant.source)
            ran = self._run(
                words.split(),
                SPARE_SECONDS + SLOWER_BY_THE_CLOCK * without.seconds,
                self._spare_processor_seconds + SLOWER * without.processor_seconds,
            )
            self._put(mutant.module, before)
            if ran.status != 0:
                verdict = Verdict.TIMED_OUT if ran.status is None else Verdict.KILLED
                match = _FAILED.search(ran.output)
                by = match[1] if match and ran.status is not None else words
                break
        return Result(
            mutant.key, mutant.module, mutant.line, mutant.operator, mutant.was, mutant.becomes, verdict, by,
            round(time.monotonic() - began, 1), digest(tests, self.tree),
        )  # fmt: skip

    def _without_change(self, words: str) -> Ran:
        if words not in self._unchanged:
            ran = self._run(words.split(), MOST_SECONDS, MOST_SECONDS)
            if ran.status != 0:
                raise SystemExit(f"{words} fails without any change; make it pass first:\n{ran.output[-MOST_SAID:]}")
            self._keep(words, ran)
            self._say(f"    {words} takes {ran.processor_seconds:.1f} s of processor time without a change")
        return self._unchanged[words]

    def _keep(self, words: str, ran: Ran) -> None:
        self._unchanged[words] = ran
        if self._results_file is not None:
            self._results_file.parent.mkdir(exist_ok=True)
            rows = {words: [self._state(words), ran.seconds, ran.processor_seconds]}
            stored_rows = (
                json.loads(self._results_file.read_text(encoding="utf-8")) if self._results_file.exists() else {}
            )
            self._results_file.write_text(json.dumps({**stored_rows, **rows}), encoding="utf-8")

    def _passed_before(self) -> dict[str, Ran]:
        """What earlier runs have found of the same code and the same tests."""
        if self._results_file is None or not self._results_file.exists():
            return {}
        rows = json.loads(self._results_file.read_text(encoding="utf-8")).items()
        return {
            words: Ran(0, "", seconds, processor_seconds)
            for words, (state, seconds, processor_seconds) in rows
            if state == self._state(words)
        }

    def _state(self, words: str) -> str:
        """Of all the code that is no test, and of this test module."""
        paths = [path for package in PACKAGES for path in sorted((self.tree / package).rglob("*.py"))]
        code = [path.read_text(encoding="utf-8") for path in paths]
        return sha256("\n".join([*code, digest([words], self.tree)]).encode()).hexdigest()[:16]

    def _put(self, module: str, source: str) -> None:
        path = self.tree / module
        path.write_text(source, encoding="utf-8")
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()

    def _run(self, words: Sequence[str], seconds: float, processor_seconds: float) -> Ran:
        """A copy of this process, which has loaded large libraries already, becomes pytest: loading them is most of
        what a small test takes. What it says goes to a file, and all that it has started ends with it."""
        output, began = self._folder / "said", time.monotonic()
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            self._be_pytest(words, output, int(processor_seconds) + 1)
        never = threading.Event()
        try:
            while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                if never.wait(_LOOK_SECONDS) or time.monotonic() - began > seconds:
                    break
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            _, exit_status, used = os.wait4(child, 0)
        status = os.waitstatus_to_exitcode(exit_status)
        text = output.read_text(encoding="utf-8", errors="replace")
        late = status in (-signal.SIGXCPU, -signal.SIGKILL)
        return Ran(None if late else status, text, time.monotonic() - began, used.ru_utime + used.ru_stime)

    def _be_pytest(self, words: Sequence[str], output: Path, processor_seconds: int) -> NoReturn:
        status = 1
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
            resource.setrlimit(resource.RLIMIT_CPU, (processor_seconds, processor_seconds + 5))
            output_file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for descriptor, place in ((os.open(os.devnull, os.O_RDONLY), 0), (output_file, 1), (output_file, 2)):
                os.dup2(descriptor, place)
            sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
            os.chdir(self.tree)
            ours = (*PACKAGES, "benchmarks", "scripts", "tests")  # the copy's are to be loaded
            for name in [name for name in sys.modules if name.partition(".")[0] in ours]:
                del sys.modules[name]
            sys.path.insert(0, str(self.tree))
            os.environ |= {
                "TRAINPLAN_SHARED": str(self._shared),
                "PYTHONPATH": os.pathsep.join([str(self.tree), os.environ.get("PYTHONPATH", "")]),
            }
            options = ["-q", "-x", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", NOT_RUN]
            status = int(pytest.main([*options, f"--basetemp={self._folder / 'temporary'}", *words]))
            sys.stdout.flush()
        finally:
            os._exit(status)


def _load_libraries(module: str) -> None:
    for folder, libraries in LIBRARIES.items():
        if module.startswith(folder):
            for library in libraries:
                with contextlib.suppress(ImportError):
                    import_module(library)
