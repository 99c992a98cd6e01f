"""A copy of a queue for a file, and a queue made of such a copy: what is asked, and what is told.

Theory of operation
-------------------
A backup is read from the leader like a copy that a follower lacks (`sending.py`). So it is as of
one step, though puts and gets go on. It comes in pieces: first the records that say how items
stand, then the items as *lots*. A piece is some megabyte, and one body more.

Reading (`saving.py`):

1. A backup has a number, which its reader draws. Piece 0 begins it: the records are taken as of the
   last step. It is answered when that step is safe, and this leader is sure to lead.
2. While a backup is read, no body is erased that its records name, here or on data nodes. It ends
   when its reader says so, or has asked for nothing in `READ_WITHIN`; and in `GIVES_WAY` where
   a new one finds no place.
3. A lot is the items of one put as they are stored, and which of them live. Where bodies lie on
   data nodes a span is told. A body that no copy has any more is left out, and counted.
4. The next leader knows nothing of it. Its reader is told so, and begins anew.
5. Leases are not in it: what was leased is ready. Nor is what was staged and not published.
   Schedules are.

Restoring (`restoring.py`):

6. Only a queue that never had anything takes a backup. Piece 0 *closes* it: until the last piece
   nobody else may use it. The number of the next piece is a record. So a piece that is asked again,
   or after a fail-over, is taken once.
7. Records are taken as they are. Lots come in the order of their positions, and keep these. Their
   bodies lie with the leader and its followers, under the term in which they came. Their labels
   have their keys.
8. With the last piece all that lives is ready, delayed, dead or a group's, as the records say, and
   the queue is open.
9. A piece that found no room is taken back like a put. Then the restore is *broken*, and says so:
   the queue has to be deleted.
10. Of several partitions each is read and restored by itself; partition 0 begins and ends last. So
    its bound is above all numbers that the others have. Until it is open, there are no numbers and
    no phases: nobody sees a part of the order.
"""

from typing import Annotated, Final

import msgspec

from snowmelt.core.ahead import COUNT_MAX, MANY, Blob, Count, Label, Whole
from snowmelt.core.interval import Interval, backwards
from snowmelt.core.spans import stepped
from snowmelt.protocols.queue.api.places import Span
from snowmelt.protocols.queue.api.settings import QueueSettings

LOTS_MAX: Final = 1 << 14
RECORDS_MAX: Final = 100_000
LEFT_BYTES_MAX: Final = 1 << 20
KINDS: Final = b"sgpnuyzktvqma"
"""How the keys of those records begin which a restore takes (`records.py`)."""
BROKEN: Final = COUNT_MAX
"""The next piece of a restore that found no room (rule 9)."""
_STEPS: Final = msgspec.msgpack.Decoder(list[Count]).decode
Key = Annotated[bytes, msgspec.Meta(min_length=1, max_length=280)]
Records = Annotated[tuple[tuple[Key, Blob], ...], msgspec.Meta(max_length=RECORDS_MAX)]


class Lot(msgspec.Struct, frozen=True, array_like=True):
    """The items of one put."""

    start: Count
    stop: Count
    size: Count
    """Bytes of the put, headers included."""
    left: Annotated[bytes, msgspec.Meta(max_length=LEFT_BYTES_MAX)] = b""
    """What lives of it: msgpack of `core/spans.steps`, from `start` on. Nothing where all does."""
    body: Blob = b""
    """As it is stored (`segments.py`), from `start` on."""

    def __post_init__(self) -> None:
        if self.start > self.stop:
            raise backwards(self.start, self.stop)

    @property
    def alive(self) -> list[Interval]:
        """Which positions live; raises `ValueError` where that does not read.

        >>> Lot(5, 9, 4, msgspec.msgpack.encode([1, 2])).alive, Lot(5, 9, 4).alive
        ([Interval(start=6, stop=8)], [Interval(start=5, stop=9)])
        """
        if not self.left:
            return [Interval(self.start, self.stop)]
        counted = stepped(_STEPS(self.left))
        return [Interval(one.start + self.start, one.stop + self.start) for one in counted]


Lots = Annotated[tuple[Lot, ...], msgspec.Meta(max_length=LOTS_MAX)]


class Save(msgspec.Struct, frozen=True, tag="queue.save", array_like=True):
    """Asks for a piece of a backup."""

    queue: Label
    backup: Whole
    number: Count
    over: bool = False
    """It is read, or given up: nothing is kept for it any more."""


class Saved(msgspec.Struct, frozen=True, tag="queue.saved", array_like=True):
    """A piece."""

    settings: QueueSettings
    items: Whole = 0
    """How many live in the queue, and how many bytes they have, about."""
    bytes: Whole = 0
    lots: Annotated[tuple[Lot, ...], MANY] = ()
    elsewhere: Annotated[tuple[tuple[Lot, Span], ...], MANY] = ()
    """Lots without bodies, and where these are."""
    records: Records = ()
    lost: Whole = 0
    """So many items of the piece can't be read by anybody."""
    last: bool = False
    gone: bool = False
    """This leader knows nothing of that backup (rule 4)."""


class Restore(msgspec.Struct, frozen=True, tag="queue.restore", array_like=True):
    """A piece for the queue that a backup becomes."""

    queue: Label
    backup: Whole
    number: Count
    lots: Lots = ()
    records: Records = ()
    last: bool = False

    @property
    def size(self) -> int:
        """Bytes of what comes with it."""
        return sum([len(one.body) for one in self.lots])


class Restored(msgspec.Struct, frozen=True, tag="queue.restored", array_like=True):
    """That piece is next; or all are there, and the queue is open."""

    next: Whole
    done: bool = False


class Restoration(msgspec.Struct, frozen=True, array_like=True):
    """How far a queue is that is made of a backup: this is a record of its state."""

    backup: int
    next: int
    behind: int = 0
    """The next lot is not before this position."""
    done: bool = False


NEVER_RESTORED: Final = Restoration(0, 0, done=True)
"""That of any other queue."""
