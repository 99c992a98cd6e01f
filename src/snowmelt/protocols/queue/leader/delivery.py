"""How what is owed is told: with bodies at hand, or when they were read from this disk or another.

1. A lease's time begins when it is told. What ended before is not told.
2. What turns out to fit no answer goes back: whoever asked is told of the rest.
3. What can't be read here is asked of all followers. Only what each of them lacks is lost.
4. By keys a lease is told by positions, as one part where it can be (`gathering.py`); else in its
   order, so that what fits no answer is the least urgent.
5. What is only shown and is large is put together when who asked has room for it: a look takes
   nothing from the queue, so anybody may ask for the same again and again.
"""

from functools import partial
from itertools import accumulate
from typing import Final, assert_never

import msgspec

from snowmelt.core.instant import Duration, Instant, later
from snowmelt.core.interval import POSITION_MAX, Interval, merged, without
from snowmelt.core.names import OperationId
from snowmelt.core.times import ends
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.leader.ages import DeliveryAges
from snowmelt.protocols.queue.leader.deadlines import Deadlines
from snowmelt.protocols.queue.leader.gathering import gathered
from snowmelt.protocols.queue.leader.maintenance.saving import Saving
from snowmelt.protocols.queue.leader.open_calls import OpenCalls
from snowmelt.protocols.queue.leader.spans import Spans, by_failures
from snowmelt.protocols.queue.messages.partition_words import OwedGrant, PartialAnswer
from snowmelt.protocols.queue.messages.words import (
    PIECE_BYTES,
    Admitted,
    Body,
    Deliver,
    EraseBodies,
    FetchBodies,
    Mended,
    Owed,
    PutReply,
    ReadBodies,
    ReplyTo,
    SaveOwed,
    Say,
    Show,
    Spared,
    SpreadPut,
    ToLeaderOf,
)
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.replication.follower_progress import AGAIN_AFTER, Followers
from snowmelt.protocols.queue.state.batches import StoredBatch, Within
from snowmelt.protocols.queue.state.segments import Segment, joined, lacks, part_of, stored
from snowmelt.protocols.queue.state.state import Lease
from snowmelt.protocols.queue.store.bodies import Bodies
from snowmelt.protocols.queue.store.write_queue import WriteQueue
from snowmelt.protocols.queue.streams import node_of

FETCHED_AT_ONCE: Final = 16
HELD_BYTES: Final = 160
"""What it takes to tell of a run of leased items."""
SHOWN_BYTES: Final = 256 << 10
"""More than that waits for room (rule 5)."""


