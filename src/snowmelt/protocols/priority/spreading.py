"""What a home has done, until all who keep copies have flushed it: rule 2 of the home."""

from collections.abc import Iterable

import msgspec

from snowmelt.core.names import NodeId
from snowmelt.protocols.priority.batches import Shares
from snowmelt.protocols.priority.desk import Desk, Patience
from snowmelt.protocols.priority.lots import cut
from snowmelt.protocols.priority.messages import Elements, Follow, Followed, Mark
from snowmelt.protocols.priority.placing import Placing
from snowmelt.protocols.priority.positions import common
from snowmelt.protocols.priority.writing import Part

NO_ROOM = "the disk is full"


class Outcome(msgspec.Struct):
    """What all have flushed, or what somebody had no room for."""

    number: int
    copies: int
    refused: str


class _Told(msgspec.Struct):
    """A message to one who keeps copies, until it is answered."""

    target: NodeId
    message: Follow
    patience: Patience
    number: int


class _Open(msgspec.Struct):
    """Something that is not flushed by all yet."""

    waits: int
    copies: int
    refused: str = ""


class Spreading:
    """Tells those who keep copies, and counts."""

    def __init__(self, desk: Desk, queue: str, placing: Placing) -> None:
        self._desk = desk
        self._queue = queue
        self._placing = placing
        self._number = 0
        self._serial = 0
        self._open: dict[int, _Open] = {}
        self._told: dict[int, _Told] = {}
        self._flush = 0
        """The number under which all flush what they have."""

    def spread(
        self, elements: Elements | None, marks: Iterable[Mark], to: NodeId | None = None
    ) -> int:
        """Has it written down here and by all whom it is for, or by one; its number."""
        self._number += 1
        parts = self._parts(elements, tuple(marks), to)
        self._open[self._number] = _Open(1 + len(parts), 1 + len(parts))
        for target, (some, those) in parts.items():
            self._tell(target, some, those)
        self._desk.await_flush(Part.HOME, self._queue, self._number)
        return self._number

    def all_flush(self, keepers: Iterable[NodeId]) -> bool:
        """Has all who keep copies flush what they have by now, once: whether that is done."""
        if not self._flush:
            self._number += 1
            self._flush = self._number
            targets = tuple(keepers)
            self._open[self._number] = _Open(1 + len(targets), 1 + len(targets))
            for target in targets:
                self._tell(target, None, ())
            self._desk.await_flush(Part.HOME, self._queue, self._number)
        return self._flush not in self._open

    def flushed(self, number: int, refused: str = "") -> Outcome | None:
        """This node's own disk has it, or has no room; the outcome when it was the last."""
        return self._counted(number, refused)

    def followed(self, source: NodeId, message: Followed) -> Outcome | None:
        """One who keeps copies has it, or has no room; the outcome when it was the last."""
        told = self._told.get(message.serial)
        if told is None or told.target != source:
            return None
        del self._told[message.serial]
        return self._counted(told.number, message.refused)

    def again(self) -> None:
        """Whoever has not answered is told again."""
        for told in self._told.values():
            if told.patience.over(self._desk.now):
                self._desk.send(told.target, told.message)
            self._desk.wake(told.patience.at)

    def _counted(self, number: int, refused: str) -> Outcome | None:
        one = self._open.get(number)
        if one is None:
            return None
        one.waits -= 1
        one.refused = one.refused or refused
        if one.waits:
            return None
        del self._open[number]
        return None if number == self._flush else Outcome(number, one.copies, one.refused)

    def _tell(self, target: NodeId, elements: Elements | None, marks: tuple[Mark, ...]) -> None:
        self._serial += 1
        some = () if elements is None else (elements,)
        message = Follow(self._desk.era, self._serial, self._queue, some, marks)
        patience = Patience.new(self._desk.now)
        self._told[self._serial] = _Told(target, message, patience, self._number)
        self._desk.send(target, message)
        self._desk.wake(patience.at)

    def _parts(
        self, elements: Elements | None, marks: tuple[Mark, ...], to: NodeId | None
    ) -> dict[NodeId, tuple[Elements | None, tuple[Mark, ...]]]:
        """Who is to be told what."""
        shares = [share for mark in marks for share in mark.shares]
        shares += elements.shares if elements is not None else ()
        parts: dict[NodeId, tuple[Elements | None, tuple[Mark, ...]]] = {}
        for holder, theirs in sorted(self._placing.by_holder(shares).items()):
            if holder == self._desk.me or (to is not None and holder != to):
                continue
            some = None if elements is None else cut(elements, theirs)
            those = [_narrowed(mark, theirs) for mark in marks]
            parts[holder] = some, tuple([mark for mark in those if mark.shares])
        return parts


def _narrowed(mark: Mark, shares: Shares) -> Mark:
    return msgspec.structs.replace(mark, shares=common(mark.shares, shares))
