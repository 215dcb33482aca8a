"""The table of sizes in docs/installation.md has every extra, and is written between its marks and nowhere else."""

from __future__ import annotations

import re

import pytest

from scripts.extra_sizes import BEGIN, END, PAGE, extras, requirements, with_table, without_framework


def test_the_page_has_a_size_for_every_extra_and_for_none() -> None:
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    text, _, _ = rest.partition(END)
    assert re.findall(r"^\| (?:`([\w-]+)`|\(none\)) \| \d+ \| [\d,]+ \|", text, re.MULTILINE) == ["", *extras()]
    assert re.search(r"^Measured on \d{4}-\d\d-\d\d with Python 3\.\d+", text, re.MULTILINE)


def test_extras_of_extras_are_resolved() -> None:
    lines = requirements(["all"])
    assert not any(line.startswith("trainplan") for line in lines)
    assert any(line.startswith("boto3") for line in lines)
    assert any(line.startswith("pydantic") for line in lines)


def test_all_trains_without_cuda_and_draws() -> None:
    lines = requirements(["all"])
    assert any(line.startswith("tensorflow-cpu") and "linux" in line for line in lines)
    assert any(line.startswith("matplotlib") for line in lines)


def test_both_forms_of_tensorflow_are_left_out_and_nothing_else() -> None:
    lines = ["tensorflow-cpu>=2; sys_platform == 'linux'", "tensorflow>=2", "tensorboard>=2", "keras>=3"]
    assert without_framework(lines) == ["tensorboard>=2", "keras>=3"]


def test_the_table_is_written_between_the_marks() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert with_table(page, "new") == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    with pytest.raises(ValueError, match="the page has no"):
        with_table("before\n", "new")
