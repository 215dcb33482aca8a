"""`make mutants`: small changes to the code that launches and ends machines, one at a time, and whether a test notices.

The changes are Cosmic Ray's (https://pypi.org/project/cosmic-ray/). Of the places that can be changed a seeded sample
is drawn, and of the changes of each place one. A mutant is killed when the tests near its module fail, or do not end.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parent.parent
COPIED = ("workloads", "pricing", "providers", "planner", "tests", "docs", "examples", "scripts", "benchmarks")
PLANNER, PROVIDERS = "tests/unit/planner", "tests/unit/providers"
ENGINE = tuple(
    f"{PLANNER}/test_{name}.py"
    for name in (
        "carrying", "creating", "ending", "forgotten_tokens", "interruptions", "journal", "journal_whole", "launch",
        "market", "moving", "next_action", "sweep", "teardown", "teardown_unsure", "two_homes",
    )
)  # fmt: skip
NEAR: dict[str, tuple[str, ...]] = {
    "planner/launch.py": ENGINE,
    "planner/next_action.py": ENGINE,
    "planner/ending.py": ENGINE,
    "planner/creating.py": ENGINE,
    "planner/adopting.py": ENGINE,
    "planner/teardown.py": ENGINE,
    "planner/sweep.py": ENGINE,
    "planner/journal.py": ENGINE,
    "providers/aws/*.py": (f"{PROVIDERS}/aws", "tests/contract/test_provider.py -k aws"),
    "providers/azure/*.py": (f"{PROVIDERS}/azure", "tests/contract/test_provider.py -k azure"),
    "providers/gcp/*.py": (f"{PROVIDERS}/gcp", "tests/contract/test_provider.py -k gcp"),
    "providers/gcp/tpu/*.py": (f"{PROVIDERS}/gcp", "tests/contract/test_provider.py -k tpu"),
    "providers/agent/*.py": (f"{PROVIDERS}/agent",),
}
"""The modules that are changed, and the tests near each; of those that start with the same words the last counts."""
STEMS = frozenset({"translate", "provider", "errors", "machines", "insert", "launching", "bodies", "create", "finding"})
"""Of a cloud's modules those that translate, and those that call; the planner's and the agent's are all taken."""
UNUSED = frozenset({"core/ExceptionReplacer"})
"""It fails on a dotted name, and what it puts in the place of others is a name that nobody defines."""
SAMPLE, SEED = 300, 20261122
MOST_SAID = 2000
"""Characters of what a failing run says that are shown."""
SLOWER = 4.0
"""A mutant whose tests take so many times as long as without it does not end."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a module that can be changed, and the changes: each the name of an operator and its occurrence."""

    module: str
    line: int
    column: int
    changes: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Mutant:
    module: str
    line: int
    operator: str
    source: str


def modules() -> dict[str, tuple[str, ...]]:
    """Every module that is changed, with the tests near it."""
    found: dict[str, tuple[str, ...]] = {}
    for pattern, tests in NEAR.items():
        for path in sorted(ROOT.glob(pattern)):
            if path.stem in STEMS or not pattern.endswith("*.py") or "agent" in path.parts:
                found[str(path.relative_to(ROOT))] = tests
    return found


def places(module: str) -> Iterator[Place]:
    """The places of a module, in its order."""
    changes: dict[tuple[int, int], list[tuple[str, int]]] = defaultdict(list)
    nodes = list(ast_nodes(get_ast((ROOT / module).read_text(encoding="utf-8"))))
    for name in sorted(plugins.operator_names()):
        kind = plugins.get_operator(name)
        if kind.arguments() or name in UNUSED:
            continue
        operator, occurrence = kind(), 0
        for node in nodes:
            for start, _ in operator.mutation_positions(node):
                changes[start].append((name, occurrence))
                occurrence += 1
    for (line, column), found in sorted(changes.items()):
        yield Place(module, line, column, tuple(found))


