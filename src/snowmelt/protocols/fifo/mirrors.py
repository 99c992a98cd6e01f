"""The journals that this node keeps: for others, for itself between two terms, and as a master.

They lie on the disk, and nowhere else: here is only how far each is. Rules:

1. A copy of a journal has a term, the number of its journal, a step, and a *fence*: the latest
   term anybody has announced to it, and for which journal. It takes nothing of a term before its
   fence, nor of another journal of that term, so a master that was replaced can't make a step safe
   any more.
2. A change is taken when the copy has what it goes on from, in the same journal. What is taken is
   told after the flush, by all the names it has: term, journal, the snapshot it came with, step.
3. A snapshot comes in pieces, and is written beside the copy that is there: in another *place* on
   the disk. With its last piece it becomes the copy, in one write; until then the old one stays
   what it was. What lies in no place that counts is erased piece by piece.
4. A copy that lost a record to its disk says so as soon as that is found; it is counted only when
   there is no better one. One that was read from the disk may lack what lingered, and says that
   too.
5. A new master reads a copy in pieces as well. As the copy is fenced for it, nothing changes
   meanwhile.
6. How records look has a number. A disk with journals of another number is refused: records that
   do not read would be taken for lost, and what they speak of would be erased.
"""

from functools import partial
from typing import Final

import msgspec

from snowmelt.core.instant import Duration, milliseconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Halt, Started
from snowmelt.core.record import BULK, SCAN_RECORDS_MAX, Change, Erase, Found, Record, Write, erase
from snowmelt.protocols.fifo.census import AT_ONCE
from snowmelt.protocols.fifo.desk import NOW, Desk, Then
from snowmelt.protocols.fifo.messages import (
    Behind,
    Fence,
    Fenced,
    Follow,
    Held,
    Home,
    JournalRead,
    Mirror,
    Mirrored,
    Pairs,
    Pieced,
    ReadJournal,
    Seek,
    Snapshot,
    Sought,
    Superseded,
    Vouch,
    Vouched,
)

SWEEP_LINGER = milliseconds(100)
_ENCODE: Final = msgspec.msgpack.Encoder().encode
FORM: Final = 2
"""How the records of a journal look; 1 before runs had lanes, which nobody reads any more."""


class KeptCopy(msgspec.Struct, frozen=True, array_like=True):
    """The record of how far a copy is; written with every step."""

    term: int
    step: int
    fence: int
    journal: int = 0
    fenced_for: int = 0
    number: int = 0
    place: int = 0
    form: int = 1


class KeptPlaces(msgspec.Struct, frozen=True, array_like=True):
    """The record of where copies lie; written when one comes or goes."""

    places: int
    """The last place that was begun."""
    swept: bool
    """Whether there is nothing in any place but the copy's."""
    home: Home | None
    """Of the term of the copy."""


class Arriving(msgspec.Struct):
    """A snapshot on its way in (rule 3)."""

    term: int
    journal: int
    number: int
    place: int
    piece: int = 0


class Copy(msgspec.Struct):
    term: int = 0
    journal: int = 0
    number: int = 0
    step: int = 0
    fence: int = 0
    fenced_for: int = 0
    place: int = 0
    places: int = 0
    home: Home | None = None
    sound: bool = True
    unbroken: bool = True
    """Whether nothing that lingered can have been lost from it: it was not read from the disk."""
    swept: bool = True
    sweeping: bool = False
    arriving: Arriving | None = None


