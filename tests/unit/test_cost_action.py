"""The action that comments what a pull request costs (.github/actions/cost): its script, in a real checkout, before a
double of GitHub."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.doubles.github import TOKEN, GitHub
from trainplan.workloads.jobfile import looks_like_job

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

    from tests.conftest import Golden

ACTION = ROOT / ".github" / "actions" / "cost"
PLAN = Path(sys.executable).with_name("plan")
JOB = """name: {name}
model: {{preset: vgg16}}
data: {{name: cifar10}}
epochs: {epochs}
global_batch_size: 128
precision: {precision}
"""
USUAL = {"name": "a-job", "epochs": 30, "precision": "amp_fp16"}
OPTIONS = "--provider aws --provider gcp --device T4 --device V100 --market on_demand"


@pytest.fixture(scope="module")
def cost() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cost", ACTION / "cost.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["cost"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def github() -> Iterator[GitHub]:
    with GitHub() as made:
        yield made


class Checkout:
    """A repository with a base commit and a pull request on top of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._git("init", "--quiet", "--initial-branch=main")

    def commit(self, files: Mapping[str, str | None]) -> str:
        """The files are written (None: deleted) and committed; the commit."""
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                path.unlink()
            else:
                path.write_text(text, encoding="utf-8")
        self._git("add", "--all")
        self._git("commit", "--quiet", "--allow-empty", "-m", "a commit")
        return self._git("rev-parse", "HEAD").strip()

    def _git(self, *words: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        ran = subprocess.run(
            ["git", *identity, *words], cwd=self.folder, capture_output=True, text=True, check=True, env=os.environ
        )
        return ran.stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    folder = tmp_path / "checkout"
    folder.mkdir()
    return Checkout(folder)


def run_action(
    checkout: Checkout, github: GitHub, base: str, plan: str = str(PLAN), **inputs: str
) -> subprocess.CompletedProcess[str]:
    """The script as action.yml runs it."""
    given = {"JOBS": "*.yaml *.yml", "MAX_INCREASE": "", "OPTIONS": OPTIONS} | inputs
    environment = {
        **{
            "PATH": os.environ["PATH"],
            "HOME": str(checkout.folder.parent),
            "PLAN_HOME": str(checkout.folder.parent / "home"),
        },
        **{"BASE": base, "PULL_REQUEST": "7", "TOKEN": TOKEN, "GITHUB_API_URL": github.url},
        **{"GITHUB_REPOSITORY": "octo/nets", "GITHUB_STEP_SUMMARY": str(checkout.folder.parent / "summary.md")},
        **given,
    }
    words = [sys.executable, str(ACTION / "cost.py"), "--plan", plan]
    return subprocess.run(
        words, cwd=checkout.folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.slow
def test_five_changes_are_one_comment(checkout: Checkout, github: GitHub, golden: Golden) -> None:
    """Dearer, cheaper, the same with a comment, new, and no job; one file besides that is no job file."""
    job = JOB.format(**USUAL)
    base = checkout.commit(
        {
            **{f"jobs/{name}.yaml": job for name in ("cheaper", "dearer", "same", "untouched", "wrong")},
            "values.yaml": "replicas: 1\n",
        }
    )
    checkout.commit(
        {
            "jobs/dearer.yaml": JOB.format(**USUAL | {"epochs": 60}),
            "jobs/cheaper.yaml": JOB.format(**USUAL | {"epochs": 15}),
            "jobs/same.yaml": job + "# a remark\n",
            "jobs/new.yaml": JOB.format(**USUAL | {"name": "new"}),
            "jobs/wrong.yaml": job.replace("vgg16", "vgg17"),
            "values.yaml": "replicas: 2\n",
        }
    )
    done = run_action(checkout, github, base, MAX_INCREASE="20%")
    assert done.returncode == 1, done.stderr
    assert "::error::`jobs/dearer.yaml`" in done.stdout
    (comment,) = github.comments
    assert (checkout.folder.parent / "summary.md").read_text() == comment["body"] + "\n"
    assert "untouched" not in comment["body"]
    assert "values.yaml" not in comment["body"]
    assert not list(checkout.folder.glob("jobs/tmp*")), "the old file is taken away again"
    # Figures are of today's prices: their placements are compared. What the rows of the new job say depends on the day.
    text = re.sub(r"\d[\d,.]*", "N", comment["body"])
    rows = [line for line in text.split("\n") if re.match(r"\| N \|", line)]
    assert len(rows) == 5
    notes = re.compile(r"(\| N \||row|\\\* ranked)")
    golden.check("cost-comment.md", "\n".join(line for line in text.split("\n") if not notes.match(line)) + "\n")


def fake_plan(folder: Path, cost_usd: float) -> str:
    """A `plan` whose second job costs that, and the first $10."""
    delta = {"absolute": cost_usd - 10, "percent": (cost_usd - 10) * 10}
    side = {"cost_usd": 10.0, "total_seconds": 3600.0, "basis": "modelled"}
    document = {
        "changed": [{"key": "epochs", "from": 1, "to": 2}],
        "cheapest": {
            **{"a": side, "b": side | {"cost_usd": cost_usd}, "same_machine": False},
            "difference": {"cost_usd": delta, "total_seconds": {"absolute": 0.0, "percent": 0.0}},
            "intervals_overlap": {"cost_usd": True, "total_seconds": True},
        },
    }
    script = folder / "plan.py"
    script.write_text(
        "import json, os, sys\n"
        "assert 'TOKEN' not in os.environ\n"
        f"print({json.dumps(document)!r} if '--json' in sys.argv else '| a table |')\n"
    )
    return f"{sys.executable} {script}"


@pytest.fixture
def changed(checkout: Checkout) -> str:
    base = checkout.commit({"a.yaml": JOB.format(**USUAL)})
    checkout.commit({"a.yaml": JOB.format(**USUAL | {"epochs": 2})})
    return base


@pytest.mark.parametrize(
    ("usd", "limit", "code"),
    [
        (12.0, "", 0), (12.0, "20%", 0), (12.01, "20%", 1), (12.0, "$2", 0), (12.5, "$2", 1), (8.0, "0%", 0),
        (10.0, "0%", 0),
    ],
)  # fmt: skip
def test_it_fails_above_the_limit_alone(
    checkout: Checkout, github: GitHub, changed: str, usd: float, limit: str, code: int
) -> None:
    done = run_action(checkout, github, changed, fake_plan(checkout.folder.parent, usd), MAX_INCREASE=limit)
    assert done.returncode == code, done.stderr
    (comment,) = github.comments
    assert ("Above max-increase" in comment["body"]) == bool(code)
    assert ("within the noise" in comment["body"]) == (usd != 10)
    assert f"$10.00 → ${usd:.2f}" in comment["body"]


def test_the_one_comment_is_updated_and_nobody_elses(checkout: Checkout, github: GitHub, changed: str) -> None:
    """Somebody typed the marker, and the action's own comment stands on the second page."""
    from_a_person = github.says("<!-- trainplan: cost of training -->\nlook at me")
    elsewhere = github.says("<!-- trainplan: cost of training -->", login="github-actions[bot]", kind="Bot", number=8)
    for _ in range(120):
        github.says("a remark")
    plan = fake_plan(checkout.folder.parent, 12.0)
    for _ in range(2):
        assert run_action(checkout, github, changed, plan).returncode == 0
    own = [one for one in github.comments if one["user"]["type"] == "Bot" and one["issue_url"].endswith("/7")]
    assert len(own) == 1
    assert own[0]["updated_at"] > own[0]["created_at"]
    assert from_a_person["body"].endswith("look at me")
    assert from_a_person["updated_at"] == from_a_person["created_at"]
    assert elsewhere["updated_at"] == elsewhere["created_at"]


def test_without_a_changed_job_there_is_no_comment_but_an_old_one_says_so(checkout: Checkout, github: GitHub) -> None:
    base = checkout.commit({"a.yaml": JOB.format(**USUAL), "b.txt": "b"})
    checkout.commit({"b.txt": "c"})
    assert run_action(checkout, github, base).returncode == 0
    assert github.comments == []
    github.says("<!-- trainplan: cost of training -->\nold", login="github-actions[bot]", kind="Bot")
    assert run_action(checkout, github, base).returncode == 0
    assert "changes no training job" in github.comments[0]["body"]


def test_what_the_base_branch_changed_since_is_not_the_pull_requests(checkout: Checkout, github: GitHub) -> None:
    checkout.commit({"a.yaml": JOB.format(**USUAL)})
    checkout._git("checkout", "--quiet", "-b", "a-change")
    checkout.commit({"b.txt": "b"})
    checkout._git("checkout", "--quiet", "main")
    base = checkout.commit({"a.yaml": JOB.format(**USUAL | {"epochs": 5})})
    checkout._git("checkout", "--quiet", "a-change")
    assert run_action(checkout, github, base).returncode == 0
    assert github.comments == []


def test_a_token_that_may_only_read_is_a_warning_and_the_judgement_stays(checkout: Checkout, changed: str) -> None:
    with GitHub(may_write=False) as github:
        done = run_action(checkout, github, changed, fake_plan(checkout.folder.parent, 20.0), MAX_INCREASE="$1")
    assert done.returncode == 1
    assert "::warning::the comment was not written (HTTP Error 403" in done.stdout
    assert "$10.00 → $20.00" in (checkout.folder.parent / "summary.md").read_text()


def test_a_script_that_may_run_longer_is_a_change_and_above_the_limit(checkout: Checkout, github: GitHub) -> None:
    script = "name: mine\nscript: train.py\nconstraints: {{deadline: {}}}\n"
    travis = "language: python\npython: [3.12]\ninstall: make\nscript: {}\n"
    base = checkout.commit(
        {"train.py": "import torch\n", "job.yml": script.format("1h"), ".travis.yml": travis.format(1)}
    )
    checkout.commit({"job.yml": script.format("24h"), ".travis.yml": travis.format(2)})
    ran = run_action(checkout, github, base, MAX_INCREASE="20%")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    (comment,) = github.comments
    assert re.search(
        r"Cheapest offer: up to \$\d+\.\d\d → up to \$\d+\.\d\d \(\+\d+ %\)\*\*, up to 1\.0 h", comment["body"]
    )
    assert "travis" not in comment["body"]


@pytest.mark.parametrize(
    ("text", "is_job"),
    [
        ("script: train.py\n", True),
        ("{script: train.py, args: [--fast], constraints: {deadline: 4h}}\n", True),
        ("model: {preset: vgg16}\ndata: {name: cifar10}\nepochs: 3\nglobal_batch_sise: 8\n", True),
        ("model: [\nglobal_batch_size: 128\n", True),
        ("script: train.py\nargs: {lr: 0.1}\nsweep: {args.lr: [0.1, 0.2], maximize: accuracy}\n", True),
        ("name: env\nchannels: [conda-forge]\ndependencies: [python]\n", False),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {model: vgg}\n", False),
        ("stages: [test]\nscript: [make]\n", False),
        ("trainer: {max_epochs: 3}\nmodel: {class_path: net.Net}\ndata: {class_path: net.Data}\n", False),
        ("- model\n", False),
    ],
)
def test_every_kind_of_job_is_known_by_its_keys(text: str, is_job: bool) -> None:
    assert looks_like_job(text) is is_job


def test_a_link_is_no_job_file(checkout: Checkout, github: GitHub) -> None:
    """It could show what else lies on the runner."""
    base = checkout.commit({"b.txt": "b"})
    secret = checkout.folder.parent / "secret.yaml"
    secret.write_text(JOB.format(**USUAL) + "key: hunter2\n")
    (checkout.folder / "a.yaml").symlink_to(secret)
    (checkout.folder / "folder").symlink_to(checkout.folder.parent)
    checkout.commit({})
    assert run_action(checkout, github, base).returncode == 0
    assert github.comments == []


def test_a_file_that_is_called_like_an_option_is_a_file(checkout: Checkout, github: GitHub) -> None:
    base = checkout.commit({"-x.yaml": JOB.format(**USUAL)})
    checkout.commit({"-x.yaml": JOB.format(**USUAL | {"epochs": 2})})
    done = run_action(checkout, github, base, fake_plan(checkout.folder.parent, 12.0))
    assert done.returncode == 0
    assert "### `-x.yaml`" in github.comments[0]["body"]


@pytest.mark.parametrize(("limit", "base"), [("a lot", None), ("20", None), ("", "no-such-commit")])
def test_inputs_that_cannot_be_meant_are_told(
    checkout: Checkout, github: GitHub, changed: str, limit: str, base: str | None
) -> None:
    done = run_action(checkout, github, base or changed, MAX_INCREASE=limit)
    assert done.returncode == 2
    assert done.stderr.startswith("::error::")
    assert "Traceback" not in done.stderr
    assert github.comments == []


def test_a_comment_is_no_longer_than_github_takes(cost: ModuleType) -> None:
    part = cost.Part("x" * 70_000, "a.yaml")
    assert len(cost.comment([part], None)) <= 65_536


def test_names_and_messages_cannot_leave_their_placement(cost: ModuleType) -> None:
    assert cost.as_code("a`<b>\n::set-output::x") == "`a??b??::set-output::x`"
    assert cost.as_block("```\n<img>\x1b[0m") == "    \n    ```\n    <img>?[0m\n    "


def test_the_action_gives_the_script_what_it_reads() -> None:
    action: dict[str, Any] = yaml.safe_load((ACTION / "action.yml").read_text(encoding="utf-8"))
    step = action["runs"]["steps"][-1]
    source = (ACTION / "cost.py").read_text(encoding="utf-8")
    read = set(re.findall(r"environ(?:ment)?(?:\.get\(|\[).(\w+)", source))
    assert {name for name in read if not name.startswith("GITHUB_")} == set(step["env"]) - {"ACTION"}
    for name in ("jobs", "max-increase", "options", "token"):
        assert f"${{{{ inputs.{name} }}}}" in step["env"].values()
    # What a stranger can name stands in variables, never in the text of a command.
    for one in action["runs"]["steps"]:
        assert "${{" not in one["run"]
