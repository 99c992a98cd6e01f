"""The program that is killed, as its killer sees it: one run of it, from its start to its end."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random
from typing import Final, Self

import msgspec

from snowmelt_world.storms.spark.load import StreamLoad
from snowmelt_world.storms.spark.processes import SparkProcess, kill, of_session

LOOK_SECONDS: Final = 0.01
END_SECONDS: Final = 20.0


class StreamProgram:
    """One run of the program, in a session and a process group of its own."""

    def __init__(self, load: StreamLoad, trigger: str, log: Path) -> None:
        self.log = log
        self.batches = 0
        """How many micro-batches it has told of."""
        self.began = time.monotonic()
        text = msgspec.json.encode(load).decode()
        with log.open("wb") as words:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "snowmelt_world.storms.spark.driver", text, trigger],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=words,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill_all()

    @property
    def code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.poll()

    @property
    def processes(self) -> list[SparkProcess]:
        """All that belongs to it and lives."""
        return of_session(self._process.pid)

    def wait_ready(self, timeout: float) -> float | None:
        """Waits for its first batch; after how many seconds it came, None if it did not come."""
        end = self.began + timeout
        while not self.batches and self.code is None and time.monotonic() < end:
            time.sleep(LOOK_SECONDS)
        return time.monotonic() - self.began if self.batches else None

    def wait_on(self, batches: int, timeout: float) -> bool:
        """Waits for so many more batches; whether they came. Not for one that ends by itself."""
        end, wanted = time.monotonic() + timeout, self.batches + batches
        while self.batches < wanted and self.code is None and time.monotonic() < end:
            time.sleep(LOOK_SECONDS)
        return self.batches >= wanted or self.code is not None

    def wait(self, timeout: float) -> int | None:
        """Waits until it ends by itself."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def kill_one(self, role: str, chance: Random) -> bool:
        """Kills one of its processes; whether there was one of that kind."""
        found = [one for one in self.processes if one.role == role]
        return bool(found) and kill(chance.choice(found).pid)

    def kill_group(self) -> None:
        """Kills the driver, Python and Java; Spark's Python workers are left to themselves."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(END_SECONDS)

    def kill_all(self) -> None:
        """Kills whatever belongs to it, until nothing is left."""
        end = time.monotonic() + END_SECONDS
        while left := self.processes:
            for process in left:
                kill(process.pid)
            assert time.monotonic() < end, f"will not die: {left}"
            time.sleep(LOOK_SECONDS)
        self._process.wait(END_SECONDS)
        self._reader.join(END_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def ended(self) -> str:
        """How it ended, and what it said of that; nothing when it was killed."""
        return "" if self.code is None or self.code < 0 else f"{self.code}: {self.last_words()}"

    def last_words(self) -> str:
        """The last line of its log."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1][-600:] if lines else "it said nothing"

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.batches += line.startswith(b"batch ")
