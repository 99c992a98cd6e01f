"""The door of a queue with several partitions: it keeps its clients' gets, and gathers the pieces.

It is rules 5, 10 and 17 of `leader/parted`. Nobody else has to remember a get.
"""

from typing import Final

import msgspec

from snowmelt.core.ends import Ends
from snowmelt.core.instant import Duration, Instant, later, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.shares import has_share
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.gathered import Gathered, PartitionLease
from snowmelt.protocols.queue.api.partition_names import part_name, part_of, whole_of
from snowmelt.protocols.queue.leader.open_calls import OpenCalls
from snowmelt.protocols.queue.leader.waiting import SILENT_MAX
from snowmelt.protocols.queue.messages.home_words import Assignment, Nowhere
from snowmelt.protocols.queue.messages.partition_words import (
    CancelPartedGet,
    News,
    Nothing,
    PartedGet,
    PartedGetCancelled,
    PartialAnswer,
    Post,
)
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.store.bodies import Bodies

NEWS_EACH: Final = seconds(1)
"""At most so often the anchor's home is asked for, of one queue."""


class CancelledGet(msgspec.Struct):
    """A get that its client gave up, and since when."""

    queue: str
    call: OperationId | None
    """By which its client says so; None where its connections closed."""
    since: Instant = Instant(0)
    """Then it is when this door began to ask."""


class CancelledGets:
    """Of one node, for all queues with several partitions."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._open: dict[OperationId, CancelledGet] = {}
        self._ends: Ends[OperationId] = Ends()
        """When nobody is asked about them any more."""

    def gone(self, get: OperationId, queue: str, since: Instant) -> None:
        """The connections of its client closed."""
        self._leave(get, CancelledGet(queue, None, since))

    def leave(self, get: OperationId, queue: str, call: OperationId) -> None:
        """Its client says so, or says so again."""
        self._leave(get, CancelledGet(queue, call))

    def _leave(self, get: OperationId, known: CancelledGet) -> None:
        if get not in self._open and len(self._open) >= self._outbox.limits.waiting_gets:
            if known.call is not None:
                text = f"{len(self._open)} gets leave at this node already"
                self._outbox.decline(known.call, "Unavailable", text)
            return
        again = get in self._open
        self._open[get] = known
        self._ends.put(get, later(self._outbox.now, SILENT_MAX))
        self._outbox.wake(later(self._outbox.now, SILENT_MAX))
        self._say(get, known, again=again)

    def _say(self, get: OperationId, known: CancelledGet, *, again: bool = False) -> None:
        anchor = part_name(known.queue, 0)
        self._outbox.inside.append(Post(anchor, CancelPartedGet(anchor, get, known.since), again))

    def lives(self, get: OperationId) -> bool:
        """Whether a get is asked again by one whose connections had closed, and not left by it."""
        known = self._open.get(get)
        if known is None:
            return True
        if known.call is None:
            self._forget(get)
        return known.call is None

    def heard(self, queue: str) -> None:
        for get, known in self._open.items():
            if known.queue == queue:
                self._say(get, known)

    def left(self, word: PartedGetCancelled) -> None:
        """It waits no more, and holds nothing."""
        known = self._open.get(word.operation)
        if known is None or known.queue != whole_of(word.queue):
            return
        self._forget(word.operation)
        if known.call is not None:
            self._outbox.reply(known.call, calls.GetCancelled())

    def _forget(self, get: OperationId) -> None:
        del self._open[get]
        self._ends.forget(get)

    def tick(self) -> None:
        """What nobody confirmed is given up: a lease ends by itself."""
        for get in self._ends.over(self._outbox.now):
            del self._open[get]
        if self._ends.next is not None:
            self._outbox.wake(self._ends.next)


class Gathers(msgspec.Struct):
    """What a get has so far."""

    get: calls.Get
    since: Instant
    turn: tuple[int, int] = (0, 0)
    """The anchor's term, and the number, with which its pieces were granted."""
    pieces: dict[int, tuple[Instant, calls.Leased]] = {}
    """By partitions, and when they came."""

    def want(self, operation: OperationId, now: Instant) -> PartedGet:
        """As the anchor is asked now."""
        get = self.get
        patience = Duration(max(0, get.patience - (now - self.since)))
        queue = part_name(get.queue, 0)
        most = get.items_max, get.bytes_max
        own = self.since, get.since
        return PartedGet(queue, operation, *most, patience, get.ahead, get.before, *own)


