"""The thread that tends the leases of a loop over a queue."""

import threading
from collections import deque
from typing import Final
from weakref import ref

from snowmelt.client.connection.open_loops import Ending, opened
from snowmelt.client.connection.steps import Port, run
from snowmelt.client.connection.waits import CLOSING_LONGEST
from snowmelt.client.leases.leaving import GIVEN_UP
from snowmelt.client.leases.tending import Hand, Tending

LOOK: Final = 1.0
"""So often it is looked whether a loop without leases is there; and so long one that is gone has
to say how it was left, unless that was interrupted."""


class Tender:
    """Renews a consumer's leases, sends what it gathered, and has the last word.

    A signal may come between any two steps of a loop's end, and what it raises there is nobody's.
    So the thread sees by itself that its loop is gone.
    """

    def __init__(self, port: Port, tending: Tending, loop: Ending) -> None:
        self._port = port
        self._tending = tending
        self._gone = deque[object]()
        self._loop = ref(loop, self._gone.append)  # one step, so nothing comes between
        self._wake = threading.Event()
        self._end = threading.Event()
        self._last: tuple[Hand | None, str] = (None, "")
        self._thread: threading.Thread | None = None
        self._abandoned = False
        opened(self)

    def see(self) -> None:
        """There is a lease."""
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="snowmelt-tender", daemon=True)
            thread.start()  # a second one does no harm, if this is interrupted
            self._thread = thread
        self._wake.set()

    def end_of(self, port: Port | None) -> None:
        """Ends the loop when it is of this port, which is about to be closed, or whatever port."""
        if (port is not None and port is not self._port) or self._abandoned:
            return
        loop = self._loop()
        if loop is not None:
            loop.end()
        elif self._thread is not None:  # which says the last of one that is gone
            self._thread.join(CLOSING_LONGEST)

    def close(self, hand: Hand | None, reason: str) -> None:
        """Has the thread tell what is done and give back the rest, and waits for that.

        The thread does it, so that it is done though whoever closes is interrupted.
        """
        self._close(hand, reason, wait=True)

    def abandon(self) -> None:
        """It tells what it can; nobody waits for that any more, not even its cluster."""
        self._abandoned = True

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
        while not self._over():
            self._wake.wait(LOOK)
            self._wake.clear()
            while not (self._tending.idle or self._end.wait(self._tending.tick) or self._gone):
                run(self._port, self._tending.tend())
        run(self._port, self._tending.close(*self._last))

    def _over(self) -> bool:
        if self._gone:
            self._end.wait(LOOK)
            return True
        return self._end.is_set()
