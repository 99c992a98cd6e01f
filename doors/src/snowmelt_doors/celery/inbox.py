"""Where messages wait until kombu drains them: threads put them in, one takes them out."""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import msgspec

from snowmelt_doors.celery.messages import StoredMessage


class UnheardMessage(msgspec.Struct, eq=False):
    """A message for a consumer, which has not heard of it yet."""

    consumer: Any
    message: StoredMessage
    tag: int
    redelivered: bool = False


class Inbox:
    """Deliveries of all channels of a connection, in the order in which they came."""

    def __init__(self) -> None:
        self._came: deque[UnheardMessage] = deque()
        self._failure: Exception | None = None
        self._change = threading.Condition()
        self._wakes: tuple[int, int] | None = None

    def put(self, deliveries: Iterable[UnheardMessage]) -> None:
        with self._change:
            self._came.extend(deliveries)
            self._wake()

    def fail(self, error: Exception) -> None:
        """Who drains next hears of this."""
        with self._change:
            self._failure = error
            self._wake()

    def take(self, timeout: float | None) -> list[UnheardMessage]:
        """All that is here, waiting for the first; none when the time is over."""
        with self._change:
            self._change.wait_for(self._ready, timeout)
            self._empty_pipe()
            if not self._came and self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            came, self._came = list(self._came), deque()
            return came

    def remove(self, gone: Callable[[UnheardMessage], bool]) -> list[UnheardMessage]:
        """Takes back those that nobody is to hear of."""
        with self._change:
            found = [one for one in self._came if gone(one)]
            self._came = deque(one for one in self._came if not gone(one))
            return found

    def put_back(self, deliveries: list[UnheardMessage]) -> None:
        """These were taken, and their callbacks not called."""
        with self._change:
            self._came.extendleft(reversed(deliveries))
            self._wake()

    def descriptor(self) -> int:
        """A file that can be read when something is here, for an event loop."""
        with self._change:
            if self._wakes is None:
                self._wakes = _pipe()
                if self._ready():
                    self._wake()
            return self._wakes[0]

    def close(self) -> None:
        with self._change:
            wakes, self._wakes = self._wakes, None
        for one in wakes or ():
            with suppress(OSError):
                os.close(one)

    def _ready(self) -> bool:
        return bool(self._came) or self._failure is not None

    def _wake(self) -> None:
        self._change.notify_all()
        if self._wakes is not None:
            with suppress(BlockingIOError):  # it is full of wake-ups
                os.write(self._wakes[1], b"\0")

    def _empty_pipe(self) -> None:
        if self._wakes is not None:
            with suppress(BlockingIOError):
                while os.read(self._wakes[0], 4096):
                    pass


def _pipe() -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    return ends
