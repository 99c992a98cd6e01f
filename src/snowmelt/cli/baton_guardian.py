"""The processes between `snowmelt baton run` and its command: they end all of it, whoever dies.

This is a program of its own, of Python's library alone, so that it begins in a moment. The command
is in the same process group as `snowmelt baton run`, as with `flock`: it has the same terminal, the
same keys, and the same job of a shell.

1. *Guardian.* Its control pipe says until when the baton is surely held, which signals to pass on,
   and that the baton is lost. When it is lost, or that time is over, all of the command gets
   SIGTERM, and after a while SIGKILL. So it does when the pipe ends, which is the end of the
   program, but sooner: others have the baton after a second.
2. *Witness.* The guardian is the child of a witness, and that one of the program. Each of the three
   adopts what the ones below it leave (Linux), and ends it. So any two of them may be killed at
   once.
3. *Signals.* What a key or `kill` sends to the whole group has come to the command already. So a
   signal is passed on only if the guardian did not get it as well.
4. *End.* The guardian ends when nobody of the command's session is there any more, with the
   command's exit code; one that a signal ended has 128 and its number. By its report pipe it says
   why the command did not begin, or by which signal it ended. The pipe ends with it.
"""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

PASSED_ON: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
HEARD: Final = (*PASSED_ON, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
"""What may be sent to the group, and neither ends nor stops a guardian."""
ORPHANED: Final = 0.5
"""Seconds from SIGTERM to SIGKILL when the program is gone that holds the baton."""
LOOK: Final = 0.05
SAME: Final = 1.0
"""A signal that the guardian got within this was sent to the group: rule 3."""
HOPELESS: Final = 5.0
"""A process that is there so many seconds after SIGKILL can't be ended by this one."""
_SUBREAPER: Final = 36
_DEATH_SIGNAL: Final = 1


class Guardian:
    """One command, and all that came of it."""

    def __init__(self, witness: int, control: int, report: int, clock: int, kill_after: float):
        self._witness = witness
        self._control = control
        self._report = report
        self._clock = clock
        self._kill_after = kill_after
        self._rest = b""
        self._until: int | None = None
        self._kill_at: float | None = None
        self._code: int | None = None
        self._own: dict[int, float] = {}
        """When a signal came to this process last."""
        self._passing: list[tuple[float, int]] = []
        """Which signals are to be passed on, and when: rule 3."""

    def run(self, words: list[str]) -> int:
        """Runs the command to its end, and that of all its processes; its exit code."""
        reading = self._woken()
        adopt()
        _prctl(_DEATH_SIGNAL, signal.SIGCHLD)  # wakes this process when the witness ends
        try:
            process = subprocess.Popen(words, preexec_fn=_dies_with_guardian)  # noqa: PLW1509 - there is one thread
        except (OSError, subprocess.SubprocessError) as error:
            self._tell(f"!{getattr(error, 'strerror', error)}\n".encode())
            return 127
        while not self._over():
            open_ends = [reading] if self._control < 0 else [reading, self._control]
            ready, _, _ = select.select(open_ends, [], [], self._pause)
            if reading in ready:
                os.read(reading, 4096)
            if self._control in ready:
                self._hear(os.read(self._control, 4096))
            self._reap(process)
            self._act()
        self._reap(process)  # who ended since the last look has left its code
        return self._code if self._code is not None else 128 + signal.SIGKILL

    def _woken(self) -> int:
        """Signals are noted, and wake whoever reads from this pipe."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        hear(self._note)
        return reading

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._own[number] = time.monotonic()

    @property
    def _pause(self) -> float | None:
        """How long until something is due that no message brings."""
        if self._code is not None or self._kill_at is not None or self._passing:
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
                self._passing.append((time.monotonic() + LOOK, int(number)))
            elif word == b"lost":
                self._end(self._kill_after)

    def _act(self) -> None:
        """What is due: rules 1 to 3."""
        if os.getppid() != self._witness:
            self._end(min(self._kill_after, ORPHANED))
        if self._until is not None and time.clock_gettime_ns(self._clock) >= self._until:
            self._end(self._kill_after)
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            send_all(signal.SIGKILL)
        now = time.monotonic()
        due = [number for at, number in self._passing if at <= now]
        self._passing = [one for one in self._passing if one[0] > now]
        for number in due:
            if now - self._own.get(number, -SAME) >= SAME:
                send(number, members())

    def _end(self, kill_after: float) -> None:
        kill_at = time.monotonic() + kill_after
        if self._kill_at is None:
            send_all(signal.SIGTERM)
            send_all(signal.SIGCONT)  # who is stopped hears of nothing else
        self._kill_at = kill_at if self._kill_at is None else min(self._kill_at, kill_at)

    def _reap(self, process: subprocess.Popen[bytes]) -> None:
        with suppress(ChildProcessError):
            while True:
                child, status = os.waitpid(-1, os.WNOHANG)
                if not child:
                    return
                if child != process.pid:
                    continue
                code = os.waitstatus_to_exitcode(status)
                self._code = process.returncode = code if code >= 0 else 128 - code
                if code < 0:
                    self._tell(b"%d\n" % -code)

    def _over(self) -> bool:
        """Rule 4; a process that has left the session counts only once all of it is to end."""
        if self._kill_at is None:
            return self._code is not None and not members()
        left = time.monotonic() <= self._kill_at + HOPELESS and descendants()
        return not left


class Process(NamedTuple):
    """One that came of this process."""

    id: int
    session: int


def descendants() -> list[Process]:
    """All that this process began, and those began, as far as they are not adopted by others."""
    children: dict[int, list[Process]] = {}
    for parent, child in _listed_here() if sys.platform == "linux" else _listed_by_ps():
        children.setdefault(parent, []).append(child)
    found, left = [], [os.getpid()]
    while left:
        born = children.get(left.pop(), [])
        found += born
        left += [one.id for one in born]
    return found


def members() -> list[Process]:
    """Those that are in this process's session still: a daemon has left it."""
    session = os.getsid(0)
    return [one for one in descendants() if one.session in (session, 0)]


def _listed_here() -> Iterator[tuple[int, Process]]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            text = stat.read_text()
            state, parent, _, session = text[text.rindex(")") + 2 :].split()[:4]
            if state != "Z":
                yield int(parent), Process(int(stat.parent.name), int(session))


def _listed_by_ps() -> Iterator[tuple[int, Process]]:
    """The same where there is no `/proc`; it says nothing of sessions."""
    listed = subprocess.run(
        ["/bin/ps", "-axo", "pid=,ppid=,state="], capture_output=True, text=True, check=False
    )
    for line in listed.stdout.splitlines():
        process, parent, state = line.split()[:3]
        if not state.startswith("Z"):
            yield int(parent), Process(int(process), 0)


def send(number: int, processes: list[Process]) -> None:
    """A signal for each that has not ended meanwhile."""
    for process in processes:
        with suppress(OSError):
            os.kill(process.id, number)


def send_all(number: int) -> None:
    """A signal for all that came of this process, daemons as well."""
    send(number, descendants())


def adopt() -> None:
    """Processes below this one that lose their parent become its children (on Linux)."""
    _prctl(_SUBREAPER)


def end_all() -> None:
    """Kills all that came of this process, also what came of it meanwhile."""
    end = time.monotonic() + HOPELESS
    while descendants() and time.monotonic() < end:
        send_all(signal.SIGKILL)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(LOOK / 10)


def hear(note: "signal._HANDLER") -> None:
    """Signals to the group neither end nor stop this process; what is ignored stays so."""
    for number in HEARD:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, note)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)


def watch(guardian: int) -> int:
    """The witness: waits for the guardian, and ends what it leaves; the exit code of both."""
    hear(lambda *_: None)
    code = os.waitstatus_to_exitcode(os.waitpid(guardian, 0)[1])
    if code < 0:
        end_all()
    return code if code >= 0 else 128 - code


def _prctl(option: int, value: int = 1) -> None:
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - it takes a while, and is for nothing elsewhere

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _dies_with_guardian() -> None:
    """What the command's process does before it is the command."""
    _prctl(_DEATH_SIGNAL, signal.SIGKILL)


def main(arguments: list[str]) -> int:
    """Begins with what `baton_command.py` says."""
    control, report, clock, kill_after, *words = arguments
    adopt()
    witness, guardian = os.getpid(), os.fork()
    if guardian:
        os.close(int(report))  # its end is the guardian's
        return watch(guardian)
    one = Guardian(witness, int(control), int(report), int(clock), float(kill_after))
    return one.run(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
