"""`plan estimate --format markdown`: tables that GitHub draws, and nothing in them that it obeys."""

from __future__ import annotations

import re

import pytest

from tests.unit.planner.cli.command import plan
from trainplan.planner.report.markdown import escaped, markdown
from trainplan.planner.report.page import Chart, Column, Table

JOB = ("--model", "vgg16", "--dataset", "cifar10", "--device", "T4")


def test_a_table_has_a_row_for_each_and_its_headings_keep_their_place() -> None:
    table = Table((Column(""), Column("A", right=True)), (("cost", ""), ("", ""), ("  time", "1d|2")))
    assert markdown(["a line\nanother", "", Chart("c", [], ("", ""), ("", "")), table]) == (
        "a line\n\nanother\n\n|  | A |\n|---|---:|\n| cost |  |\n| &nbsp;&nbsp;time | 1d\\|2 |\n"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<img src=x onerror=alert(1)>", r"\<img src=x onerror=alert(1)\>"),
        ("[a](http://b) `c` *d* _e_ ~f~", "\\[a\\](http\u200b://b) \\`c\\` \\*d\\* \\_e\\_ \\~f\\~"),
        ("@octocat and org@here.org", "@\u200boctocat and org@here.org"),
        ("see #12, GH", "see #\u200b12, GH"),
        ("a\nb\x1b[31m\u202e", r"a b\\u202e"),
        ("&lt;", r"\&lt;"),
        ("www.example.org", "www\u200b.example.org"),
    ],
)
def test_nothing_is_markup_a_link_or_a_call(text: str, shown: str) -> None:
    assert escaped(text) == shown


@pytest.mark.parametrize("line", ["# heading", "- item", "1. item", "> quote", "=== under", "+ item", ": item"])
def test_a_line_is_a_paragraph_whatever_it_begins_with(line: str) -> None:
    text = markdown([line])
    assert text.startswith("\\") or text.startswith("1\\")
    assert text.replace("\\", "").replace("\u200b", "") == line + "\n"


def test_a_comparison_as_markdown_says_what_the_text_says() -> None:
    text = plan("estimate", *JOB, "--compare", "precision=fp32").out
    told = plan("estimate", *JOB, "--batch", "64", "--compare", "global_batch_size=128", "--format", "markdown")
    assert told.code == 0
    assert "|  | A | B | difference |\n|---|---|---|---|\n| cheapest offer |" in told.out
    assert "global\\_batch\\_size 64 -\\> 128" in told.out
    rows = re.findall(r"^\| (?:&nbsp;)*([^|]*?) \|", told.out, re.MULTILINE)
    assert {"where", "device", "time", "price"} <= set(rows)
    assert "this machine" in text
    assert "this machine" not in told.out, "it is read elsewhere"


def test_an_estimate_as_markdown_has_the_asked_rows() -> None:
    told = plan("estimate", *JOB, "--limit", "2", "--format", "markdown")
    assert told.code == 0
    assert len(re.findall(r"^\| \d+ \|", told.out, re.MULTILINE)) == 2
    assert "this machine" not in told.out


def test_markdown_and_json_are_two_answers() -> None:
    done = plan("estimate", *JOB, "--format", "markdown", "--json")
    assert (done.code, done.error) == (2, "--format markdown and --json cannot be combined")
    assert plan("estimate", *JOB, "--format", "html").error == "--format: there is no 'html'"
