"""Taking items in: a put is stored here, copied to others, and then asks the master to be admitted.

1. Segments of a queue get the next indexes of this run's stream. Those that arrived first are
   offered to the master first, so what is adjacent in the stream is adjacent in the queue.
2. A segment is offered when `replicas` keepers have flushed it, or when `copies_needed` have and
   the others were given time. The keepers named to the master are those that said so, and whose
   disks are not known to be lost; what has become too few of them is copied again.
3. What was offered is offered again until there is a verdict; a node never drops what it has
   offered by itself. So either it is admitted and stays, or it is refused and goes.
4. A put has the time at which this node takes it (`core/times.py`).
5. Where this node is the queue's master, a put may be offered before it is copied (`early.py`):
   then it is told when it is admitted and enough keepers have said that they have it.
6. What this node refuses by itself (`Unavailable`, `DiskFull`) it has not kept, and will not offer.
   That says nothing of the same put at other nodes. Whether a put was put is said by the master.
"""

from collections import deque
from collections.abc import Sequence
from heapq import nsmallest
from typing import Final

import msgspec

from snowmelt.core.instant import START, Duration, Instant, later, milliseconds
from snowmelt.core.names import OperationId
from snowmelt.protocols.fifo import messages
from snowmelt.protocols.fifo.asking import put_problem
from snowmelt.protocols.fifo.calls import Put, PutDone, Receipt
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.directory import Directory
from snowmelt.protocols.fifo.early import (
    SAID_WITHIN,
    Confirmed,
    Enough,
    Offer,
    Promptness,
    TooEarly,
    Unstored,
)
from snowmelt.protocols.fifo.keeper import Keeper
from snowmelt.protocols.fifo.segments import Segment, stored
from snowmelt.protocols.fifo.streams import gone_for_ever, node_of

AGAIN_AFTER: Final = milliseconds(500)
COPY_PATIENCE: Final = milliseconds(300)


PUT_COST: Final = 2_048
"""What a put takes in memory while it waits, besides its bytes."""


class Taken(msgspec.Struct):
    """A put on its way into the queue."""

    operation: OperationId
    put: Put
    segment: Segment
    stop: int
    """Where its segment stops in the stream."""
    size: int
    body: bytes
    linger: Duration
    wanted: tuple[str, ...]
    """Who else is to keep it."""
    others: int
    """How many others are to keep it, when so many are here."""
    needed: int
    since: Instant
    keepers: list[str] = []
    flushed: bool = False
    """Whether this node has it on its disk."""
    offered: Instant | None = None
    term: int = 0
    """Of the home whose master it was offered to last."""
    asked: Instant = Instant(0)
    named: tuple[str, ...] = ()
    """Who was said to keep it before they said so themselves (rule 5)."""
    verdict: messages.Verdict | None = None
    """What the master said of it, while it waits for those that were named."""
    told: bool = False
    hurt: bool = False
    """Whether it found no room here, while others may have it."""


