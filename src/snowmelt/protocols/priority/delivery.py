"""What was leased, and is flushed by all, on its way out of its home: read, and told to the door.

Gets that came together are told together, those whose bodies must be read from the disk a little
later. One answer holds no more than `TAKEN_BYTES`, or one get's.

What is at hand of one get may be more than was read for it, and less: bodies that came of late are
at hand without being read, until others take their room. A get is told what stands before the first
that is not at hand, and nothing behind it: else it would be given what is less urgent than what it
gives back. When that is nothing, what it needs is read again.

Where priorities have no number, what a get has is a set, and is told as it lies, in stretches: each
of its keys goes along; as one piece, if whoever asks knows such ones and all of it is alike. Only
when that is too much at once it is put in the order of its keys first.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from snowmelt.core.names import NodeId
from snowmelt.core.record import Found
from snowmelt.protocols.priority.batches import Shares, union
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.fitting import before_gap, fitting, weight
from snowmelt.protocols.priority.messages import Given, Piece, Take, Taken
from snowmelt.protocols.priority.positions import common, minus
from snowmelt.protocols.priority.shelf import Shelf
from snowmelt.protocols.priority.writing import Part

TAKEN_BYTES: Final = 1 << 20


class Leasing(msgspec.Struct, gc=False):
    """One get's elements of a home, on their way to it."""

    at: int
    """Which of the wants of its `Take` it is."""
    shares: Shares
    """To be handed out."""
    void: Shares = ()
    """Not to be had."""
    in_order: bool = True
    """Whether the most urgent of it is first."""


class _Reading(msgspec.Struct):
    """Gets that wait for the same bodies."""

    door: NodeId
    take: Take
    leasings: list[Leasing]


class Delivery:
    """Of one home, in one view."""

    def __init__(
        self, desk: Desk, queue: str, shelf: Shelf, urgent: Callable[[Shares], Shares] | None
    ) -> None:
        self._urgent = urgent
        """Puts a set in order, where priorities have no number."""
        self._desk = desk
        self._queue = queue
        self._shelf = shelf
        self._under_way: set[tuple[NodeId, int, int]] = set()
        self._number = 0
        self._reading: dict[int, _Reading] = {}

    def has(self, door: NodeId, serial: int, at: int) -> bool:
        """Whether this want of a `Take` is leased, or about to be, and not told yet."""
        return (door, serial, at) in self._under_way

    def begin(self, door: NodeId, serial: int, at: int) -> None:
        self._under_way.add((door, serial, at))

    def end(self, door: NodeId, serial: int, at: int) -> None:
        """It is not told: it waits again."""
        self._under_way.discard((door, serial, at))

    def go(self, door: NodeId, take: Take, leasings: Sequence[Leasing]) -> None:
        """These leases are flushed by all: what is at hand is told, all else is read first."""
        whole = self._gathered(take, leasings, ())
        done = {one.at for one in whole}
        told: list[Leasing] = []
        reading: dict[tuple[bytes, ...], list[Leasing]] = {}
        for one in leasings:
            keys = () if one.at in done else self._shelf.keys(one.shares)
            if keys:
                reading.setdefault(keys, []).append(one)
            else:
                told.append(one)
        self._tell(door, take, told, (), whole)
        for keys, several in reading.items():
            self._number += 1
            self._reading[self._number] = _Reading(door, take, several)
            self._desk.load(Part.HOME, self._queue, self._number, keys)

    def loaded(
        self, number: int, found: tuple[Found, ...]
    ) -> tuple[NodeId, Take, list[int], Shares]:
        """Bodies were read; which wants lack what can't be read any more, and what that is."""
        one = self._reading.pop(number)
        unread = self._shelf.unread(union([s for each in one.leasings for s in each.shares]), found)
        sound = one.leasings
        if unread:
            sound = [each for each in one.leasings if not common(each.shares, unread)]
        lacking = [each.at for each in one.leasings if each not in sound]
        for at in lacking:
            self.end(one.door, one.take.serial, at)
        self._tell(one.door, one.take, sound, found)
        return one.door, one.take, lacking, unread

    def _tell(
        self,
        door: NodeId,
        take: Take,
        leasings: Sequence[Leasing],
        found: tuple[Found, ...],
        whole: list[Given] | None = None,
    ) -> None:
        """`whole` of them are one piece each, if that was looked for."""
        if not leasings:
            return
        again: list[Leasing] = []
        given = self._gathered(take, leasings, found) if whole is None else whole
        done = [one.at for one in given]
        others = [one for one in leasings if one.at not in done] if done else leasings
        rows = self._shelf.pieces(found, *[one.shares for one in others])
        for one, row in zip(others, rows, strict=True):
            pieces, lacks = row, _lacks(one, row)
            if not one.in_order and (lacks or weight(row) > take.wants[one.at].bytes_max):
                assert self._urgent is not None, "what is numbered is granted in order"
                one.shares, one.in_order = self._urgent(one.shares), True
                again.append(one)
                continue
            if lacks:
                pieces = before_gap(self._shelf.rows, one.shares, row)
                if not pieces and self._shelf.rows.present(one.shares):
                    again.append(one)
                    continue
                lacks = _lacks(one, pieces)
            given.append(_given(take, one, pieces, lacks=lacks))
        self._under_way.difference_update([(door, take.serial, one.at) for one in given])
        for page in _pages(given) if given else ():
            self._desk.send(door, Taken(self._desk.era, self._queue, take.serial, tuple(page)))
        if again:
            self.go(door, take, again)

    def _gathered(
        self, take: Take, leasings: Sequence[Leasing], found: tuple[Found, ...]
    ) -> list[Given]:
        """What is told as one piece each: sets that are at hand, and fit into one answer."""
        sets = [one for one in leasings if take.wants[one.at].gathered and not one.in_order]
        if not sets:
            return []
        pieces = self._shelf.gathered(found, *[one.shares for one in sets])
        return [
            Given(one.at, (piece,), one.void)
            for one, piece in zip(sets, pieces, strict=True)
            if piece is not None and weight((piece,)) <= take.wants[one.at].bytes_max
        ]


def _lacks(one: Leasing, pieces: tuple[Piece, ...]) -> bool:
    count = sum([piece.count for piece in pieces])
    return count < sum([share.total for share in one.shares])


def _given(take: Take, one: Leasing, pieces: tuple[Piece, ...], *, lacks: bool) -> Given:
    fit, left = fitting(pieces, take.wants[one.at].bytes_max)
    if lacks:  # too much to be read at once
        left = union([*left, *minus(one.shares, union([piece.share for piece in pieces]))])
    return Given(one.at, fit, one.void, left)


def _pages(given: list[Given]) -> Iterator[list[Given]]:
    """As much as one answer holds."""
    page: list[Given] = []
    room = TAKEN_BYTES
    for one in given:
        size = sum([len(piece.blob) + len(piece.headers) for piece in one.pieces])
        if page and size > room:
            yield page
            page, room = [], TAKEN_BYTES
        page.append(one)
        room -= size
    yield page
