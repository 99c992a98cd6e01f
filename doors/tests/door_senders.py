"""A program that sends until it is killed, and notes what it sends: for the storms of all doors.

What it noted as sent was answered, so it is there whatever dies; what it noted as asked may be.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

FIRST = 1_000_000
"""The numbers of senders begin here; each that is started has a thousand for itself."""
LOOP = """

import os, sys, time

notes = os.open(os.environ["SENDER_NOTES"], os.O_APPEND | os.O_CREAT | os.O_WRONLY)
for number in range(int(sys.argv[1]), int(sys.argv[1]) + 1000):
    os.write(notes, b"%d asked\\n" % number)
    send(number)
    os.write(notes, b"%d sent\\n" % number)
    time.sleep(0.1)
"""


class Sender:
    """Runs `program`, which says what `send(number)` is."""

    def __init__(self, folder: Path, program: str, **environment: str) -> None:
        self._file, self._notes, self._log = (
            folder / name for name in ("sender.py", "sender.notes", "sender.log")
        )
        self._file.write_text(program + LOOP)
        own = {"SENDER_NOTES": str(self._notes), "PYTHONPATH": os.pathsep.join(sys.path)}
        self._environment = os.environ | own | environment
        self._running: subprocess.Popen[bytes] | None = None
        self._started = 0

    def start(self) -> None:
        """Starts one more, with numbers of its own; waits for the first that it has sent."""
        before, end = len(self.noted("sent")), time.monotonic() + 30
        command = [sys.executable, str(self._file), str(FIRST + 1000 * self._started)]
        with self._log.open("ab") as log:
            self._running = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)
        self._started += 1
        while len(self.noted("sent")) == before:
            assert time.monotonic() < end, self._log.read_text()[-4000:]
            time.sleep(0.02)

    def kill(self) -> None:
        if self._running is not None:
            self._running.kill()
            self._running.wait()

    def noted(self, word: str) -> set[int]:
        """Which numbers it noted as `asked`, or as `sent`."""
        lines = self._notes.read_text().splitlines() if self._notes.exists() else []
        return {int(number) for number, what in map(str.split, lines) if what == word}

    def check(self, done: set[int]) -> None:
        """What was sent is done, and what is done was asked for."""
        own = {number for number in done if number >= FIRST}
        assert self.noted("sent") - own == set()
        assert own - self.noted("asked") == set()