class Mirrors:
    """The copies on this node."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._copies: dict[str, Copy] = {}

    @property
    def queues(self) -> list[str]:
        return list(self._copies)

    def alarm(self, source: str, queue: str, term: int) -> bool:
        """Whether nobody can have counted to a term, by what the copy here was told of."""
        copy = self._copies.get(queue)
        return copy is not None and self._desk.alarm(source, queue, term, copy.fence)

    def seek(self, source: NodeId, message: Seek) -> None:
        names = sorted(name for name in self._copies if name > message.after)
        held = tuple(Held(one, self._of(one).fence, self._of(one).home) for one in names[:AT_ONCE])
        if self._desk.stream:
            told = Sought(self._desk.stream, message.after, held, len(names) > AT_ONCE)
            self._desk.send(source, told)

    def begin(self, started: Started) -> None:
        """From the disk."""
        for record in started.records:
            kind, rest = record.key[:1], record.key[1:]
            if kind == b"m":
                copy, kept = (
                    self._of(rest.decode()),
                    msgspec.msgpack.decode(record.value, type=KeptCopy),
                )
                copy.term, copy.journal, copy.step = kept.term, kept.journal, kept.step
                copy.fence, copy.fenced_for = kept.fence, kept.fenced_for
                copy.number, copy.place = kept.number, kept.place
                copy.unbroken = False
                if kept.form != FORM:
                    self._desk.effect(Halt(_other_form(rest.decode(), kept.form), "StoreVersion"))
            elif kind == b"k":
                copy, places = (
                    self._of(rest.decode()),
                    msgspec.msgpack.decode(record.value, type=KeptPlaces),
                )
                copy.places, copy.swept, copy.home = places.places, places.swept, places.home
        for hurt in started.damaged:
            if hurt[:1] in (b"m", b"j"):
                self._of(hurt[1:].partition(b"\0")[0].decode()).sound = False
        for queue, copy in self._copies.items():
            copy.places = max(copy.places, copy.place)
            if not copy.swept:
                self._sweep(queue, copy)

    def _of(self, queue: str) -> Copy:
        if queue not in self._copies:
            self._copies[queue] = Copy()
        return self._copies[queue]

    # --- what other masters say -------------------------------------------------------------------

    def fence(self, source: NodeId, message: Fence) -> None:
        """A new master asks what is here, and that no older one be listened to (rule 1)."""
        queue, copy = message.queue, self._of(message.queue)
        if self._refused(source, message):
            return
        if (message.term, message.journal) != (copy.fence, copy.fenced_for):
            copy.arriving = None  # of an earlier term; of this one it goes on
        self._fence(copy, message.term, message.journal)
        answer = Fenced(
            queue,
            message.term,
            message.journal,
            self._desk.keeper,
            copy.term,
            copy.journal,
            copy.step,
            copy.sound,
            copy.unbroken,
        )
        self._desk.write((_how_far(queue, copy),), partial(self._desk.send, source, answer))

    def mirror(self, source: NodeId, message: Mirror) -> None:
        """The next step, perhaps (rule 2)."""
        queue, copy = message.queue, self._of(message.queue)
        if self._refused(source, message):
            return
        same = (message.term, message.journal) == (copy.term, copy.journal)
        if not same or message.since > copy.step:
            self._behind(source, message, 0, copy.step if same else -1)
        elif message.step > copy.step:
            copy.step = message.step
            copy.unbroken = True  # it lacked nothing
            changes = _record_changes(queue, copy.place, message.pairs)
            self._write(source, queue, copy, changes, message.linger)
        else:
            self._write(source, queue, copy, [], NOW)

    def confirm(self, source: NodeId, message: Vouch) -> None:
        """Whether that journal is the newest (rule 1); nothing need be flushed for that."""
        if not self._refused(source, message):
            name = (message.queue, message.term, message.journal)
            self._desk.send(source, Vouched(*name, message.number, self._desk.keeper))

    def follow(self, source: NodeId, message: Follow) -> None:
        """A later journal begins where this copy may be."""
        queue, copy = message.queue, self._of(message.queue)
        if self._refused(source, message) or _is_astray(message):
            return
        base = (message.base_term, message.base_journal, message.step)
        if (message.term, message.journal) == (copy.term, copy.journal):
            self._write(source, queue, copy, [], NOW)
        elif base == (copy.term, copy.journal, copy.step) and copy.journal and copy.sound:
            self._write(source, queue, copy, self.renamed(message.home, message.journal), NOW)
        else:
            self._behind(source, message, 0, -1)

    def snapshot(self, source: NodeId, message: Snapshot) -> None:
        """A piece of a whole journal (rule 3)."""
        queue, copy = message.queue, self._of(message.queue)
        if self._refused(source, message) or _is_astray(message):
            return
        name = (message.term, message.journal, message.number)
        if name == (copy.term, copy.journal, copy.number):  # all of it is here
            self._write(source, queue, copy, [], NOW)
            return
        changes: list[Change] = []
        coming = copy.arriving
        if message.piece == 1 and (coming is None or not _is_older(message, coming)):
            self._fence(copy, message.term, message.journal)
            changes = [_how_far(queue, copy), *self.arrive(queue, *name)]
            coming = copy.arriving
        if coming is None or name != (coming.term, coming.journal, coming.number):
            self._behind(source, message, message.number, -1)
        elif message.piece <= coming.piece + 1:
            if message.piece == coming.piece + 1:
                coming.piece = message.piece
                changes += _record_changes(queue, coming.place, message.pairs)
            if message.step >= 0:
                changes += self.arrived(message.home, message.step)
                self._write(source, queue, copy, changes, NOW)
            else:
                answer = Pieced(queue, *name, message.piece, self._desk.keeper)
                self._desk.write(tuple(changes), partial(self._desk.send, source, answer))

    def read(self, source: NodeId, message: ReadJournal) -> None:
        """A new master wants the next records of what is here (rule 5)."""
        queue, copy = message.queue, self._of(message.queue)
        if (message.term, message.journal) != (copy.fence, copy.fenced_for):
            self._desk.send(source, Superseded(queue, copy.fence, message.journal))
            return
        begin, end = _range(queue, copy.place, copy.place)
        prefix, size = _prefix(queue, copy.place), self._desk.limits.journal_piece_bytes
        start = prefix + message.after + b"\0" if message.after else begin

        def found(records: tuple[Found, ...]) -> None:
            read = [one for one in records if isinstance(one, Record)]
            pairs = tuple((one.key[len(prefix) :], one.value) for one in read)
            sound = len(read) == len(records)
            copy.sound = copy.sound and sound
            last = records[-1].key[len(prefix) :] if records else message.after
            more, me = _is_part(records, size), self._desk.keeper
            term, journal, after = message.term, message.journal, message.after
            told = JournalRead(queue, term, journal, me, after, pairs, last, more, sound)
            self._desk.send(source, told)

        self._desk.scan(start, end, size, found)

    # --- what the master of this node does --------------------------------------------------------

    def arrive(self, queue: str, term: int, journal: int, number: int) -> list[Change]:
        copy = self._of(queue)
        copy.places += 1
        copy.arriving = Arriving(term, journal, number, copy.places)
        copy.swept = False
        return [Erase(*_range(queue, copy.places, copy.places)), _places(queue, copy)]

    def take_in(self, queue: str, pairs: Pairs, then: Then) -> None:
        coming = self._of(queue).arriving
        assert coming is not None, "it was begun"
        self._desk.write(tuple(_record_changes(queue, coming.place, pairs)), then)

    def arrived(self, home: Home, step: int) -> list[Change]:
        copy = self._of(home.queue)
        coming = copy.arriving
        assert coming is not None, "it was begun"
        copy.arriving = None
        copy.term, copy.journal, copy.number = coming.term, coming.journal, coming.number
        copy.place, copy.step, copy.home = coming.place, step, home
        copy.sound = copy.unbroken = True
        self._fence(copy, coming.term, coming.journal)
        self._sweep(home.queue, copy)
        return [_how_far(home.queue, copy), _places(home.queue, copy)]

    def renamed(self, home: Home, journal: int) -> list[Change]:
        """The copy is another journal's from now on, which begins with the step that is here."""
        copy = self._of(home.queue)
        copy.arriving = None
        copy.term, copy.journal, copy.number, copy.home = home.term, journal, 0, home
        copy.unbroken = True  # whatever it lacks is no part of this journal
        self._fence(copy, home.term, journal)
        if not copy.swept:
            self._sweep(home.queue, copy)
        return [_how_far(home.queue, copy), _places(home.queue, copy)]

    def stepped(self, queue: str, step: int, pairs: Pairs) -> tuple[Change, ...]:
        copy = self._of(queue)
        copy.step = step
        return (*_record_changes(queue, copy.place, pairs), _how_far(queue, copy))

    # --- parts of the above -----------------------------------------------------------------------

    def _refused(self, source: NodeId, message: Fence | Mirror | Vouch | Follow | Snapshot) -> bool:
        """Rule 1."""
        copy = self._of(message.queue)
        term, journal = message.term, message.journal
        if term > copy.fence or (term, journal) == (copy.fence, copy.fenced_for):
            return False
        self._desk.send(source, Superseded(message.queue, copy.fence, journal))
        return True

    def _fence(self, copy: Copy, term: int, journal: int) -> None:
        copy.fence, copy.fenced_for = term, journal

    def _behind(
        self, source: NodeId, message: Mirror | Follow | Snapshot, number: int, step: int
    ) -> None:
        name = (message.queue, message.term, message.journal)
        self._desk.send(source, Behind(*name, number, step, self._desk.keeper))

    def _write(
        self, source: NodeId, queue: str, copy: Copy, changes: list[Change], linger: Duration
    ) -> None:
        name = (copy.term, copy.journal, copy.number, copy.step)
        said = partial(self._desk.send, source, Mirrored(queue, *name, self._desk.keeper))
        self._desk.write((*changes, _how_far(queue, copy)), said, linger=linger)

    def _sweep(self, queue: str, copy: Copy) -> None:
        """Erases what lies in places that count no more, a piece after the other."""
        if copy.sweeping:
            return
        copy.sweeping = True
        size = self._desk.limits.journal_piece_bytes
        ranges = _garbage(queue, copy)

        def look() -> None:
            if ranges:
                self._desk.scan(*ranges[0], size, found)
                return
            copy.sweeping = False
            if copy.arriving is None and (copy.place, copy.places) == swept:
                copy.swept = True
                self._desk.write((_places(queue, copy),), lambda: None, linger=SWEEP_LINGER)
            elif copy.arriving is None:  # there is more since
                self._sweep(queue, copy)

        def found(records: tuple[Found, ...]) -> None:
            if not _is_part(records, size):
                start, _ = ranges.pop(0)
            else:
                start, stop = ranges[0]
                ranges[0] = records[-1].key + b"\0", stop
            if records:
                change = Erase(start, records[-1].key + b"\0")
                self._desk.write((change,), lambda: None, linger=SWEEP_LINGER, flushed=look)
            else:
                look()

        swept = None if copy.arriving is not None else (copy.place, copy.places)
        look()


