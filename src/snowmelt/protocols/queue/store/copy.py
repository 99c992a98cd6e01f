"""A node's copy of a partition: its records, the last step that it has, and its fence.

Rules:

1. A step goes behind the one that it names, or not at all. So a copy is what its leader's was.
2. Nothing of a term below the fence is taken. The fence is flushed before anybody hears of it.
3. A copy that was begun to be replaced is as it was until the last piece is there: bodies have keys
   of their own (place and term), so those that come do not touch those that are there. Then all
   records are replaced in one write.
4. A copy of which a record can't be read is none: its node tells nobody that it has a step, and is
   sent all of it.
5. Where flushes may linger, a copy that was read from the disk may lack what it told. It is *sure*
   again from the first step of a later term on; or from the head that its leader had when this run
   had begun, since no earlier run told more.
6. What found no room may be given up, since nobody was told of it: the copy is what is on the disk
   then. While that is read, nothing is heard of it, and no term begins with it.
7. Of one that is erased since no home names it there stays the home that does not (`erasing.py`).
"""

from collections import deque
from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from snowmelt.core.errors import StoreDamaged, StoreVersion
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.record import (
    BULK,
    UNREADABLE,
    Change,
    Erase,
    Found,
    Record,
    Write,
    decoded,
    erase,
)
from snowmelt.protocols.queue.messages.home_words import Assignment
from snowmelt.protocols.queue.messages.words import NOTHING, Append, Body, Head, Pairs
from snowmelt.protocols.queue.state.batches import KINDS, SPREAD, Batches
from snowmelt.protocols.queue.state.state import STATUS

COPY: Final = b"m"
TWIN: Final = b"k"
"""The same once more, and last of each write: what is torn with the last record is no loss."""
RECORD: Final = b"j"
FORM: Final = 5
RECENT_BYTES: Final = 1 << 20
STEPS_BYTES: Final = 16 << 20
STEPS_LEAST: Final = 4
MOMENTS_MAX: Final = 64
MOMENT: Final = 200_000_000
"""Nanoseconds between two of them, at least."""
"""Of steps that somebody lacks, or so many if they are large."""
_ENCODE: Final = msgspec.msgpack.Encoder().encode


HOME: Final = b"h"
"""The record of who led in the term of its last step; it comes with the first step of a term."""


class CopyHeader(msgspec.Struct, frozen=True, array_like=True):
    """What stands beside the records."""

    head: Head
    fence: int
    form: int = FORM
    deleted: bool = False
    """Whether the queue was deleted by the term of the fence (`erasing.py`)."""
    left: bool = False
    """Whether it is none, since a later home does not name it: that is all its records tell."""


def kept_in(queue: str, value: bytes) -> CopyHeader:
    """What stands in such a record; another version's form is refused."""
    try:
        kept = msgspec.msgpack.decode(value, type=CopyHeader)
    except msgspec.ValidationError:
        kept = None
    except UNREADABLE as error:
        raise StoreDamaged(f"it can't be read: {error}") from None
    if kept is None or kept.form != FORM:
        raise StoreVersion(
            f"queue {queue!r} on this disk was written by another version of snowmelt, in a form "
            "that this program does not read; run the version that wrote it and empty the queue "
            "there, or keep this folder and begin on a new one"
        )
    return kept


def body_key(queue: str, key: bytes) -> bytes:
    """A body's key on the disk."""
    return BULK + queue.encode() + b"\0" + key


