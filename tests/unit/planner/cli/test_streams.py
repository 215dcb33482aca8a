"""Closed, full and broken standard streams: a sentence or nothing, a documented code, and every deed done."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.desk import TINY
from trainplan.planner.cli.streams import GuardedStream, guarded, has_failed, terminal_size, undelivered, unfiltered

LOST = "error: the output could not be written to stdout: "
HINT = "hint: the command did its work, but its output is lost\n"
CODE = "from trainplan.planner.cli.main import main; main()"


def shell(folder: Path, arguments: str, redirections: str) -> subprocess.CompletedProcess[str]:
    """`plan ARGUMENTS REDIRECTIONS` as a shell runs it."""
    (folder / "job.yaml").write_text(TINY)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PLAN_")}
    there = {"PLAN_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT), "PLAN_ENGINE": "process"}
    program = f"{shlex.quote(sys.executable)} -c {shlex.quote(CODE)}"
    return subprocess.run(
        ["/bin/sh", "-c", f"{program} {arguments} {redirections}"], cwd=folder, env=kept | there, capture_output=True,
        text=True, timeout=300, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "redirections", "code", "message"),
    [
        ("devices", ">&-", 9, f"{LOST}it is closed\n{HINT}"),
        ("estimate job.yaml --limit 1", ">&-", 9, f"{LOST}it is closed\n{HINT}"),
        ("--version", ">&-", 9, f"{LOST}it is closed\n{HINT}"),
        ("--help", ">&-", 9, f"{LOST}it is closed\n{HINT}"),
        ("devices", ">/dev/full", 9, f"{LOST}No space left on device\n{HINT}"),
        ("estimate job.yaml --limit 1", ">/dev/full", 9, f"{LOST}No space left on device\n{HINT}"),
        ("history --json", ">/dev/full", 9, f"{LOST}No space left on device\n{HINT}"),
        ("stop nothing", ">&-", 2, "error: there is no run 'nothing'\nhint: plan history lists them\n"),
        ("stop nothing", "2>&-", 2, ""),
        ("stop nothing", "2>/dev/full", 2, ""),
        ("devices", ">&- 2>&-", 9, ""),
        ("status", "<&- >&- 2>&-", 9, ""),
        ("history", "<&-", 0, ""),
        ("launch job.yaml --provider sim", "<&-", 2, None),
        ("init job.yaml", "<&-", 2, None),
    ],
)
def test_a_stream_that_is_closed_or_full_gives_a_sentence(
    tmp_path: Path, arguments: str, redirections: str, code: int, message: str | None
) -> None:
    done = shell(tmp_path, arguments, redirections)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    if message is not None:
        assert done.stderr == message


def test_a_home_that_nobody_knows_is_no_traceback(tmp_path: Path) -> None:
    code = "import os; [os.environ.pop(name, None) for name in ('HOME', 'PLAN_HOME', 'XDG_STATE_HOME')]; " + CODE
    for home in (None, "", "/nonexistent"):
        kept = {name: value for name, value in os.environ.items() if name not in ("HOME", "PLAN_HOME")}
        there = kept | {"PYTHONPATH": str(ROOT)} | ({} if home is None else {"HOME": home})
        done = subprocess.run(
            [sys.executable, "-c", CODE if home is not None else code, "devices", "--json"], cwd=tmp_path, env=there,
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr


class Full(io.StringIO):
    """Takes so many texts and then none."""

    def __init__(self, texts: int, error: OSError) -> None:
        super().__init__()
        self.texts_left, self.error = texts, error

    def write(self, text: str) -> int:
        if not self.texts_left:
            raise self.error
        self.texts_left -= 1
        return super().write(text)


@pytest.mark.parametrize(
    ("error", "why"),
    [(OSError(28, "No space left on device"), "No space left on device"), (BrokenPipeError(32, "Broken pipe"), "")],
)
def test_what_cannot_be_written_is_dropped_and_told_at_the_end(error: OSError, why: str) -> None:
    inner = Full(1, error)
    stream = GuardedStream(inner)
    stream.writelines(["one\n", "two\n", "three\n"])
    stream.write("four\n")
    assert inner.getvalue() == "one\n"
    assert has_failed(stream)  # type: ignore[arg-type]
    assert undelivered(stream) == why  # type: ignore[arg-type]


def test_the_filter_shows_control_characters_and_keeps_lines() -> None:
    inner = io.StringIO()
    GuardedStream(inner).write("a\tb\n\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2K ü\n")
    assert inner.getvalue() == "a\tb\nred \\x1b]0;title\\x07 \\x9b2K ü\n"
    unfiltered(GuardedStream(inner)).write("\x1b[2K")  # type: ignore[arg-type]
    assert inner.getvalue().endswith("\x1b[2K")


def test_closed_streams_are_replaced_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    with guarded():
        assert not sys.stdin.isatty()
        assert not sys.stdout.isatty()
        assert sys.stdin.read() == ""
        sys.stderr.write("nobody reads this")
        assert undelivered(sys.stdout) == ""
        sys.stdout.write("nor this")
        assert undelivered(sys.stdout) == "it is closed"
    assert (sys.stdin, sys.stdout, sys.stderr) == (None, None, None)


def test_a_descriptor_that_is_closed_is_not_given_to_the_next_file(tmp_path: Path) -> None:
    code = (
        "from trainplan.planner.cli.streams import open_closed_descriptors; open_closed_descriptors(); "
        f"print(open({str(tmp_path / 'journal')!r}, 'w').fileno() > 2, file=open({str(tmp_path / 'said')!r}, 'w'))"
    )
    program = f"{shlex.quote(sys.executable)} -c {shlex.quote(code)} <&- >&- 2>&-"
    there = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(["/bin/sh", "-c", program], cwd=tmp_path, env=there, timeout=300, check=True)
    assert (tmp_path / "said").read_text() == "True\n"


def test_letters_that_the_encoding_lacks_are_escaped_and_nothing_else_is_lost() -> None:
    raw = io.BytesIO()
    stream = GuardedStream(io.TextIOWrapper(raw, encoding="ascii", write_through=True))
    stream.write("gcp asia-southeas\u2026\n")
    stream.write("the next line\n")
    assert raw.getvalue() == b"gcp asia-southeas\\u2026\nthe next line\n"
    assert not stream.failure


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [20, 40, 80, 133])
def test_messages_break_between_words_at_a_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error with its hint, whose command is typed again from the screen; a question keeps its last blank."""
    monkeypatch.setenv("COLUMNS", str(columns))
    error, terminal = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stderr", error)
    monkeypatch.setattr(sys, "stdout", terminal)
    long = "word and another " * 12
    with guarded():
        sys.stderr.write(f"error: {long}\nhint: {long}\n  {long.strip()}? [y/N]: ")
        sys.stdout.write(f"{long}\n")
    lines = error.getvalue().split("\n")
    assert max(map(len, lines)) <= columns
    assert {word for line in lines for word in line.split()} == {"word", "and", "another", "error:", "hint:"} | {
        "another?",
        "[y/N]:",
    }
    assert error.getvalue().endswith("[y/N]: ")
    assert terminal.getvalue() == f"{long}\n", "a program may read it"


def test_messages_in_a_file_stay_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setattr(sys, "stderr", file)
    with guarded():
        sys.stderr.write("a sentence that is longer than twenty characters\n")
    assert file.getvalue() == "a sentence that is longer than twenty characters\n"


@pytest.mark.parametrize("variable", ["", "0", "-3", "many", "99999999"])
def test_a_terminal_without_a_size_is_taken_to_have_80_by_24(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", variable)
    monkeypatch.delenv("LINES", raising=False)
    assert terminal_size(io.StringIO()) == (80, 24)
    monkeypatch.setenv("COLUMNS", "97")
    monkeypatch.setenv("LINES", "31")
    assert terminal_size(io.StringIO()) == (97, 31)


def test_ctrl_c_while_modules_are_imported_is_no_traceback(tmp_path: Path) -> None:
    """On a busy computer the start takes seconds."""
    program = f"""
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "trainplan.planner.cli.app":
            os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupting())
{CODE}
"""
    environment = os.environ | {"PLAN_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
