"""A command that runs under a baton: told when the baton is lost, and of signals to this program.

A process of its own (`baton_guardian.py`) runs it, and ends all that came of it when this program
is gone, or stands still for longer than the baton is held. Its exit code is this program's; as in a
shell, one that a signal ended has 128 and its number. The baton is held until nobody of the
command's group is there any more.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from snowmelt.cli import baton_guardian
from snowmelt.cli.baton_guardian import give_terminal
from snowmelt.client.baton.face import Held
from snowmelt.core.errors import BadOption
from snowmelt.core.instant import later, seconds
from snowmelt.runtime.clock import STEADY, steady_now

KILL_AFTER: Final = 10.0
PASSED_ON: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
TELL: Final = 0.25
"""How often the guardian is told until when the baton is held."""


def check_kill_after(seconds: float) -> None:
    """Refuses a time that no clock counts."""
    if not 0 <= seconds <= 86_400:
        raise BadOption("--kill-after", seconds, "0 to 86400 seconds")


class Command:
    """One command, run once while something is held."""

    def __init__(self, words: list[str], held: Held, kill_after: float) -> None:
        self._words = words
        self._held = held
        self._kill_after = kill_after
        self._control = -1
        self._group = 0
        self._early: list[int] = []  # signals that came before there was whom to give them to

    def run(self) -> int:
        """Runs it to its end; its exit code."""
        has_terminal = terminal_is_ours()
        with self._signals_passed_on():
            guardian, report = self._start(has_terminal)
            watcher = threading.Thread(target=self._watch, daemon=True)
            watcher.start()
            try:
                self._listen(report, has_terminal)
                code = guardian.wait()
            finally:
                if has_terminal:
                    give_terminal(os.getpgrp())
            if code < 0 and self._group:  # it was killed, and could not do its work
                with suppress(OSError):
                    os.killpg(self._group, signal.SIGKILL)
        return code if code >= 0 else 128 - code

    def _start(self, has_terminal: bool) -> tuple[subprocess.Popen[bytes], int]:
        held = self._held
        environment = os.environ | {"SNOWMELT_BATON": held.name, "SNOWMELT_FENCE": str(held.fence)}
        heard, control = os.pipe()
        report, told = os.pipe()
        terminal = "terminal" if has_terminal else "none"
        options = (heard, told, STEADY, terminal, self._kill_after)
        program = [sys.executable, "-I", "-S", baton_guardian.__file__, *map(str, options)]
        guardian = subprocess.Popen(
            [*program, *self._words], env=environment, pass_fds=(heard, told)
        )
        os.close(heard)
        os.close(told)
        self._control = control
        self._tell_time()
        for number in self._early:
            self._say(b"signal %d" % number)
        return guardian, report

    def _listen(self, report: int, has_terminal: bool) -> None:
        """What the guardian reports, until it ends."""
        with os.fdopen(report, "rb") as lines:
            for line in lines:
                if line.startswith(b"!"):
                    allowed = f"a program that can be run ({line[1:].decode().strip()})"
                    raise BadOption("COMMAND", self._words[0], allowed)
                if line != b"stopped\n":
                    self._group = int(line)
                elif has_terminal:  # as the shell would see it stopped that began this
                    give_terminal(os.getpgrp())
                    os.killpg(os.getpgrp(), signal.SIGTSTP)
                    self._go_on()

    def _watch(self) -> None:
        """Has the command ended when it has no right to go on."""
        while not self._held.wait_lost(TELL):
            if not self._held.seconds_left:
                return  # given up
            self._tell_time()
        self._say(b"lost")

    def _tell_time(self) -> None:
        self._say(b"until %d" % later(steady_now(), seconds(self._held.seconds_left)))

    def _say(self, line: bytes) -> None:
        with suppress(OSError):  # it has ended, or ends
            os.write(self._control, line + b"\n")

    @contextmanager
    def _signals_passed_on(self) -> Iterator[None]:
        heeded = [one for one in PASSED_ON if signal.getsignal(one) is not signal.SIG_IGN]
        before = {number: signal.signal(number, self._pass_on) for number in heeded}
        before[signal.SIGCONT] = signal.signal(signal.SIGCONT, lambda *_: self._go_on())
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        """Keys are not heard here: the command is before the terminal, if this program was."""
        del frame
        if self._control < 0:
            self._early.append(number)
        else:
            self._say(b"signal %d" % number)

    def _go_on(self) -> None:
        """This program was stopped, and goes on; so does the command, before the terminal."""
        if self._group and terminal_is_ours():
            give_terminal(self._group)
        self._say(b"signal %d" % signal.SIGCONT)


def terminal_is_ours() -> bool:
    """Whether this program is before the terminal that it reads from and writes to.

    In a pipeline it is not alone there, and then it keeps the keys, and passes them on.
    """
    try:
        return os.isatty(1) and os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False