class Copy:
    """Of one queue, on this disk."""

    def __init__(self, queue: str) -> None:
        name = queue.encode()
        self.records: dict[bytes, bytes] = {}
        self.head = NOTHING
        """Of the last step that was taken."""
        self.flushed = NOTHING
        self.fence = 0
        self.reach = NOTHING
        """From which head on it is sure (rule 5)."""
        self.whole = True
        """Whether all of its records could be read (rule 4)."""
        self.undoing = False
        """Whether it is read again (rule 6)."""
        self.deleted = False
        """Whether it is none, since the queue was deleted by the term of its fence."""
        self.left = False
        """Whether it is none, since its home does not name it (rule 7)."""
        self.recent: deque[Append] = deque()
        """Its last steps, for those who lack no more than these."""
        self.recent_bytes = 0
        self.moments: list[tuple[int, int]] = []
        """Up to which step it had come at some moments of its leader's wall clock, while this node
        led: so of a step one knows about when it was made (`item_trace.py`)."""
        self.traced: tuple[int, bytes] | None = None
        """From which step on steps are kept though nobody follows, since somebody asks what they
        tell; and what was counted by then."""
        self._name = name
        self._record = RECORD + name + b"\0"
        self._bodies = BULK + name + b"\0"

    # --- a step -----------------------------------------------------------------------------------

    def append(self, step: Append) -> tuple[Change, ...]:
        """Takes a step; what it changes on the disk."""
        self.head, own = step.head, self._record
        changes = list[Change]()
        for body in step.bodies:
            changes += (Write(self._bodies + body.key, body.value),)
        for key, value in step.records:
            if value is None:
                self.records.pop(key, None)
                changes += (erase(own + key),)
            else:
                self.records[key] = value
                changes += (Write(own + key, value),)
        if step.over:
            changes += map(self._erased, step.over)
        return (*changes, *self._kept())

    def remember(self, step: Append, least: int) -> None:
        """Keeps a step, and as many of those before it as may be of use.

        That is some bytes of them; and more, but not too many, of those behind the `least` that
        somebody has. Steps before a gap are of no use: a leader without followers keeps none.
        """
        if self.recent and self.recent[-1].head != step.after:
            self.recent.clear()
            self.recent_bytes = 0
        self.recent.append(step)
        self.recent_bytes += step.weight
        while self.recent_bytes > RECENT_BYTES:
            few = self.recent_bytes <= STEPS_BYTES or len(self.recent) <= STEPS_LEAST
            if few and self.recent[0].head.step > least:
                break
            self.recent_bytes -= self.recent.popleft().weight

    def forget(self) -> None:
        """What came before is of no use any more."""
        self.recent.clear()
        self.recent_bytes = 0
        self.moments.clear()
        self.traced = None

    def trace(self) -> None:
        """Steps are kept from now on, whoever follows."""
        if self.traced is None and STATUS in self.records:
            self.traced = self.head.step, self.records[STATUS]

    def look_at_clock(self, wall: int) -> None:
        """Notes how far it has come by now, if that is further than at the last such moment."""
        step, moments = self.head.step, self.moments
        if not moments or (moments[-1][0] < step and abs(wall - moments[-1][1]) >= MOMENT):
            moments.append((step, wall))
            if len(moments) > MOMENTS_MAX:  # the older, the fewer
                del moments[1 : MOMENTS_MAX // 2 : 2]

    def stored(self, bodies: Iterable[Body]) -> list[Change]:
        """Bodies, as they lie on the disk."""
        return [Write(self._bodies + one.key, one.value) for one in bodies]

    def _erased(self, where: Interval) -> Erase:
        own = self._bodies
        return Erase(own + where.start.to_bytes(8), own + where.stop.to_bytes(8))

    def _kept(self) -> tuple[Change, ...]:
        value = _ENCODE(CopyHeader(self.head, self.fence, FORM, self.deleted, self.left))
        return Write(COPY + self._name, value), Write(TWIN + self._name, value)

    # --- terms ------------------------------------------------------------------------------------

    def raise_fence(self, term: int) -> tuple[Change, ...]:
        """Nothing below this term is taken any more (rule 2)."""
        self.fence, self.deleted = max(self.fence, term), False
        if not self.left:
            return self._kept()
        self.records, self.left = {}, False  # it is a new one, with nothing yet
        return Erase(*self.where()), *self._kept()

    @property
    def sure(self) -> bool:
        """Whether it has all that it ever told (rule 5)."""
        return self.whole and self.head >= self.reach

    @property
    def told(self) -> Head:
        """Its last step, for whoever looks for the newest copy (rule 4)."""
        return self.flushed if self.whole else NOTHING

    @property
    def home(self) -> Assignment | None:
        """Who led in the term of its last step, or without it; None where that is not known."""
        kept = self.records.get(HOME)
        try:
            return None if kept is None else decoded(kept, Assignment)
        except StoreDamaged:
            return None

    def left_after(self, term: int) -> bool:
        """Whether it had something in that term, and was left out of a later home."""
        return self.left and self.home is not None and term < self.home.term

    @property
    def items(self) -> int:
        """How many live in it. O(its blocks)."""
        batches = Batches({})
        for key in sorted(self.records):
            if key[:1] in KINDS:
                batches.restore(key, self.records[key])
        return batches.live.total

    @property
    def lingers(self) -> bool:
        """Whether it may have told what is not flushed."""
        home = self.home
        return home is not None and home.settings.linger > 0

    # --- what found no room (rule 6) --------------------------------------------------------------

    def where(self) -> tuple[bytes, bytes]:
        """Between which keys its records are on the disk."""
        return self._record, self._record[:-1] + b"\1"

    def undo(self, found: Iterable[Found]) -> None:
        """These are its records on the disk, and damaged ones."""
        there = [(one.key, one.value) for one in found if type(one) is Record]
        damaged = any(type(one) is not Record for one in found)
        self.records = {key[len(self._record) :]: value for key, value in there}
        self.head, self.whole, self.undoing = self.flushed, not damaged, False
        self.forget()

    # --- another's copy ---------------------------------------------------------------------------

    def replace(self, head: Head, pairs: Pairs, places: Collection[Interval]) -> tuple[Change, ...]:
        """All records are these from now on; of bodies those go that lie at no such place."""
        self.head, self.whole, self.deleted, self.left = head, True, False, False
        self.forget()
        self.records = {key: value for key, value in pairs if value is not None}
        gone = IntervalSet([Interval(0, SPREAD)])
        gone.remove_all(places)
        changes: list[Change] = [
            Erase(*self.where()),
            *map(self._erased, gone),
        ]
        changes += [Write(self._record + key, value) for key, value in self.records.items()]
        return (*changes, *self._kept())

    # --- one that nobody needs -------------------------------------------------------------------

    def erase(self, term: int) -> tuple[Change, ...]:
        """Nothing is left of it but this fence (`erasing.py`)."""
        self.fence, self.deleted, self.left = term, True, False
        return self._emptied()

    def leave(self, home: Assignment) -> tuple[Change, ...]:
        """A later home does not name it: nothing is left but that (rule 7)."""
        self.fence, self.deleted, self.left = max(self.fence, home.term), False, True
        told = _ENCODE(home)
        changes = self._emptied()
        self.records = {HOME: told}
        return (*changes, Write(self._record + HOME, told))

    def _emptied(self) -> tuple[Change, ...]:
        self.records, self.head, self.reach = {}, NOTHING, NOTHING
        self.whole, self.undoing = True, False
        self.forget()
        return Erase(*self.where()), self._erased(Interval(0, SPREAD)), *self._kept()

    # --- a new life -------------------------------------------------------------------------------

    def restore(self, kept: CopyHeader) -> None:
        """From one of the two records that tell it."""
        if kept.head >= self.head:
            self.head = self.flushed = kept.head
        self.fence = max(self.fence, kept.fence)
        self.deleted, self.left = kept.deleted, kept.left
