"""Where one listener stands, whichever node it asks: rules 5, 11 and 12 on the client's side."""

from collections import OrderedDict
from typing import Any, Final

import msgspec

from snowmelt.protocols.multicast.calls import Messages, Position

REMEMBERED: Final = 10_000
"""So many tickets are known again."""


class Message(msgspec.Struct, frozen=True):
    """What somebody published, and where it stands in the order."""

    body: bytes
    position: Position

    @property
    def value(self) -> Any:
        """What was published: its body, where the topic is heard without a codec."""
        return self.body


class ListenerProgress:
    """One listener's place in the order, and the tickets that it saw.

    >>> from snowmelt.protocols.multicast.calls import Publication
    >>> following = ListenerProgress()
    >>> following.take(Messages((), Position(5, 1)))
    []
    >>> twice = [Publication(Position(5, at), 77, (b"hello",)) for at in (1, 2)]
    >>> following.take(Messages(tuple(twice), Position(5, 3)))
    [Message(body=b'hello', position=Position(era=5, number=1))]
    >>> following.position, following.missed
    (Position(era=5, number=3), 0)
    """

    def __init__(self) -> None:
        self.position: Position | None = None
        """From where to listen on; None until it has begun."""
        self.missed = 0
        """How often it was told that something may be missing."""
        self._seen: OrderedDict[int, None] = OrderedDict()

    @property
    def begun(self) -> bool:
        return self.position is not None

    def take(self, told: Messages) -> list[Message]:
        """What is new in an answer; a ticket that was seen is passed over."""
        if told.next is not None:
            self.position = told.next
        self.missed += told.missed
        messages: list[Message] = []
        for one in told.publications:
            if one.ticket in self._seen:
                continue
            self._remember(one.ticket)
            era, first = one.first.era, one.first.number
            messages += [
                Message(body, Position(era, first + at)) for at, body in enumerate(one.bodies)
            ]
        return messages

    def _remember(self, ticket: int) -> None:
        self._seen[ticket] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
