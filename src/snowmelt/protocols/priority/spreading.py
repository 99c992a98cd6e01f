"""What a home has done, until all who keep copies have flushed it: rule 2 of the home.

They are told when this node itself begins to write it. So all flush at the same time, and however
much was done while the disk was busy is one message to each, and one flush there.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from snowmelt.core.names import NodeId
from snowmelt.protocols.priority.batches import Shares
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.lots import cut
from snowmelt.protocols.priority.messages import Elements, Follow, Followed, Mark
from snowmelt.protocols.priority.placing import Placing
from snowmelt.protocols.priority.positions import common
from snowmelt.protocols.priority.sending import Unanswered
from snowmelt.protocols.priority.writing import Part

NO_ROOM = "the disk is full"
LETTER_BYTES: Final = 32 << 20
LETTER_MARKS: Final = 16_384
"""What goes to one node in one message: so much of elements, and so many marks, or what one put
has."""


class Outcome(msgspec.Struct, gc=False):
    """What all have flushed, or what somebody had no room for."""

    number: int
    copies: int
    refused: str


class _Letter(msgspec.Struct):
    elements: list[Elements] = []
    marks: list[Mark] = []
    numbers: list[int] = []
    """Of what this is a part."""
    room: int = LETTER_BYTES

    def takes(self, elements: Elements | None, marks: int) -> bool:
        """Whether there is room for these, or nothing in it yet."""
        size = 0 if elements is None else len(elements.blob)
        fits = size <= self.room and len(self.marks) + marks <= LETTER_MARKS
        return fits or not (self.elements or self.marks)

    def add(self, elements: Elements | None, marks: tuple[Mark, ...], number: int) -> None:
        if elements is not None:
            self.elements.append(elements)
            self.room -= len(elements.blob)
        self.marks.extend(marks)
        self.numbers.append(number)


class _Open(msgspec.Struct, gc=False):
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
        self._alone = placing.everybody == (desk.me,)
        """Whether nobody else is to be told."""
        self._number = 0
        self._open: dict[int, _Open] = {}
        self._letters: dict[tuple[NodeId, bool], list[_Letter]] = {}
        """To be told when this node writes; elements apart, since there may be no room for them."""
        self._told = Unanswered[int](desk, queue)
        self._flush = 0
        """The number under which all flush what they have."""

    def spread(
        self, elements: Elements | None, marks: Iterable[Mark], to: NodeId | None = None
    ) -> int:
        """Has it written down here and by all whom it is for, or by one; its number."""
        self._number += 1
        parts = {} if self._alone else self._parts(elements, tuple(marks), to)
        one = self._open[self._number] = _Open(1, 1 + len(parts))
        for target, (some, those) in parts.items():
            one.waits += self._tell(target, some, those)
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

    def leave(self) -> None:
        """This node writes what it has done: so do they, at the same time."""
        if not self._letters:
            return
        letters, self._letters = self._letters, {}
        for target, letter in [
            (to, one) for (to, _), several in letters.items() for one in several
        ]:
            elements, marks = tuple(letter.elements), tuple(letter.marks)

            def make(
                serial: int,
                elements: tuple[Elements, ...] = elements,
                marks: tuple[Mark, ...] = marks,
            ) -> Follow:
                return Follow(self._desk.era, serial, self._queue, elements, marks)

            self._told.send(target, tuple(letter.numbers), make)

    def followed(self, source: NodeId, message: Followed) -> list[Outcome]:
        """One who keeps copies has it, or no room for it; the outcomes of what all have now."""
        told = self._told.answered(source, message.serial)
        if told is None:
            return []
        outcomes = [self._counted(number, message.refused) for number in told.operations]
        return [outcome for outcome in outcomes if outcome is not None]

    def again(self) -> None:
        self._told.again()

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

    def _tell(self, target: NodeId, elements: Elements | None, marks: tuple[Mark, ...]) -> int:
        """In how many letters it goes."""
        letters = self._letters.setdefault((target, elements is not None), [_Letter()])
        count = 0
        while count == 0 or marks:
            page, marks = marks[:LETTER_MARKS], marks[LETTER_MARKS:]
            if not letters[-1].takes(elements, len(page)):
                letters.append(_Letter())
            letters[-1].add(elements, page, self._number)
            elements, count = None, count + 1
        return count

    def _parts(
        self, elements: Elements | None, marks: tuple[Mark, ...], to: NodeId | None
    ) -> dict[NodeId, tuple[Elements | None, tuple[Mark, ...]]]:
        everybody, me = self._placing.everybody, self._desk.me
        if to is not None and elements is None:  # what is gone may be very many blocks, told whole
            return {to: (None, _said(marks))} if to != me else {}
        if everybody:  # each keeps all of it
            told = marks if all(mark.shares for mark in marks) else _said(marks)
            others = (everybody if to is None else (to,)) if told or elements is not None else ()
            return {one: (elements, told) for one in sorted(others) if one != me}
        if self._placing.alone and to is None:
            return {}
        shares = [share for mark in marks for share in mark.shares]
        shares += elements.shares if elements is not None else ()
        parts: dict[NodeId, tuple[Elements | None, tuple[Mark, ...]]] = {}
        for holder, theirs in sorted(self._placing.by_holder(shares).items()):
            if holder == me or (to is not None and holder != to):
                continue
            some = None if elements is None else cut(elements, theirs)
            those = [_narrowed(mark, theirs) for mark in marks]
            parts[holder] = some, _said(those)
        return parts


def _narrowed(mark: Mark, shares: Shares) -> Mark:
    return msgspec.structs.replace(mark, shares=common(mark.shares, shares))


def _said(marks: Iterable[Mark]) -> tuple[Mark, ...]:
    """Those that say something."""
    return tuple([mark for mark in marks if mark.shares])
