"""A worker in several processes: each is forked, has connections of its own, and runs threads.

1. A process that is killed is replaced; its items come again when their leases end. The parent has
   reached the cluster before. So each of them waits for one that is away just then. One that is
   sent SIGTERM by itself ends warmly, and is replaced as well.
2. One that ends by an error ends them all: it would end again. What it raised is on standard error.
   So does one whose handler raised `SystemExit`, whatever its code.
3. They stop warmly when a pipe ends that their parent holds: so they also do when it is killed.
   Ctrl-C reaches all of them, and is their parent's matter. At a second signal each has a moment
   to give back what it has, and is killed then.
"""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import connection, get_context
from multiprocessing.context import ForkProcess
from typing import Final

from snowmelt.client.worker.loops import LocalLoops
from snowmelt.client.worker.options import LAST_SECONDS, WorkerSettings
from snowmelt.client.worker.signals import Stopping
from snowmelt.core.errors import MachineError
from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.runtime.clock import seconds_until, steady_now
from snowmelt.runtime.logs import tell
from snowmelt.runtime.signals import BorrowedSignals

_EXIT: Final = 0.2
"""How much longer a process may take to end, once its worker has."""
_APART: Final = milliseconds(500)
"""Between two that are begun in place of others, so that what dies at once is no storm."""


class WorkerProcesses:
    """The processes of a worker, as their parent sees them."""

    def __init__(self, make_loop: Callable[[], LocalLoops], settings: WorkerSettings) -> None:
        self._make_loop = make_loop
        self._settings = settings
        self._fork = get_context("fork")
        self._processes: list[ForkProcess] = []
        self._alive, self._held = os.pipe()
        """While the latter is open in this process, they are to work."""
        self._told, self._tells = os.pipe()
        self._next = Instant(0)
        self._missing = 0
        self._hard = False
        self._failure: MachineError | None = None

    def stop(self, *, hard: bool = False) -> None:
        """They are to end, warmly or at once; from anywhere, also from a handler of signals."""
        self._hard |= hard
        with suppress(OSError):  # it has ended
            os.write(self._tells, b"s")

    def work(self) -> None:
        """Works until `stop`, or until all have ended; raises what ended it."""
        try:
            self._processes = [self._start() for _ in range(self._settings.processes)]
            while self._processes and not self._look(None):
                self._replace()
            self._let_go()
            end = later(steady_now(), seconds(self._settings.grace + LAST_SECONDS + _EXIT))
            while self._processes and seconds_until(end) and not self._hard:
                self._look(seconds_until(end))
        finally:
            self._end()
        if self._failure is not None:
            raise self._failure

    def _start(self) -> ForkProcess:
        process = self._fork.Process(target=self._serve, name="snowmelt-worker")
        process.start()
        return process

    def _look(self, timeout: float | None) -> bool:
        """Waits for something to happen; whether they are to stop."""
        sentinels = [one.sentinel for one in self._processes]
        ready = connection.wait([*sentinels, self._told], timeout)
        for one in [one for one in self._processes if one.exitcode is not None]:
            code = one.exitcode or 0
            self._processes.remove(one)
            if code > 0:
                text = f"a worker process ended with {code}; standard error has what it raised"
                self._failure = MachineError(text)
            if code < 0 and self._held >= 0:
                tell("a worker process was killed", pid=one.pid, signal=-code)
                self._missing += 1
        if self._told in ready:
            os.read(self._told, 64)
            return True
        return self._failure is not None

    def _replace(self) -> None:
        while self._missing:
            connection.wait([self._told], seconds_until(self._next))
            self._next = later(steady_now(), _APART)
            self._missing -= 1
            self._processes.append(self._start())

    def _let_go(self) -> None:
        """Tells them that they are to end, warmly."""
        held, self._held = self._held, -1
        if held >= 0:
            os.close(held)

    def _end(self) -> None:
        """Each gives back what it has, if it can in a moment: its second word is to end at once."""
        try:
            self._let_go()
            for one in self._processes:
                one.terminate()
            late = later(steady_now(), seconds(LAST_SECONDS + _EXIT))
            while self._processes and seconds_until(late):
                connection.wait([one.sentinel for one in self._processes], seconds_until(late))
                self._processes = [one for one in self._processes if one.exitcode is None]
        finally:
            for one in self._processes:
                one.kill()
            for one in self._processes:
                one.join()
            self._close()

    def _close(self) -> None:
        ends = (self._alive, self._held, self._told, self._tells)
        self._alive = self._held = self._told = self._tells = -1  # the numbers are others' then
        for end in ends:
            if end >= 0:
                os.close(end)

    # --- in a child -------------------------------------------------------------------------------

    def _serve(self) -> None:
        os.close(self._held)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # its parent's handler is not its own
        worker_loop = self._make_loop()
        worker_loop.wait_for_cluster()
        stopping = Stopping(worker_loop.stop)

        def until_its_parent_ends() -> None:
            os.read(self._alive, 1)
            stopping()

        threading.Thread(target=until_its_parent_ends, name="snowmelt-parent", daemon=True).start()
        try:
            with BorrowedSignals(stopping, signal.SIGTERM):
                worker_loop.work()
        except SystemExit:
            self.stop()
            raise
        if stopping.signal:  # and not its parent alone
            os.kill(os.getpid(), stopping.signal)
