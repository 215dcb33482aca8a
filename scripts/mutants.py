"""`make mutants`: small changes to the code that launches and ends machines, one at a time, and whether a test notices.

The changes are those of Cosmic Ray (cosmic-ray.readthedocs.io). Of the places that can be changed a seeded sample
is drawn, and of the changes of each place one. A mutant is killed when a test that answers for its module fails, or
does not end. `tests/mutants.toml` says which tests answer for which module, and names the mutants that somebody has
looked at and that need no test, each with its reason; those are not tried and count as survivors.

Every result is written at once, so that a run that was broken off goes on where it stopped. The order of the sample
is random: its first part is a fair sample too.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import signal
import sys
import time
from collections import defaultdict
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

from scripts.mutant_list import ROOT, Answers, Mutant, Place, read_answers
from scripts.mutant_trials import Copy, Record, Result, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

UNUSED = frozenset(
    {
        # It fails on a dotted name, and what it puts in the place of others is a name that nobody defines.
        "core/ExceptionReplacer",
        # What is compared by `is` is None or a member of an enumeration: equal to itself alone.
        "core/ReplaceComparisonOperator_Is_Eq",
        "core/ReplaceComparisonOperator_IsNot_NotEq",
    }
)
SAMPLE, SEED = 300, 20261122
RESULTS = ROOT / ".build" / "mutants.jsonl"
KEPT_TIMES = ROOT / ".build" / "mutants-unchanged.json"
KEPT_SAMPLE = ROOT / ".build" / "mutants-sample.json"


def places(module: str) -> Iterator[Place]:
    """The places of a module, in its order."""
    text = (ROOT / module).read_text(encoding="utf-8")
    lines = text.splitlines()
    changes: dict[tuple[int, int], list[tuple[str, int]]] = defaultdict(list)
    nodes = list(ast_nodes(get_ast(text)))
    for name in sorted(plugins.operator_names()):
        kind = plugins.get_operator(name)
        if kind.arguments() or name in UNUSED:
            continue
        starts = [start for node in nodes for start, _ in kind().mutation_positions(node)]
        for occurrence, start in enumerate(starts):
            changes[start].append((name, occurrence))
    for (line, column), change_list in sorted(changes.items()):
        statement = lines[line - 1].strip()
        indent = len(lines[line - 1]) - len(lines[line - 1].lstrip())
        earlier = sum(1 for other in lines[: line - 1] if other.strip() == statement)
        yield Place(module, line, f"{module}/{statement}/{earlier}/{column - indent}", tuple(change_list))


def drawn(modules: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """A sample of mutants, those left out that change only annotations or what is imported for them.

    The order is that of a hash of the seed and the place's own text: a change elsewhere leaves the others in theirs.
    """
    ranked = sorted(
        (sha256(f"{seed}/{place.name}".encode()).hexdigest(), place) for module in modules for place in places(module)
    )
    mutants: list[Mutant] = []
    for rank, place in ranked:
        if len(mutants) == count:
            break
        name, occurrence = Random(rank).choice(place.changes)
        source = (ROOT / place.module).read_text(encoding="utf-8")
        changed = mutate_code(source, plugins.get_operator(name)(), occurrence)
        if changed is not None and _does_differ(source, changed):
            was, becomes = _changed_lines(source, changed)
            mutants.append(Mutant(place.module, place.line, name.removeprefix("core/"), was, becomes, changed))
    return mutants


def sample_of(modules: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """As `drawn`; what was drawn from the same code before is kept, since drawing takes longer than many a trial."""
    texts = [(ROOT / module).read_text(encoding="utf-8") for module in modules]
    drawn_from = sha256(json.dumps([count, seed, *modules, *texts]).encode()).hexdigest()
    if KEPT_SAMPLE.exists():
        sample = json.loads(KEPT_SAMPLE.read_text(encoding="utf-8"))
        if sample["drawn_from"] == drawn_from:
            return [Mutant(**row) for row in sample["mutants"]]
    mutants = drawn(modules, count, seed)
    KEPT_SAMPLE.parent.mkdir(exist_ok=True)
    KEPT_SAMPLE.write_text(json.dumps({"drawn_from": drawn_from, "mutants": [asdict(mutant) for mutant in mutants]}))
    return mutants


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
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.test, node.body = ast.Constant(False), [ast.Pass()]
    return ast.dump(tree)


def _changed_lines(before: str, after: str) -> tuple[str, str]:
    """The lines that differ, as they were and as they become, without what is around them."""
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0))[2:]
    was, becomes = ("\n".join(line[1:].strip() for line in lines if line[:1] == sign).strip() for sign in "-+")
    return was, becomes


def try_mutants(mutants: Sequence[Mutant], answers: Answers, record: Record, minutes: float) -> None:
    """Try those that have no result yet, until the minutes are over. Raises SystemExit where tests fail unchanged."""
    until = time.monotonic() + 60 * minutes
    with Copy(ROOT, tell, kept=KEPT_TIMES) as copy:
        for number, mutant in enumerate(mutants, start=1):
            tests = answers.tests[mutant.module]
            if answers.reason(mutant) or record.result(mutant, tests) is not None:
                continue
            if time.monotonic() > until:
                tell(f"stopped after {minutes:g} minutes; the same command goes on from here")
                return
            result = copy.trial(mutant, tests)
            record.add(result)
            by = f" by {result.by}" if result.by else ""
            tell(
                f"{number} of {len(mutants)}: {result.verdict.upper()}{by} in {result.seconds:.0f} s: "
                f"{mutant.module}:{mutant.line} {mutant.operator}"
            )
            if result.verdict is Verdict.SURVIVED:
                tell(line_of(mutant))


def summary(mutants: Sequence[Mutant], answers: Answers, record: Record) -> str:
    """One line for each module, each survivor with its reason or without, and the sum."""
    rows: dict[str, list[tuple[Mutant, Result | None]]] = defaultdict(list)
    results = [record.result(mutant, answers.tests[mutant.module]) for mutant in mutants]
    # Of those that need no test only the ones that a run which stopped half-way has come by: a share is a fair one.
    come_by = max((number for number, result in enumerate(results) if result is not None), default=-1)
    for mutant, result in zip(mutants[: come_by + 1], results, strict=False):
        if result is not None or answers.reason(mutant):
            rows[mutant.module].append((mutant, result))
    survivors = [
        mutant
        for rows_of_module in rows.values()
        for mutant, result in rows_of_module
        if result is None or not result.killed
    ]
    lines = ["tried killed timed-out survived module"]
    for module, rows_of_module in sorted(rows.items()):
        verdicts = [result.verdict if result is not None else Verdict.SURVIVED for _, result in rows_of_module]
        counts = [verdicts.count(verdict) for verdict in (Verdict.KILLED, Verdict.TIMED_OUT, Verdict.SURVIVED)]
        lines.append(f"{len(rows_of_module):5} {counts[0]:6} {counts[1]:9} {counts[2]:8} {module}")
    for mutant in sorted(survivors, key=lambda result: (result.module, result.line)):
        why = answers.reason(mutant)
        lines += ["", f"{'needs no test' if why else 'SURVIVED'}: {mutant.module}:{mutant.line} {mutant.operator}"]
        lines += [line_of(mutant), *([f"    because: {why}"] if why else [])]
    number = sum(len(rows_of_module) for rows_of_module in rows.values())
    killed, reviewed = number - len(survivors), sum(bool(answers.reason(mutant)) for mutant in survivors)
    share = 100 * killed / number if number else 0.0
    of = f"of a sample of {len(mutants)} tried {number}"
    lines += ["", f"{of}, killed {killed} ({share:.1f} %), survived {len(survivors)}:"]
    lines += [f"{reviewed} need no test (tests/mutants.toml), {len(survivors) - reviewed} do"]
    return "\n".join(lines)


def line_of(mutant: Mutant) -> str:
    was, becomes = (text.splitlines() for text in (mutant.was, mutant.becomes))
    return "\n".join([*(f"    - {line}" for line in was), *(f"    + {line}" for line in becomes)])


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.mutants", description=__doc__)
    parser.add_argument("--mutants", type=int, default=SAMPLE, help="how many are drawn")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--under", default="", help="of these only those in modules whose paths begin so")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so many; the next run goes on")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of results; without it all is tried")
    parser.add_argument("--summary", action="store_true", help="try none, show what is known")
    options = parser.parse_args()
    answers = read_answers()
    sample = sample_of(sorted(answers.tests), options.mutants, options.seed)
    mutants = [mutant for mutant in sample if mutant.module.startswith(options.under)]
    record = Record(options.results)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped; the same command goes on from here"))
    if not options.summary:
        try_mutants(mutants, answers, record, options.minutes)
    tell(summary(mutants, answers, record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
