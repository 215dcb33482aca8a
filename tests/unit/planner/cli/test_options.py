"""What is typed after `plan estimate`: which wishes it becomes, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.rows import each_row
from tests.unit.planner.cli.command import plan
from trainplan.planner.cli.commands import estimate
from trainplan.workloads.terms import Objective

READ: list[tuple[str, dict[str, Any]]] = [
    ("", {}),
    ("job.yaml", {"job_file": Path("job.yaml")}),
    ("-- -j", {"job_file": Path("-j")}),
    ("--json a/b.yaml", {"job_file": Path("a/b.yaml"), "as_json": True}),
    (
        "job.yaml --all --include-retired --check",
        {"job_file": Path("job.yaml"), "every": True, "include_retired": True, "check": True},
    ),
    (
        "--model vgg16 --dataset=cifar10 --epochs 3 --batch=64",
        {"model": "vgg16", "dataset": "cifar10", "epochs": 3, "batch": 64},
    ),
    (
        "job.yaml --precision tf32 --image-size 64 --framework jax --no-xla",
        {"job_file": Path("job.yaml"), "precision": "tf32", "image_size": 64, "framework": "jax", "xla": False},
    ),
    ("--provider aws --provider=gcp --device T4", {"provider": ["aws", "gcp"], "device": ["T4"]}),
    ("--limit 3 --limit 4 --explain 2", {"limit": 4, "explain_row": "2"}),
    ("--limit=03", {"limit": 3}),
    (
        "--objective time --deadline 8h --budget 20",
        {"deadline": "8h", "budget": "20", "objective": Objective.TIME},
    ),
    ("--market on-demand --region us-east-1", {"market": ["on-demand"], "region": ["us-east-1"]}),
    ("--catalog c.sqlite", {"catalog": Path("c.sqlite")}),
    ("--budget -3", {"budget": "-3"}),
    ("--nodes 1,2,4", {"nodes": "1,2,4"}),
]
DEFAULTS = {name: parameter.default for name, parameter in signature(estimate.command).parameters.items()}


def read(words: Sequence[str]) -> dict[str, Any]:
    """The arguments with which the command's function is called."""
    app = typer.Typer(add_completion=False)
    app.command()(estimate.command)
    given = typer.main.get_command(app).make_context("plan estimate", list(words)).params
    return {name: list(value) or None if isinstance(value, tuple | list) else value for name, value in given.items()}


@each_row(("line", "values"), READ, ids=[line for line, _ in READ])
def test_what_is_typed_is_what_the_command_gets(line: str, values: dict[str, Any]) -> None:
    assert read(line.split()) == DEFAULTS | values


def test_nothing_is_chosen_for_who_types_nothing() -> None:
    assert {name: value for name, value in DEFAULTS.items() if value} == {}


@each_row(
    ("line", "error"),
    [
        ("a b", "plan estimate has no place for: b"),
        ("--frobnicate", "there is no option --frobnicate"),
        ("--lim 3", "there is no option --lim"),
        ("-j", "there is no option -j"),
        ("job.yaml --limit 1.5", "--limit: must be a whole number"),
        ("job.yaml --limit 0", "--limit: must be at least 1"),
        ("--all=yes", "--all takes no value"),
        ("--epochs", "--epochs needs a value"),
        ("--epochs 0", "--epochs: "),
        ("--epochs -3", "--epochs: "),
        ("--epochs many", "--epochs: "),
        ("--epochs \u0663", "--epochs: "),  # a digit of another script
        ("--objective cheap", "--objective: "),
        ("--objective TIME", "--objective: "),
        ("--model=", "give a job file, --data FOLDER (your own images)"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_sentence(line: str, error: str) -> None:
    said = plan("estimate", *line.split())
    assert (said.code, said.out) == (2, "")
    assert said.error.startswith(error)
    assert said.hint


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("estimate --lmit 3", "did you mean --limit?"),
        ("estimate --gpu T4", "did you mean --device?"),
        ("estimate -p aws", "did you mean --provider?"),
        ("estimate --spot", "did you mean --market spot?"),
        ("estimate -j", "plan estimate --help lists its options"),
        ("history --gpu T4", "plan history --help lists its options"),
        ("setup azuer", "did you mean azure?"),
        ("doctor Azrue", "did you mean azure?"),
        ("setup xyz", "known: local"),
    ],
)
def test_what_is_nearly_right_is_told_what_is_right(line: str, hint: str) -> None:
    assert plan(*line.split()).hint.startswith(hint)


@pytest.mark.parametrize(
    ("line", "usage"),
    [
        ("help", "plan [OPTIONS]"),
        ("help prices", "plan prices [OPTIONS]"),
        ("help doctor", "plan doctor [OPTIONS] [PROVIDER] [JOB.yaml]\n"),
        ("prices refresh --help", "plan prices refresh [OPTIONS] [PROVIDER]...\n"),
        ("help history", "plan history [OPTIONS] [import] [FILE]\n"),
    ],
)
def test_help_is_a_word_too(line: str, usage: str) -> None:
    told = plan(*line.split())
    assert told.code == 0
    assert f"Usage: {usage}" in told.out


def test_a_shell_that_completes_an_option_gets_words_and_no_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_PLAN_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "plan estimate --obj")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert plan("estimate").out == "--objective\n"
