"""Making stored segments part of the queue, once each, within its bounds, in the order they come.

1. Each segment of a stream gets one verdict, which is in the journal before it is told. An `Admit`
   that comes again is answered from there; one of a stream that has ended is not taken at all, so
   nothing is admitted that its node may already have lost sight of.
2. What its producer has put before is not put again; the answer says where it went.
3. Entries without room wait in their order, until there is room or their patience ends.
"""

from collections.abc import Callable

from snowmelt.core.instant import Duration, later
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.extents import Run
from snowmelt.protocols.fifo.journal import Journal
from snowmelt.protocols.fifo.messages import Admit, Admitted, Entry, Verdict
from snowmelt.protocols.fifo.producers import NOT_REMEMBERED
from snowmelt.protocols.fifo.streams import Stream, node_of
from snowmelt.protocols.fifo.waiting import Waiting, WaitingPut


class Admission:
    """The door into one queue."""

    def __init__(
        self,
        desk: Desk,
        journal: Journal,
        waiting: Waiting,
        watch: Callable[[Run], None],
        stage: Callable[[str, Entry], None],
    ) -> None:
        self._desk = desk
        self._journal = journal
        self._queue = journal.queue
        self._waiting = waiting
        self._watch = watch
        self._stage = stage
        self._pending: dict[tuple[str, int], Entry] = {}

    def admit(self, message: Admit) -> None:
        """A node offers segments."""
        presence = self._desk.presence
        if presence is None or message.stream not in presence.streams:
            return  # rule 1
        for entry in message.entries:
            if (message.stream, entry.first) in self._pending:
                continue  # its verdict is on its way
            self._offered(message.stream, entry)

    def unstored(self, stream: str, first: int) -> None:
        """A segment of this very node found no room on the disk after all."""
        entry = self._pending.pop((stream, first), None)
        if entry is not None and entry.hold:
            self._queue.staged.forget((stream, first))
            return
        earlier = None if entry is None else self._earlier(entry)
        if entry is not None and earlier is not None:
            self._queue.producers.unnote(entry.producer, entry.sequence)
            self._queue.changed[b"p" + entry.producer.encode()] = None
            self._queue.cancel(earlier)

    def withdraw(self) -> None:
        """This master stops: what its own node offered unflushed may yet find no room there."""
        own = [place for place in self._pending if place[0] == self._desk.stream]
        if self._queue.settings.replicas == 1:
            for stream, first in reversed(own):  # the last first: so runs end before them
                entry = self._pending[stream, first]
                self.unstored(stream, first)  # it will be offered anew, when it is flushed
                self._stream(stream).decided.remove(Interval(entry.first, entry.stop))

    def room(self) -> None:
        """There may be room for those who wait (rule 3)."""
        waiting = self._waiting.puts
        while waiting:
            first = waiting[0]
            size, items = first.entry.bytes, first.entry.stop - first.entry.first
            if first.deadline <= self._desk.now:
                self._full(first.stream, first.entry)
            elif self._queue.fits(items, size):
                self._take(first.stream, first.entry)
            else:
                return
            waiting.popleft()

    def tick(self) -> None:
        """Ends what waited long enough, wherever it stands."""
        now = self._desk.now
        over = [one for one in self._waiting.puts if one.deadline <= now]
        for one in over:
            self._waiting.puts.remove(one)
            self._full(one.stream, one.entry)

    # --- one entry --------------------------------------------------------------------------------

    def _offered(self, stream: str, entry: Entry) -> None:
        known = self._stream(stream)
        earlier = self._earlier(entry)
        if entry.first in known.decided and entry.first not in known.refused:
            where = NOT_REMEMBERED if earlier is None else earlier
            self._tell_later(stream, Verdict(entry.first, where.start, where.stop))
        elif earlier is not None and not entry.hold:  # a publication has the number, not its parts
            self._repeated(stream, entry, earlier)
        elif entry.first in known.decided:
            self._full(stream, entry)
        elif entry.hold:
            self._hold(stream, entry)
        elif self._waiting.holds_put(stream, entry.first):
            return
        elif self._waiting.puts or not self._fits(entry):
            self._wait(stream, entry)
        else:
            self._take(stream, entry)

    def _wait(self, stream: str, entry: Entry) -> None:
        settings, items = self._queue.settings, entry.stop - entry.first
        never = (0 < settings.items_max < items) or (0 < settings.bytes_max < entry.bytes)
        if entry.patience <= 0 or never:
            self._full(stream, entry)
            return
        deadline = later(self._desk.now, Duration(entry.patience))
        self._waiting.puts.append(WaitingPut(stream, entry, deadline))
        self._desk.wake(deadline)

    def _take(self, stream: str, entry: Entry) -> None:
        queue, count = self._queue, entry.stop - entry.first
        earlier = self._earlier(entry)
        if earlier is not None:  # it came in by another way while this one waited
            self._repeated(stream, entry, earlier)
            return
        where = queue.admit(stream, entry.first, count, entry.bytes, entry.keepers)
        delayed = entry.due > self._desk.wall
        if delayed:  # in the same step, so that no crash can make it early
            queue.delay(where, entry.due)
            self._desk.wake(self._desk.instant_of(entry.due))
        forgotten = queue.producers.note(entry.producer, entry.sequence, where, self._desk.wall)
        for name in (entry.producer, *forgotten):
            queue.changed[b"p" + name.encode()] = None
        self._decide(stream, entry, refused=False)
        self._pending[stream, entry.first] = entry
        for run in queue.runs.over(where):
            self._watch(run)

        def safe() -> None:
            if self._pending.pop((stream, entry.first), None) is not None:
                if not delayed:
                    queue.show(where)
                self._tell(stream, Verdict(entry.first, where.start, where.stop))

        self._journal.after(safe)

    def _hold(self, stream: str, entry: Entry) -> None:
        """It is to be published later; that it is here is decided now, for good."""
        self._stage(stream, entry)
        self._decide(stream, entry, refused=False)
        self._pending[stream, entry.first] = entry

        def safe() -> None:
            if self._pending.pop((stream, entry.first), None) is not None:
                self._tell(stream, Verdict(entry.first, 0, 0))

        self._journal.after(safe)

    def _repeated(self, stream: str, entry: Entry, where: Interval) -> None:
        """Rule 2."""
        self._decide(stream, entry, refused=True)
        verdict = Verdict(entry.first, where.start, where.stop, repeated=True, dropped=True)

        def safe() -> None:
            if self._earlier(entry) is not None:  # unless that one found no room after all
                self._tell(stream, verdict)

        self._journal.after(safe)

    def _full(self, stream: str, entry: Entry) -> None:
        """There was no room in time."""
        self._decide(stream, entry, refused=True)
        settings, queue = self._queue.settings, self._queue
        text = (
            f"queue {queue.name!r} holds {queue.alive.total} items in {queue.bytes} bytes; its "
            f"bounds are {settings.items_max or 'no'} items and {settings.bytes_max or 'no'} bytes"
        )
        self._tell_later(stream, Verdict(entry.first, 0, 0, dropped=True, error="Full", text=text))

    def _tell_later(self, stream: str, verdict: Verdict) -> None:
        self._journal.after(lambda: self._tell(stream, verdict))

    def _tell(self, stream: str, verdict: Verdict) -> None:
        answer = Admitted(self._queue.name, stream, (verdict,))
        self._desk.send(node_of(stream), answer)

    # --- what is known ----------------------------------------------------------------------------

    def _fits(self, entry: Entry) -> bool:
        return self._queue.fits(entry.stop - entry.first, entry.bytes)

    def _earlier(self, entry: Entry) -> Interval | None:
        return self._queue.producers.earlier(entry.producer, entry.sequence)

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
        self._queue.changed[b"d" + name.encode()] = None