class DeliveryBuilder:
    """Of one queue, in one term."""

    def __init__(
        self,
        outbox: Outbox,
        disk: WriteQueue,
        hand: Bodies,
        followers: Followers,
        deadlines: Deadlines,
        spans: Spans,
    ) -> None:
        self.hand = hand
        self.open = OpenCalls(hand)
        self.delivered = DeliveryAges()
        self._outbox = outbox
        self._disk = disk
        self._copy = followers.copy
        self._home = followers.home
        self._spans = spans
        self._state = spans.state
        self._keyed = spans.state.keyed
        self._parted = followers.home.settings.partitions > 1
        """Whether leases go to doors; one that was told is told again when a door asks again."""
        self._followers = followers
        self._deadlines = deadlines
        self.saving = Saving(outbox, hand, spans)
        self._lacks: dict[StoredBatch, dict[str, None]] = {}
        """Batches that can't be read here, and who has not said yet whether he has them."""
        self._held: list[ReadBodies] = []
        """What waits for them."""
        self._sought = Instant(0)

    def pay(self, owed: Owed) -> None:
        """It may be told now."""
        match owed:
            case ReplyTo(operation, answer):
                self._reply(operation, answer)
            case Deliver(operation, token):
                lease = self._state.leases.get(token)
                if lease is None:
                    self.open.end(operation)
                    return
                if token not in self._deadlines:
                    self._outbox.wake(self._deadlines.begin(token, self._outbox.now, lease.length))
                self._deliver(owed, lease, {})
            case Show():
                self._show(owed, owed.positions, {})
            case Say(target, message):
                owed.told = True
                self._outbox.answer(target, message)
            case ToLeaderOf():
                self._outbox.send(self._outbox.me, owed)
            case EraseBodies(keeper, keys, number):
                linger = Duration(2 * self._home.settings.linger)
                word = Spared(self._home.queue, self._home.term, keys, linger, number)
                self._outbox.send(node_of(keeper), word)
            case _:
                assert_never(owed)

    def _reply(self, operation: OperationId, answer: msgspec.Struct) -> None:
        there = operation in self.open.calls and type(self.open.calls[operation])
        if there is OwedGrant and type(answer) is not calls.Leased:
            return  # of a call whose number its client used for a get, which took its place
        asked = self.open.end(operation)
        if type(asked) is SpreadPut:
            word = PutReply(self._home.queue, self._home.term, operation, _admitted(answer))
            self._outbox.send(asked.door, word)
        elif type(asked) is OwedGrant:
            assert isinstance(answer, calls.Leased), "that is all that is owed to a door"
            home = self._home.queue, self._home.term
            turn = asked.anchor, asked.number
            given = PartialAnswer(
                *home, operation, *turn, asked.of, asked.away, answer, asked.since
            )
            self._outbox.answer(asked.door, given)
        elif asked is not None or type(answer) is not calls.Leased or not self._parted:
            self._outbox.reply(operation, answer)

    def _deliver(self, owed: Deliver, lease: Lease, read: dict[int, Segment]) -> None:
        left = tuple(lease.left)
        if self._keyed is not None:  # rule 4
            most = self._outbox.limits.answer_bytes // 2
            part = gathered(self._state, left, partial(self._at_hand, read), most)
            if part is not None:
                count, first, last = ends(part.times)
                self._leased(owed, (part,), (), count, first + last)
                return
            left = tuple(self._keyed.ordered(left))
        self._show(owed, left, read)

    def _at_hand(self, read: dict[int, Segment], batch: StoredBatch) -> Segment | None:
        at_once = read.get(batch.start + batch.shift) if read else None
        return at_once or self.hand.of(self._home.queue, batch)

    def _leased(
        self,
        owed: Deliver,
        parts: tuple[calls.ItemRun, ...],
        spans: tuple[calls.Span, ...],
        count: int,
        put_at: int,
    ) -> None:
        """Rule 1; and how old so many items are by when the first and the last of them were put."""
        now = self._outbox.now
        left = self._deadlines.left(owed.token, now)
        if left > 0:
            delivered = self.delivered
            if now >= delivered.until:
                delivered.turn(now)
            delivered.count += count
            delivered.age += count * (2 * now - put_at) >> 1
            lease = self._state.leases.get(owed.token)
            secret = b"" if lease is None else lease.secret
            leased = calls.Leased(owed.token, parts, spans, left, owed.refused, secret=secret)
            self._reply(owed.operation, leased)

    def _show(
        self, owed: Deliver | Show, positions: tuple[Interval, ...], read: dict[int, Segment]
    ) -> None:
        queue, size, count = self._home.queue, 0, 0
        found: list[tuple[Segment, Within]] = []
        absent: list[StoredBatch] = []
        gone: list[Interval] = []
        spread: list[Interval] = []
        for interval in positions:
            for within in self._state.batches.over(interval):
                batch, first, stop = within
                segment = self._at_hand(read, batch)
                if segment is None and batch.shift and batch.spread:
                    spread.append(Interval(first, stop))
                elif segment is None:
                    absent.append(batch)
                elif segment.left and lacks(segment, first + batch.shift, stop + batch.shift):
                    gone.append(Interval(first, stop))
                else:
                    found.append((segment, within))
                    size += batch.size
                    count += stop - first
        if gone:  # disks were put back: others knew that it had ended
            for one in gone:
                self._state.lose(one)
            self._show(owed, without(positions, gone), read)
            return
        if absent or (size > SHOWN_BYTES and not read and type(owed) is Show):  # rule 5
            read |= {batch.start + batch.shift: segment for segment, (batch, _, _) in found}
            self._outbox.inside.append(ReadBodies(queue, tuple(absent), owed, read))
            return
        spans, most = list[calls.Span](), self._outbox.limits.answer_bytes - _beside(owed)
        if spread:
            spans, _ = self._spans.of(spread, self._outbox.limits.spans_bytes)
            most -= sum([one.weight for one in spans])
        parts = self._parts(found)
        some = parts if size < most // 2 else fitting(parts, most)  # by far, as mostly
        told, end = tuple(joined(some) if some[1:] else some), POSITION_MAX
        if some is not parts:
            end = parts[len(some)].start
        told_spans = tuple([one for one in spans if one.stop <= end]) if spread else ()
        if type(owed) is Show:
            self._reply(owed.operation, calls.Peeked(told, told_spans, owed.held))
        elif type(owed) is Deliver:
            if end < POSITION_MAX and self._deadlines.left(owed.token, self._outbox.now) > 0:
                self._give_back(owed, Interval(end, POSITION_MAX), parts[len(some) :])
            put_at = found[0][0].put_at + found[-1][0].put_at if found else 0
            self._leased(owed, told, told_spans, count, put_at)

    def _give_back(self, owed: Deliver, behind: Interval, parts: list[calls.ItemRun]) -> None:
        """What does not fit (rule 2); by keys, what is told first need not stand first."""
        rest = [behind]
        if self._keyed is not None:
            rest = merged([Interval(one.start, one.start + one.count) for one in parts])
        self._state.give_back(owed.operation, owed.token, rest)

    def _parts(self, found: list[tuple[Segment, Within]]) -> list[calls.ItemRun]:
        """Items of some batches, by how often they failed."""
        if not self._state.failures.starts:
            parts = [
                part_of(segment, first + batch.shift, stop + batch.shift, first)
                for segment, (batch, first, stop) in found
            ]
            return parts if self._keyed is None else self._with_keys(parts)
        cut: list[calls.ItemRun] = []
        for segment, (batch, first, stop) in found:
            for piece, times, reason in by_failures(self._state.failures, Interval(first, stop)):
                edges = piece.start + batch.shift, piece.stop + batch.shift
                part = part_of(segment, *edges, piece.start)
                if reason:
                    part = msgspec.structs.replace(part, failures=times, reason=reason)
                cut.append(part)
        return cut if self._keyed is None else self._with_keys(cut)

    def _with_keys(self, parts: list[calls.ItemRun]) -> list[calls.ItemRun]:
        row = self._state.keys.row
        return [
            msgspec.structs.replace(one, keys=row(Interval(one.start, one.start + one.count)))
            for one in parts
        ]

    def read(self, wants: ReadBodies, unread: list[StoredBatch]) -> None:
        """Bodies were read; or could not be, and are asked of the others (rule 3)."""
        if unread:
            self._held.append(wants)
            self.lack(unread)
            return
        owed, live = wants.owed, self._state.batches.live
        if isinstance(owed, SaveOwed):
            self._reply(owed.operation, self.saving.piece(owed, wants.hand))
        elif isinstance(owed, Show):
            alive = [part for one in owed.positions for part in live.common(one)]
            self._show(owed, tuple(alive), wants.hand)
        elif (lease := self._state.leases.get(owed.token)) is not None:
            self._deliver(owed, lease, wants.hand)

    # --- what can't be read here ------------------------------------------------------------------

    @property
    def lacking(self) -> list[StoredBatch]:
        return list(self._lacks)

    def holds(self, token: int) -> bool:
        """Whether it could not be told yet, since nobody who is here has its bodies."""
        return any(isinstance(one.owed, Deliver) and one.owed.token == token for one in self._held)

    def lack(self, batches: list[StoredBatch]) -> None:
        """These can't be read here."""
        for batch in batches:
            self._lacks.setdefault(batch, dict.fromkeys(self._followers.all))
        self._seek()

    def fetched(self, keeper: str, found: dict[StoredBatch, Segment | None]) -> None:
        """Another has some of them, or has not."""
        bodies: list[Body] = []
        for batch, segment in found.items():
            others = self._lacks.get(batch)
            if others is None:
                continue
            others.pop(keeper, None)
            if segment is not None:
                del self._lacks[batch]
                bodies.append(Body(batch.key, stored(segment)))
                self.hand.add(self._home.queue, batch, segment)
                for wants in self._held:
                    wants.hand[batch.start + batch.shift] = segment
        if bodies:
            changes = tuple(self._copy.stored(bodies))
            self._disk.write(self._home.queue, changes, Mended())
        if bodies or any(not others for others in self._lacks.values()):
            self._seek()

    def _seek(self) -> None:
        """Asks, and asks again; what nobody has is lost."""
        for batch, others in list(self._lacks.items()):
            if not others:
                del self._lacks[batch]
                self._state.lose(Interval(batch.start, batch.stop))
                for follower in self._followers.all.values():
                    follower.sending = None  # it can't be sent either
        if not self._lacks:
            held, self._held = self._held, []
            for wants in held:
                self.read(wants, [])
            return
        for keeper in self._followers.all:
            lacks = [batch for batch, others in self._lacks.items() if keeper in others]
            if lacks:
                names = tuple((one.place, one.term) for one in _one_answer(lacks))
                word = FetchBodies(self._home.queue, self._home.term, names)
                self._outbox.send(node_of(keeper), word)
        self._sought = self._outbox.now
        self._outbox.wake(later(self._outbox.now, AGAIN_AFTER))

    def tick(self) -> None:
        if self._lacks and later(self._sought, AGAIN_AFTER) <= self._outbox.now:
            self._seek()


