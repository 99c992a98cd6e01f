"""The lock for running a machine, which no thread can take twice.

Handlers of signals are kept out while it is held (`shielding.py`). So only a finalizer can come in
the middle of a step and call, wherever the garbage collector was at work; that raises an error.

The lock itself is taken and given back by the interpreter, in one instruction each. So what another
thread throws in, at whatever line, leaves nobody before a lock that nobody holds.
"""

import threading
from _thread import get_ident

from snowmelt.core.errors import CallerError
from snowmelt.runtime.shielding import SHIELD


class MachineLock:
    """`with turn, turn.lock:` is one's turn, for moments; nobody waits for anything meanwhile."""

    __slots__ = ("lock",)

    def __init__(self) -> None:
        self.lock = threading.RLock()

    def __enter__(self) -> None:
        if get_ident() == SHIELD.main:
            SHIELD.lift()
        if self.lock._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001 - as `Condition`
            SHIELD.down()
            raise CallerError(
                "this thread is in the middle of a call into the same folder: a finalizer can't "
                "call it; have it leave a word for another thread"
            )

    def __exit__(self, *_: object) -> None:
        if get_ident() == SHIELD.main:
            SHIELD.drop()