def _is_astray(message: Follow | Snapshot) -> bool:
    """Whether it names one journal, and its home another."""
    return (message.home.queue, message.home.term) != (message.queue, message.term)


def _is_older(message: Snapshot, coming: Arriving) -> bool:
    """Whether this belongs to an attempt before the one that is coming."""
    same = (message.term, message.journal) == (coming.term, coming.journal)
    return same and message.number <= coming.number


def _is_part(records: tuple[Found, ...], bytes_max: int) -> bool:
    """Whether there may be more in the range than was read."""
    size = sum(len(one.value) for one in records if isinstance(one, Record))
    return size >= bytes_max or len(records) >= SCAN_RECORDS_MAX


def _garbage(queue: str, copy: Copy) -> list[tuple[bytes, bytes]]:
    """Where nothing lies that counts: round the copy, and round what arrives."""
    used = [copy.place] if copy.arriving is None else [copy.place, copy.arriving.place]
    ranges, first = [], 1
    for place in sorted(used):
        if first < place:
            ranges.append(_range(queue, first, place - 1))
        first = place + 1
    if first <= copy.places:
        ranges.append(_range(queue, first, copy.places))
    return ranges if copy.place == 0 else [_range(queue, 0, 0), *ranges]


def _prefix(queue: str, place: int) -> bytes:
    """How the keys of a copy's records begin. In place 0 lie those of before there were places."""
    if place == 0:
        return b"j" + queue.encode() + b"\0"
    return BULK + b"\0j" + queue.encode() + b"\0" + place.to_bytes(8)


