"""What a group of a priority queue is given: batches, each told by a note (`group_steps.py`)."""

from collections.abc import Iterable
from typing import Final

import msgspec

from snowmelt.client.queue.group_steps import Mark
from snowmelt.protocols.priority.batches import Share, Shares
from snowmelt.protocols.priority.calls import Receipt
from snowmelt.protocols.queue.calls import Part


class Note(msgspec.Struct, frozen=True, array_like=True):
    """What was leased together, and how large it is."""

    token: int
    shares: Shares
    bytes: int

    @property
    def receipt(self) -> Receipt:
        return Receipt(self.token, self.shares)

    @property
    def count(self) -> int:
        return sum([share.total for share in self.shares])


ENCODE: Final = msgspec.msgpack.Encoder().encode
DECODE: Final = msgspec.msgpack.Decoder(Note).decode


class Stretch(Part, frozen=True):
    """Items of one priority at adjacent positions, with what they have in common."""

    priority: int | float = 0
    """As it was put."""


class Given(msgspec.Struct, frozen=True):
    end: Mark
    """The group's own goes up to here; equal to where it stood when there was nothing."""
    taken: int = 0
    """So many items were leased for it just now."""
    located: int = 0
    """So many of its batches were asked for, and may have been read."""


def parts_of(note: Note, most: int) -> Iterable[Note]:
    """A batch in parts of so many items, the most urgent first.

    >>> from snowmelt.core.interval import Interval
    >>> note = Note(7, (Share(0, (Interval(0, 3),)), Share(2, (Interval(5, 9),))), 70)
    >>> [(part.count, part.bytes) for part in parts_of(note, 4)]
    [(4, 40), (3, 30)]
    """
    rest = [(share.priority, one) for share in note.shares for one in share.intervals][::-1]
    row_bytes = note.bytes // max(1, note.count)
    while rest:
        room, shares = most, list[Share]()
        while rest and room:
            priority, interval = rest.pop()
            head, tail = interval.split(room)
            room -= head.size
            shares.append(Share(priority, (head,)))
            if tail.size:
                rest.append((priority, tail))
        whole = Note(note.token, tuple(_joined(shares)), 0)
        yield msgspec.structs.replace(whole, bytes=row_bytes * whole.count)


def _joined(shares: list[Share]) -> Iterable[Share]:
    rows: dict[int, list[Share]] = {}
    for share in shares:
        rows.setdefault(share.priority, []).append(share)
    for priority, those in rows.items():
        yield Share(priority, tuple(one for share in those for one in share.intervals))
