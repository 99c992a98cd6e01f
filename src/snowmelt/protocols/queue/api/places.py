"""Where items lie that do not come along with an answer."""

from typing import Annotated, Final

import msgspec

from snowmelt.core.ahead import MANY, Blob, Label, Text, Whole
from snowmelt.core.interval import backwards
from snowmelt.core.names import Address, NodeName

SPAN_BYTES: Final = 64
"""What numbers and marks take on the wire, at most."""


class NodeAddress(msgspec.Struct, frozen=True, array_like=True):
    """A node and where it listens."""

    node: NodeName
    address: Address


class Span(msgspec.Struct, frozen=True, array_like=True):
    """Items that a client must fetch from one who has a copy: positions and where they lie."""

    start: Whole
    stop: Whole
    stream: Label
    first: Whole
    keepers: Annotated[tuple[NodeAddress, ...], MANY]
    failures: Whole = 0
    reason: Text = ""
    away: bool = False
    """Whether one that may come back has them too: what nobody here can give has not failed."""
    keys: Blob = b""
    """In a queue of any priorities, that of each: who keeps bodies need not know them."""

    def __post_init__(self) -> None:
        if self.start > self.stop:
            raise backwards(self.start, self.stop)

    def part(self, start: int, stop: int) -> "Span":
        """Some of its positions.

        >>> Span(5, 9, "s", 105, (), keys=bytes(16) + b"eight by" + bytes(8)).part(7, 8)
        Span(start=7, stop=8, stream='s', first=107, keepers=(), ..., keys=b'eight by')
        """
        first = self.first + start - self.start
        keys = self.keys[8 * (start - self.start) : 8 * (stop - self.start)]
        return msgspec.structs.replace(self, start=start, stop=stop, first=first, keys=keys)

    @property
    def weight(self) -> int:
        """How many bytes it has on its way, at most."""
        places = sum([len(one.node) + len(one.address.host) + 16 for one in self.keepers])
        own = len(self.stream) + len(self.reason.encode()) + len(self.keys)
        return SPAN_BYTES + places + own
