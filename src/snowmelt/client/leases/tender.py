"""The thread that tends the leases of a loop over a queue."""

import threading
from weakref import ref

from snowmelt.client.connection.open_loops import Ending, opened
from snowmelt.client.connection.steps import Port, run
from snowmelt.client.connection.waits import CLOSING_LONGEST
from snowmelt.client.leases.leaving import GIVEN_UP
from snowmelt.client.leases.tending import Hand, Tending


class Tender:
    """Renews a consumer's leases, sends what it gathered, and has the last word."""

    def __init__(self, port: Port, tending: Tending, loop: Ending) -> None:
        self._port = port
        self._tending = tending
        self._loop = ref(loop)
        self._wake = threading.Event()
        self._end = threading.Event()
        self._last: tuple[Hand | None, str] = (None, "")
        self._thread: threading.Thread | None = None
        opened(self)

    def see(self) -> None:
        """There is a lease."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="snowmelt-tender", daemon=True)
            self._thread.start()
        self._wake.set()

    def end_of(self, port: Port | None) -> None:
        """Ends the loop when it is of this port, which is about to be closed, or whatever port."""
        loop = self._loop()
        if loop is not None and (port is None or port is self._port):
            loop.end()

    def close(self, hand: Hand | None, reason: str) -> None:
        """Has the thread tell what is done and give back the rest, and waits for that.

        The thread does it, so that it is done though whoever closes is interrupted.
        """
        self._close(hand, reason, wait=True)

    def drop(self, hand: Hand | None, reason: str) -> None:
        """The loop was dropped; nothing is waited for where it may be the collector of garbage."""
        self._close(hand, reason, wait=reason != GIVEN_UP)

    def _close(self, hand: Hand | None, reason: str, *, wait: bool) -> None:
        self._tending.closing = True
        self._last = hand, reason
        self._end.set()
        if self._thread is None and self._tending.idle:
            return
        self.see()
        if wait and self._thread is not None:
            self._thread.join(CLOSING_LONGEST)

    def _work(self) -> None:
        while not self._end.is_set():
            self._wake.wait()
            self._wake.clear()
            while not (self._tending.idle or self._end.wait(self._tending.tick)):
                run(self._port, self._tending.tend())
        run(self._port, self._tending.close(*self._last))
