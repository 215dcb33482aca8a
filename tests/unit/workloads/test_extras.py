"""How an extra is installed: from where the project came from, into the environment that it runs in."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from trainplan.workloads.extras import install_hint


def hint(record: object, prefix: str = "/env") -> str:
    return install_hint("aws", prefix, json.dumps(record))


def test_a_checkout_is_named_whole(tmp_path: Path) -> None:
    checkout = tmp_path / "my checkout"
    checkout.mkdir()
    record = {"url": checkout.as_uri(), "dir_info": {}}
    assert hint(record).endswith(f"python -m pip install '{checkout}[aws]'")
    record["dir_info"] = {"editable": True}
    assert hint(record).endswith(f"python -m pip install -e '{checkout}[aws]'")


def test_an_address_is_named_with_the_project() -> None:
    git = {"url": "https://git.example/t", "vcs_info": {"vcs": "git", "commit_id": "1"}}
    assert hint(git).endswith("'trainplan[aws] @ git+https://git.example/t'")
    wheel = {"url": "https://files.example/trainplan-1-py3-none-any.whl", "archive_info": {}}
    assert hint(wheel).endswith("'trainplan[aws] @ https://files.example/trainplan-1-py3-none-any.whl'")


@pytest.mark.parametrize("record", [{"url": "file:///is/gone", "dir_info": {}}, {}, None, {"url": "ftp://x"}])
def test_a_source_that_is_gone_is_described(record: object) -> None:
    assert hint(record).endswith("'.[aws]', in a checkout of trainplan")


@pytest.mark.skipif(sys.platform == "win32", reason="paths of POSIX")
@pytest.mark.parametrize(
    ("prefix", "command"),
    [
        ("/home/me/.local/share/pipx/venvs/trainplan", "pipx runpip trainplan install"),
        (
            "/home/me/uv/tools/trainplan",
            "uv pip install --python /home/me/uv/tools/trainplan",
        ),
        ("/home/me/env", "/home/me/env/bin/python -m pip install"),
    ],
)
def test_it_goes_into_the_environment_of_the_command(prefix: str, command: str) -> None:
    assert hint(None, prefix).startswith(f"{command} '")
