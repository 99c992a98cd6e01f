"""The process between `snowmelt baton run` and its command: it ends all of it, whoever dies.

It is a program of its own, of Python's library alone, so that it begins in a moment. The command is
the head of a group of processes, and gets the terminal where there is one to give.

1. By its control pipe it is told until when the baton is surely held, which signals to pass on, and
   that the baton is lost. When it is lost, or that time is over since the program that holds it
   stands still, the group gets SIGTERM, and after a while SIGKILL. So it does when the pipe ends,
   which is the end of that program, but sooner: others have the baton after a second.
2. Where the system lets it (Linux), it is the parent of whoever loses its own, and ends also those
   that have left the group. If it is killed itself, so is the command, and the program does the
   rest.
3. It ends when nobody of the group is there any more, with the command's exit code; one that a
   signal ended has 128 and its number. By its report pipe it says how the command began, and that
   it was stopped.
"""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

ORPHANED: Final = 0.5
"""Seconds from SIGTERM to SIGKILL when the program is gone that holds the baton."""
LOOK: Final = 0.05
HOPELESS: Final = 5.0
"""Who is there for so many seconds after SIGKILL can't be ended by this process."""
_SUBREAPER: Final = 36
_DEATH_SIGNAL: Final = 1


class Guardian:
    """One command, and all that came of it."""

    def __init__(self, control: int, report: int, clock: int, kill_after: float) -> None:
        self._control = control
        self._report = report
        self._clock = clock
        self._kill_after = kill_after
        self._rest = b""
        self._until: int | None = None
        self._kill_at: float | None = None
        self._code: int | None = None
        self._group = 0

    def run(self, words: list[str], *, terminal: bool) -> int:
        """Runs the command to its end, and that of its group; its exit code."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        _prctl(_SUBREAPER)
        try:
            process = subprocess.Popen(
                words,
                process_group=0,
                preexec_fn=_begun(terminal),  # noqa: PLW1509 - there is one thread
            )
        except (OSError, subprocess.SubprocessError) as error:
            self._tell(f"!{getattr(error, 'strerror', error)}\n".encode())
            return 127
        self._group = process.pid
        self._tell(b"%d\n" % process.pid)
        while not self._over(process):
            open_ends = [reading] if self._control < 0 else [reading, self._control]
            ready, _, _ = select.select(open_ends, [], [], self._pause)
            if reading in ready:
                os.read(reading, 4096)
            if self._control in ready:
                self._hear(os.read(self._control, 4096))
            self._reap(process)
            self._act()
        return self._code if self._code is not None else 128 + signal.SIGKILL

    @property
    def _pause(self) -> float | None:
        """For how long nothing is to be done that nobody tells."""
        if self._code is not None or self._kill_at is not None:
            return LOOK
        if self._until is None:
            return None
        return max(0, self._until - time.clock_gettime_ns(self._clock)) / 1e9

    def _tell(self, line: bytes) -> None:
        with suppress(OSError):  # nobody is there to hear it
            os.write(self._report, line)

    def _hear(self, data: bytes) -> None:
        if not data:
            self._control = -1
            self._end(min(self._kill_after, ORPHANED))
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            word, _, number = line.partition(b" ")
            if word == b"until":
                self._until = int(number)
            elif word == b"signal":
                self._send(int(number))
            elif word == b"lost":
                self._end(self._kill_after)

    def _act(self) -> None:
        """Rule 1."""
        if self._until is not None and time.clock_gettime_ns(self._clock) >= self._until:
            self._end(self._kill_after)
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._send_all(signal.SIGKILL)

    def _end(self, kill_after: float) -> None:
        kill_at = time.monotonic() + kill_after
        if self._kill_at is None:
            self._send_all(signal.SIGTERM)
            self._send_all(signal.SIGCONT)  # who is stopped hears of nothing else
        self._kill_at = kill_at if self._kill_at is None else min(self._kill_at, kill_at)

    def _send(self, number: int) -> None:
        with suppress(OSError):
            os.killpg(self._group, number)

    def _send_all(self, number: int) -> None:
        self._send(number)
        for process in descendants():
            with suppress(OSError):
                os.kill(process, number)

    def _reap(self, process: subprocess.Popen[bytes]) -> None:
        with suppress(ChildProcessError):
            while True:
                child, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
                if not child:
                    return
                if child != process.pid:
                    continue
                if os.WIFSTOPPED(status):
                    self._tell(b"stopped\n")
                    continue
                code = os.waitstatus_to_exitcode(status)
                process.returncode = code
                self._code = code if code >= 0 else 128 - code

    def _over(self, process: subprocess.Popen[bytes]) -> bool:
        """Rule 3."""
        if process.returncode is None:
            return False
        if self._kill_at is not None and time.monotonic() > self._kill_at + HOPELESS:
            return True
        if self._kill_at is not None and descendants():
            return False
        try:
            os.killpg(self._group, 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # on a Mac there are only dead ones
            return sys.platform == "darwin"
        return False


def descendants() -> list[int]:
    """All that this process began, and those began, where the system shows them: rule 2."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            text = stat.read_text()
            state, parent = text[text.rindex(")") + 2 :].split()[:2]
            if state != "Z":
                parents.setdefault(int(parent), []).append(int(stat.parent.name))
    found, left = [], [os.getpid()]
    while left:
        children = parents.get(left.pop(), [])
        found += children
        left += children
    return found


def _prctl(option: int, value: int = 1) -> None:
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - it takes a while, and is for nothing elsewhere

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _begun(terminal: bool) -> Callable[[], None]:
    """What the command's process does before it is the command."""

    def begin() -> None:
        _prctl(_DEATH_SIGNAL, signal.SIGKILL)
        if terminal:
            give_terminal(os.getpgrp())

    return begin


def give_terminal(group: int) -> None:
    """This group is before the terminal from now on; whoever is not may not say so unblocked."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
    try:
        with suppress(OSError):
            os.tcsetpgrp(0, group)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def main(arguments: list[str]) -> int:
    """Begins with what `baton_command.py` says."""
    control, report, clock, terminal, kill_after, *words = arguments
    os.setpgid(0, 0)  # what ends the program's group does not end this
    guardian = Guardian(int(control), int(report), int(clock), float(kill_after))
    return guardian.run(words, terminal=terminal == "terminal")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
