"""Folders that are made without following a link."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from trainplan.providers.agent.plain_file import NotPlainError, plain_folder

pytestmark = pytest.mark.skipif(os.mkdir not in os.supports_dir_fd, reason="folders have no descriptors here")


def test_a_folder_that_another_process_makes_at_the_same_time_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = os.mkdir

    def second(name: str, *rest: Any, **where: Any) -> None:
        mkdir(name, *rest, **where)  # the other process is faster
        mkdir(name, *rest, **where)

    monkeypatch.setattr(os, "mkdir", second)
    with plain_folder(tmp_path, tmp_path / "attempts" / "1", make=True):
        assert (tmp_path / "attempts" / "1").is_dir()


def test_a_link_that_another_process_puts_there_at_the_same_time_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def link(name: str, *_: Any, **where: Any) -> None:
        os.symlink(elsewhere, name, **where)  # noqa: PTH211  below an open folder
        raise FileExistsError(name)

    monkeypatch.setattr(os, "mkdir", link)
    with pytest.raises(NotPlainError), plain_folder(tmp_path, tmp_path / "attempts", make=True):
        pass
    assert list(elsewhere.iterdir()) == []
