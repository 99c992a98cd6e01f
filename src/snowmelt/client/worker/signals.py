"""SIGTERM and SIGINT while a worker runs: the first stops it warmly, the second ends it at once."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Final, Protocol, TypeVar

from snowmelt.core.instant import Instant
from snowmelt.runtime.clock import seconds_until
from snowmelt.runtime.signals import BorrowedSignals

T = TypeVar("T")
_LISTENS: Final = 1.0


class StopCallback(Protocol):
    def __call__(self, *, hard: bool = False) -> object: ...


class Stopping:
    """Hears of each reason to stop: with the second of them a worker ends at once."""

    def __init__(self, stop: StopCallback) -> None:
        self._stop = stop
        self._heard = 0
        self.signal = 0
        """The last that came."""

    def __call__(self, number: int = 0) -> None:
        """There is one: a signal, or another that has no number."""
        self.signal = number or self.signal
        self._heard += 1
        self._stop(hard=self._heard > 1)

    @property
    def at_once(self) -> bool:
        """Whether it was to end so."""
        return self._heard > 1


@contextmanager
def stopped_by_signals(stop: StopCallback) -> Iterator[None]:
    """While it lasts; what a second signal ends is the program."""
    stopping = Stopping(stop)
    with BorrowedSignals(stopping):
        yield
        if stopping.at_once:
            raise ended_by(stopping.signal)


def ended_by(number: int) -> BaseException:
    """What ends a program at a second signal."""
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)


def next_word(told: SimpleQueue[T], end: Instant | None = None) -> T:
    """Waits for what a thread or a handler of signals tells; raises `Empty` when time is over.

    Nothing wakes a main thread when another thread took the signal, as in a program that was
    stopped when it came. So it listens each second.
    """
    while end is None or seconds_until(end) > _LISTENS:
        with suppress(Empty):
            return told.get(timeout=_LISTENS)
    return told.get(timeout=seconds_until(end))
