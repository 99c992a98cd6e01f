"""Large bodies in memory that the processes of one machine share: segments, cut into places.

1. A segment is a file in memory, without a name in any folder. Who made it writes into it; others
   get a descriptor that reads, over the Unix socket that the two have anyhow. A body is written
   once, and read where it lies.
2. A place has one body. It is free for another when no view of it lives here, nor in any process
   that it was lent to: that one says so (`FREE`) when its last view is gone.
3. A link may end while views of it live on the other side. What it had is not used again until
   nothing there maps the segment. The system tells: each link's descriptor of it has a lock, which
   is gone with the last copy and the last map of that.
4. There are so many bytes of segments and no more. Whoever finds no place travels as bytes, as
   where there are no segments: other systems, other machines, TLS.
5. What was free for a while goes back to the system: the segment stays, its memory does not. It
   goes as well when there is no address space left for places of another size.
6. A fork takes no descriptor along, and no segment but those of views that it has in its hands.

Bodies that come over a network are read into places, too, which are used again: memory that the
system gives anew costs more than the copy.
"""

import contextlib
import ctypes
import fcntl
import mmap
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache, partial
from itertools import count
from struct import Struct
from typing import Any, Final
from weakref import ref

from snowmelt.core.batch import Buffer
from snowmelt.core.instant import Instant, later, seconds
from snowmelt.runtime.peer.limits import LARGE

POSSIBLE: Final = sys.platform == "linux" and hasattr(os, "memfd_create")
SEGMENT_BYTES: Final = 16 << 20
"""A segment has so many bytes, or one place where that is larger."""
SEGMENTS_MAX: Final = 1 << 10
COPIED_AT_ONCE: Final = 4 << 20
IDLE: Final = seconds(10)
"""What was free for so long goes back to the system."""
_SEALS: Final = 0x1 | 0x2 | 0x4  # no other seals, no less and no more bytes: see `memfd_create(2)`
_ADD_SEALS: Final = 1033
_GET_SEALS: Final = 1034
_LOCK: Final = Struct("hhqqi4x")
"""Linux' `struct flock`: its kind, from where, at which byte, how many of them, and a zero."""

Watch = Callable[[Any, Callable[[], None]], object]
"""Has something done, in the owner's thread, when an object is gone."""


