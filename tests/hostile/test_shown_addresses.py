"""A password or a signature in an address of a job is in nothing that a command shows."""

from __future__ import annotations

import urllib.error
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_job
from tests.desk import own_home
from tests.unit.planner.cli.command import plan
from trainplan.planner.runs.proposal.consent import foreign_parts
from trainplan.providers.agent.web import WebError, download
from trainplan.workloads.addresses import shown_address

SECRET = "hunter2"
URL = f"https://me:{SECRET}@data.example/x.tar?X-Amz-Signature={SECRET}&sv=1#{SECRET}"
JOB = f"""\
name: a
model: {{preset: vgg16, image_size: 64, classes: 2, weights: "https://me:{SECRET}@data.example/m.keras"}}
data: {{url: "{URL}", images: 1000, size_bytes: 100000}}
epochs: 2
global_batch_size: 128
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    own_home(tmp_path, monkeypatch)
    monkeypatch.setenv("PLAN_ENGINE", "process")  # where an engine answers, its image would be built first
    (tmp_path / "job.yaml").write_text(JOB)
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ("--notes", "--wide"),
        ("--json",),
        ("--compare", f"model.weights=https://{SECRET}@data.example/n.keras"),
        ("--compare", f"model.weights=https://{SECRET}@data.example/n.keras", "--json"),
    ],
)
def test_an_estimate_shows_where_the_data_is_and_not_what_lets_one_in(home: Path, arguments: tuple[str, ...]) -> None:
    del home
    said = plan("estimate", "job.yaml", *arguments)
    assert SECRET not in (said.out + said.err).replace(f"model.weights=https://{SECRET}", "")
    assert "data.example" in said.out


def test_a_refused_launch_does_not_repeat_it(home: Path) -> None:
    del home
    said = plan("launch", "job.yaml", "--provider", "local", "--yes")
    assert said.code == 2
    assert SECRET not in said.out + said.err


def test_what_a_person_agrees_to_does_not_hold_it() -> None:
    job = a_job(model={"preset": "vgg16", "image_size": 64, "classes": 2}, data={"url": URL, "images": 100})
    assert foreign_parts(job) == ["data: https://…@data.example/x.tar?…, named by the job"]


def _refusing(url: str, headers: dict[str, str]) -> Any:
    del headers
    raise urllib.error.HTTPError(url, 403, "Forbidden", Message(), None)


def test_a_machine_that_may_not_read_it_does_not_write_it_into_its_run(tmp_path: Path) -> None:
    with pytest.raises(WebError, match=r"https://data\.example/x\.tar answers 403") as caught:
        list(download(URL, tmp_path / "x.tar", 10, tmp_path, _refusing))
    assert SECRET not in str(caught.value)


_WORDS = st.text(alphabet="abcXYZ019-._~%", min_size=1, max_size=12)


@given(st.sampled_from(["https", "s3", "az"]), _WORDS, _WORDS, _WORDS)
def test_nothing_of_user_password_and_query_is_shown(scheme: str, user: str, host: str, key: str) -> None:
    shown = shown_address(f"see {scheme}://{user}:p!{user}@{host}/a/b?{key}=q!{key}#f!{key} there")
    assert shown == f"see {scheme}://…@{host}/a/b?… there"
    assert shown_address(f"{scheme}://{host}/a/b") == f"{scheme}://{host}/a/b"