class Intake:
    def __init__(self, desk: Desk, keeper: Keeper, directory: Directory) -> None:
        self._desk = desk
        self._keeper = keeper
        self._directory = directory
        self._next: dict[str, int] = {}
        self._waiting: dict[str, deque[Taken]] = {}
        self._offered: dict[str, dict[int, Taken]] = {}
        self._taken: dict[str, dict[int, Taken]] = {}
        """Of each queue, by where each stops in the stream: those without a verdict, in order."""
        self._ripe: dict[str, None] = {}
        self._puts: dict[OperationId, None] = {}
        self._bytes = 0
        self._promptness = Promptness(desk)

    def put(self, operation: OperationId, put: Put, home: messages.Home) -> None:
        if operation in self._puts:  # asked again: it is on its way
            return
        if self._desk.presence is None:  # cut off while it was sought where the queue is
            self._desk.decline(operation, "Unavailable", "this node has no current view")
            return
        size = put.size
        problem = put_problem(put, self._desk.limits.put_items)
        if problem:
            self._desk.decline(operation, *problem)
            return
        if self._puts and self._bytes + size + PUT_COST > self._desk.limits.waiting_bytes:
            text = f"{self._bytes} bytes of puts are waiting at this node already"
            self._desk.decline(operation, "Unavailable", text)
            return
        if home.settings.linger and self._desk.full:
            self._desk.decline(operation, "DiskFull", "the disk of this node has no room")
            return
        self._take(operation, put, size, home)

    def _take(self, operation: OperationId, put: Put, size: int, home: messages.Home) -> None:
        desk, settings = self._desk, home.settings
        assert desk.presence is not None
        first = self._next.get(put.queue, 0)
        segment = Segment(first, put.offsets, put.blob, put.headers, max(0, desk.wall))
        stop = self._next[put.queue] = segment.stop
        early: tuple[str, ...] = ()
        if settings.replicas > 1 and put.queue not in self._waiting:
            early = self._promptness.keepers(put, home, settings.linger)
        wanted = early or desk.presence.after(desk.keeper, settings.replicas - 1)
        taken = Taken(
            operation,
            put,
            segment,
            stop,
            size,
            stored(segment),
            settings.linger,
            wanted,
            settings.replicas - 1,
            settings.copies_needed,
            desk.now,
            [],
        )
        self._puts[operation] = None
        self._bytes += size + PUT_COST
        self._taken.setdefault(put.queue, {})[stop] = taken
        desk.wake(later(desk.now, COPY_PATIENCE))
        if early:
            self._offer_early(taken, home)
            return
        self._waiting.setdefault(put.queue, deque()).append(taken)
        if settings.replicas == 1 and home.master == desk.keeper:
            # Offered before it is flushed: both ends are this node's, and one write takes it all.
            taken.keepers.append(desk.keeper)
        self._store(taken)
        for keeper in wanted:
            self._copy(taken, keeper)
        self._ripe[put.queue] = None

    def _store(self, taken: Taken) -> None:
        queue, desk = taken.put.queue, self._desk

        def flushed() -> None:
            taken.flushed = True
            self._keeps(taken, desk.keeper)

        def refused(reason: str) -> None:
            if taken.offered is not None:
                unstored = Unstored(queue, desk.stream, taken.segment.first, reason)
                desk.inside.append(unstored)
                if taken.others:  # who may have it, and the step: the master decides, if it is here
                    taken.hurt = True
                    return
            self._drop(taken)  # or it would be offered again, without a body
            desk.decline(taken.operation, "DiskFull", reason)

        self._keeper.store(
            queue, desk.stream, taken.segment, taken.body, flushed, refused, taken.linger
        )

    def _copy(self, taken: Taken, keeper: str) -> None:
        queue = taken.put.queue
        message = messages.Copy(queue, self._desk.stream, taken.stop, taken.linger, taken.body)
        taken.asked = self._desk.now
        self._desk.send(node_of(keeper), message)

    def copied(self, message: messages.Copied) -> None:
        taken = self._taken.get(message.queue, {}).get(message.stop)
        if taken is None or message.stream != self._desk.stream:
            return
        if not message.refused:
            self._keeps(taken, message.keeper)

    def _keeps(self, taken: Taken, keeper: str) -> None:
        """One more has flushed it."""
        if taken.named and keeper not in taken.named:
            return  # it is not said to keep it, and so would never be told to drop it
        if keeper not in taken.keepers:
            taken.keepers.append(keeper)
            self._ripe[taken.put.queue] = None
            if taken.named:
                self._conclude(taken)

    # --- early puts (rule 5) ----------------------------------------------------------------------

    def _offer_early(self, taken: Taken, home: messages.Home) -> None:
        desk, queue, segment = self._desk, taken.put.queue, taken.segment
        taken.named = (desk.keeper, *taken.wanted)
        taken.term, taken.offered, taken.asked = home.term, desk.now, desk.now
        self._offered.setdefault(queue, {})[segment.first] = taken
        body = messages.Copy(queue, desk.stream, taken.stop, taken.linger, taken.body)
        self._store(taken)
        entry = _entry(taken, desk)
        desk.inside.append(Offer(queue, desk.stream, entry, self._low(queue), body))

    def too_early(self, message: TooEarly) -> None:
        """The master can't admit it now: it is copied first."""
        taken = self._offered.get(message.queue, {}).get(message.first)
        if taken is None or not taken.named:
            return
        presence = self._desk.presence
        taken.named, taken.offered = (), None
        self._leave_offered(taken)
        self._waiting.setdefault(message.queue, deque()).append(taken)
        if presence is not None:
            taken.wanted = presence.after(self._desk.keeper, taken.others)
        for keeper in taken.wanted:
            self._copy(taken, keeper)

    def _conclude(self, taken: Taken) -> None:
        """Tells that it was put when enough have it; when all have it, nothing is in doubt."""
        if taken.verdict is None or len(taken.keepers) < taken.needed:
            return
        if not taken.told:
            taken.told = True
            self._puts.pop(taken.operation, None)
            verdict = msgspec.structs.replace(taken.verdict, copies=len(taken.keepers))
            self._desk.reply(taken.operation, _done(taken, verdict))
            if len(taken.keepers) < len(taken.named):
                first = taken.segment.first
                self._desk.inside.append(Enough(taken.put.queue, self._desk.stream, first))
        if len(taken.keepers) == len(taken.named):
            self._confirm(taken)
            self._forget(taken)

    def _confirm(self, taken: Taken) -> None:
        queue, first, keepers = taken.put.queue, taken.segment.first, tuple(taken.keepers)
        self._desk.inside.append(Confirmed(queue, self._desk.stream, first, keepers))

    def _wait_no_longer(self, taken: Taken) -> None:
        """Some of those that were named have not said that they have it, and are not waited for."""
        self._confirm(taken)
        taken.named, taken.verdict = (), None
        if taken.told:
            self._forget(taken)
        elif taken.hurt:  # nor is it here: whoever wants to know asks again
            self._forget(taken)
            text = "this node has no room for it, and others may have put it"
            self._desk.decline(taken.operation, "OutcomeUnknown", text)

    # --- offering ---------------------------------------------------------------------------------

    def offer(self) -> None:
        """Offers what has become ready since this was last called, in order (rule 1)."""
        if not self._ripe:
            return
        ripe, self._ripe = self._ripe, {}
        for queue in ripe:
            waiting, ready = self._waiting.get(queue, deque()), []
            home = self._directory.home(queue)
            while waiting and _ready(waiting[0], self._desk):
                taken = waiting.popleft()
                taken.offered, taken.term = self._desk.now, 0 if home is None else home.term
                self._offered.setdefault(queue, {})[taken.segment.first] = taken
                ready.append(taken)
            if not waiting:
                self._waiting.pop(queue, None)
            self._admit(queue, ready)

    def _admit(self, queue: str, ready: list[Taken]) -> None:
        master = self._directory.master_of(queue) if ready else None
        if master is not None:
            entries = tuple([_entry(taken, self._desk) for taken in ready])
            self._desk.send(
                master, messages.Admit(queue, self._desk.stream, entries, self._low(queue))
            )

    def _low(self, queue: str) -> int:
        """Below this all have verdicts: what came too early waits behind what came later."""
        return next(iter(self._taken[queue].values())).segment.first

    def admitted(self, message: messages.Admitted) -> None:
        if message.stream != self._desk.stream:
            return  # about an earlier run of this node
        offered = self._offered.get(message.queue, {})
        for verdict in message.verdicts:
            taken = offered.get(verdict.first)
            if taken is not None:
                self._judged(taken, verdict)

    def _judged(self, taken: Taken, verdict: messages.Verdict) -> None:
        if taken.named and not verdict.dropped and not verdict.error:
            taken.verdict = verdict
            self._conclude(taken)
            return
        self._forget(taken)
        if verdict.dropped:
            self._drop(taken)
        if verdict.error:
            self._desk.decline(taken.operation, verdict.error, verdict.text)
            return
        if taken.put.hold:
            segment = taken.segment
            receipt = Receipt(self._desk.stream, segment.first, taken.stop, taken.size)
            self._desk.reply(taken.operation, receipt)
            return
        self._desk.reply(taken.operation, _done(taken, verdict))

    def _forget(self, taken: Taken) -> None:
        queue = taken.put.queue
        here = self._taken.get(queue, {})
        if here.pop(taken.stop, None) is None:
            return
        if not here:
            del self._taken[queue]
        self._puts.pop(taken.operation, None)
        self._bytes -= taken.size + PUT_COST
        if taken.offered is None:
            waiting = self._waiting[queue]
            waiting.remove(taken)
            if not waiting:
                del self._waiting[queue]
        else:
            self._leave_offered(taken)

    def _leave_offered(self, taken: Taken) -> None:
        offered = self._offered[taken.put.queue]
        del offered[taken.segment.first]
        if not offered:
            del self._offered[taken.put.queue]

    def _drop(self, taken: Taken) -> None:
        self._forget(taken)
        segment = taken.segment
        extent = messages.Extent(self._desk.stream, segment.first, segment.stop)
        drop = messages.Drop(taken.put.queue, (extent,))
        for keeper in dict.fromkeys((self._desk.keeper, *taken.wanted, *taken.keepers)):
            self._desk.send(node_of(keeper), drop)

    def viewed(self) -> None:
        """Another view: what somebody was to keep who is gone goes to others at once."""
        presence = self._desk.presence
        for queue, waiting in self._waiting.items():
            for taken in waiting:
                if presence is not None and not presence.keepers.keys() >= set(taken.wanted):
                    taken.asked = START
                    self._copy_again(taken)
            self._ripe[queue] = None

    def homed(self, home: messages.Home) -> None:
        """Another master serves: it is offered at once what an earlier one did not answer.

        Once in a term, or it would go on without end: what is offered anew has the home asked for.
        What was early goes as usual then: no step of this master carries it to those it named.
        """
        offered = self._offered.get(home.queue, {}).values()
        late = [taken for taken in offered if taken.term < home.term]
        for taken in late:
            taken.term, taken.offered = home.term, START
            if taken.named:
                self._wait_no_longer(taken)
        if late:
            self.tick()

    def tick(self) -> None:
        now = self._desk.now
        for queue, waiting in self._waiting.items():
            for taken in waiting:
                self._copy_again(taken)
            self._ripe[queue] = None
        all_offered = [one for some in self._offered.values() for one in some.values()]
        for taken in [one for one in all_offered if one.named or one.hurt]:
            if later(taken.since, SAID_WITHIN) <= now:
                silent = tuple(one for one in taken.named if one not in taken.keepers)
                self._promptness.late(silent)
                self._wait_no_longer(taken)
        for queue, offered in self._offered.items():
            again = [one for one in offered.values() if one.flushed and _silent_since(one, now)]
            if len(again) > self._desk.limits.offers:  # those offered last have their turn later
                again = nsmallest(self._desk.limits.offers, again, key=_offered_at)
            for taken in again:
                taken.offered = now
                self._copy_again(taken)
            if again:  # the master may be another by now
                self._directory.refresh(queue)
            self._admit(queue, again)
        if self._taken:
            self._desk.wake(later(now, COPY_PATIENCE))

    def _copy_again(self, taken: Taken) -> None:
        """To those that were silent; to others when they are here no more (rule 2)."""
        desk, presence = self._desk, self._desk.presence
        if presence is None or later(taken.asked, AGAIN_AFTER) > desk.now:
            return
        gone = [one for one in taken.keepers if gone_for_ever((one,), presence)]
        taken.keepers = [one for one in taken.keepers if one not in gone]
        taken.wanted = presence.after(desk.keeper, taken.others)
        if taken.offered is None or len(taken.keepers) < taken.needed:
            for keeper in taken.wanted:
                if keeper not in taken.keepers:
                    self._copy(taken, keeper)