def drawn(count: int, seed: int) -> list[Mutant]:
    """A sample of mutants that differ from the code in more than annotations, which nothing reads when it runs."""
    chance = Random(seed)
    every = [place for module in modules() for place in places(module)]
    chance.shuffle(every)
    made: list[Mutant] = []
    for place in every:
        if len(made) == count:
            break
        name, occurrence = chance.choice(place.changes)
        source = (ROOT / place.module).read_text(encoding="utf-8")
        changed = mutate_code(source, plugins.get_operator(name)(), occurrence)
        if changed is not None and _does_differ(source, changed):
            made.append(Mutant(place.module, place.line, name.removeprefix("core/"), changed))
    return made


def _does_differ(source: str, changed: str) -> bool:
    try:
        return _without_annotations(source) != _without_annotations(changed)
    except SyntaxError:
        return False


def _without_annotations(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
    return ast.dump(tree)


class Copy:
    """A copy of the project, in which mutants are tried: the tree that somebody works in stays as it is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in COPIED:
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "Makefile"):
            shutil.copy(ROOT / name, folder / name)

    def fails(self, tests: Sequence[str], seconds: float) -> bool:
        """Whether any of these tests fails, or they do not end in time."""
        return any(self._failure(words.split(), seconds) for words in tests_of(tests))

    def failure(self, tests: Sequence[str]) -> str:
        """The last that the first run says that fails; "" where all pass, however long they take."""
        return next((said for words in tests_of(tests) if (said := self._failure(words.split(), None))), "")

    def _failure(self, words: list[str], seconds: float | None) -> str:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *words]
        environment: dict[str, Any] = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        environment["PYTHONPATH"] = os.pathsep.join([str(self.folder), environment.get("PYTHONPATH", "")])
        try:
            done = subprocess.run(
                command, cwd=self.folder, env=environment, timeout=seconds, check=False, capture_output=True, text=True
            )
        except subprocess.TimeoutExpired:
            return "no end"
        return (done.stdout + done.stderr)[-MOST_SAID:] if done.returncode else ""

    def put(self, module: str, source: str) -> None:
        (self.folder / module).write_text(source, encoding="utf-8")


def tests_of(tests: Sequence[str]) -> list[str]:
    """One run for all plain paths, and one for each that chooses among its tests; the plain ones come first."""
    plain = [words for words in tests if " " not in words]
    return [" ".join(plain), *(words for words in tests if " " in words)]


def tried(mutants: Sequence[Mutant]) -> list[Mutant]:
    """Those that no test noticed. Raises SystemExit where tests fail without any change."""
    near, survivors, lasted = modules(), [], {}
    with tempfile.TemporaryDirectory(prefix="trainplan-mutants-") as folder:
        copy = Copy(Path(folder))
        for number, mutant in enumerate(mutants, start=1):
            tests = near[mutant.module]
            if tests not in lasted:
                began = time.monotonic()
                if failure := copy.failure(tests):
                    raise SystemExit(f"tests fail without any change; make them pass first:\n{failure}")
                lasted[tests] = time.monotonic() - began
            before = (ROOT / mutant.module).read_text(encoding="utf-8")
            copy.put(mutant.module, mutant.source)
            killed = copy.fails(tests, 30.0 + SLOWER * lasted[tests])
            copy.put(mutant.module, before)
            word = "killed" if killed else "SURVIVED"
            tell(f"{number} of {len(mutants)}: {word} {mutant.module}:{mutant.line} {mutant.operator}")
            if not killed:
                survivors.append(mutant)
                tell(_difference(before, mutant.source))
    return survivors


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _difference(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return "\n".join(f"    {line}" for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.mutants", description=__doc__)
    parser.add_argument("--mutants", type=int, default=SAMPLE, help="how many are drawn")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--under", default="", help="of these only those in modules whose paths begin so")
    asked = parser.parse_args()
    mutants = [mutant for mutant in drawn(asked.mutants, asked.seed) if mutant.module.startswith(asked.under)]
    survivors = tried(mutants)
    killed = len(mutants) - len(survivors)
    share = 100 * killed / len(mutants) if mutants else 0.0
    tell(f"mutants {len(mutants)} (seed {asked.seed}), killed {killed} ({share:.1f} %), survived {len(survivors)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
