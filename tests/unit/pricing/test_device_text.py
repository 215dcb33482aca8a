"""Tables of TOML: every row comes with the line that it begins on."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainplan.pricing.device_text import toml_rows
from trainplan.pricing.table_text import TableError


def test_a_header_with_a_comment_is_a_row_too(tmp_path: Path) -> None:
    file = tmp_path / "rows.toml"
    file.write_text('[[row]]  # the first\nname = "a"\n\n  [[ row ]]\nname = "b"\n')
    assert list(toml_rows(file, "row")) == [("rows.toml:1", {"name": "a"}), ("rows.toml:4", {"name": "b"})]


def test_rows_that_are_written_otherwise_are_refused_and_not_dropped(tmp_path: Path) -> None:
    file = tmp_path / "rows.toml"
    file.write_text('row = [{name = "a"}, {name = "b"}]\n')
    with pytest.raises(TableError, match="on a line of its own"):
        list(toml_rows(file, "row"))
