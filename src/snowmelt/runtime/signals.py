"""Signals' handlers, borrowed: whoever borrows one gives it back, to the same owner.

1. One handler is put in the program's place for all who borrow at once, by the first of them in the
   main thread, and the last gives it back. Those in other threads hear what it hears.
2. The program's own handler is called too, after those who borrowed it. What it raises is raised
   where the last of these gives it back, so that each can end in order. What Python or asyncio had
   put there, to end the program, is not called: it is what they borrow. What is ignored stays so.
3. Event loops hear by a byte that is written in C, whichever handler is there. So theirs go on, and
   nothing of a loop is touched.
4. Whoever takes a handler away meanwhile keeps it. Should they put ours back later, it passes on
   what comes to the program's.
5. A forked child has what the program had before: nothing borrowed, nothing of a loop, which would
   hear in the parent, by the byte, what is sent to the child. A signal that comes during the fork
   waits until that is so.
"""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, Self

from snowmelt.runtime import shielding as _shielding  # noqa: F401  # first in a child, as here

ENDING: Final = (signal.SIGTERM, signal.SIGINT)
"""By which programs are ended."""


class BorrowedSignals:
    """Hears these signals for as long as a `with` of it lasts, where a main thread does so.

    `heard` is called in the main thread, between any two of its steps.

    >>> told = []
    >>> before = signal.signal(signal.SIGUSR2, lambda *_: told.append("the program"))
    >>> with BorrowedSignals(lambda number: told.append("the borrower"), signal.SIGUSR2):
    ...     signal.raise_signal(signal.SIGUSR2)
    >>> signal.raise_signal(signal.SIGUSR2)
    >>> told
    ['the borrower', 'the program', 'the program']
    >>> _ = signal.signal(signal.SIGUSR2, before)
    """

    def __init__(self, heard: Callable[[int], object], *numbers: int) -> None:
        self.heard = heard
        self._loans = [_LOANS.setdefault(one, _Loan(one)) for one in numbers or ENDING]

    def __enter__(self) -> Self:
        for one in self._loans:
            one.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        raised = [one.remove(self) for one in self._loans]
        for one in raised:
            if one is not None:
                raise one


class _Loan:
    """One signal's handler, and who has borrowed it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.lent = False
        self._owners: Any = signal.SIG_DFL
        self._borrowers: dict[BorrowedSignals, bool] = {}
        """And whether in the main thread."""
        self._raised: BaseException | None = None

    def add(self, one: BorrowedSignals) -> None:
        main = threading.current_thread() is threading.main_thread()
        self._borrowers[one] = main
        if main and not self.lent:
            found = signal.getsignal(self.number)
            if found in (signal.SIG_IGN, None):
                return
            if found != self._handle:  # else it was left behind, and put back
                self._owners = found
            self.lent = True
            signal.signal(self.number, self._handle)

    def remove(self, one: BorrowedSignals) -> BaseException | None:
        """What its owner's handler has raised, if it was the last."""
        self._borrowers.pop(one, None)
        main = threading.current_thread() is threading.main_thread()
        if not main or any(self._borrowers.values()):
            return None
        self._give_back(self._owners)
        raised, self._raised = self._raised, None
        return raised

    def forked(self) -> None:
        if self.lent:
            self._give_back(_fallback(self.number, self._owners))
        self._borrowers.clear()
        self._raised = None

    def _give_back(self, handler: Any) -> None:
        if self.lent and signal.getsignal(self.number) == self._handle:
            signal.signal(self.number, handler)
            if _of_loop(handler):  # as it was put there
                signal.siginterrupt(self.number, False)
        self.lent = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        borrowers = list(self._borrowers)
        for one in borrowers:
            one.heard(number)
        try:
            self._pass_on(number, frame, replaced=bool(borrowers))
        except BaseException as error:
            if not self.lent:
                raise
            self._raised = error

    def _pass_on(self, number: int, frame: FrameType | None, *, replaced: bool) -> None:
        owners = self._owners
        if replaced and _ends_by_default(owners):
            return
        if callable(owners):
            owners(number, frame)
        elif owners == signal.SIG_DFL:
            signal.signal(number, owners)
            signal.raise_signal(number)


def _ends_by_default(handler: Any) -> bool:
    """Whether Python or asyncio had put it there by themselves."""
    owner = getattr(getattr(handler, "func", None), "__self__", None)
    runner = type(owner).__module__ == "asyncio.runners"
    return runner or handler in (signal.SIG_DFL, signal.default_int_handler)


def _of_loop(handler: Any) -> bool:
    """Whether it does nothing by itself: its loop hears by a byte (rule 3)."""
    of_asyncio = getattr(handler, "__module__", "") == "asyncio.unix_events"
    return of_asyncio or hasattr(getattr(handler, "__self__", None), "add_signal_handler")


def _fallback(number: int, handler: Any) -> Any:
    """What a child has instead: nothing that would end or wake what runs in its parent."""
    if _of_loop(handler) or _ends_by_default(handler):
        return signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    return handler


_LOANS: Final[dict[int, _Loan]] = {}


class _Forking(threading.local):
    """Keeps signals that are borrowed off the thread that forks, and so off the child."""

    mask: Any = None

    def before(self) -> None:
        lent = [one.number for one in _LOANS.values() if one.lent]
        self.mask = signal.pthread_sigmask(signal.SIG_BLOCK, lent) if lent else None

    def after(self) -> None:
        if self.mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)

    def in_child(self) -> None:
        if self.mask is not None:
            signal.set_wakeup_fd(-1)
        for one in _LOANS.values():
            one.forked()
        self.after()


_FORKING: Final = _Forking()
os.register_at_fork(
    before=_FORKING.before, after_in_parent=_FORKING.after, after_in_child=_FORKING.in_child
)
