"""How puts come in: once each, or they wait for room in their order, or are refused."""

from typing import Final

import msgspec

from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.labels import keys_in, keys_of, named_keys
from snowmelt.protocols.queue.api.partition_names import whole_of
from snowmelt.protocols.queue.api.settings import KEYS_MAX
from snowmelt.protocols.queue.leader.deadlines import delay
from snowmelt.protocols.queue.leader.open_calls import OpenCalls
from snowmelt.protocols.queue.leader.part import LeaderPart, Own
from snowmelt.protocols.queue.leader.parted.numbering import Numbering
from snowmelt.protocols.queue.leader.retention import too_late
from snowmelt.protocols.queue.leader.waiting import WaitingPut, WaitingPuts
from snowmelt.protocols.queue.messages.home_words import Assignment
from snowmelt.protocols.queue.messages.words import Body, Placed, ReplyTo, SpreadPut
from snowmelt.protocols.queue.replication.log import Log
from snowmelt.protocols.queue.state.producers import Edges
from snowmelt.protocols.queue.state.segments import Segment, by_priority, stored
from snowmelt.protocols.queue.state.state import QueueState
from snowmelt.protocols.queue.state.tails import PRIORITY_BITS
from snowmelt.protocols.queue.state.uniques import UNIQUE_MAX
from snowmelt.protocols.queue.store.bodies import Bodies

MOVING_FOR: Final = seconds(10)
"""So long new puts wait, after it was said that the items go into another queue: none may be there
before these. Whoever moves them says it again and again, and deletes the queue at last. It stands
in no log: if that program ends, or the leader does, puts are taken again."""


