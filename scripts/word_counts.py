"""How often the names that the glossary avoids stood in the code at some commits, and stand now.

`python -m scripts.word_counts [COMMIT]...` prints one row for each word and one column for each commit, and one for
the working tree. Counted are places that bind a name (an assignment, a parameter, a function, an attribute) in the
modules of the packages, scripts and benchmarks. Tests are left out. A word counts if it is the whole name
(`found`, `_found`), not if it is a part of one (`found_offers`).
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parent.parent
FOLDERS = ("workloads", "pricing", "providers", "planner", "scripts", "benchmarks")
PARTICIPLES = (
    "asked", "begun", "brought", "caught", "chosen", "done", "ended", "found", "given", "gone", "heard", "held",
    "kept", "known", "left", "listed", "looked", "made", "meant", "missing", "named", "needed", "said", "seen",
    "shown", "taken", "told", "tried", "wanted",
)  # fmt: skip
"""Words that tests/unit/test_words.py refuses as public names."""
OLD_MODULES = (
    "adopting", "answer", "book", "bringing", "given", "keeper", "looking", "meter", "parts", "plain", "standing",
)  # fmt: skip
"""Names of modules that did not say what is in them at commit b318286."""
WORKING_TREE = "now"


def bound_names(tree: ast.AST) -> Iterator[str]:
    """Each name that the module binds, once for each place, without leading underscores."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name.lstrip("_")
        elif isinstance(node, ast.arg):
            yield node.arg.lstrip("_")
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id.lstrip("_")
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr.lstrip("_")


def sources(commit: str) -> dict[str, str]:
    """The text of each module by its path, of a commit or of the working tree.

    Raises subprocess.CalledProcessError for a commit that the repository does not have.
    """
    if commit == WORKING_TREE:
        paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
        return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    tree = _git("ls-tree", "-r", "--name-only", commit).splitlines()
    names = [name for name in tree if name.endswith(".py") and name.partition("/")[0] in FOLDERS]
    return {name: _git("show", f"{commit}:{name}") for name in names}


def counts(modules: dict[str, str]) -> Counter[str]:
    """How often each participle is bound, and how many modules have one of the old names (`book.py`)."""
    result: Counter[str] = Counter()
    for path, text in modules.items():
        result.update(name for name in bound_names(ast.parse(text)) if name in PARTICIPLES)
        name = path.rpartition("/")[2]
        result[name] += name.removesuffix(".py").lstrip("_") in OLD_MODULES
    return result


def lines_of(columns: dict[str, Counter[str]]) -> list[str]:
    """The table as Markdown, the most frequent word of the first column first, with the sum of the participles."""
    words = sorted({word for column in columns.values() for word, count in column.items() if count})
    first = next(iter(columns.values()))
    words.sort(key=lambda word: (word.endswith(".py"), -first[word], word))
    lines = [f"| word | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    lines += [f"| {word} | {' | '.join(str(column[word]) for column in columns.values())} |" for word in words]
    sums = [str(sum(column[word] for word in PARTICIPLES)) for column in columns.values()]
    return [*lines, f"| all participles | {' | '.join(sums)} |"]


def main(arguments: Sequence[str]) -> int:
    """Print the table for these commits and the working tree; 1 for a commit that is not there."""
    columns = {}
    for commit in (*arguments, WORKING_TREE):
        try:
            columns[commit] = counts(sources(commit))
        except subprocess.CalledProcessError:
            sys.stderr.write(f"there is no commit {commit} in this repository\n")
            return 1
    sys.stdout.write("\n".join(lines_of(columns)) + "\n")
    return 0


def _git(*arguments: str) -> str:
    command = ("git", "-C", str(ROOT), *arguments)
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
