"""What a script prints is written without secrets, whatever pieces it comes in, and otherwise as it is."""

from __future__ import annotations

import base64
import contextlib
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.doubles.own_script import lines, run
from tests.doubles.waiting import until
from tests.rows import each_row
from tests.unit.workloads.test_secret_rules import SECRETS
from trainplan.workloads.secret_rules import secret_kinds
from trainplan.workloads.trainer.printed_cover import PrintedCover, relay, secret_values

TOKEN = SECRETS["github personal"]


def written(*pieces: bytes, values: list[str] | None = None, idle: bool = False) -> bytes:
    """What is written of these pieces; with `idle` nothing more comes for a while behind each."""
    cover = PrintedCover(values or [])
    told = b"".join(cover.add(piece) + (cover.rest() if idle else b"") for piece in pieces)
    return told + cover.add(b"", is_last=True)


@each_row("text", SECRETS.values(), ids=SECRETS)
def test_a_secret_is_covered_whatever_pieces_it_comes_in(text: str) -> None:
    data = f"first\nconfig {text}\nlast".encode()
    draw = random.Random(len(text))
    cuts = sorted(draw.sample(range(len(data)), 6))
    pieces = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    whole = written(data).decode()
    assert not list(secret_kinds(whole))
    assert text not in whole
    assert whole.startswith("first\n")
    assert whole.endswith("\nlast")
    assert written(*pieces).decode() == whole


@pytest.mark.parametrize("name", ["github personal", "aws key id", "openai project", "hugging face", "npm"])
def test_a_secret_in_the_middle_of_which_a_program_pauses_is_covered(name: str) -> None:
    text = SECRETS[name]
    for cut in range(9, len(text)):
        told = written(f"login {text[:cut]}".encode(), f"{text[cut:]} done\n".encode(), idle=True)
        assert told == "login … done\n".encode()


def test_a_private_key_is_covered_over_its_lines_and_nothing_behind_it() -> None:
    key = "\n".join(
        ["-----BEGIN RSA PRIVATE " + "KEY-----", *["MIIEowIBAAKCAQEA" * 4] * 3, "-----END RSA PRIVATE " + "KEY-----"]
    )
    told = written(*(bytes([one]) for one in f"a\n{key}\nepoch 1\n".encode())).decode()
    assert told == "a\n" + "…\n" * 5 + "epoch 1\n"


@each_row(
    "data",
    [
        b"\r 10%|#   | 1/9\r 20%|##  | 2/9\r\n",
        bytes(range(256)) * 300,
        "Verlust 0,3 größer\n█▉▊ 12 %\r".encode(),
        b"no end",
        b"\n\n\r\n\n",
        b"the key is in the token of the password\n" * 3,
        b"x" * 100_000,
        b"",
    ],
)
@each_row("size", [1, 7, 4096, 10**6])
def test_everything_else_is_written_as_it_is(data: bytes, size: int) -> None:
    data = data[: 3000 * size]
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    assert written(*pieces) == data
    assert written(*pieces, idle=True) == data


def test_a_secret_is_covered_in_a_line_that_does_not_end() -> None:
    for before in (16_000, 16_380, 40_000, 12_288):
        told = written(b"ab, " * (before // 4), f"{TOKEN} ".encode(), b"ab, " * 20_000)
        assert TOKEN.encode() not in told
        assert told == b"ab, " * (before // 4) + "… ".encode() + b"ab, " * 20_000


def test_what_has_no_end_yet_is_written_after_a_while_but_for_a_long_word() -> None:
    cover = PrintedCover()
    assert cover.add(b"a\nDownloading ") == b"a\n"
    assert cover.rest() == b"Downloading "
    assert (cover.add(b"."), cover.rest(), cover.add(b"."), cover.rest()) == (b"", b".", b"", b".")
    assert cover.add(b" done\nnext") == b" done\n"
    assert (cover.add(b"WordThatMayGoOn"), cover.rest()) == (b"", b"")
    assert cover.add(b"\n") == b"nextWordThatMayGoOn\n"


def test_known_values_are_covered() -> None:
    values = secret_values({"DB_PASSWORD": "correct horse\nbattery staple", "PATH": "/usr/local/bin", "MY_TOKEN": "1"})
    assert values == ["correct horse", "battery staple", "1"]
    assert written(b"in: battery staple, correct horse 1 /usr/local/bin\n", values=values) == (
        "in: …, … 1 /usr/local/bin\n".encode()
    )


def test_who_prints_goes_on_where_nothing_is_taken() -> None:
    source, printed = os.pipe()
    full = os.open("/dev/full", os.O_WRONLY)
    thread = threading.Thread(target=relay, args=(source, full, PrintedCover()))
    thread.start()
    for _ in range(50):
        os.write(printed, b"line\n" * 1000)
    os.close(printed)
    thread.join(20)
    assert not thread.is_alive()
    os.close(full)
    os.close(source)


def test_a_line_that_has_not_ended_is_written_while_its_program_goes_on() -> None:
    (source, printed), (shown, target) = os.pipe(), os.pipe()
    threading.Thread(target=relay, args=(source, target, PrintedCover())).start()
    os.write(printed, f"key {TOKEN}\r.".encode())
    seen = b""
    os.set_blocking(shown, False)

    def shows(text: bytes) -> bool:
        nonlocal seen
        with contextlib.suppress(BlockingIOError):
            seen += os.read(shown, 1000)
        return seen == text

    until(lambda: shows("key …\r.".encode()), "the line and its beginning", seconds=20)
    os.close(printed)


SCRIPT = """\
import base64, os, sys, trainplan_run
token = base64.b64decode("TOKEN").decode()
print("token", token)
print("\\r" + token, end="", file=sys.stderr, flush=True)
os.system(f"echo child {token}; echo $MY_PASSWORD")
trainplan_run.report(1, 4, 2, **{token: 0.5, "note": f"by {token}", "password": "plain", "loss": 0.3})
trainplan_run.report(2, 4, 2)
raise SystemExit(token)
"""


@pytest.mark.slow
def test_neither_the_output_nor_the_progress_of_a_script_keeps_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_PASSWORD", "hunter-of-hunters")
    folder = tmp_path / "run"
    done = run(folder, SCRIPT.replace("TOKEN", base64.b64encode(TOKEN.encode()).decode()))
    printed = done.stdout + done.stderr
    kept = "".join(path.read_text() for path in (folder / "attempts").rglob("*") if path.is_file())
    assert TOKEN not in printed + kept
    assert "hunter" not in printed + kept
    assert "token …\n" in printed
    assert "child …\n" in printed
    step = next(line for line in lines(folder) if line["event"] == "step")
    assert (step["loss"], step["note"], step["password"], step["…"]) == (0.3, "by …", "…", 0.5)


PRINTS = """\
import base64, sys
from trainplan.workloads.trainer.printed_cover import cover_prints
cover_prints(); cover_prints()
token = base64.b64decode(sys.argv[1]).decode()
print("built with", token)
print("weights \\udcff", file=sys.stderr)
print(token, end="", flush=True)
"""


def test_what_a_network_prints_in_the_trainer_has_no_secret() -> None:
    command = [sys.executable, "-c", PRINTS, base64.b64encode(TOKEN.encode()).decode()]
    for encoding, cover in (("utf-8", "…"), ("ascii", "\\u2026")):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": encoding}
        done = subprocess.run(command, capture_output=True, check=True, env=environment)
        assert done.stdout.decode() == f"built with {cover}\n{cover}"
        assert done.stderr == b"weights \\udcff\n"