class AppendCheck(LeaderPart):
    """The way into one queue."""

    def __init__(self, own: Own, hand: Bodies, opened: OpenCalls) -> None:
        super().__init__(own)
        self._hand = hand
        self._opened = opened
        settings = self._home.settings
        self._bounded = settings.items_max > 0 or settings.bytes_max > 0
        self._looks = self._bounded or self._state.by_key is not None
        """Whether there may be no room."""
        self._moving = "", Instant(0)
        """Into which queue its items go, and until when that holds."""
        self.room = WaitingPuts()
        self.numbering: Numbering | None = None
        """Where what is let in waits for its numbers, in a queue with several partitions."""

    def knows(self, put: calls.Put | SpreadPut) -> bool:
        """Whether it came before; what became of it is told then, and nothing else."""
        earlier = self._state.producers.earlier(put.producer, put.sequence)
        if earlier is not None or self.room.waits(put) or self._there(put) is not None:
            return True
        return self.numbering is not None and self.numbering.waits(put)

    def has(self, put: SpreadPut) -> bool:
        """Whether that very one waits, for room or for its numbers."""
        waits = self.numbering is not None and self.numbering.has(put)
        return waits or self.room.has(put)

    def put(self, operation: OperationId, put: calls.Put | SpreadPut) -> None:
        """A batch comes in, once, or waits for room, or is refused."""
        producers, name = self._state.producers, (put.producer, put.sequence)
        if put.due and (refused := too_late(self._outbox, self._home, put.due)) is not None:
            self._log.owe(ReplyTo(operation, refused))
        elif self.room.puts and self.room.waits(put):
            self._waits(operation, put)
        elif self.numbering is not None and self.numbering.waits(put):
            self.numbering.add((operation,), put)
        elif producers.is_new(*name):
            self._new(operation, put)
        elif (earlier := producers.earlier(*name)) is not None:
            done = put_before(self._log, self._state, earlier)
            self._log.owe(ReplyTo(operation, done))
        elif (refused := self._refusal(put)) is not None:
            self._log.owe(ReplyTo(operation, refused))
        else:
            self._new(operation, put)

    def _refusal(self, put: calls.Put | SpreadPut) -> Declined | None:
        producers = self._state.producers
        if text := producers.past(put.producer, put.sequence):
            return Declined("SequenceTooOld", text)
        if producers.was_refused(put.producer, put.sequence, put.caller, put.turn):
            return self._no_room(put)
        if text := producers.crowded(put.producer):
            return Declined("Full", text)
        return None

    def _new(self, operation: OperationId, put: calls.Put | SpreadPut) -> None:
        if put.unique and (there := self._there(put)) is not None:
            self._put_before((operation,), put, there)
        elif self.room.puts or ((self._looks or put.unique) and not self._fits(put)):
            self._waits(operation, put)
        elif self.numbering is None:
            self.place((operation,), put)
        else:
            self.numbering.add((operation,), put)

    def _there(self, put: calls.Put | SpreadPut) -> Edges | None:
        """Where that is which is in the queue under its uniqueness key."""
        name, uniques = put.unique, self._state.uniques
        return uniques.earlier(name, self._outbox.wall) if name else None

    def _put_before(
        self, operations: tuple[OperationId, ...], put: calls.Put | SpreadPut, there: Edges
    ) -> None:
        """Its number stands for what is there (`uniques.py`, rule 1)."""
        self._state.producers.note(put.producer, put.sequence, there, self._outbox.wall)
        done = put_before(self._log, self._state, there)
        for operation in operations:
            self._log.owe(ReplyTo(operation, done))

    def move(self, to: str) -> None:
        """The items go into this queue: new ones wait for a while."""
        self._moving, self._looks = (to, later(self._outbox.now, MOVING_FOR)), True

    def _fits(self, put: calls.Put | SpreadPut) -> bool:
        if self._outbox.now < self._moving[1]:
            return False
        if put.unique and not self._state.uniques.has_room(self._outbox.wall):
            return False
        state, numbering = self._state, self.numbering
        if numbering is not None:
            return state.fits(put.count + numbering.count, put.size + numbering.size)
        if state.by_key is not None and len(state.by_key) + put.count > KEYS_MAX:
            names = put.names if type(put) is SpreadPut else keys_of(put.headers)
            return state.fits(put.count, put.size, names)
        return not self._bounded or state.fits(put.count, put.size)

    def put_scheduled(self, put: calls.Put) -> None:
        """What a schedule puts comes in, or waits for room; nobody is told (`scheduling.py`)."""
        numbering, name = self.numbering, (put.producer, put.sequence)
        if self.room.puts or (self._looks and not self._fits(put)):
            self.room.puts.setdefault(name, WaitingPut(put, self._outbox.now))
        elif numbering is None:
            self.place((), put)
        else:
            numbering.add((), put)

    def place(self, operations: tuple[OperationId, ...], put: calls.Put | SpreadPut) -> bool:
        """It stands at the tail from now on, and who asked is told when that is safe.

        Whether it does: what is unique may be there already, and a schedule may have ended.
        """
        if put.unique and (there := self._there(put)) is not None:
            self._put_before(operations, put, there)
            return False
        wall, due = self._outbox.wall, delay(self._outbox, put.due) if put.due else 0
        if not operations and not self._state.schedules.fire(
            put.producer, put.sequence, self._outbox.clock
        ):
            return False  # that schedule has ended, or is another
        edges: Edges = ()
        has_keys = self._state.by_key is not None
        if type(put) is SpreadPut:
            edges = self._place_spread(put, due)
        else:
            for one in by_priority(put) if put.runs[1:] else (put,):
                batch = self._state.put(
                    one.count,
                    one.size,
                    term=self._home.term,
                    due=due,
                    priority=one.keys or (one.runs[0].priority if one.runs else 0),
                    names=keys_in(one.headers) if has_keys else None,
                )
                edges += batch.start, batch.stop
                segment = Segment(batch.start, one.offsets, one.blob, one.headers, wall)
                self._hand.add(self._home.queue, batch, segment)
                placed = Placed(Interval(batch.start, batch.stop), put.producer, put.sequence)
                self._log.store(Body(batch.key, stored(segment)), placed)
        times = self._state.times
        for start in edges[::2]:
            if wall > times.due[start >> PRIORITY_BITS]:
                times.mark(start, wall, self._state.batches.live)
        if not operations:
            return True
        self._state.producers.note(put.producer, put.sequence, edges, wall)
        if put.unique:
            until = wall + put.unique_for if put.unique_for else 0
            self._state.uniques.note(put.unique, edges, until, wall)
        done, (first, *others) = put_done(self._log, edges), operations
        self._log.owe(ReplyTo(first, done))
        for operation in others:
            self._log.owe(ReplyTo(operation, msgspec.structs.replace(done, repeated=True)))
        return True

    def _place_spread(self, put: SpreadPut, due: int) -> Edges:
        """Its bodies are where they are to be."""
        term, place, priority = self._home.term, put.place.start, put.priority
        batch = self._state.put(
            put.count,
            put.size,
            term=term,
            due=due,
            priority=priority,
            place=place,
            names=None if self._state.by_key is None else named_keys(put.names),
        )
        self._state.spread.name(place, put.lies(term))
        where = Interval(batch.start, batch.stop)
        self._log.place(Placed(where, put.producer, put.sequence))
        return batch.start, batch.stop

    def _waits(self, operation: OperationId, put: calls.Put | SpreadPut) -> None:
        waiting = self.room.join(operation, put, self._outbox.now, self._outbox.limits.attempts)
        if waiting is None:
            text = f"{self._outbox.limits.attempts} attempts of this put wait for room already"
            self._log.owe(ReplyTo(operation, Declined("OutcomeUnknown", text)))
            return
        over = never(self._home, put.count, put.size) or waiting.deadline <= self._outbox.now
        if over or not self._opened.parks(operation, self._outbox.limits.waiting_bytes):
            self._full(waiting)
        else:
            self._wake(waiting.deadline)

    def _full(self, waiting: WaitingPut) -> None:
        put = waiting.put
        self.room.leave(waiting)
        self._state.producers.refuse(put.producer, put.sequence, waiting.turns, self._outbox.wall)
        refused = self._no_room(put)
        for operation in waiting.asked:
            self._log.owe(ReplyTo(operation, refused))

    def _no_room(self, put: calls.Put | SpreadPut) -> Declined:
        to, until = self._moving
        if self._outbox.now < until:
            text = f"queue {whole_of(self._home.queue)!r} is moved to {to!r} just now: try again"
            return Declined("Full", text)
        return Declined("Full", no_room(self._home, self._state, put.count, put.size))

    def serve(self) -> None:
        """Lets in who waits for room, in their order."""
        while (waiting := self.room.first) is not None:
            put = waiting.put
            room = type(put) is SpreadPut or self._log.has_room(put.size)
            if self._there(put) is None and not (room and self._fits(put)):
                return
            self.room.leave(waiting)
            if self.numbering is None:
                self.place(tuple(waiting.asked), put)
            else:
                self.numbering.add(tuple(waiting.asked), put)

    # --- who waits --------------------------------------------------------------------------------

    def gone(self, operation: OperationId, put: calls.Put | SpreadPut) -> None:
        """Nobody is there for what was asked."""
        self.room.gone(operation, put)
        if self.numbering is not None:
            self.numbering.gone(operation, put)

    def tick(self) -> None:
        """Refuses those whose patience is at its end."""
        for waiting in self.room.over(self._outbox.now):
            self._full(waiting)
        end = self.room.next_deadline
        if end is not None:
            self._wake(end)

    def _wake(self, end: Instant) -> None:
        until = self._moving[1]
        self._outbox.wake(min(end, until) if self._outbox.now < until else end)


