"""The wheel and the sdist, installed by pip, pipx and uv for each Python: `plan` answers, `man plan` has its page, and
the extra `all` trains and draws."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.lock import PYTHONS
from tests.conftest import ROOT
from tests.e2e.installers import INSTALLERS, built, install, interpreter, run, tool
from trainplan.planner.throughput.compile import DATA

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return built(tmp_path_factory.mktemp("dist"), ROOT)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """An empty folder that is gone after the test: an environment with TensorFlow has 2 GB."""
    yield tmp_path
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("installer", INSTALLERS)
@pytest.mark.parametrize("form", ["wheel", "sdist"])
def test_an_installed_plan_estimates_and_has_its_manual_page(
    form: str, installer: str, python: str, distributions: dict[str, Path], place: Path
) -> None:
    plan, page = install(installer, interpreter(python), str(distributions[form]), place)
    home = {"PLAN_HOME": str(place / "home")}
    version = run([plan, "--version"], folder=place).stdout
    assert version.removeprefix("plan ").strip() in distributions["wheel"].name
    words: list[str | Path] = [plan, "estimate", "--model", "vgg16", "--dataset", "cifar10", "--json"]
    offers = json.loads(run(words, folder=place, environment=home).stdout)["candidates"]
    assert len(offers) > 50
    assert 'SS "plan estimate"' in page.read_text(encoding="utf-8")
    if shutil.which("man"):
        path = {"MANPATH": str(page.parent.parent), "MANWIDTH": "80"}
        assert "plan estimate [OPTIONS]" in run(["man", "-P", "cat", "plan"], folder=place, environment=path).stdout


@pytest.mark.parametrize("python", PYTHONS)
def test_all_trains_in_a_process_and_draws(python: str, distributions: dict[str, Path], place: Path) -> None:
    """`all` has a TensorFlow for processors alone: 2 GB less to fetch than with CUDA, which a container brings."""
    tool("uv")
    plan, _ = install("uv", interpreter(python), f"{distributions['wheel']}[all]", place)
    here = {"PLAN_HOME": str(place / "home"), "PLAN_ENGINE": "process"}
    job = place / "digits.yaml"
    shutil.copyfile(ROOT / "examples" / "digits-vgg.yaml", job)
    told = run([plan, "launch", job, "--provider", "local", "--yes"], folder=place, environment=here).stdout
    assert "accuracy" in told
    rows = place / "rows.csv"
    _write_first_rows(rows, 5)
    run([plan, "throughput", "check", rows, "--plot", place / "check.png"], folder=place, environment=here)
    assert (place / "check.png").read_bytes().startswith(b"\x89PNG")


def _write_first_rows(target: Path, count: int) -> None:
    """Measurements of VGG16 that come with the package, as a person's own."""
    with (DATA / "measurements.csv").open(encoding="utf-8", newline="") as source:
        reader = csv.DictReader(source)
        rows = [row for row in reader if row["model"] == "vgg16" and row["mode"] == "train"][:count]
    assert len(rows) == count
    with target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, reader.fieldnames or ())
        writer.writeheader()
        writer.writerows(rows)
