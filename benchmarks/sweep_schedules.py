"""Which schedule of a sweep finds the best of the full grid, on curves of whole trainings of a small net on digits.

`python -m benchmarks.sweep_schedules train FOLDER` trains all trials of twelve sets to their end (a quarter of an hour
of one core) and keeps the held-out accuracy after each epoch; `show FOLDER` plays schedules on these curves. A schedule
that trained for real would see the same figures: a trial that pauses goes on as if it had not.
"""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from trainplan.workloads.job import TrainingJob

SEEDS, EPOCHS = range(4), (9, 18, 27)
HELD_OUT = 360
VALUES = {"optimizer.learning_rate": [0.3, 0.03, 0.003], "optimizer.momentum": [0.9, 0.5, 0.0]}
Curves = Sequence[Sequence[float]]
"""Of each trial the accuracy after each epoch."""


def job(seed: int, epochs: int) -> TrainingJob:
    """The sweep of docs/sweeps.md, with a test after each epoch."""
    return TrainingJob.model_validate(
        {
            "name": "swept",
            "model": {"layers": [8, "M", 16, "M"], "dense": [32], "dropout": 0.0},
            "data": {"name": "digits"},
            "epochs": epochs,
            "global_batch_size": 64,
            "seed": seed,
            "optimizer": {"name": "sgd"},
            "validation": {"every_epochs": 1},
            "sweep": VALUES,
        }
    )


def train(folder: Path) -> None:
    """Write curves.json, a set after the other; sets that are there are not trained again."""
    from trainplan.workloads.trainer.__main__ import main
    from trainplan.workloads.trainer.errors import EXIT_DONE, EXIT_FAILED, EXIT_WITH_RESULTS

    for epochs in EPOCHS:
        for seed in SEEDS:
            target = folder / f"curves-{epochs}-{seed}.json"
            if target.exists():
                continue
            curves = []
            for trial in job(seed, epochs).trials:
                run = folder / f"{epochs}-{seed}-{trial.number}"
                run.mkdir(parents=True, exist_ok=True)
                (run / "job.json").write_text(trial.job.to_json(), encoding="utf-8")
                words = ["--job", str(run / "job.json"), "--run-dir", str(run), "--attempt", "1"]
                code = main([*words, "--data-dir", str(folder / "data")])
                if code not in (EXIT_DONE, EXIT_FAILED, EXIT_WITH_RESULTS):  # it was stopped: the set is trained again
                    sys.exit(code)
                curves.append(_curve(run / "output" / "metrics.csv", epochs))
            target.write_text(json.dumps(curves), encoding="utf-8")


def _curve(file: Path, epochs: int) -> list[float]:
    """0 from where it diverged."""
    try:
        with file.open(encoding="utf-8", newline="") as text:
            values = [float(row["validation_accuracy"]) for row in csv.DictReader(text)]
    except (OSError, KeyError, ValueError):
        values = []
    return (values + [0.0] * epochs)[:epochs]


Going = Callable[[Sequence[tuple[float, int]], int], int]
"""How many of the ranked (accuracy, trial) go on, where a third are so many."""


def thirds(ranked: Sequence[tuple[float, int]], third: int) -> int:
    """A third."""
    del ranked
    return third


def with_ties(ranked: Sequence[tuple[float, int]], third: int) -> int:
    """A third, and those that are no more than a standard error of the difference worse than the last of it; at most
    two thirds more than a third."""
    last = ranked[third - 1][0]
    error = math.sqrt(2 * max(last * (1 - last), 1 / HELD_OUT) / HELD_OUT)
    near = sum(accuracy >= last - error for accuracy, _ in ranked)
    return min(near, third + max(1, 2 * third // 3))


def one_near(ranked: Sequence[tuple[float, int]], third: int) -> int:
    """A third, and one more where it is within two standard errors of the difference from the last of the third."""
    last, one = ranked[third - 1][0], ranked[third][0] if third < len(ranked) else 0.0
    error = math.sqrt(2 * max(last * (1 - last), 1 / HELD_OUT) / HELD_OUT)
    return third + (one >= last - 2 * error)


def more(ranked: Sequence[tuple[float, int]], third: int) -> int:
    """One more than a third, always."""
    del ranked
    return third + 1


def played(curves: Curves, going: Going, smooth: int = 1) -> tuple[int, int]:
    """The trial that is brought home, and the epochs that were trained; `smooth`: the mean of so many tests ranks."""
    epochs = len(curves[0])
    left, trained, before = list(range(len(curves))), 0, 0
    ends = [-(-epochs // 9), -(-epochs // 3), epochs]
    for number, end in enumerate(ends):
        trained += len(left) * (end - before)
        before = end

        def worth(trial: int, until: int = end) -> float:
            tests = curves[trial][max(0, until - smooth) : until]
            return sum(tests) / len(tests)

        ranked = sorted(((worth(trial), -trial) for trial in left), reverse=True)
        count = 1 if end == epochs else min(len(left), going(ranked, len(curves) // 3 ** (number + 1)))
        left = [-trial for _, trial in ranked[:count]]
    return left[0], trained


def show(folder: Path) -> None:
    """A line for each schedule: how often it has the best of the grid, what it loses else, and what it trains."""
    sets = [json.loads(file.read_text()) for file in sorted(folder.glob("curves-*.json"))]
    schedules: list[tuple[str, Going, int]] = [
        ("a third", thirds, 1), ("a third, mean of 2 tests", thirds, 2), ("with near ties", with_ties, 1),
        ("with near ties, mean of 2 tests", with_ties, 2), ("one more where it is near", one_near, 1),
        ("one more than a third", more, 1),
    ]  # fmt: skip
    sys.stdout.write(f"{len(sets)} sets\n")
    for name, going, smooth in schedules:
        losses, shares = [], []
        for curves in sets:
            best, trained = played(curves, going, smooth)
            losses.append(max(curve[-1] for curve in curves) - curves[best][-1])
            shares.append(trained / (len(curves) * len(curves[0])))
        same = sum(loss == 0 for loss in losses)
        sys.stdout.write(
            f"{name:34} as good as the grid {same:2}, loses {100 * median(losses):.1f} points in the median, "
            f"{100 * max(losses):.1f} at most; {100 * sum(shares) / len(shares):.0f} % of the epochs, "
            f"{100 * max(shares):.0f} % at most\n"
        )


if __name__ == "__main__":
    {"train": train, "show": show}[sys.argv[1]](Path(sys.argv[2]))
