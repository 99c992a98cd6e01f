"""A process of its own in a pool, that does as it is told; tests start it, and may kill it."""

import ctypes
import json
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import snowmelt
import warm
from snowmelt.client.pool.face import Pool
from snowmelt.core.errors import Empty, SnowmeltError

PROGRAM = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from client import pool_process
pool_process.main(*sys.argv[1:])
"""


class Refused(Exception):
    """The other process met an error; `args` are its name and its sentence."""


def use_up(pool: Pool) -> None:
    """Uses all that a part has, and what others are just giving back; nobody could take it over."""
    while (told := pool.stats()).stock or told.on_loan:
        with suppress(Empty):
            pool.get_many(timeout=0.1).ack()


class Other:
    """Another process, part of a pool."""

    def __init__(self, url: str, pool: str, **options: Any) -> None:
        self._process = warm.Popen(
            [sys.executable, "-c", PROGRAM, url, pool, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            self.answer()
        except BaseException:
            self.kill()
            raise

    @property
    def process(self) -> int:
        """Its number."""
        return self._process.pid

    def begin(self, do: str, **values: Any) -> None:
        """Tells it to do something, and waits for nothing."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **values}) + "\n")
        self._process.stdin.flush()

    def tell(self, do: str, **values: Any) -> Any:
        """Tells it to do something; what came of it."""
        self.begin(do, **values)
        return self.answer()

    def kill(self) -> None:
        """Without a word."""
        self._process.send_signal(signal.SIGKILL)
        with self._process:
            pass

    def pause(self) -> None:
        """As a process that the system does not run."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def answer(self) -> Any:
        """What came of the first that was begun and not asked after."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the other process has ended"
        told = json.loads(line)
        if "error" in told:
            raise Refused(told["error"], told["text"])
        return told["ok"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()


def pattern(number: int, size: int) -> bytes:
    """A body that says which one it is, at every place."""
    word = f"{number:011} ".encode()
    return (word * (size // len(word) + 1))[:size]


class _Obeying:
    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.held: list[Any] = []

    def put(self, body: str, timeout: float = 10) -> None:
        self.pool.put(body.encode(), timeout=timeout)

    def put_sized(self, first: int, count: int, size: int, timeout: float = 10) -> None:
        for number in range(first, first + count):
            self.pool.put(pattern(number, size), timeout=timeout)

    def get(self, timeout: float = 10) -> str:
        with self.pool.get(timeout=timeout) as one:
            return bytes(one.body[:100]).decode()

    def hold(self, timeout: float = 10) -> str:
        """Gets one and keeps it."""
        self.held.append(self.pool.get(timeout=timeout))
        return bytes(self.held[-1].body[:100]).decode()

    def ack(self) -> None:
        self.held.pop().ack()

    def hold_interpreter(self, seconds: int) -> None:
        """As a long call of an extension in C does: nothing else of this process runs."""
        ctypes.PyDLL(None).sleep(seconds)

    def stock(self) -> int:
        return self.pool.stats().stock

    def close(self, timeout: float = 10) -> None:
        self.pool.close(timeout=timeout)


@contextmanager
def _told() -> Any:
    try:
        yield
    except SnowmeltError as error:
        print(json.dumps({"error": type(error).__name__, "text": str(error)}), flush=True)


def main(url: str, name: str, options: str) -> None:
    with _told():
        obeying = _Obeying(snowmelt.connect(url).pool(name, **json.loads(options)))
        print(json.dumps({"ok": None}), flush=True)
        for line in sys.stdin:
            order = json.loads(line)
            with _told():
                done = getattr(obeying, order.pop("do"))(**order)
                print(json.dumps({"ok": done}), flush=True)