def _range(queue: str, first: int, last: int) -> tuple[bytes, bytes]:
    """Where the records lie of these places; place 0 is by itself."""
    if first == 0:
        return _prefix(queue, 0), b"j" + queue.encode() + b"\1"
    return _prefix(queue, first), _prefix(queue, last + 1)


def _record_changes(queue: str, place: int, pairs: Pairs) -> list[Change]:
    prefix = _prefix(queue, place)
    return [
        erase(prefix + key) if value is None else Write(prefix + key, value) for key, value in pairs
    ]


def _how_far(queue: str, copy: Copy) -> Change:
    kept = KeptCopy(
        copy.term,
        copy.step,
        copy.fence,
        copy.journal,
        copy.fenced_for,
        copy.number,
        copy.place,
        FORM,
    )
    return Write(b"m" + queue.encode(), _ENCODE(kept))


def _other_form(queue: str, form: int) -> str:
    return (
        f"queue {queue!r} on this disk was written by another version of snowmelt: its journal has "
        f"form {form}, and this program reads {FORM}; run the version that wrote it and empty the "
        "queue there, or keep this folder and begin on a new one"
    )


def _places(queue: str, copy: Copy) -> Change:
    kept = KeptPlaces(copy.places, copy.swept, copy.home)
    return Write(b"k" + queue.encode(), msgspec.msgpack.encode(kept))
