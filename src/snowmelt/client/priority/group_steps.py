"""A group of a priority queue, as steps: items for good, most urgent first, told until passed.

What a group is given is a row of *batches*. Each has a note, in a fifo beside the queue that is
named `QUEUE.GROUP`: the token of a lease, and where what it holds stands. The group reads its notes
as any group reads a fifo, so it has a fifo's marks, and a fifo refuses who has an older one.

1. Items are leased, their note is put, then the lease is kept, and then the note is given to the
   group. A note is given only when all that it names is kept. So what the group was given is held,
   for good, and is the same whenever it is read, in the same order.
2. A note of which something is not held any more, since whoever wrote it came too late or never
   came back, is dropped, and what was kept of it goes back. Nobody has read it.
   While somebody else has notes in hand to drop them, none is given; nor is one that was not
   looked at.
3. Notes are numbered by their positions, under one name: one that nobody knows to be there or not
   is not put beside the next one, but is the next one, or never comes.
4. Who is past a batch acknowledges its items, and then passes the note. Both can be said again.
5. Those who share a group take turns, so that the next is told what the one before was given: at
   once, each would lease items, and one of their notes would stand.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Final, TypeVar

import msgspec

from snowmelt.client.connection.forking import watch
from snowmelt.client.connection.session import checked_kind, new_name
from snowmelt.client.connection.steps import Rest, Steps
from snowmelt.client.connection.waits import Wait, within
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.leases.delivered import items_of, part_bodies
from snowmelt.client.leases.fetching import CHANCE
from snowmelt.client.leases.steps import BYTES_HIGHEST, BYTES_MAX
from snowmelt.client.priority.notes import DECODE, ENCODE, Given, Note, Stretch
from snowmelt.client.priority.staging import Holding, check_held, check_there, receipt_of
from snowmelt.client.priority.steps import PrioritySteps
from snowmelt.client.queue.group_steps import (
    BEGINNING,
    EVERYTHING,
    GroupSteps,
    Mark,
    check_asked,
    groups,
    read,
    survey,
)
from snowmelt.client.queue.options import Producer, queue_settings
from snowmelt.core.errors import DataLost, NoSuchQueue, QueueExists, Unavailable
from snowmelt.core.instant import Instant
from snowmelt.core.interval import Interval
from snowmelt.core.keys import key_at, to_float
from snowmelt.protocols.priority.calls import GET_ITEMS
from snowmelt.protocols.priority.messages import Piece
from snowmelt.protocols.queue.calls import Located
from snowmelt.runtime.clock import steady_now

T = TypeVar("T")
BATCHES_MAX: Final = 64
"""So many notes are written by one `advance`, of up to 100,000 items or 16 MiB each."""
_NOTES_AT_ONCE: Final = 1_000
_PAUSE: Final = 0.2
_TURN: Final = 0.01


class Good(msgspec.Struct, frozen=True):
    """Notes that may be given: all that they name is kept."""

    count: int
    below: int
    """They stand before this position."""


_NONE: Final = Good(0, 0)


class PriorityGroupSteps:
    """One group of one priority queue, as one user knows it."""

    def __init__(
        self,
        queue: PrioritySteps,
        name: str,
        names: Callable[[], str] = new_name,
        chance: Random = CHANCE,
    ) -> None:
        self.name = name
        self.queue = queue.name
        self._queue = queue
        self._names = names
        self._chance = chance
        self._holding = Holding(queue)
        self._notes = self._fifo()
        self._group = GroupSteps(self._notes, name, names())
        self._passed = BEGINNING
        self._turn = threading.Lock()  # never waited for: see `_alone`
        watch(self)

    def forked(self) -> None:
        """Whoever had the turn is not in the child."""
        self._turn = threading.Lock()

    def advance(self, done: Mark, items_max: int, bytes_max: int, timeout: float) -> Steps[Given]:
        """All up to a mark is done with; the most urgent there are come next."""
        check_asked(done, items_max, bytes_max)
        asking = self._advance(done, items_max, bytes_max, timeout)
        return within(self._alone(asking, timeout), timeout)

    def release(self, timeout: float) -> Steps[int]:
        """Forgets the group; how many items go back."""
        return within(self._alone(self._release(timeout), timeout), timeout)

    def batches(self, start: Mark, end: Mark, timeout: float) -> Steps[list[Note]]:
        return within(self._batches(start, end, timeout), timeout)

    def _batches(self, start: Mark, end: Mark, timeout: float) -> Steps[list[Note]]:
        located = yield from self._group.locate(start, end, timeout)
        what = f"notes of {end.count - start.count} batches of group {self.name!r}"
        return (yield from self._read(located, what, timeout))

    def read(self, note: Note, timeout: float) -> Steps[list[Stretch]]:
        """The items of a batch, or of a part of it, in order whoever told them first (rule 1)."""
        checked_kind("note", note, Note, "a Note, as `batches` told it")
        pieces, told = yield from self._holding.show(note.receipt, timeout)
        check_held(self._queue.name, told, timeout)
        return [self._stretch(piece) for piece in sorted(pieces, key=self._urgency)]

    # --- within -----------------------------------------------------------------------------------

    def _alone(self, asking: Steps[T], timeout: float) -> Steps[T]:
        """Rule 5; steps wait for nothing by themselves, a lock neither."""
        wait = Wait(timeout)
        while not self._turn.acquire(blocking=False):
            if not wait.left:
                raise Unavailable(
                    f"another thread or task is at work in group {self.name!r} of queue "
                    f"{self._queue.name!r}, and was not done in {timeout:g} s"
                )
            yield Rest(min(_TURN, wait.left))
        try:
            return (yield from asking)
        finally:
            self._turn.release()

    def _advance(self, done: Mark, items_max: int, bytes_max: int, timeout: float) -> Steps[Given]:
        try:
            yield from self._pass(done, timeout)
            told = yield from self._group.advance(done, 0, EVERYTHING, (), timeout)
        except NoSuchQueue:
            if done != BEGINNING:
                raise
            yield from self._make_notes(timeout)
            told = yield from self._group.advance(done, 0, EVERYTHING, (), timeout)
        if told.end != done:
            return Given(told.end, located=told.located)
        status = yield from self._notes.stats(timeout)
        if status.leased:
            return Given(done)
        good, taken = _NONE, 0
        if told.ready:
            good = yield from self._vet(timeout)
        if not good.count:
            taken = yield from self._take(status.tail, items_max, bytes_max, timeout)
            good = (yield from self._vet(timeout)) if taken else _NONE
        if not good.count:
            return Given(done)
        told = yield from self._group.advance(done, good.count, EVERYTHING, (good.below,), timeout)
        return Given(told.end, taken)

    def _release(self, timeout: float) -> Steps[int]:
        yield from self._group.release(timeout)
        count = 0
        while True:
            noted, _ = yield from self._notes.get_many(_NOTES_AT_ONCE, BYTES_MAX, 0.0)
            if noted is None:
                return count
            for _, body, place in items_of(noted.parts):
                note = DECODE(body)
                yield from self._back(note, timeout)
                count += note.count
                yield from self._notes.ack(noted, Interval(place, place + 1))

    def _pass(self, done: Mark, timeout: float) -> Steps[None]:
        """Rule 4."""
        if done in (BEGINNING, self._passed):
            return
        known = yield from groups(self._notes, timeout)
        passed = {one.name: one.done for one in known}.get(self.name, done.count)
        if passed < done.count:
            for note in (yield from self.batches(Mark(done.lease, passed), done, timeout)):
                told = yield from self._holding.done(note.receipt, timeout)
                check_there(self._queue.name, told, timeout)
        self._passed = done

    def _take(self, tail: int, items_max: int, bytes_max: int, timeout: float) -> Steps[int]:
        """Leases and notes until there is enough; how many items (rules 1 and 3).

        No longer than a third of the first lease: the rest is for keeping what was taken, or the
        first would run out, and count as failures of items that nobody read.
        """
        notes = taken = 0
        until: Instant | None = None
        while items_max > 0 and bytes_max > 0 and notes < BATCHES_MAX:
            if until is not None and steady_now() >= until:
                break
            most, size = min(items_max, GET_ITEMS), min(bytes_max, BYTES_MAX)
            delivered, _ = yield from self._queue.get_many(most, size, 0.0)
            if delivered is None:
                break
            until = until or delivered.renewal
            weight = sum(len(part.blob) for part in delivered.parts)
            receipt = receipt_of(delivered)
            notes, taken = notes + 1, taken + len(delivered)
            note = ENCODE(Note(receipt.token, receipt.shares, weight))
            one = self._notes.one(note, None, 0.0, timeout)
            yield from self._notes.put([one.what], one.wait, tail + notes)
            items_max, bytes_max = items_max - len(delivered), bytes_max - weight
        return taken

    def _vet(self, timeout: float) -> Steps[Good]:
        """Keeps what the notes name that nobody was given yet; which are good (rule 2)."""
        located = yield from survey(self._notes, 0, _NOTES_AT_ONCE, timeout)
        notes = yield from self._read(located, f"notes of group {self.name!r}", timeout)
        bad: set[int] = set()
        for note in notes:
            kept = yield from self._holding.keep(note.receipt, timeout)
            if not kept:
                bad.add(note.token)
        if bad and not (yield from self._drop(bad, timeout)):
            return _NONE
        below = max([span.stop for span in located.spans], default=0)
        return Good(len(notes) - len(bad), below)

    def _read(self, located: Located, what: str, timeout: float) -> Steps[list[Note]]:
        """All of them, or none: what nobody can give just now is asked for again."""
        text, wait = f"{what} can't be read from queue {self._notes.name!r}", Wait(timeout)
        if located.lost:
            raise DataLost(text)
        while True:
            reading = yield from read(self._notes.name, located.spans, BYTES_HIGHEST, self._chance)
            if not reading.unread:
                return [DECODE(body) for part in reading.parts for body in part_bodies(part)]
            if wait.over:
                raise Unavailable(f"{text} just now")
            yield Rest(min(_PAUSE, wait.left))

    def _drop(self, tokens: set[int], timeout: float) -> Steps[bool]:
        """Takes the notes of these leases out, and lets go of what is kept; whether it had all."""
        left = set(tokens)
        noted, _ = yield from self._notes.get_many(_NOTES_AT_ONCE, BYTES_MAX, timeout)
        if noted is None:
            return False  # another has them in hand
        for _, body, place in items_of(noted.parts):
            note, one = DECODE(body), Interval(place, place + 1)
            if note.token in tokens:
                yield from self._back(note, timeout)
                yield from self._notes.ack(noted, one)
                left.discard(note.token)
            else:
                yield from self._notes.give_back(noted, one, 0.0, "")
        return not left

    def _back(self, note: Note, timeout: float) -> Steps[None]:
        told = yield from self._holding.back(note.receipt, timeout)
        check_there(self._queue.name, told, timeout)

    def _make_notes(self, timeout: float) -> Steps[None]:
        """On as many nodes as the queue; safe on most of them, so that one may be dead."""
        status = yield from self._queue.stats(timeout)
        with suppress(QueueExists):
            noted, _ = yield from self._fifo(status.settings.replicas).get_many(1, 1, 0.0)
            if noted is not None:
                yield from self._notes.give_back(noted, None, 0.0, "")

    def _stretch(self, piece: Piece) -> Stretch:
        key = _key(piece)
        number = to_float(key) if self._queue.known.floats else key
        return Stretch(
            piece.start, piece.offsets, piece.blob, piece.headers, piece.failures, piece.reason,
            piece.times, priority=number,
        )  # fmt: skip

    def _urgency(self, piece: Piece) -> tuple[int, int]:
        """By which they are put in order, the most urgent first."""
        key = _key(piece)
        return (-key if self._queue.known.largest_first else key), piece.start

    def _fifo(self, replicas: int = 0) -> FifoSteps:
        name = f"{self._queue.name}.{self.name}"
        like = queue_settings(replicas=replicas) if replicas else None
        own = Producer(f"notes-of-{self.name}"[:64], names=self._names)
        return FifoSteps(name, like, own, self._chance)


def _key(piece: Piece) -> int:
    """Of what is shown each piece is of one priority."""
    return key_at(piece.keys, 0) if piece.keys else piece.priority
