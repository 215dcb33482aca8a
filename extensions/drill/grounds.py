"""The recorded grounds: results of drills that people gave, as files in docs/drills."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trainplan.extensions.drill.behaviours import SETTLES, way_of
from trainplan.extensions.drill.result import DrillResult, Verdict, read_result, write_result
from trainplan.planner.errors import BadInputError
from trainplan.providers.registry import is_simulated

FOLDER = Path("docs") / "drills"


@dataclass(frozen=True, slots=True)
class Ground:
    """How often drills have settled a behaviour, and how often its step failed."""

    proven: tuple[DrillResult, ...]
    failed: tuple[DrillResult, ...]


def add_result(path: Path, checkout: Path) -> Path:
    """The result in a file, added to the grounds of a checkout. Returns where. Raises BadInputError, StateError."""
    folder = checkout / FOLDER
    if not folder.is_dir():
        raise BadInputError(f"there is no {FOLDER} in {checkout}", "run it in a checkout of trainplan")
    result = read_result(path)
    if is_simulated(result.provider):
        raise BadInputError(
            f"{path} is of the simulated cloud, which proves nothing about a real one", "drill a real one"
        )
    if any(result == outcome for outcome in results(checkout)):
        raise BadInputError(f"{path} has already been imported", f"{FOLDER} has it")
    return write_result(result, folder)


def results(checkout: Path) -> list[DrillResult]:
    """Return all stored results by name. Raises BadInputError for a file that is none."""
    return [read_result(path) for path in sorted((checkout / FOLDER).glob("*.json"))]


def ground_of(behaviour: str, results: list[DrillResult]) -> Ground:
    """What the results say of a behaviour."""
    keys = [key for key, lines in SETTLES.items() if behaviour in lines]

    def having(verdict: Verdict) -> tuple[DrillResult, ...]:
        return tuple(
            result
            for result in results
            if any(
                (way_of(result.provider, result.device), row.step) in keys and row.verdict is verdict
                for row in result.steps
            )
        )

    return Ground(having(Verdict.PROVEN), having(Verdict.FAILED))


def ground_text(results: list[DrillResult]) -> str:
    """The lines of docs/maintainers/fidelity.md: each behaviour that a drill can settle, and whether one has."""
    steps_by_behaviour: dict[str, list[str]] = {}
    for (provider, step), behaviours in SETTLES.items():
        for behaviour in behaviours:
            steps_by_behaviour.setdefault(behaviour, []).append(f"{provider} `{step}`")
    return "\n".join(
        f"- {name} ({', '.join(steps)}): {_state(ground_of(name, results))}"
        for name, steps in steps_by_behaviour.items()
    )


def _state(ground: Ground) -> str:
    parts = []
    if ground.proven:
        parts.append(f"proven by {', '.join(result.file_name for result in ground.proven)}")
    if ground.failed:
        parts.append(f"not so in {', '.join(result.file_name for result in ground.failed)}")
    return "; ".join(parts) or "no drill so far"