def _ready(taken: Taken, desk: Desk) -> bool:
    """Whether it may be offered (rule 2)."""
    keepers = taken.keepers
    if desk.keeper not in keepers or len(keepers) < taken.needed:
        return False
    return len(keepers) > len(taken.wanted) or later(taken.since, COPY_PATIENCE) <= desk.now


def _entry(taken: Taken, desk: Desk) -> messages.Entry:
    segment, put, operation = taken.segment, taken.put, taken.operation
    caller, turn = (put.caller, put.turn) if put.caller else (operation.client, operation.number)
    keepers: Sequence[str] = taken.named or taken.keepers
    if len(keepers) > 1:  # in one order, so that neighbours are one run
        keepers = sorted(keepers, key=lambda one: (one != desk.keeper, one))
    return messages.Entry(
        segment.first,
        taken.stop,
        taken.size,
        put.producer,
        put.sequence,
        put.due,
        put.patience,
        tuple(keepers),
        put.hold,
        caller,
        turn,
        age=Duration(desk.now - taken.since),
    )


def _done(taken: Taken, verdict: messages.Verdict) -> PutDone:
    return PutDone(
        verdict.start,
        verdict.stop,
        copies=verdict.copies,
        flushed=not taken.linger,
        repeated=verdict.repeated,
    )


def _offered_at(taken: Taken) -> Instant:
    return taken.offered or Instant(0)


def _silent_since(taken: Taken, now: Instant) -> bool:
    return taken.offered is not None and later(taken.offered, AGAIN_AFTER) <= now
