"""Mutated command lines and job files: valid ones with a word or a value changed. Each ends with a documented code, no
traceback, no hang, and nothing that a terminal obeys.
`python -m tests.fuzz.commands [--inputs N] [--seed S]` prints the count."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.builders import small_catalog
from tests.desk import signed_out
from tests.doubles import fake_provider
from tests.doubles.clock import FakeClock
from tests.doubles.fake_machine import done_at_once
from tests.doubles.fake_provider import FACTORY, TimedProvider
from tests.fuzz.mutations import Crash, a_folder, as_a_program, changed_bytes, changed_value, no_longer_than
from tests.hostile.terminal import assert_harmless
from tests.unit.planner.cli.command import plan
from trainplan.planner.errors import ExitCode

LONGEST_SECONDS = 300.0
_CODES = frozenset(int(code) for code in ExitCode)
RUN, CATALOG = "{run}", "{catalog}"
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("estimate", "job.yaml", "--catalog", CATALOG, "--limit", "3"),
    ("estimate", "job.yaml", "--catalog", CATALOG, "--json", "--market", "spot"),
    ("estimate", "job.yaml", "--catalog", CATALOG, "--explain", "1", "--include-retired"),
    ("estimate", "--catalog", CATALOG, "--model", "vgg16", "--dataset", "cifar10", "--epochs", "2", "--batch", "128"),
    ("estimate", "job.yaml", "--catalog", CATALOG, "--deadline", "8h", "--budget", "5.50", "--objective", "time"),
    ("estimate", "job.yaml", "--catalog", CATALOG, "--region", "us-east-1", "--device", "T4", "--all"),
    ("launch", "job.yaml", "--provider", "local", "--dry-run"),
    ("launch", "job.yaml", "--provider", "local", "--dry-run", "--json", "--deadline", "2h", "--budget", "1"),
    ("launch", "job.yaml", "--provider", "local", "--yes", "--fresh"),
    ("launch", "job.yaml", "--provider", "local", "--yes", "--detach", "--output", "model"),
    ("measure", "job.yaml", "--steps", "10"),
    ("status",),
    ("status", RUN, "--json"),
    ("logs", RUN),
    ("logs", RUN, "--json"),
    ("board", RUN),
    ("predict", RUN, "."),
    ("attach", RUN),
    ("stop", RUN),
    ("cleanup", "--provider", "local", "--dry-run"),
    ("cleanup", "--provider", "local", "--yes", "--all"),
    ("history",),
    ("history", "--json"),
    ("devices", "--json"),
    ("prices", "show"),
    ("init", "made.yaml"),
    ("data", "upload", "images", "--provider", "local", "--yes"),
    ("doctor", "local", "--json"),
)
JOBS: tuple[dict[str, Any], ...] = (
    {
        "name": "tiny", "model": {"layers": [8, "M", 16, "M"], "dense": [16]}, "data": {"name": "digits"},
        "epochs": 2, "global_batch_size": 32,
    },
    {
        "name": "whole", "model": {"preset": "vgg16", "batch_norm": True, "image_size_multiplier": 1.5, "dropout": 0.5},
        "data": {"name": "cifar10"}, "epochs": 3, "global_batch_size": 128, "accumulate": 2, "precision": "amp_fp16",
        "xla": True, "framework": "jax", "seed": 7, "checkpoint_every": "5m", "objective": "time", "on_slow": "stop",
        "optimizer": {"name": "adam", "learning_rate": 0.001, "momentum": 0.9, "weight_decay": 0.0001},
        "constraints": {
            "deadline": "8h", "budget_usd": 12.5, "providers": ["local", "aws"], "regions": ["us-east-1"],
            "devices": ["T4"], "markets": ["spot"],
        },
    },
    {
        "name": "own", "model": {"preset": "vgg11", "image_size": 64, "classes": 3},
        "data": {"path": "images", "images": 90}, "epochs": 1, "global_batch_size": 8,
    },
    {
        "name": "far", "model": {"preset": "vgg11", "image_size": 64, "classes": 3}, "epochs": 1,
        "data": {"url": "s3://bucket/images", "images": 1000, "channels": 3, "size_bytes": 10**9},
        "container": f"registry/name@sha256:{'0' * 64}", "global_batch_size": 8,
        "secrets": {"TOKEN": "gcp-sm:projects/p/secrets/s/versions/1"},
    },
)  # fmt: skip
_ODD_WORDS = (
    *("", " ", "-", "--", "-1", "0", "1", "9" * 400, "1e999", "nan", "inf", "0x10", "3.5", "1e-400", "8h", "0s"),
    *("99999999999d", "local", "T4", "cpu", "us-east-1", "spot", "on_demand", "cost", "nowhere.yaml", "images", "."),
    *("\u00fc", "\U0001f984", "x" * 3000, "a\nb", "\udce9", "\x1b]0;x\x07", "\x9b2K", "a\tb", "\u202e", "²"),
    *("--json", "--yes", "--help", "--all", "--dry-run", "--limit", "--provider", "--deadline", "--budget"),
)  # fmt: skip
_ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 3.5, 10**6, 10**12, 10**30, -(10**400), 1e308, 5e-324, -0.0),
    *(float("inf"), float("-inf"), float("nan"), "", " ", "0", "M", "8h", "-8h", "1e999", "99999999999d", "cifar10"),
    *("x" * 3000, "a\nb", "\x1b]0;x\x07", "\x9b2K", "\u202e", "²", "a\x00b", "../..", "/", "s3://", "https://[", "az://a"),
    *([], {}, [None], {"": ""}, [[[]]], [1] * 200, {"name": "digits"}, {"preset": "vgg16"}, "spot", "local"),
)  # fmt: skip


def mutated_words(words: tuple[str, ...], random: Random) -> list[str]:
    """The command line with one or two words replaced, removed, doubled, exchanged or put in."""
    changed = [*words]
    for _ in range(random.choice((1, 1, 2))):
        at = random.randrange(len(changed)) if changed else 0
        match random.randrange(5):
            case 0 if changed:
                # The command itself stays in most: else few inputs come past it.
                changed[at if random.random() < 0.05 else max(at, min(1, len(changed) - 1))] = random.choice(_ODD_WORDS)
            case 1 if len(changed) > 1:
                del changed[max(1, at)]
            case 2:
                changed[at:at] = changed[at : at + random.choice((1, 2))]
            case 3 if len(changed) > 2:
                other = random.randrange(1, len(changed))
                changed[max(1, at)], changed[other] = changed[other], changed[max(1, at)]
            case _:
                changed.insert(max(1, at), random.choice(_ODD_WORDS))
    return changed


def mutated_job(random: Random) -> bytes:
    """A job file with one or two values, or some bytes, changed. JSON is YAML."""
    job: Any = random.choice(JOBS)
    if random.random() < 0.15:
        return changed_bytes(json.dumps(job, indent=1).encode(), random)
    for _ in range(random.choice((1, 1, 2))):
        job = changed_value(job, random, _ODD_VALUES)
    text = json.dumps(job, indent=1)
    # What JSON calls so is text in YAML.
    for name, there in (("-Infinity", "-.inf"), ("Infinity", ".inf"), ("NaN", ".nan")):
        text = text.replace(f" {name}", f" {there}")
    return text.encode()


@contextmanager
def bench(folder: Path) -> Iterator[dict[str, str]]:
    """A home with a run, a working folder with images; what stands for the braces in COMMANDS."""
    made = TimedProvider(FakeClock(), [done_at_once], tidy=True)
    with pytest.MonkeyPatch.context() as patch:
        signed_out(patch)
        patch.setenv("PLAN_HOME", str(folder / "home"))
        patch.setenv("HOME", str(folder))
        patch.chdir(folder)
        patch.setitem(*FACTORY)
        (folder / "images" / "a").mkdir(parents=True)
        (folder / "images" / "a" / "1.png").write_bytes(b"x")
        (folder / "job.yaml").write_text(json.dumps(JOBS[0]))
        fake_provider.PROVIDERS.append(made)
        try:
            said = plan("launch", "job.yaml", "--provider", "local", "--yes", "--json")
            assert said.code == 0, said.err
            yield {RUN: said.json["run_id"], CATALOG: str(small_catalog(folder))}
        finally:
            fake_provider.PROVIDERS.remove(made)


def run(inputs: int, seed: int) -> Counter[str]:
    """Type so many mutated commands; their exit codes, counted. Raises Crash with the seed of the input."""
    outcomes: Counter[str] = Counter()
    for first in range(0, inputs, 200):  # a new home now and then: histories grow
        with a_folder() as folder, bench(folder) as known:
            for number in range(first, min(inputs, first + 200)):
                outcomes[_typed(number, seed, known, folder)] += 1
    return outcomes


def _typed(number: int, seed: int, values: dict[str, str], folder: Path) -> str:
    random = Random(f"{seed}/{number}")
    command = COMMANDS[number % len(COMMANDS)]
    is_job = "job.yaml" in command and random.random() < 0.6
    (folder / "job.yaml").write_bytes(mutated_job(random) if is_job else json.dumps(random.choice(JOBS)).encode())
    words = list(command) if is_job else mutated_words(command, random)
    words = [values.get(word, word) for word in words]
    what = f"seed {seed}/{number}: plan {' '.join(words)[:300]!r}"
    try:
        with no_longer_than(LONGEST_SECONDS, what):
            said = plan(*words)
        assert_harmless(said)
        assert said.code in _CODES, said.code
        assert said.code in (0, 130) or said.err.strip(), "an error without a word"
    except Crash:
        raise
    except Exception as error:
        raise Crash(f"{what}: {type(error).__name__}: {error}") from error
    return f"code {said.code}"


if __name__ == "__main__":
    as_a_program(run, "commands and job files")
