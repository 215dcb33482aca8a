"""The pages with which a newcomer begins: their commands do what they say, in their order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.desk import TINY, own_home
from tests.page_commands import blocks
from tests.unit.planner.cli.command import CommandResult, plan

pytestmark = pytest.mark.slow
SIM_LAUNCH = ["launch", "job.yaml", "--provider", "sim", "--detach", "--yes"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    own_home(tmp_path, monkeypatch)
    monkeypatch.setenv("PLAN_SIM_SPEED", "0")
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def done(words: list[str]) -> CommandResult:
    """As a person types it: RUN is the run that goes on, and the answer to what is asked is yes."""
    if "RUN" in words:
        (run,) = plan("status", "--json").json
        words = [run["run_id"] if word == "RUN" else word for word in words]
    result = plan(*words, *(["--yes"] if words[0] in ("launch", "cleanup") and "--dry-run" not in words else []))
    assert result.code == 0, (words, result.err)
    return result


def test_the_first_table(here: Path) -> None:
    """In the folder where README.md has left a job."""
    (here / "job.yaml").write_text(TINY)
    (block,) = blocks("docs/first-table.md")
    shown = {" ".join(words): done(words).out for words in block}
    assert "wrote job.yaml" in shown["init job.yaml --model vgg16 --dataset cifar10 --force"]
    assert "ranked by cost" in shown["estimate job.yaml"]
    assert "batch 256" in shown["estimate job.yaml --batch 256"]
    assert "kaggle" in shown["estimate job.yaml --free"]


def test_the_first_free_run(here: Path) -> None:
    on_sim, at_a_place = blocks("docs/first-free-run.md")
    shown = [done(words) for words in on_sim]
    assert "receipt of vgg16-cifar10" in shown[4].out
    assert "vgg16-cifar10" in shown[5].out
    for words in at_a_place:
        done(words)
    assert (here / "for-colab" / "train.ipynb").is_file()


def test_what_bills_now(here: Path) -> None:
    """With a run of the simulated cloud under way."""
    done(["init", "job.yaml", "--model", "vgg16", "--dataset", "cifar10"])
    done(SIM_LAUNCH)
    (block,) = blocks("docs/what-can-go-wrong.md")
    assert [words[0] for words in block] == ["status", "stop", "cleanup", "cleanup", "burn"]
    shown = [done(words) for words in block[:4]]
    assert "vgg16-cifar10" in shown[0].out
    assert "nothing is left" in shown[1].err + shown[1].out
    assert "no resource of a run exists" in shown[3].out + shown[3].err
    burn = plan(*block[4])
    assert burn.code in (0, 4), burn.err