class SharedSegment:
    """One of this process' own."""

    __slots__ = ("_file", "idle_since", "map", "number", "place_bytes", "places", "size")

    def __init__(self, number: int, place_bytes: int) -> None:
        self.number = number
        self.place_bytes = place_bytes
        self.size = max(SEGMENT_BYTES, place_bytes)
        self._file = -1
        writer = os.memfd_create("snowmelt-pool", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(writer, self.size)
            fcntl.fcntl(writer, _ADD_SEALS, _SEALS)
            self.map = mmap.mmap(writer, self.size)
            self._file = _opened(writer)
        finally:
            os.close(writer)
        self.places = [SegmentRegion(self, at) for at in range(0, self.size, place_bytes)]
        self.idle_since: Instant | None = None
        """Since when all of it was free, as far as was looked."""

    def reader(self, link: int) -> int:
        """A descriptor for another process, who reads; it is known as this link's (rule 3)."""
        made = _opened(self._file)
        try:
            fcntl.fcntl(made, fcntl.F_OFD_SETLK, _LOCK.pack(fcntl.F_RDLCK, 0, link, 1, 0))
        except OSError:  # the system has no such locks
            os.close(made)
            raise
        return made

    def read_by(self, link: int) -> bool:
        """Whether a descriptor of this link's, or a map of it, is left anywhere."""
        asked = _LOCK.pack(fcntl.F_WRLCK, 0, link, 1, 0)
        told = fcntl.fcntl(self._file, fcntl.F_OFD_GETLK, asked)
        return bool(_LOCK.unpack(told)[0] != fcntl.F_UNLCK)

    def empty(self) -> None:
        """Its memory is the system's again, where that knows how to take it."""
        with contextlib.suppress(OSError):
            self.map.madvise(mmap.MADV_REMOVE)

    def close(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)
        self.places.clear()  # they know it, and it would stay in memory
        _unmap(self.map)


class SegmentRegion:
    """The region of a segment in which one body lies."""

    __slots__ = ("at", "lent", "seen", "segment", "size", "whole")

    def __init__(self, segment: SharedSegment, at: int) -> None:
        self.segment = segment
        self.at = at
        self.size = 0
        """Of its body."""
        self.whole: ref[Any] | None = None
        """What all views of it here are of."""
        self.seen = False
        """Whether a view of it lives here."""
        self.lent = 0
        """How often others have it."""

    @property
    def free(self) -> bool:
        return not (self.seen or self.lent)


Free = dict[SegmentRegion, Any]
"""What views of each will be of. Whoever takes one may be interrupted: then that is gone, and the
place free again."""


class Borrower:
    """The other side of one link, and what was lent to it that it has not given back."""

    def __init__(self, number: int, drop: Callable[[int], None]) -> None:
        self.number = number
        self.drop = drop
        """Tells it that a segment is used no more."""
        self.places: Counter[SegmentRegion] = Counter()

    @property
    def has(self) -> bool:
        return bool(self.places)

    def left_behind(self) -> list[tuple[SegmentRegion, int]]:
        """Its link has ended: takes out what nobody there can see any more, and how often."""
        segments = {place.segment for place in self.places}
        read = {one for one in segments if one.read_by(self.number)}
        left = [(place, n) for place, n in self.places.items() if place.segment not in read]
        for place, _ in left:
            del self.places[place]
        return left


class Segments:
    """All of this process' own; any thread may take a place, all else is the owner's thread's.

    >>> segments = Segments(1 << 30, lambda view, word: None)
    >>> room = segments.room(100_000)
    >>> room[:5] = b"frame"
    >>> segments.place_of(room.toreadonly()).size
    100000
    >>> segments.close()
    """

    def __init__(self, bytes_max: int, watch: Watch) -> None:
        self._bytes_max = bytes_max if POSSIBLE else 0
        self.watch = watch
        self.readers = 0
        """How many links are with processes that read what lies here."""
        self._segments: dict[int, SharedSegment] = {}
        self._numbers = count(1)
        self._links = count(1)
        self._wanted = 0
        """The bytes of a segment for which nothing was left, since the last look."""
        self._warm: defaultdict[int, Free] = defaultdict(dict)
        """Free places by their bytes; the last was used last."""
        self._cold: defaultdict[int, Free] = defaultdict(dict)
        """The same, whose memory is the system's."""
        self._places: dict[int, SegmentRegion] = {}
        """By the address of what their views are of; that may be another's, a moment later."""
        self._borrowers: dict[Borrower, None] = {}
        self._gone: list[Borrower] = []
        """Those whose link has ended (rule 3)."""

    def room(self, size: int) -> memoryview | None:
        """A place to write a body into; None where there is none."""
        place_bytes = _place_bytes(size)
        with contextlib.suppress(ValueError):  # all was closed meanwhile
            taken = self._taken(place_bytes)
            if taken is not None:
                return self._view(*taken, size)
        return None

    def written(self, body: Buffer) -> memoryview | None:
        """A body in a place, where it lies already or was copied to; None where there is none."""
        if isinstance(body, memoryview) and body.readonly and self.place_of(body) is not None:
            return body
        room = self.room(len(body))
        if room is None:
            return None
        _copy(room, body)
        return room.toreadonly()

    def _taken(self, place_bytes: int) -> tuple[SegmentRegion, Any] | None:
        for free in self._warm, self._cold:
            with contextlib.suppress(KeyError):
                return free[place_bytes].popitem()
        return self._made(place_bytes)

    def _made(self, place_bytes: int) -> tuple[SegmentRegion, Any] | None:
        size = max(SEGMENT_BYTES, place_bytes)
        if size > self._left or len(self._segments) >= SEGMENTS_MAX:
            self._wanted = size
            return None
        try:
            segment = SharedSegment(next(self._numbers), place_bytes)
        except (OSError, ValueError, MemoryError):  # no descriptor is left, or no memory
            return None
        self._segments[segment.number] = segment
        first, *others = segment.places
        self._cold[place_bytes].update((place, self._whole(place)) for place in reversed(others))
        return first, self._whole(first)

    @property
    def _left(self) -> int:
        return self._bytes_max - sum([one.size for one in list(self._segments.values())])

    def _whole(self, place: SegmentRegion) -> Any:
        """Rule 2: what all views of it are of is gone when the last of them is."""
        segment = place.segment
        whole = _array(segment.place_bytes).from_buffer(segment.map, place.at)
        place.whole = ref(whole)
        self._places[id(whole)] = place
        self.watch(whole, partial(self._unseen, place, id(whole)))
        return whole

    def _view(self, place: SegmentRegion, whole: Any, size: int) -> memoryview:
        place.size, place.seen = size, True
        place.segment.idle_since = None
        return memoryview(whole).cast("B")[:size]

    def _unseen(self, place: SegmentRegion, address: int) -> None:
        if self._places.get(address) is place:  # else that address is another's by now
            del self._places[address]
        place.seen = False
        self._freed(place)

    def _freed(self, place: SegmentRegion) -> None:
        if place.free and place.segment.number in self._segments:
            self._warm[place.segment.place_bytes][place] = self._whole(place)

    def place_of(self, body: Buffer) -> SegmentRegion | None:
        """Where a body lies, if that is as a whole in a place of this process."""
        if type(body) is not memoryview:
            return None
        place = self._places.get(id(body.obj))
        known = None if place is None or place.whole is None else place.whole()
        if place is None or known is not body.obj or place.size != len(body):
            return None
        return place

    # --- others have it ---------------------------------------------------------------------------

    def borrower(self, drop: Callable[[int], None]) -> Borrower:
        """The other side of a new link."""
        made = Borrower(next(self._links), drop)
        self._borrowers[made] = None
        return made

    def lend(self, place: SegmentRegion, borrower: Borrower) -> None:
        """A process is told where it lies."""
        place.lent += 1
        borrower.places[place] += 1

    def give_back(self, number: int, at: int, borrower: Borrower) -> bool:
        """It sees one no more; whether it had that."""
        segment = self._segments.get(number)
        if segment is None or at % segment.place_bytes or not 0 <= at < segment.size:
            return False
        place = segment.places[at // segment.place_bytes]
        if not borrower.places[place]:
            return False
        borrower.places[place] -= 1
        if not borrower.places[place]:
            del borrower.places[place]
        self._returned(place, 1)
        return True

    def part(self, borrower: Borrower) -> None:
        """The link with it has ended (rule 3)."""
        self._borrowers.pop(borrower, None)
        self._gone.append(borrower)
        self._part_from_ended()

    def _part_from_ended(self) -> None:
        left, self._gone = self._gone, []
        for borrower in left:
            for place, times in borrower.left_behind():
                self._returned(place, times)
            if borrower.has:
                self._gone.append(borrower)

    def _returned(self, place: SegmentRegion, times: int) -> None:
        place.lent -= times
        self._freed(place)

    # --- now and then -----------------------------------------------------------------------------

    def look(self, now: Instant) -> None:
        """For rules 3 and 5."""
        self._part_from_ended()
        for segment in list(self._segments.values()):
            if any(not place.free for place in segment.places):
                segment.idle_since = None
            elif segment.idle_since is None:
                segment.idle_since = now
            elif self._wanted and self._wanted > self._left:
                self._drop(segment)
            elif now > later(segment.idle_since, IDLE):
                segment.idle_since = Instant(1 << 62)
                self._empty(segment)
        self._wanted = 0

    def _empty(self, segment: SharedSegment) -> None:
        """Its memory is the system's again."""
        taken = self._all_of(segment)
        if len(taken) == len(segment.places):
            segment.empty()
        self._cold[segment.place_bytes].update(taken)

    def _all_of(self, segment: SharedSegment) -> Free:
        """Its free places; meanwhile nobody can take them."""
        warm, cold = self._warm[segment.place_bytes], self._cold[segment.place_bytes]
        taken: Free = {}
        for place in segment.places:
            whole = warm.pop(place, None) or cold.pop(place, None)
            if whole is not None:  # else another thread has it by now
                taken[place] = whole
        return taken

    def _drop(self, segment: SharedSegment) -> None:
        """It is used no more, by nobody."""
        taken = self._all_of(segment)
        if len(taken) < len(segment.places):
            self._cold[segment.place_bytes].update(taken)
            return
        del self._segments[segment.number]
        for borrower in self._borrowers:
            borrower.drop(segment.number)
        taken.clear()
        segment.close()

    # --- its end ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Nothing is lent any more; views that a program has live on."""
        self._bytes_max = 0
        self._warm.clear()
        self._cold.clear()
        self._gone.clear()
        while self._segments:
            self._segments.popitem()[1].close()


class Mapped:
    """The segments of one other process, as far as it has shown them."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._maps: dict[int, mmap.mmap] = {}

    def add(self, number: int, descriptor: int) -> bool:
        """Takes one, and its descriptor; whether that could be."""
        try:
            sealed = fcntl.fcntl(descriptor, _GET_SEALS) & _SEALS == _SEALS
            size = os.fstat(descriptor).st_size
            left = self._bytes_max - sum(map(len, self._maps.values()))
            fits = SEGMENT_BYTES <= size <= left  # so they are few
            if not (sealed and fits) or number in self._maps:
                return False
            self._maps[number] = mmap.mmap(descriptor, size, access=mmap.ACCESS_COPY)
        except (OSError, ValueError, MemoryError):
            return False
        finally:
            os.close(descriptor)
        return True

    def drop(self, number: int) -> None:
        """Nobody sees anything of it, nor will."""
        known = self._maps.pop(number, None)
        if known is not None:
            _unmap(known)

    def view(
        self, number: int, at: int, size: int, seen: Callable[[Any], object]
    ) -> memoryview | None:
        """What lies there, to be read; None where there is nothing.

        `seen` is given what all its views are of.
        """
        known = self._maps.get(number)
        if known is None or at < 0 or size < 1:
            return None
        room = _place_bytes(size)
        if at + room > len(known):
            return None
        whole = _array(room).from_buffer(known, at)
        seen(whole)
        return memoryview(whole).cast("B")[:size].toreadonly()

    def close(self) -> None:
        while self._maps:
            _unmap(self._maps.popitem()[1])


def _copy(room: memoryview, body: Buffer) -> None:
    """Other threads go on meanwhile, where its address can be had."""
    whole = body.obj if isinstance(body, memoryview) else body
    if type(whole) is bytes and len(whole) == len(room):
        ctypes.memmove(room.obj, whole, len(room))  # type: ignore[arg-type]  # it is of ctypes
        return
    source = memoryview(body)
    for at in range(0, len(source), COPIED_AT_ONCE):  # they have their turns in between
        room[at : at + COPIED_AT_ONCE] = source[at : at + COPIED_AT_ONCE]


def _place_bytes(size: int) -> int:
    return max(LARGE, 1 << (size - 1).bit_length())


@cache
def _array(size: int) -> Any:
    return ctypes.c_ubyte * size


def _unmap(known: mmap.mmap) -> None:
    with contextlib.suppress(BufferError):  # views of it live, and it ends with the last
        known.close()


def _opened(descriptor: int) -> int:
    """The same file, opened once more: to be read, by whoever gets it."""
    return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
