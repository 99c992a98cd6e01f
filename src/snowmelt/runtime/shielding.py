"""Steps that no handler of a signal comes into.

Python runs the handlers of signals in the main thread, between any two of its instructions. There
they may raise, as that of Ctrl-C does, or call what they have interrupted. A machine's step can
bear neither: half done, its memory is worthless, and the lock it holds is not given to its own
thread a second time. So while the shield is up, signals are noted, and it is down again in no time;
then their handlers run, in the order in which the signals came, and may do as they like.

1. It is for steps, and never up while somebody waits for the network, or for anybody's answer.
2. Only the main thread has to raise it; elsewhere it costs a comparison.
3. It can be up in several places at once, one within the other.
4. A signal that comes while it goes up or down is handled as if it were down.
5. A call that waits goes through several steps, and putting handlers away and back is dear. So in
   between them it is down, but what keeps them out stays where it is, and lets pass at once what
   comes. The first that comes finds all handlers where the program had put them.
"""

import _signal  # type: ignore[import-not-found]  # what `signal` wraps, and takes long for
import os
import threading
from _thread import get_ident
from collections import deque
from collections.abc import Callable
from signal import Signals
from types import FrameType
from typing import Any, Final

_NEVER: Final = {
    "SIGKILL",
    "SIGSTOP",
    "SIGSEGV",
    "SIGBUS",
    "SIGFPE",
    "SIGILL",
    "SIGABRT",
    "SIGTRAP",
}
"""Which can't be handled, or tell of what this thread itself has just done."""
_SIGNALS: Final = tuple(one.value for one in Signals if one.name not in _NEVER)
_Handler = Callable[[int, FrameType | None], Any]
_get: Final = _signal.getsignal
_set: Final = _signal.signal


class Shield:
    """Up for as long as a `with` of it lasts.

    >>> import signal
    >>> told = []
    >>> before = signal.signal(signal.SIGUSR2, lambda *_: told.append("handled"))
    >>> with Shield():
    ...     signal.raise_signal(signal.SIGUSR2)
    ...     told.append("step")
    >>> _ = signal.signal(signal.SIGUSR2, before)
    >>> told
    ['step', 'handled']
    """

    __slots__ = (
        "_depth",
        "_found",
        "_handlers",
        "_mine",
        "_noted",
        "_only",
        "_raising",
        "_stays",
        "main",
        "waits",
    )

    def __init__(self) -> None:
        self.main = threading.main_thread().ident
        """Whose steps it shields."""
        self._depth = 0
        self._raising = False
        """Whether it goes up just now: what is noted already must not bring it down again."""
        self._found: list[Any] = []
        """Of all signals, what was there when it was last up."""
        self._handlers: dict[int, _Handler] = {}
        """Those of them that are Python's, and so are kept out."""
        self._only = 0
        """The one of them, when there is but one: most often that of Ctrl-C."""
        self._noted: deque[tuple[_Handler, int, FrameType | None]] = deque()
        self._mine = self._note
        self.waits = False
        """Whether the main thread is in a call that waits; set while it is up (rule 5)."""
        self._stays = False
        """Whether what keeps handlers out has stayed, though it is down."""

    def up(self) -> None:
        if get_ident() == self.main:
            self.lift()

    def lift(self) -> None:
        """The same, for who knows that this is the main thread."""
        if self._depth:
            self._depth += 1
            return
        if self._stays:
            self._depth = 1
            if self._stays:
                self._stays = False
                return
            self._depth = 0  # a signal came just before
        found = list(map(_get, _SIGNALS))
        if found != self._found:
            self._learn(found)
        before = self._raising
        try:
            self._raising = True
            if self._only:
                _set(self._only, self._mine)
            else:
                self._raise()
            self._raising = before
            self._depth = 1
        except ValueError:  # not the main interpreter: no handler ever runs here
            self._raising = before
            self.main = 0
        except BaseException:
            self._raising = before
            self._depth = 1
            self.drop()
            raise

    def down(self) -> None:
        """What was noted is handled, unless it is up elsewhere still."""
        if get_ident() == self.main:
            self.drop()

    def drop(self) -> None:
        """The same, for who knows that this is the main thread."""
        self._depth -= 1
        if self._depth:
            return
        if self.waits:
            if not self._noted:
                self._stays = True
                return
            self.waits = False  # their handlers come first
        try:
            self._lower()
        except BaseException:
            self._lower()
            raise
        finally:
            if self._noted:
                self._tell()

    __enter__ = up

    def __exit__(self, *_: object) -> None:
        self.down()

    def forked(self) -> None:
        """In a child there is one thread, now the main one; it was not this that had it up."""
        self.main = get_ident()
        self._depth = 0
        self._raising = self.waits = self._stays = False
        self._noted.clear()
        self._lower()

    def _learn(self, found: list[Any]) -> None:
        mine, before = self._mine, self._handlers
        self._handlers = {
            number: before[number] if handler is mine else handler
            for number, handler in zip(_SIGNALS, found, strict=True)
            if callable(handler)
        }
        self._only = next(iter(self._handlers)) if len(self._handlers) == 1 else 0
        self._found = found

    def _raise(self) -> None:
        """Until all are noted: a handler that runs meanwhile may have it up, and down again."""
        missing = True
        while missing:
            handlers, missing = self._handlers, False
            for number in handlers:
                if _get(number) is not self._mine:
                    missing = len(handlers) > 1
                    _set(number, self._mine)

    def _lower(self) -> None:
        only, mine = self._only, self._mine
        if only:
            if _get(only) is mine:
                _set(only, self._handlers[only])
            return
        for number, handler in self._handlers.items():
            if _get(number) is mine:
                _set(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        handler = self._handlers[number]
        if self._depth or self._raising:
            self._noted.append((handler, number, frame))
            return
        if self._stays:
            self._stays = self.waits = False
            self._lower()
        handler(number, frame)

    def _tell(self) -> None:
        try:
            handler, number, frame = self._noted.popleft()
        except IndexError:  # a handler that came meanwhile has had it up, and told them
            return
        try:
            handler(number, frame)
        finally:  # another's, whatever this one raises
            if self._noted:
                self._tell()


SHIELD: Final = Shield()
"""This process': handlers of signals are the process' too."""

os.register_at_fork(after_in_child=SHIELD.forked)
