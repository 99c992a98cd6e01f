"""The one lock of whoever runs a machine, which no thread can want twice.

Handlers of signals are kept out while it is held (`shielding.py`). So only a finalizer can come in
the middle of a step and call, wherever the collector of garbage was at work; it is told.
"""

import threading
from _thread import get_ident

from snowmelt.core.errors import CallerError
from snowmelt.runtime.shielding import SHIELD


class Turn:
    """Held by one thread at a time, for moments; nobody waits for anything meanwhile."""

    __slots__ = ("_holder", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder = 0

    def __enter__(self) -> None:
        me = get_ident()
        if me == SHIELD.main:
            SHIELD.lift()
        if self._holder == me:
            SHIELD.down()
            raise CallerError(
                "this thread is in the middle of a call into the same folder: a finalizer can't "
                "call it; have it leave a word for another thread"
            )
        self._lock.acquire()
        self._holder = me

    def __exit__(self, *_: object) -> None:
        me, self._holder = self._holder, 0
        self._lock.release()
        if me == SHIELD.main:
            SHIELD.drop()
