"""Making stored segments part of the queue, once each, within its bounds, in the order they come.

A client that hears nothing asks another node, so one put may be stored by several nodes, each of
which offers it: these are its *attempts*. The put itself is its producer and its number.

1. A put has one verdict, which is in the journal before it is told to anybody. Once it is in the
   queue, every attempt is told where it went, and is dropped but for the one that was taken. Once
   it is refused, so is every attempt of the same turn of its caller and of earlier ones, whenever
   it comes (`producers.py`).
2. Puts without room wait in their order, each once: an attempt of one that waits joins it. When
   there is room one attempt is taken. When patience ends all of them are refused. Patience is that
   of the last turn that was heard of, from when it was.
3. Only an attempt whose node is here, in the run that stored it, is taken, and only with as many
   copies as are needed on disks that are not known to be lost. A run that has ended may have lost
   sight of what it stored, and keepers are told to erase what it never got in (`Keep`): so what it
   offered is never taken afterwards. Whoever waits for it asks again.
4. Each segment of a stream is decided once. An `Admit` that comes again is answered from what is
   known of its put; below what the stream's node still waits for, nothing need be known.
5. An attempt that is older than `AGE_MAX` is not taken any more, since what it repeats may be
   forgotten; nobody is left who waits for it, and no put waits longer.
6. What was taken is taken back by where it went, which is known until the step is safe: of many
   puts on their way, more than `producers.py` remembers the places of, all may find no room.
7. Of what was taken, and nobody had, the number is forgotten (`early.py`, rule 6). The node that
   offered it may be here still, and offer it again: it is told that nobody knows, not that it was
   put; whoever waits asks again. It is not taken anew: its keepers were told to drop it. Nor is
   it dropped once more, should it be that its producer was forgotten by a clock that leapt.
   And what it has says nothing of an attempt that was taken since: each lies where it was stored.
8. An attempt that was refused is so for good, though what spoke against it has gone since: its node
   was told to drop it, and may have done so before its last offer came.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from snowmelt.core.instant import Duration, later, seconds
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.early import Offer, TooEarly
from snowmelt.protocols.fifo.journal import Journal
from snowmelt.protocols.fifo.messages import Admit, Admitted, Entry, Verdict
from snowmelt.protocols.fifo.producers import NOT_REMEMBERED
from snowmelt.protocols.fifo.queue import Queue, copies, found, keepers_of
from snowmelt.protocols.fifo.streams import Stream, living, node_of
from snowmelt.protocols.fifo.waiting import Waiting, WaitingPut

AGE_MAX: Final = seconds(8 * 3600)
NOWHERE: Final = "its master died before enough nodes had it, and it was forgotten"
REFUSED: Final = "it was refused before, and what was offered then does not come any more"


class Admission:
    """The door into one queue."""

    def __init__(
        self,
        desk: Desk,
        journal: Journal,
        waiting: Waiting,
        watch: Callable[[tuple[str, ...]], None],
        stage: Callable[[str, Entry], None],
    ) -> None:
        self._desk = desk
        self._journal = journal
        self._queue = journal.queue
        self._waiting = waiting
        self._watch = watch
        self._stage = stage
        self._pending: dict[tuple[str, int], tuple[Entry, Interval | None]] = {}
        """What is not safe in the journal yet, and where it went (rule 6); None for who is held."""

    def admit(self, message: Admit) -> None:
        if not self._is_here(message.stream):
            return  # rule 3
        self._stream(message.stream).passed(message.low)  # rule 4
        for entry in message.entries:
            if entry.first >= message.low and (message.stream, entry.first) not in self._pending:
                self._offered(message.stream, entry)

    def offer(self, offer: Offer) -> None:
        """A put of this node: it is admitted now, or copied first (`early.py`, rule 1)."""
        stream, entry = offer.stream, offer.entry
        place = stream, entry.first
        if not self._is_here(stream) or place in self._pending:
            return
        self._stream(stream).passed(offer.low)
        if self._answered(stream, entry):
            return
        copies, crowd = self._living(entry), self._waiting.puts
        if crowd or not _fits(self._queue, entry) or copies < self._queue.settings.copies_needed:
            self._desk.inside.append(TooEarly(offer.queue, entry.first))
            return
        where = self._take(stream, entry, copies)
        self._queue.doubts.add(place, where)
        self._journal.bring(offer.body)

    def unstored(self, stream: str, first: int, reason: str = "") -> None:
        """A segment of this very node found no room on the disk after all."""
        if self._undone(stream, first) and self._queue.settings.replicas > 1:
            verdict = Verdict(first, 0, 0, dropped=True, error="DiskFull", text=reason)
            self._tell_later(stream, verdict)  # `early.py`, rule 8

    def _undone(self, stream: str, first: int) -> bool:
        """Takes back what is not safe yet; whether there was something."""
        for waiting in self._waiting.puts.values():
            waiting.attempts.pop((stream, first), None)
        pending = self._pending.pop((stream, first), None)
        self._queue.doubts.end((stream, first))
        if pending is None:
            return False
        entry, where = pending
        if where is None:
            self._queue.staged.forget((stream, first))
        else:
            self._queue.producers.unnote(entry.producer, entry.sequence)
            self._queue.cancel(where)
        return True

    def withdraw(self) -> None:
        """This master stops: what its own node offered unflushed may yet find no room there."""
        own = [place for place in self._pending if place[0] == self._desk.stream]
        if self._queue.settings.replicas == 1:
            for stream, first in reversed(own):  # the last first: so runs end before them
                entry, _ = self._pending[stream, first]
                self._undone(stream, first)  # it will be offered anew, when it is flushed
                self._stream(stream).decided.remove(Interval(entry.first, entry.stop))

    def room(self) -> None:
        """There may be room for those who wait (rule 2)."""
        puts, passed = self._waiting.puts, 0
        while (put := next(islice(puts, passed, None), None)) is not None:
            waiting = puts[put]
            here = list(self._here(waiting))
            needed = self._queue.settings.copies_needed
            best = next((one for one in here if self._living(one[1]) >= needed), None)
            if not here:  # whoever waits for it asks again
                del puts[put]
            elif not _fits(self._queue, (best or here[0])[1]):
                return
            elif best is None:  # its node makes the copies again; nobody else waits for that
                passed += 1
            else:
                del puts[put]
                self._take(*best, self._living(best[1]))
                for one in here:
                    if one is not best:
                        self._answered(*one)

    def tick(self) -> None:
        over = self._waiting.puts_over(self._desk.now)
        for put, waiting in over:
            self._full(put, waiting)
        if over:
            self.room()  # what stood behind them may be smaller

    # --- one attempt ------------------------------------------------------------------------------

    def _offered(self, stream: str, entry: Entry) -> None:
        if self._answered(stream, entry):
            return
        copies = self._living(entry)
        if copies < self._queue.settings.copies_needed:
            return  # its node makes the copies again, and offers it then
        if entry.hold:
            self._hold(stream, entry)
        elif self._waiting.puts or not _fits(self._queue, entry):
            self._wait(stream, entry)
        else:
            self._take(stream, entry, copies)

    def _answered(self, stream: str, entry: Entry) -> bool:
        """Whether it is known what becomes of it (rules 1, 4 and 5)."""
        known, first = self._stream(stream), entry.first
        producers, producer, number = self._queue.producers, entry.producer, entry.sequence
        decided, usual = first in known.decided, not entry.hold and entry.age <= AGE_MAX
        if usual and not decided and producers.is_new(producer, number):
            return False
        earlier = _earlier(self._queue, entry)
        if earlier is not None and self._queue.doubts.touch(earlier):
            its_own = _lies_there(self._queue, stream, first, earlier)
            if not its_own or self._living(entry, earlier) < self._queue.settings.copies_needed:
                return True  # `early.py`, rule 5: whoever waits asks again
            found(self._queue, earlier)
        waits = (producer, number) in self._waiting.puts  # then it was new when that began
        if decided and first not in known.refused:
            if earlier is None and self._is_forgotten(entry):
                verdict = Verdict(first, 0, 0, error="OutcomeUnknown", text=NOWHERE)
                self._tell_later(stream, verdict)  # rule 7
                return True
            where = NOT_REMEMBERED if earlier is None else earlier
            self._tell_later(stream, _verdict(entry, where, self._living(entry)))
        elif entry.hold:  # a publication has the number, not its parts
            return self._cannot_hold(stream, entry, decided=decided)
        elif earlier is not None:
            self._repeated(stream, entry, earlier)
        elif not waits and (text := producers.past(producer, number)):
            self._refuse(stream, entry, "SequenceTooOld", text)
        elif producers.was_refused(producer, number, entry.caller, entry.turn):
            self._refuse(stream, entry, "Full", _no_room(self._queue))
        elif text := producers.crowded(producer):
            self._refuse(stream, entry, "Full", text)
        elif entry.age > AGE_MAX:
            text = f"this node could not reach the queue for {entry.age // 10**9} seconds"
            self._refuse(stream, entry, "OutcomeUnknown", text)
        elif decided:
            self._refuse(stream, entry, "OutcomeUnknown", REFUSED)  # rule 8
        else:
            return False
        return True

    def _cannot_hold(self, stream: str, entry: Entry, *, decided: bool) -> bool:
        if decided:
            self._refuse(stream, entry, "OutcomeUnknown", REFUSED)  # rule 8
        elif len(self._queue.staged) >= self._desk.limits.staged:
            text = f"{len(self._queue.staged)} batches are staged in queue {self._queue.name!r}"
            self._refuse(stream, entry, "Full", f"{text} already; publish some, or wait")
        else:
            return False
        return True

    def _wait(self, stream: str, entry: Entry) -> None:
        """It waits with the others of its put, or begins to (rule 2)."""
        put, puts, place = (
            (entry.producer, entry.sequence),
            self._waiting.puts,
            (stream, entry.first),
        )
        if put in puts and puts[put].is_full(place, self._desk.limits.attempts):
            text = f"{self._desk.limits.attempts} attempts of this put wait at its queue already"
            self._refuse(stream, entry, "OutcomeUnknown", text)
            return
        waiting = puts.setdefault(put, WaitingPut(self._desk.now))
        if waiting.offered(stream, entry):
            patience = Duration(min(entry.patience, AGE_MAX))
            self._waiting.put_until(put, later(self._desk.now, patience))
            self._desk.wake(waiting.deadline)
        self.room()
        if put in puts and (waiting.deadline <= self._desk.now or _never_fits(self._queue, entry)):
            del puts[put]
            self._full(put, waiting)

    def _take(self, stream: str, entry: Entry, copies: int) -> Interval:
        queue, count = self._queue, entry.stop - entry.first
        where = queue.admit(stream, entry.first, count, entry.bytes, entry.keepers)
        wall = self._desk.wall
        due = self._desk.moment(entry.due) if entry.due else 0
        delayed = due > wall
        if delayed:  # in the same step, so that no crash can make it early
            queue.delay(where, due)
            self._desk.wake(self._desk.instant_of(due))
        queue.producers.note(entry.producer, entry.sequence, where, wall)
        self._decide(stream, entry, refused=False)
        self._pending[stream, entry.first] = entry, where
        self._watch(entry.keepers)
        verdict = _verdict(entry, where, copies)

        def safe() -> None:
            if self._pending.pop((stream, entry.first), None) is not None:
                if not delayed:
                    queue.show(where)
                if not queue.doubts.is_late((stream, entry.first)):  # `early.py`, rule 5
                    self._tell(stream, verdict)

        self._journal.after(safe)
        return where

    def _hold(self, stream: str, entry: Entry) -> None:
        """It is to be published later; that it is here is decided now, for good."""
        self._stage(stream, entry)
        self._decide(stream, entry, refused=False)
        self._pending[stream, entry.first] = entry, None

        def safe() -> None:
            if self._pending.pop((stream, entry.first), None) is not None:
                self._tell(stream, Verdict(entry.first, 0, 0))

        self._journal.after(safe)

    def _repeated(self, stream: str, entry: Entry, where: Interval) -> None:
        """It is in the queue as another attempt brought it."""

        def safe() -> None:
            presence = self._desk.presence
            if _earlier(self._queue, entry) is not None:  # unless that one found no room after all
                self._decide(stream, entry, refused=True)
                count = 0 if presence is None else copies(self._queue, where, presence)
                self._tell(stream, _verdict(entry, where, count, repeated=True, dropped=True))

        self._journal.after(safe)

    def _full(self, put: tuple[str, int], waiting: WaitingPut) -> None:
        """There was no room in time, for any of its attempts."""
        here, wall = list(self._here(waiting)), self._desk.wall
        if here:  # or there is nobody to be told, and whoever waits asks again
            self._queue.producers.refuse(*put, waiting.turns, wall)
        for stream, entry in here:
            self._refuse(stream, entry, "Full", _no_room(self._queue))

    def _refuse(self, stream: str, entry: Entry, error: str, text: str) -> None:
        self._decide(stream, entry, refused=True)
        verdict = Verdict(entry.first, 0, 0, dropped=True, error=error, text=text)
        self._tell_later(stream, verdict)

    def _tell_later(self, stream: str, verdict: Verdict) -> None:
        self._journal.after(lambda: self._tell(stream, verdict))

    def _tell(self, stream: str, verdict: Verdict) -> None:
        answer = Admitted(self._queue.name, stream, (verdict,))
        self._desk.send(node_of(stream), answer)

    # --- what is known ----------------------------------------------------------------------------

    def _is_here(self, stream: str) -> bool:
        presence = self._desk.presence
        return presence is not None and stream in presence.streams

    def _here(self, waiting: WaitingPut) -> Iterator[tuple[str, Entry]]:
        """The attempts that may be taken, as far as their nodes go (rule 3)."""
        for (stream, _), entry in waiting.attempts.items():
            if self._is_here(stream):
                yield stream, entry

    def _living(self, entry: Entry, where: Interval | None = None) -> int:
        """On how many disks it is; of those that are said to keep what lies there."""
        presence, keepers = self._desk.presence, entry.keepers
        if where is not None:
            named = keepers_of(self._queue, where)
            keepers = tuple([one for one in keepers if all(one in some for some in named)])
        return 0 if presence is None else living(keepers, presence)

    def _is_forgotten(self, entry: Entry) -> bool:
        """Whether what was decided for it is known of no more (rule 7)."""
        producers = self._queue.producers
        return not entry.hold and not producers.past(entry.producer, entry.sequence)

    def _stream(self, name: str) -> Stream:
        streams = self._queue.streams
        if name not in streams:
            streams[name] = Stream(IntervalSet(), IntervalSet())
        return streams[name]

    def _decide(self, name: str, entry: Entry, *, refused: bool) -> None:
        stream, place = self._stream(name), Interval(entry.first, entry.stop)
        stream.decided.add(place)
        if refused:
            stream.refused.add(place)
        elif stream.refused.total:
            stream.refused.remove(place)
        self._queue.changed[b"d" + name.encode()] = None


def _verdict(
    entry: Entry, where: Interval, copies: int, *, repeated: bool = False, dropped: bool = False
) -> Verdict:
    return Verdict(entry.first, where.start, where.stop, repeated, dropped, copies=copies)


def _earlier(queue: Queue, entry: Entry) -> Interval | None:
    """Where its put went, if it was put before."""
    return queue.producers.earlier(entry.producer, entry.sequence)


def _lies_there(queue: Queue, stream: str, first: int, where: Interval) -> bool:
    """Whether what still lives there is of a segment that begins there in its stream."""
    return all(
        (strip.lane.stream, strip.first) == (stream, first + strip.start - where.start)
        for run in queue.runs.over(where)
        for part in queue.alive.common(where.common(run.interval))
        for strip in run.strips(part)
    )


def _fits(queue: Queue, entry: Entry) -> bool:
    return queue.fits(entry.stop - entry.first, entry.bytes)


def _never_fits(queue: Queue, entry: Entry) -> bool:
    settings, items = queue.settings, entry.stop - entry.first
    return (0 < settings.items_max < items) or (0 < settings.bytes_max < entry.bytes)


def _no_room(queue: Queue) -> str:
    settings = queue.settings
    return (
        f"queue {queue.name!r} holds {queue.alive.total} items in {queue.bytes} bytes; its "
        f"bounds are {settings.items_max or 'no'} items and {settings.bytes_max or 'no'} bytes"
    )
