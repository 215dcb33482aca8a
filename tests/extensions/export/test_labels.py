"""Names of places: different for different jobs, the same for a job that is exported again."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from trainplan.extensions.export.labels import mark, place_name

NAMES = ("run1", "run.1", "run-1", "run_1", "1", f"{'a' * 62}b", f"{'a' * 62}c", "a" * 63)
FOLDERS = ("/home/ada/x", "/home/ada/y", "/home/\udcff")
HOSTS = ("one", "two", "")


@pytest.mark.parametrize("longest", [40, 42, 53])
def test_what_differs_in_anything_has_a_name_of_its_own(longest: int) -> None:
    exports = list(product(NAMES, HOSTS, FOLDERS))
    names = {place_name(*export, longest) for export in exports}
    assert len(names) == len(exports)
    for name in names:
        assert re.fullmatch("[a-z](-?[a-z0-9])+", name)
        assert len(name) <= longest
    assert names == {place_name(*export, longest) for export in exports}


def test_a_folder_has_one_mark_however_it_is_typed(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to("out")
    typed = (tmp_path / "out", tmp_path / "link", tmp_path / "out" / ".." / "out")
    assert len({mark("run1", "here", str(folder)) for folder in typed}) == 1