def _beside(owed: Deliver | Show) -> int:
    """So many bytes an answer has besides items."""
    return HELD_BYTES * len(owed.held) if type(owed) is Show else 0


def fitting(parts: list[calls.ItemRun], most: int) -> list[calls.ItemRun]:
    """As many of these as fit one answer of so many bytes, and the first.

    >>> some = [calls.ItemRun(at, bytes(8), b"body") for at in range(3)]
    >>> [part.start for part in fitting(some, 25)], len(fitting(some, 1))
    ([0, 1], 1)
    """
    size = 0
    for at, part in enumerate(parts):
        size += len(part.blob) + len(part.headers) + len(part.offsets)
        if size > most and at:
            return parts[:at]
    return parts


def _admitted(answer: msgspec.Struct) -> Admitted | calls.Receipt | Declined:
    if isinstance(answer, calls.PutDone):
        where = Interval(answer.start, answer.stop)
        return Admitted(where, answer.copies, answer.flushed, answer.repeated)
    assert isinstance(answer, calls.Receipt | Declined)
    return answer


def _one_answer(batches: list[StoredBatch]) -> list[StoredBatch]:
    """The first of these, as many as fit one message, and one at least."""
    sizes = accumulate([one.size for one in batches])
    fitting = sum(size <= PIECE_BYTES for size in sizes)
    return batches[: min(max(1, fitting), FETCHED_AT_ONCE)]
