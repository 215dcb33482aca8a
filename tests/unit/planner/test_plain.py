"""Command lines read without typer mean what typer makes of them, or are left to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.cli import estimate
from planner.cli.answer import Asked
from planner.cli.plain import read_plainly
from tests.conftest import ROOT
from workloads.job import Objective

PLAIN = [
    ("", Asked()),
    ("job.yaml", Asked(job_file=Path("job.yaml"))),
    ("--json a/b.yaml", Asked(job_file=Path("a/b.yaml"), as_json=True)),
    ("job.yaml --all --include-retired --check", Asked(Path("job.yaml"), every=True, include_retired=True, check=True)),
    ("--model vgg16 --dataset=cifar10 --epochs 3 --batch=64", Asked(None, "vgg16", "cifar10", 3, 64)),
    ("j --provider aws --provider=gcp --device T4", Asked(Path("j"), provider=["aws", "gcp"], device=["T4"])),
    ("j --limit 3 --limit 4 --explain 2", Asked(Path("j"), limit=4, explain_row=2)),
    (
        "j --objective time --deadline 8h --budget 20",
        Asked(Path("j"), deadline="8h", budget="20", objective=Objective.TIME),
    ),
    ("j --market on-demand --region us-east-1", Asked(Path("j"), market=["on-demand"], region=["us-east-1"])),
    ("j --catalog c.sqlite", Asked(Path("j"), catalog=Path("c.sqlite"))),
]
LEFT_TO_TYPER = [
    "--help", "-h", "a b", "--frobnicate", "--all=yes", "--epochs", "--epochs 0", "--epochs many", "--epochs -3",
    "--epochs ٣", "--limit 9999999999", "--objective cheap", "--objective TIME", "--model=", "--budget -3", "-- j",
    "--lim 3", "-j",
]  # fmt: skip


def by_typer(arguments: list[str]) -> Asked:
    app = typer.Typer(add_completion=False)
    app.command()(estimate.command)
    asked = typer.main.get_command(app).make_context("plan estimate", list(arguments)).params
    return Asked(**{name: list(value) or None if isinstance(value, tuple) else value for name, value in asked.items()})


@pytest.mark.parametrize(("line", "asked"), PLAIN, ids=[line for line, _ in PLAIN])
def test_what_is_read_is_what_typer_reads(line: str, asked: Asked) -> None:
    assert read_plainly(line.split()) == asked
    assert by_typer(line.split()) == asked


@pytest.mark.parametrize("line", LEFT_TO_TYPER)
def test_what_is_in_doubt_is_left_to_typer(line: str) -> None:
    assert read_plainly(line.split()) is None
    assert read_plainly(["job.yaml", *line.split()]) is None


def test_completion_is_left_to_typer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_PLAN_COMPLETE", "complete_bash")
    assert read_plainly([]) is None


WORDS = st.sampled_from(
    ["--json", "--all", "--check", "--include-retired", "--model", "--epochs", "--batch=2", "--limit=03", "--provider",
     "--market", "--explain", "--objective", "--objective=cost", "--catalog", "--deadline=", "job.yaml", "7", "vgg16",
     "", "-", "--", "--budget=-1", "--region= x", "time"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(WORDS, max_size=6))
def test_any_words_are_read_as_typer_reads_them_or_not_at_all(words: list[str]) -> None:
    asked = read_plainly(words)
    if asked is not None:
        assert by_typer(words) == asked


def test_every_option_of_the_command_can_be_asked() -> None:
    assert list(by_typer([])._asdict()) == list(Asked._fields)


def test_a_plain_command_line_imports_no_typer_and_no_metadata() -> None:
    code = (
        "import sys; from planner.cli.main import run; code = run(['estimate', 'examples/digits-vgg.yaml']); "
        "sys.stderr.write(repr((code, sorted({'typer', 'email', 'zipfile'} & set(sys.modules)))))"
    )
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert said.stderr == "(0, [])"


def test_a_stand_in_is_one_until_it_is_used() -> None:
    code = (
        "import sys; from planner.cli.main import _put_off_metadata; _put_off_metadata(); import importlib.metadata; "
        "before = 'email' in sys.modules; found = importlib.metadata.entry_points(name='plan'); "
        "print(before, 'email' in sys.modules, len(list(found)) > 0, importlib.metadata.PackageNotFoundError.__name__)"
    )
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["False", "True", "True", "PackageNotFoundError"]


def test_whoever_needs_metadata_gets_it() -> None:
    code = (
        "from planner.cli.main import run; run(['estimate', 'examples/digits-vgg.yaml', '--limit', '1']); "
        "import importlib.metadata, pydantic.networks; from importlib.metadata import version, entry_points; "
        "print(version('pydantic') == importlib.metadata.version('pydantic'), bool(entry_points(name='plan')))"
    )
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert said.stdout.splitlines()[-1] == "True True"
