"""A command that runs under a baton: it hears of the baton's loss and of signals.

Processes of their own (`baton_guardian.py`) run it, and end all that came of it when this program
is gone, or stands still for longer than the baton is held. Its exit code is this program's; as in a
shell, one that a signal ended has 128 and its number. The baton is held until nobody of the
command's session is there any more.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from snowmelt.cli import baton_guardian
from snowmelt.cli.baton_guardian import HEARD, PASSED_ON
from snowmelt.client.baton.face import Held
from snowmelt.core.errors import BadOption
from snowmelt.core.instant import later, seconds
from snowmelt.runtime.clock import STEADY, steady_now
from snowmelt.runtime.signals import BorrowedSignals

KILL_AFTER: Final = 10.0
TELL: Final = 0.25
"""How often the guardian hears until when the baton is held."""


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
        self._early: list[int] = []  # signals that came before the command ran

    def run(self) -> int:
        """Runs it to its end; its exit code.

        Raises `KeyboardInterrupt` when SIGINT ended it: a shell ends a script only if the program
        that it waits for ended by that signal, too.
        """
        baton_guardian.adopt()
        with BorrowedSignals(self._pass_on, *PASSED_ON):
            witness, report = self._start()
            threading.Thread(target=self._watch, daemon=True).start()
            ended_by = self._listen(report)
            code = witness.wait()
            if code < 0:  # it was killed; what the guardian left is this program's to end
                baton_guardian.end_all()
        if ended_by == signal.SIGINT:
            raise KeyboardInterrupt
        return code if code >= 0 else 128 - code

    def _start(self) -> tuple[subprocess.Popen[bytes], int]:
        held = self._held
        environment = os.environ | {"SNOWMELT_BATON": held.name, "SNOWMELT_FENCE": str(held.fence)}
        heard, control = os.pipe()
        report, told = os.pipe()
        options = (heard, told, STEADY, self._kill_after)
        program = [sys.executable, "-I", "-S", baton_guardian.__file__, *map(str, options)]
        with _blocked():
            witness = subprocess.Popen(
                [*program, *self._words], env=environment, pass_fds=(heard, told)
            )
        os.close(heard)
        os.close(told)
        self._control = control
        self._tell_time()
        for number in self._early:
            self._say(b"signal %d" % number)
        return witness, report

    def _listen(self, report: int) -> int:
        """What the guardian reports, until it ends: the signal that ended the command, or 0."""
        ended_by = 0
        with os.fdopen(report, "rb") as lines:
            for line in lines:
                if line.startswith(b"!"):
                    allowed = f"a program that can be run ({line[1:].decode().strip()})"
                    raise BadOption("COMMAND", self._words[0], allowed)
                ended_by = int(line)
        return ended_by

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

    def _pass_on(self, number: int) -> None:
        if self._control < 0:
            self._early.append(number)
        else:
            self._say(b"signal %d" % number)


@contextmanager
def _blocked() -> Iterator[None]:
    """For a guardian that begins: a signal to the group would end it before it heeds them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
