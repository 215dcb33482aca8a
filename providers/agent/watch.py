"""What can end an attempt at any moment: the cloud's notice, the person, a deadline, a full disk. And the heartbeat."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from trainplan.providers.agent.endings import RESTARTING, STORE_REFUSED, Ending, failed
from trainplan.providers.agent.loop import Duty
from trainplan.providers.agent.plain_file import written_whole
from trainplan.providers.agent.status import HEARTBEAT_SECONDS, Status
from trainplan.workloads.output_files import STOPPED_FOR_GOOD

if TYPE_CHECKING:
    from trainplan.providers.agent.machine import AgentMachine
    from trainplan.providers.agent.notices import Notices

NOTICE_SECONDS = 2.0
"""Google gives 30 seconds, so that 5 of them would be missed."""
STOP = "control/stop"
STOP_SECONDS = 15.0
DISK_SECONDS = 10.0
LEAST_FREE_BYTES = 128 * 1024 * 1024
GOING_DOWN_SECONDS = 25.0
LEAD_SECONDS = 5.0
"""Ahead of the machine's own timer at the boot deadline, which cannot say what the machine was at."""
BACK_SECONDS = 1800.0
"""To the first step of a machine that has trained before and was restarted: its boot deadline may be long past."""
_RESTARTS = ("reboot.target", "kexec.target")


class AttemptWatch:
    """`ending` is why the attempt ends, once something has asked for it."""

    def __init__(self, machine: AgentMachine, status: Status, notices: Notices) -> None:
        self.ending: Ending | None = None
        self.training = False
        """Set once the container trains: the boot deadline is met."""
        self.going_down = False
        """Set by a signal: the system is shutting down under us."""
        self._machine = machine
        self._status = status
        self._notices = notices
        self._trained = trained = machine.paths.running_mark.exists()
        back = machine.clock.now() + BACK_SECONDS if trained else 0.0
        self._begins_by = max(machine.spec.boot_deadline - LEAD_SECONDS, back)
        self._duties = (
            Duty(0.0, self._signal),
            Duty(NOTICE_SECONDS, self._notice),
            Duty(0.0, self._deadlines),
            Duty(STOP_SECONDS, self._stop),
            Duty(DISK_SECONDS, self._disk),
            Duty(HEARTBEAT_SECONDS, status.write),
            Duty(0.0, self._denied),
        )

    def look(self) -> None:
        """Do each duty that is due."""
        now = self._machine.clock.steady()
        for duty in self._duties:
            duty.when_due(now)

    def ask(self, ending: Ending) -> None:
        """The first to ask says how it ends; a later one can only leave it less time."""
        if self.ending is None:
            self.ending = ending
        elif ending.by is not None:
            by = ending.by if self.ending.by is None else min(ending.by, self.ending.by)
            self.ending = replace(self.ending, by=by, notice=self.ending.notice or ending.notice)

    def _signal(self) -> None:
        if self.going_down:
            self.going_down = False
            by = self._machine.clock.now() + GOING_DOWN_SECONDS
            if self._comes_back():
                self.ask(Ending(RESTARTING, "MACHINE_RESTARTS", "the machine is restarted; the attempt goes on", by=by))
            else:
                self.ask(Ending("interrupted", "MACHINE_GOING_DOWN", "the machine was shut down from outside", by=by))

    def _comes_back(self) -> bool:
        """Whether what systemd is about is a restart; where it does not say, the machine is taken to go for good."""
        process = self._machine.processes.run(("systemctl", "list-jobs", "--no-legend", "--no-pager"), 10.0)
        return any(target in process.output for target in _RESTARTS)

    def _notice(self) -> None:
        if self.ending is not None and self.ending.notice is not None:
            return
        notice = self._notices.look()
        if notice is not None:
            self.ask(Ending("interrupted", "INTERRUPTED", notice.text, by=notice.at, notice=notice))

    def _deadlines(self) -> None:
        spec, now = self._machine.spec, self._machine.clock.now()
        if now >= spec.deadline - spec.end_reserve_seconds:
            self.ask(Ending("deadline", "DEADLINE", "the deadline was reached", by=spec.deadline))
        if not self.training and now >= self._begins_by:
            text = f"training had not begun by the boot deadline; the machine was {self._status.state}"
            self.ask(failed("BOOT_DEADLINE", text))

    def _stop(self) -> None:
        if self.ending is not None:
            if self.ending.state == "stopped" and self.training:
                self._pass_on_that_it_is_for_good()  # it was a move, and a person has stopped the run meanwhile
            return
        try:
            self._machine.store.get(STOP)
        except KeyError:
            return
        self._pass_on_that_it_is_for_good()
        self.ask(Ending("stopped", "STOPPED", "stopped by the person"))

    def _pass_on_that_it_is_for_good(self) -> None:
        """Leave the mark of the store, if it is there, for what trains."""
        name = f"{self._machine.spec.folder}/{STOPPED_FOR_GOOD}"
        try:
            mark = self._machine.store.get(name)
        except KeyError:
            return  # the run goes on elsewhere
        top = self._machine.paths.run_dir
        with contextlib.suppress(OSError), written_whole(top, top / name) as file:  # it ends without, too
            file.write(mark)

    def _denied(self) -> None:
        """Raise for a machine that the store has refused from the start. A machine that loses its right later may get
        it back while it trains.
        """
        since, limit, clock = self._status.denied_since, self._machine.spec.refused_seconds, self._machine.clock
        if self._trained or self._status.is_heard or not limit or since is None:
            return
        if clock.steady() - since >= limit:
            text = f"this machine may not write its run directory: {self._status.denied}"
            self.ask(replace(failed(STORE_REFUSED, text), by=clock.now() + GOING_DOWN_SECONDS))

    def _disk(self) -> None:
        free = self._machine.free_bytes(self._machine.paths.root)
        if free < LEAST_FREE_BYTES:
            text = f"the machine's disk is full ({free / 1e6:.0f} MB free); rent it with a larger one"
            self.ask(failed("DISK_FULL", text))
