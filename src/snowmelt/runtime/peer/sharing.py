"""What two processes of one machine share over one link: places in segments (`segments.py`).

A body goes as where it lies (`PLACE`), after its segment was shown once, with its descriptor
(`SEGMENT`). When the last view of it is gone there, that is said (`FREE`). Whoever can't take a
segment says `BYTES`, and is sent bytes from then on. What lies in no place yet is copied into one.
A segment that is used no more, for its address space is wanted, is taken back (`DROP`).
"""

from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Any, Final

from snowmelt.core.batch import Buffer
from snowmelt.core.errors import FrameError
from snowmelt.runtime.peer.carriers import Carrier, Near
from snowmelt.runtime.peer.limits import LARGE, WITH_BLOB
from snowmelt.runtime.peer.outgoing import Outgoing
from snowmelt.runtime.peer.segments import Borrower, Mapped, SegmentRegion, Segments, SharedSegment
from snowmelt.wire.framing import Kind

SEGMENT_HEAD: Final = Struct("!I")
"""The number of a segment; its descriptor comes with it."""
PLACE_HEAD: Final = Struct("!IQQ")
"""The number of the segment, where in it the body lies, and how many bytes it has."""
FREE_HEAD: Final = Struct("!IQ")
COPIED_BYTES: Final = 4 << 20
"""A larger body that lies in no place goes as bytes: others would wait while it is copied."""


class Sharing:
    """Which segments one link shows to its other side, and what lies in them."""

    def __init__(
        self,
        segments: Segments,
        mapped_bytes: int,
        carrier: Carrier,
        outgoing: Outgoing,
        stir: Callable[[], None],
    ) -> None:
        self.room = segments.room
        self._segments = segments
        self._mapped = Mapped(mapped_bytes)
        self._carrier = carrier
        self._outgoing = outgoing
        self._stir = stir
        """Has what was added sent."""
        self._borrower: Borrower | None = None
        """The other side, if it is one of this machine that knows of segments."""
        self._lends = False
        """Whether it takes places."""
        self._shown: set[int] = set()
        self._takes = True
        """Whether this side takes places, as far as it has said."""
        self._views = 0
        """How many bodies of the other's are seen here."""

    def begin(self) -> None:
        """The other side knows of segments."""
        if isinstance(self._carrier, Near):
            self._borrower = self._segments.borrower(self._drop)
            self._lend(True)

    def _lend(self, lends: bool) -> None:
        self._segments.readers += lends - self._lends
        self._lends = lends

    @property
    def busy(self) -> bool:
        """Whether one side sees what is the other's."""
        return self._views > 0 or (self._borrower is not None and self._borrower.has)

    # --- out --------------------------------------------------------------------------------------

    def send(self, message: Any) -> bool:
        """Sends a message with the place of its large body; whether that could be.

        Raises `TooLarge` as `Outgoing.add` does, and adds nothing.
        """
        borrower = self._borrower if self._lends else None
        if borrower is None or type(message) not in WITH_BLOB or len(message.blob) < LARGE:
            return False
        place = self._place(message.blob)
        if place is None:
            return False
        segment = place.segment
        if segment.number not in self._shown and not self._show(segment, borrower):
            return False
        head = PLACE_HEAD.pack(segment.number, place.at, place.size)
        self._outgoing.add_place(message, head)
        self._segments.lend(place, borrower)
        return True

    def _show(self, segment: SharedSegment, borrower: Borrower) -> bool:
        try:
            reader = segment.reader(borrower.number)
        except OSError:  # no descriptor is left
            return False
        self._shown.add(segment.number)
        self._outgoing.show(SEGMENT_HEAD.pack(segment.number), reader)
        return True

    def _drop(self, number: int) -> None:
        """Nothing of this segment is lent, and nothing will be."""
        if number in self._shown:
            self._shown.remove(number)
            self._outgoing.drop(SEGMENT_HEAD.pack(number))
            self._stir()

    def _place(self, body: Buffer) -> SegmentRegion | None:
        place = self._segments.place_of(body)
        if place is None and len(body) <= COPIED_BYTES:
            written = self._segments.written(body)
            return None if written is None else self._segments.place_of(written)
        return place

    # --- in ---------------------------------------------------------------------------------------

    def heard(self, kind: int, payload: memoryview) -> None:
        if kind == Kind.BYTES:
            self._lend(False)
        elif kind == Kind.FREE and len(payload) == FREE_HEAD.size:
            self._freed(*FREE_HEAD.unpack(payload))
        elif kind == Kind.DROP and len(payload) == SEGMENT_HEAD.size:
            self._mapped.drop(*SEGMENT_HEAD.unpack(payload))
        elif kind == Kind.SEGMENT and len(payload) == SEGMENT_HEAD.size:
            (number,) = SEGMENT_HEAD.unpack(payload)
            carrier = self._carrier
            descriptor = carrier.descriptor() if isinstance(carrier, Near) else None
            if descriptor is None or not self._mapped.add(number, descriptor):
                self._take_bytes()
        else:
            raise FrameError(f"a word of {len(payload)} bytes about segments")

    def _take_bytes(self) -> None:
        if self._takes:  # said once, for whoever has shown many meanwhile
            self._takes = False
            self._say(Kind.BYTES, b"")

    def _freed(self, number: int, at: int) -> None:
        borrower = self._borrower
        if borrower is None or not self._segments.give_back(number, at, borrower):
            raise FrameError(f"place {at} of segment {number} is not the other side's to free")

    def view(self, number: int, at: int, size: int) -> memoryview | None:
        """What the other side has there, to be read; None where nothing was shown."""
        view = self._mapped.view(number, at, size, partial(self._seen, number, at))
        if view is None:
            self._free(number, at)
        return view

    def _seen(self, number: int, at: int, whole: Any) -> None:
        self._views += 1
        self._segments.watch(whole, partial(self._unseen, number, at))

    def _unseen(self, number: int, at: int) -> None:
        self._views -= 1
        self._free(number, at)

    def _free(self, number: int, at: int) -> None:
        if self._borrower is not None:
            self._say(Kind.FREE, FREE_HEAD.pack(number, at))

    def _say(self, kind: Kind, payload: bytes) -> None:
        self._outgoing.add_word(kind, payload)
        self._stir()

    def end(self) -> None:
        """The link is gone; views live on."""
        self._mapped.close()
        self._outgoing.end()
        if isinstance(self._carrier, Near):
            self._carrier.close()
        if self._borrower is not None:
            self._lend(False)
            self._segments.part(self._borrower)
            self._borrower = None
