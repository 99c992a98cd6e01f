"""A command that runs under a baton: told when the baton is lost, and of signals to this program.

Its exit code is this program's; as in a shell, one that a signal ended has 128 and its number.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final

from snowmelt.client.baton import Held
from snowmelt.core.errors import BadOption

KILL_AFTER: Final = 10.0
PASSED_ON: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


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
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []  # signals that came before there was whom to give them to

    def run(self) -> int:
        """Runs it to its end; its exit code."""
        held = self._held
        environment = os.environ | {"SNOWMELT_BATON": held.name, "SNOWMELT_FENCE": str(held.fence)}
        with self._signals_passed_on():
            try:
                process = subprocess.Popen(self._words, env=environment)
            except OSError as error:
                allowed = f"a program that can be run ({error.strerror})"
                raise BadOption("COMMAND", self._words[0], allowed) from error
            self._process = process
            for number in self._early:
                process.send_signal(number)
            watcher = threading.Thread(target=self._watch, args=(process,), daemon=True)
            watcher.start()
            code = process.wait()
        return code if code >= 0 else 128 - code

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """Ends the command when it has no right to go on."""
        if not self._held.wait_lost():
            return
        with suppress(OSError):
            process.terminate()
        try:
            process.wait(self._kill_after)
        except subprocess.TimeoutExpired:
            process.kill()

    @contextmanager
    def _signals_passed_on(self) -> Iterator[None]:
        heeded = [one for one in PASSED_ON if signal.getsignal(one) is not signal.SIG_IGN]
        before = {number: signal.signal(number, self._pass_on) for number in heeded}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        del frame
        if number == signal.SIGINT and keyboard_is_ours():
            return  # Ctrl-C goes to every process before the terminal: the command has it already
        if self._process is None:
            self._early.append(number)
        else:
            self._process.send_signal(number)


def keyboard_is_ours() -> bool:
    """Whether this process is before its terminal, where Ctrl-C interrupts it."""
    try:
        with Path("/dev/tty").open("rb") as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False
