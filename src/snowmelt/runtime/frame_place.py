"""The place of one connection's large frame: asked for when it begins, given up when it is whole.

Who has a place and hardly goes on is cut off after some time: others may wait for it.
"""

from typing import Final, Protocol

from snowmelt.core.errors import FrameError, SnowmeltError
from snowmelt.runtime.arriving import LARGE, Arriving
from snowmelt.runtime.deadline import Deadline
from snowmelt.runtime.ledger import Payer
from snowmelt.runtime.limits import Limits
from snowmelt.wire.connection import Connection

SLOWEST_SENDER: Final = 8
"""Such a part of its frame must come in `slow_sender_seconds`, while others wait."""


class Sender(Protocol):
    """The connection."""

    bytes_in: int
    holds: bool
    """Whether no more bytes of it are read."""

    def set_reading(self) -> None:
        """Whether more is read may have changed."""

    def close(self, error: SnowmeltError | None = None) -> None: ...


class FramePlace:
    """Of one connection."""

    __slots__ = ("_arriving", "_coming", "_limits", "_number", "_sender", "size", "waits")

    def __init__(self, sender: Sender, arriving: "Arriving[FramePlace]", limits: Limits) -> None:
        self.size = 0
        """Of the large frame that has its place, or waits for it."""
        self.waits = False
        self._number = 0  # of that frame
        self._sender = sender
        self._arriving = arriving
        self._limits = limits
        self._coming = Deadline()

    def look(self, machine: Connection, payer: Payer) -> None:
        """For a large frame that has begun to come; one that is whole gives its own up."""
        size, number = machine.awaited, machine.came
        if self.size and (size, number) != (self.size, self._number):
            self.leave()
        if size > LARGE and not self.size and not machine.crowded:
            self.size, self._number = size, number
            self.waits = not self._arriving.ask(self, payer, size)
            self.expect()

    def leave(self) -> None:
        """Its frame is whole, or will never be."""
        if self.size:
            self.size, self.waits = 0, False
            self._coming.cancel()
            for other in self._arriving.leave(self):
                other.admitted()

    def admitted(self) -> None:
        """The large frame that has begun to come has its place."""
        self.waits = False
        self._sender.set_reading()

    def expect(self) -> None:
        """Of a large frame that has its place and is read some more comes within some time."""
        if not self.size or self.waits:
            return
        sender = self._sender
        self._coming.set_without(
            self._limits.slow_sender_seconds,
            lambda: sender.bytes_in,
            lambda: 0 if sender.holds else self._least(),
            lambda: sender.close(FrameError("slow sender: it has begun and does not go on")),
        )

    def _least(self) -> int:
        return self.size // SLOWEST_SENDER if self._arriving.waiting else LARGE
