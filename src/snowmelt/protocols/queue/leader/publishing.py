"""Putting in two moves: many stage, one publishes all of it, in one step, once under one number.

1. What this producer published under this number is not published again; where it went is told.
   But when it is not the same that is to be published now (`publications.py`), that is
   refused: who says it is done would lose what is new in it.
2. All or nothing: when one of the batches is not staged any more, or there is no room for all of
   them together, nothing is put.
3. What goes into several queues is written down as a plan before any of them has its share. The
   first plan under a number stands, however a second one would share the same items out; it ends
   when the number is published in the queue that has the plan.
4. What was refused does not come: a question that is asked again, and was long on its way, is told
   the same, though there be room by now. One that stages has the same receipt.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from snowmelt.core.names import OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.labels import keys_of, named_keys
from snowmelt.protocols.queue.leader.append_check import no_room, put_before, put_done
from snowmelt.protocols.queue.leader.deadlines import delay
from snowmelt.protocols.queue.leader.open_calls import Answers, keep
from snowmelt.protocols.queue.leader.part import LeaderPart, Own
from snowmelt.protocols.queue.leader.parted.numbering import Numbering
from snowmelt.protocols.queue.leader.retention import too_late
from snowmelt.protocols.queue.messages.words import Body, Decided, Placed, ReplyTo, SpreadPut
from snowmelt.protocols.queue.state.producers import NOT_REMEMBERED, Edges, owner_of
from snowmelt.protocols.queue.state.publications import PublicationRecord, items_of
from snowmelt.protocols.queue.state.segments import Segment, by_priority, stored
from snowmelt.protocols.queue.state.staged import StagedBatch
from snowmelt.protocols.queue.state.transactions import TransactionName
from snowmelt.protocols.queue.store.bodies import Bodies

STAGED_TIMES: Final = 16
"""What a bounded queue may hold, so often: what failed stays staged, and is tried again."""
STAGED_LEAST: Final = 1_000
"""Items, however few it may hold."""


class Publishing(LeaderPart):
    """Of one queue, in one term."""

    def __init__(self, own: Own, hand: Bodies) -> None:
        super().__init__(own)
        self._hand = hand
        self._said: Answers[calls.Receipt | Declined] = OrderedDict()
        """Receipts and refusals (rule 4)."""
        self.numbering: Numbering | None = None
        """Where publications wait for their numbers, in a queue with several partitions."""

    def knows(self, operation: OperationId) -> bool:
        """Whether it was told what became of it."""
        return operation in self._said

    def stage(self, operation: OperationId, put: calls.Put | SpreadPut) -> None:
        """A batch comes that is in no queue before it is published."""
        if self._said_before(operation):
            return
        if put.due and (refused := too_late(self._outbox, self._home, put.due)) is not None:
            self._decline(operation, refused.error, refused.text)
            return
        staged = self._state.staged
        if len(staged) >= self._outbox.limits.staged:
            text = f"{len(staged)} batches are staged in queue {self._home.queue!r} already"
            self._decline(operation, "Full", f"{text}; publish some, or wait")
            return
        bound = self._home.settings.items_each
        most = max(STAGED_LEAST, STAGED_TIMES * bound)
        if bound and most < staged.items + put.count:
            text = f"{staged.items} items are staged in queue {self._home.queue!r}; allowed are"
            text += f" {most}, since it may hold {bound}; publish some, or wait"
            self._decline(operation, "Full", text)
            return
        wall, term = self._outbox.wall, self._home.term
        due, until = delay(self._outbox, put.due), wall + put.hold
        first, stop, owner = 0, 0, owner_of(put.producer)
        of = TransactionName(put.home, put.producer, put.sequence) if put.home else None
        if type(put) is SpreadPut:
            first, stop = put.place.start, put.place.stop
            named = b"" if self._state.by_key is None else put.names
            held = StagedBatch(0, put.size, term, due, until, put.priority, owner, named, of)
            staged.keep(put.count, held, first)
            self._state.spread.name(first, put.lies(term))
            self._log.place(Placed(put.place))
        else:
            for one in by_priority(put) if put.runs[1:] else (put,):
                priority = one.keys or (one.runs[0].priority if one.runs else 0)
                names = b"" if self._state.by_key is None else keys_of(one.headers)
                held = StagedBatch(0, one.size, term, due, until, priority, owner, names, of)
                batch = staged.keep(one.count, held)
                first, stop = first or batch.start, batch.stop
                segment = Segment(batch.start, one.offsets, one.blob, one.headers, wall)
                self._hand.add(self._home.queue, batch, segment)
                self._log.store(Body(batch.key, stored(segment)), Placed(batch.place))
        receipt = calls.Receipt(str(term), first, stop, put.size)
        self._tell_the_same(operation, receipt)
        self.tick()

    def publish(
        self, operation: OperationId, ask: calls.PublishStaged, *, numbered: bool = False
    ) -> None:
        """Puts all that is named at the tail."""
        if self._said_before(operation):
            return
        producers, publications = self._state.producers, self._state.publications
        number = ask.producer, ask.sequence
        earlier = producers.earlier(*number)
        if earlier is not None:  # rule 1
            other = publications.other(ask, items_of(ask.receipts), earlier)
            if other:
                self._decline(operation, "AlreadyPublished", other)
            else:
                self._tell(operation, put_before(self._log, self._state, earlier))
        elif past := producers.past(*number):
            self._decline(operation, "SequenceTooOld", past)
        elif crowded := producers.crowded(ask.producer):
            self._tell(operation, Declined("Full", crowded))  # asked again, there may be room
        elif (refused := self._refusal(ask)) is not None:
            self._decline(operation, *refused)
        elif self.numbering is not None and ask.receipts and not numbered:
            self.numbering.add((operation,), ask)
        else:
            where = self._put(ask.receipts)
            producers.note(*number, where, self._outbox.wall)
            publications.end(ask, producers.lately(ask.producer))
            self._tell(operation, put_done(self._log, where))

    def _refusal(self, ask: calls.PublishStaged) -> tuple[str, str] | None:
        """Why not, as an error's name and text (rule 2)."""
        queue = self._home.queue
        waiting = self._held(ask.receipts, owner_of(ask.producer))
        if missing := waiting.count([]):
            text = (
                f"{missing} of {len(ask.receipts)} batches are not staged in queue {queue!r} (any "
                "more): they were published, their time was over, or their disks were lost"
            )
            return "NotStaged", text
        items, found = items_of(ask.receipts), [one for some in waiting for one in some]
        size = sum(held.size for held in found)
        if not self._state.fits(items, size, *[held.names for held in found]):
            return "Full", no_room(self._home, self._state, items, size)
        return None

    def _held(self, receipts: Iterable[calls.Receipt], user: str) -> list[list[StagedBatch]]:
        """What waits under each receipt, of all its priorities; nothing if some of it does not.

        Nor if another user's is among it, or what a receipt before it names. So each batch is
        looked at once, however many receipts name it.
        """
        seen, all_ = set[int](), list[list[StagedBatch]]()
        for one in receipts:
            at, found = one.first, list[StagedBatch]()
            while at < one.stop and at not in seen:
                held = self._state.staged.named(at)
                if held is None or str(held.term) != one.stream or user not in ("", held.owner):
                    break
                seen.add(at)
                found.append(held)
                at = held.stop
            all_.append(found if at == one.stop else [])
        return all_

    def bring_in(self, word: Decided, of: TransactionName, *, numbered: bool = False) -> bool:
        """Puts what of a transaction is still staged; False while there is no room, or number."""
        user = owner_of(of.producer)
        receipts = word.receipts if word.committed else ()
        held = self._held(receipts, user)
        there = tuple([one for one, some in zip(receipts, held, strict=True) if some])
        if there and self.numbering is not None and not numbered:
            self.numbering.add((), replace(word, receipts=there))  # it comes again
            return False
        items, staged = items_of(there), [one for some in held for one in some]
        names = [one.names for one in staged]
        if not self._state.fits(items, sum(one.size for one in staged), *names):
            return False
        if there:
            self._put(there)
        self._state.staged.give_up(of)
        return True

    def _put(self, receipts: tuple[calls.Receipt, ...]) -> Edges:
        """All of them, in the order named; where they are."""
        state, found = self._state, dict[int, tuple[int, int]]()
        for one in receipts:
            at = one.first
            while at < one.stop:
                held = state.staged.take(at)
                own = held.priority
                priority = 0 if isinstance(own, bytes) else own
                batch = state.put(
                    held.stop - at,
                    held.size,
                    term=held.term,
                    due=delay(self._outbox, held.due),
                    priority=own,
                    place=at,
                    names=named_keys(held.names),
                )
                start, _ = found.get(priority, (batch.start, 0))
                found[priority], at = (start, batch.stop), held.stop
        wall, times = self._outbox.wall, state.times
        for priority, (start, _) in found.items():
            if wall > times.due[priority]:
                times.mark(start, wall, state.batches.live)
        edges = [edge for _, pair in sorted(found.items()) for edge in pair]
        return tuple(edges) or NOT_REMEMBERED

    def plan(self, operation: OperationId, ask: calls.Plan) -> None:
        """A producer says what goes where (rule 3)."""
        if self._said_before(operation):
            return
        producers, publications = self._state.producers, self._state.publications
        number = ask.producer, ask.sequence
        earlier, known = producers.earlier(*number), publications.named(number)
        items = sum(items_of(one.receipts) for one in ask.shares)
        shares = () if known is None else known.shares
        if shares or earlier is not None:
            other = publications.other(ask, items, earlier)
            if other:
                self._decline(operation, "AlreadyPublished", other)
            else:
                self._tell(operation, calls.Planned(shares, ended=earlier is not None))
        elif past := producers.past(*number):
            self._decline(operation, "SequenceTooOld", past)
        elif text := publications.too_many(ask):
            self._decline(operation, "Full", text)
        else:
            if ask.shares:
                publications.keep(number, PublicationRecord(ask.digest, items, ask.shares))
            self._tell(operation, calls.Planned(ask.shares))

    def _said_before(self, operation: OperationId) -> bool:
        # Rule 4.
        before = self._said.get(operation)
        if before is not None:
            self._tell(operation, before)
        return before is not None

    def _decline(self, operation: OperationId, error: str, text: str) -> None:
        self._tell_the_same(operation, Declined(error, text))

    def _tell_the_same(self, operation: OperationId, answer: calls.Receipt | Declined) -> None:
        """Whenever it is asked again (rule 4)."""
        self._tell(operation, keep(self._said, operation, answer, self._outbox.limits.answered))

    def _tell(self, operation: OperationId, answer: msgspec.Struct) -> None:
        self._log.owe(ReplyTo(operation, answer))

    def forget(self, operation: OperationId) -> None:
        """What it staged is not there, and it was not told."""
        self._said.pop(operation, None)

    def tick(self) -> list[TransactionName]:
        """Drops what nobody published in its time; of transactions, which home is to be asked."""
        staged = self._state.staged
        over = staged.drop(self._outbox.wall)
        if staged.next_end is not None:
            self._outbox.wake(self._outbox.instant_of(staged.next_end))
        return over
