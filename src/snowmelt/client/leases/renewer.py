"""The thread that renews the leases of a loop over a queue."""

import threading
from _thread import start_new_thread
from collections import deque
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias
from weakref import ref

from snowmelt.client.connection.open_loops import Endable, opened
from snowmelt.client.connection.steps import Port, run
from snowmelt.client.connection.waits import CLOSING_LONGEST
from snowmelt.client.leases.renewals import Hand, LeaseRenewals

LOOK: Final = 1.0
"""So often it is looked whether a loop without leases is there; and so long one that is gone has
to say how it was left, unless that was interrupted."""

Last: TypeAlias = tuple[Hand | None, str]
"""What was in hand when a loop ended, and why it failed, if it did."""


class LeaseRenewer:
    """Renews a consumer's leases, sends what it gathered, and has the last word.

    A signal may come between any two steps of a loop's end, and what it raises there is nobody's.
    So the thread sees by itself that its loop is gone.
    """

    def __init__(self, port: Port, renewals: LeaseRenewals, loop: Endable) -> None:
        self._port = port
        self._renewals = renewals
        self._gone = deque[object]()
        self._loop = ref(loop, self._gone.append)  # one step, so nothing comes between
        self._said: SimpleQueue[Last | None] = SimpleQueue()
        """Its last, or that there is a lease. A destructor may put into it, whatever it is in."""
        self._rests = False
        self._thread: threading.Thread | None = None
        self._abandoned = False
        opened(self)

    def see(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="snowmelt-renewer", daemon=True)
            thread.start()  # a second one does no harm, if this is interrupted
            self._thread = thread
        if self._rests:
            self._said.put(None)

    def end_of(self, port: Port | None) -> None:
        """Ends the loop when it is of this port, which is about to be closed, or whatever port."""
        if (port is not None and port is not self._port) or self._abandoned:
            return
        loop = self._loop()
        if loop is not None:
            loop.end()
        else:  # the thread says the last of one that is gone
            self._join()

    def close(self, hand: Hand | None, reason: str) -> None:
        """Has the thread acknowledge what is done and give back the rest, and waits for that.

        The thread does it, so that it is done though the caller of `close` is interrupted. Raises
        when something that was acknowledged was not taken, or may not have been.
        """
        self.drop(hand, reason)
        self._join()

    def abandon(self) -> None:
        """It sends what it can; no caller waits for that any more, not even its cluster."""
        self._abandoned = True

    def drop(self, hand: Hand | None, reason: str) -> None:
        """The same behind the scenes: no destructor waits, nor takes a lock."""
        self._renewals.closing = True
        self._said.put((hand, reason))
        if self._thread is None and not self._renewals.idle:  # interrupted before it was seen
            start_new_thread(self._work, ())

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join(CLOSING_LONGEST)
            self._renewals.check_told(ended=not self._thread.is_alive())

    def _work(self) -> None:
        last: Last | None = None
        while last is None and not self._gone:
            self._rests = True
            if self._renewals.idle:
                last = self._heard(LOOK)
            self._rests = False
            while last is None and not (self._renewals.idle or self._gone):
                last = self._heard(self._renewals.tick)
                if last is None:
                    run(self._port, self._renewals.tend())
        last = last or self._heard(LOOK) or self._heard(LOOK) or (None, "")
        run(self._port, self._renewals.close(*last))

    def _heard(self, seconds: float) -> Last | None:
        with suppress(Empty):
            return self._said.get(timeout=seconds)
        return None