def put_done(log: Log, edges: Edges) -> calls.PutDone:
    """The answer to who puts, or publishes."""
    return calls.PutDone(edges[0], edges[1], log.copies, not log.lingers, others=edges[2:])


def put_before(log: Log, state: QueueState, edges: Edges) -> calls.PutDone:
    """The answer to who does so under a number again."""
    done = put_done(log, edges)
    lives = any(state.batches.live.common(where) for where in done.where)
    copies = done.copies if lives else 0
    return msgspec.structs.replace(done, copies=copies, repeated=True)


def never(home: Assignment, items: int, size: int) -> bool:
    """Whether so much is more than a queue may hold."""
    return 0 < home.settings.items_each < items or 0 < home.settings.bytes_each < size


def no_room(home: Assignment, state: QueueState, items: int, size: int) -> str:
    """Why there is none for so much: what a queue holds, and what it may."""
    if never(home, items, size):
        return f"{items} items in {size} bytes never fit into queue {home.queue!r}; {bounds(home)}"
    held = state.batches.live.total - state.dead.total
    if len(state.uniques) >= UNIQUE_MAX:
        return f"queue {home.queue!r} has {UNIQUE_MAX} uniqueness keys, as many as it may"
    if state.by_key is not None and state.fits(items, size):
        most = f"of {KEYS_MAX} that it may have"
        return f"queue {home.queue!r} holds items of {len(state.by_key)} keys, {most}"
    return f"queue {home.queue!r} holds {held} items in {state.size} bytes; {bounds(home)}"


def bounds(home: Assignment) -> str:
    """What a queue may hold."""
    most = {"items": home.settings.items_each, "bytes": home.settings.bytes_each}
    return f"its bounds are {' and '.join(f'{n} {what}' for what, n in most.items() if n)}"
