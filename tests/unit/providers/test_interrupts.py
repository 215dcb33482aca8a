"""Signals are noted, and raised where somebody asks: never out of a handler."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from trainplan.providers import interrupts
from trainplan.providers.interrupts import HungUp

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has neither of these signals")
CASES = [(signal.SIGHUP, HungUp), (signal.SIGTERM, HungUp), (signal.SIGINT, KeyboardInterrupt)]


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


@pytest.fixture(autouse=True)
def the_systems_ctrl_c() -> Iterator[None]:
    """As in a command: a test runner may have one of its own."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("number", "error"), CASES)
def test_a_signal_is_raised_once_where_somebody_asks_and_handlers_are_put_back(
    number: signal.Signals, error: type[BaseException]
) -> None:
    before, heard = signal.getsignal(number), []
    with interrupts.noted():
        send(number)
        heard.append("went on")
        with pytest.raises(error):
            interrupts.ask()
        interrupts.ask()
    assert heard == ["went on"]
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(("number", "error"), CASES)
def test_a_wait_ends_where_a_signal_comes(number: signal.Signals, error: type[BaseException]) -> None:
    with interrupts.noted():
        send(number)
        with pytest.raises(error):
            interrupts.wait(3600)


@pytest.mark.parametrize(("number", "error"), CASES)
def test_a_signal_that_comes_where_python_drops_exceptions_is_heard_of(
    number: signal.Signals, error: type[BaseException]
) -> None:
    """`Exception ignored in: …`: the command went on until it was killed."""

    class Dying:
        def __del__(self) -> None:
            send(number)

    with interrupts.noted():
        Dying()
        with pytest.raises(error):
            interrupts.ask()


def test_two_signals_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "MOST_UNASKED", 3)
    with interrupts.noted():
        send(signal.SIGINT)
        send(signal.SIGINT)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                interrupts.ask()
        interrupts.ask()


_HANGS = """
import sys
from trainplan.providers import interrupts
with interrupts.noted():
    print("ready", flush=True)
    seen = 0
    while True:
        if len(interrupts._NOTES) > seen:
            seen = len(interrupts._NOTES)
            print("heard", flush=True)
"""


@pytest.mark.parametrize(("number", "times"), [(signal.SIGTERM, 2), (signal.SIGHUP, 2), (signal.SIGINT, 3)])
def test_a_command_that_asks_for_nothing_is_ended_by_the_next_signal(number: signal.Signals, times: int) -> None:
    with subprocess.Popen([sys.executable, "-c", _HANGS], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for _ in range(times):
            process.send_signal(number)
            assert process.stdout.readline() in ("heard\n", "")
        assert process.wait(60) == -number


def test_a_notebook_keeps_its_own_ctrl_c() -> None:
    def own(number: int, frame: object) -> None:
        raise AssertionError(number, frame)

    signal.signal(signal.SIGINT, own)
    with interrupts.noted():
        assert signal.getsignal(signal.SIGINT) is own