class PartedGets:
    """Of one node, for all such queues."""

    def __init__(self, outbox: Outbox, hand: Bodies) -> None:
        self.leaving = CancelledGets(outbox)
        self._outbox = outbox
        self._open = OpenCalls(hand)
        self._of: dict[str, dict[OperationId, None]] = {}
        """By the names of queues."""
        self._ends: Ends[OperationId] = Ends()
        """When those are over that no client asks for again."""
        self._news: dict[str, Instant] = {}

    def get(self, operation: OperationId, get: calls.Get) -> None:
        """A client asks, or asks again."""
        now, known, again = self._outbox.now, self._open.calls.get(operation), False
        if known is None and not self.leaving.lives(operation):
            self._outbox.reply(operation, Gathered(()))
            return
        if known is None:
            there, most = len(self._open.calls), self._outbox.limits.waiting_gets
            if not has_share(self._open.count(operation.client), 1, most - there):
                text = f"{there} gets wait at this node already"
                self._outbox.decline(operation, "Unavailable", text)
                return
            known = Gathers(get, now)
            self._open.add(operation, known)
            self._of.setdefault(get.queue, {})[operation] = None
        else:
            again = True
            if later(self._news.get(get.queue, Instant(0)), NEWS_EACH) <= now:
                self._news[get.queue] = now
                self._outbox.inside.append(News(part_name(get.queue, 0)))
        self._ends.put(operation, later(now, SILENT_MAX))
        self._outbox.wake(later(now, SILENT_MAX))
        self._say(operation, known, again=again)

    def _say(self, operation: OperationId, known: Gathers, *, again: bool = False) -> None:
        want = known.want(operation, self._outbox.now)
        self._outbox.inside.append(Post(want.queue, want, again))

    def heard(self, home: Assignment) -> None:
        """The anchor's home: it may be another."""
        if home.active and part_of(home.queue) == 0:
            self.leaving.heard(whole_of(home.queue))
            for operation in self._of.get(whole_of(home.queue), ()):
                known = self._open.calls[operation]
                if known.turn[0] < home.term:
                    self._say(operation, known)

    def nowhere(self, message: Nowhere) -> None:
        """The queue is there no more."""
        if part_of(message.queue) == 0:
            for operation in list(self._of.get(whole_of(message.queue), ())):
                self._end(operation)
                self._outbox.decline(operation, message.error, message.text)

    # --- answers ----------------------------------------------------------------------------------

    def given(self, word: PartialAnswer) -> None:
        """A piece; with the last of them the client is answered (rule 10)."""
        known = self._open.calls.get(word.operation)
        turn, now = (word.anchor, word.number), self._outbox.now
        if known is None or word.since != known.since or turn < known.turn:
            return
        if turn > known.turn:
            known.turn, known.pieces = turn, {}
        known.pieces[part_of(word.queue) or 0] = now, word.leased
        if any(part not in known.pieces for part in word.of):
            return
        pieces = [_as_late(part, now, *known.pieces[part]) for part in sorted(word.of)]
        some = tuple([one for one in pieces if one.leased.token])
        if not some or any(one.leased.lease <= 0 for one in some):
            known.pieces = {}
            self._say(word.operation, known)
            return
        self._end(word.operation)
        self._outbox.reply(word.operation, Gathered(some, word.away))

    def nothing(self, word: Nothing) -> None:
        """There is none for that get."""
        if word.operation not in self._open.calls:
            return
        self._end(word.operation)
        if word.refused is not None:
            self._outbox.reply(word.operation, word.refused)
        else:
            self._outbox.reply(word.operation, Gathered((), word.away))

    def _end(self, operation: OperationId) -> Gathers | None:
        known: Gathers | None = self._open.end(operation)
        self._ends.forget(operation)
        if known is not None:
            self._drop(operation, known)
        return known

    def _drop(self, operation: OperationId, known: Gathers) -> None:
        some = self._of[known.get.queue]
        del some[operation]
        if not some:
            del self._of[known.get.queue]
            self._news.pop(known.get.queue, None)

    # --- gets that nobody waits for ---------------------------------------------------------------

    def leave(self, operation: OperationId, leave: calls.CancelGet) -> None:
        get = OperationId(operation.client, leave.number)
        if self._end(get) is not None:
            self._outbox.reply(get, Gathered(()))
        self.leaving.leave(get, leave.queue, operation)

    def gone(self, client: NodeId) -> None:
        """Nobody is there for what this client asked."""
        for operation, known in self._open.gone(client).items():
            self._ends.forget(operation)
            self._left(operation, known)

    def _left(self, operation: OperationId, known: Gathers) -> None:
        self._drop(operation, known)
        self.leaving.gone(operation, known.get.queue, known.since)

    def tick(self) -> None:
        """Those that nobody asks for any more are over."""
        for operation in self._ends.over(self._outbox.now):
            known = self._open.end(operation)
            if known is not None:
                self._left(operation, known)
        if self._ends.next is not None:
            self._outbox.wake(self._ends.next)
        self.leaving.tick()


def _as_late(part: int, now: Instant, came: Instant, leased: calls.Leased) -> PartitionLease:
    """What came a while ago is leased for less by now."""
    if now > came and leased.token:
        left = Duration(leased.lease - (now - came))
        leased = msgspec.structs.replace(leased, lease=left)
    return PartitionLease(part, leased)
