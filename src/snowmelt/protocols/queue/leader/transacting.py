"""A leader's part in transactions: as the home that decides, and as one that has a part in them.

The rules are those of `transactions.py`. What is said again, and when, is here: a leader that
begins knows of nothing that was said, so it says all of it anew.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

import msgspec

from snowmelt.core.ends import Ends
from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.core.interval import IntervalSet, merged
from snowmelt.core.names import OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.leader.delivery import DeliveryBuilder
from snowmelt.protocols.queue.leader.getting import Getting
from snowmelt.protocols.queue.leader.open_calls import Answers, keep
from snowmelt.protocols.queue.leader.part import LeaderPart, Own
from snowmelt.protocols.queue.leader.publishing import Publishing
from snowmelt.protocols.queue.leader.settling import lease_over, not_held
from snowmelt.protocols.queue.messages.words import (
    AskDecision,
    Decided,
    PartDone,
    ReplyTo,
    ToLeaderOf,
)
from snowmelt.protocols.queue.state.producers import NOT_REMEMBERED
from snowmelt.protocols.queue.state.state import Lease
from snowmelt.protocols.queue.state.transactions import Name, OpenTransaction, TransactionName

AGAIN_AFTER: Final = milliseconds(500)
ASK_AFTER: Final = seconds(5)
"""So long after it was promised, and again and again, its home is asked (rule 2)."""
CLOSES_FOR: Final = seconds(1)
"""So long after somebody asked to delete it a queue decides nothing: that is asked again."""
AT_ONCE: Final = 100
"""So many questions, or decisions told again, in one turn."""


class Transacting(LeaderPart):
    """Of one queue, in one term."""

    def __init__(
        self, own: Own, publishing: Publishing, delivery: DeliveryBuilder, getting: Getting
    ) -> None:
        super().__init__(own)
        self._publishing = publishing
        self._delivery = delivery
        self._deadlines = getting.deadlines
        self._tokens = getting.tokens
        self._said: Answers[msgspec.Struct] = OrderedDict()
        self._waiting: dict[Name, dict[OperationId, None]] = {}
        """Calls that are answered when all parts are done."""
        self._patience: Ends[OperationId] = Ends()
        self._names: dict[OperationId, Name] = {}
        self.waits = 0
        """How many those are."""
        self._told: dict[Name, Instant] = {}
        """When each open one was told last."""
        self._decides_at = self._outbox.now
        """When something is decided again: the queue is to be deleted."""
        self._asked: dict[TransactionName, Instant] = {}
        """When a home was asked last, or there was no need yet."""
        if self._state.transactions.open or self._state.transactions.promised:
            self._outbox.wake(self._outbox.now)

    # --- at its home ------------------------------------------------------------------------------

    def commit(self, operation: OperationId, ask: calls.Commit) -> None:
        """Decides one (rule 3); its client is answered when all parts are done, or time is over."""
        name = ask.producer, ask.sequence
        producers, known = self._state.producers, self._state.transactions
        if operation in self._said:
            self._tell(operation, self._said[operation])
        elif name in known.open:
            self._wait(operation, name, ask)
        elif producers.earlier(*name) is not None:
            self._tell(operation, calls.Committed())
        elif past := producers.past(*name):
            self._decline(operation, "NotStaged", f"this step was given up: {past}")
        elif full := producers.crowded(ask.producer):
            self._decline(operation, "Full", full)
        elif ask.give_up:  # rule 9
            producers.close(*name, self._outbox.wall)
            self._decline(operation, "NotStaged", "this step was given up, as its client asked")
        elif full := known.too_many(ask) or self._closing(ask):
            self._decline(operation, "Full", full)
        elif lost := self._lost(ask.settles):
            self._decline(operation, "LeaseLost", lost)
        else:
            self._decide(operation, name, ask)

    def _decide(self, operation: OperationId, name: Name, ask: calls.Commit) -> None:
        state, home = self._state, self._home
        for one in ask.settles:
            state.settle(one.token, merged(one.done))
        self._forget_ended(ask.settles)
        state.producers.note(*name, NOT_REMEMBERED, self._outbox.wall)
        left: OpenTransaction | None = OpenTransaction(ask.shares, ask.sources)
        full = TransactionName(home.queue, *name)
        own = [one.receipts for one in ask.shares if one.queue == home.queue]
        if own and left is not None:
            word = self._decided(home.queue, name, own[0], committed=True)
            if self._publishing.bring_in(word, full):
                left = left.without(home.queue)
        if left is None or not left.queues:
            self._tell(operation, calls.Committed())
            return
        state.transactions.keep(name, left)
        self._send(name, left)
        self._wait(operation, name, ask)

    def close(self) -> int:
        """The queue is to be deleted: how many are open. No more are decided for now (rule 8)."""
        count = len(self._state.transactions.open)
        if count:
            self._decides_at = later(self._outbox.now, CLOSES_FOR)
        return count

    def _closing(self, ask: calls.Commit) -> str:
        """Why nothing is decided now."""
        if self._outbox.now >= self._decides_at:
            return ""
        return f"queue {ask.queue!r} is to be deleted, when the steps are done that it decided"

    def _forget_ended(self, settles: Iterable[calls.Settle]) -> None:
        for one in settles:
            if one.token not in self._state.leases:
                self._deadlines.forget(one.token)

    def _lost(self, settles: Iterable[calls.Settle]) -> str:
        """Why what was taken is not all held any more."""
        for one in settles:
            lease = self._state.leases.get(one.token)
            if lease is None or lease.secret != one.secret or lease.promised is not None:
                return lease_over(self._home.queue, one.token, "nothing of this step was done")
            for where in one.done:
                if not lease.left.covers(where):
                    return not_held(one.token, where.start)
        return ""

    def _send(self, name: Name, what: OpenTransaction, *, again: bool = False) -> None:
        """Tells all that have a part which is not done (rule 4)."""
        self._told[name] = self._outbox.now
        self._outbox.wake(later(self._outbox.now, AGAIN_AFTER))
        for queue, receipts in what.queues.items():
            self._owe(self._decided(queue, name, receipts, committed=True), again=again)

    def _decided(
        self, to: str, name: Name, receipts: tuple[calls.Receipt, ...], *, committed: bool
    ) -> Decided:
        return Decided(self._home.queue, self._home.term, to, *name, committed, receipts)

    def part_done(self, word: PartDone) -> None:
        """A queue did its part; with the last one all is over."""
        name, known = (word.producer, word.number), self._state.transactions
        what = known.open.get(name)
        if what is not None and word.queue in what.queues and known.done(name, word.queue):
            self._told.pop(name, None)
            for operation in list(self._waiting.get(name, ())):
                self.gone(operation)  # all that is told is safe: those who did it have said so
                self._delivery.pay(ReplyTo(operation, calls.Committed()))

    def asked(self, word: AskDecision) -> None:
        """A queue asks what was decided; what nobody knows is given up (rule 5)."""
        name, state = (word.producer, word.number), self._state
        what, committed = state.transactions.open.get(name), True
        receipts = () if what is None else what.queues.get(word.queue, ())
        if what is None and state.producers.earlier(*name) is None:
            committed = False
            if not state.producers.past(*name):
                if state.producers.crowded(word.producer):
                    return  # it is asked again
                state.producers.close(*name, self._outbox.wall)
        self._owe(self._decided(word.queue, name, receipts, committed=committed), again=True)

    # --- who waits for that -----------------------------------------------------------------------

    def _wait(self, operation: OperationId, name: Name, ask: calls.Commit) -> None:
        if operation in self._names:
            return
        waiting = self._waiting.setdefault(name, {})
        if len(waiting) >= self._outbox.limits.attempts:
            what = self._state.transactions.open[name]
            self._tell(operation, calls.Committed(len(what.queues)))
            return
        end = later(self._outbox.now, ask.patience)
        waiting[operation] = None
        self._names[operation] = name
        self.waits += 1
        self._patience.put(operation, end)
        self._outbox.wake(end)

    def gone(self, operation: OperationId) -> None:
        """It is answered, or nobody waits for it."""
        name = self._names.pop(operation, None)
        if name is not None:
            self.waits -= 1
            self._patience.forget(operation)
            del self._waiting[name][operation]
            if not self._waiting[name]:
                del self._waiting[name]

    # --- where it has a part ----------------------------------------------------------------------

    def promise(self, operation: OperationId, ask: calls.Promise) -> None:
        """What was taken here is from now on that transaction's alone (rule 2)."""
        state, name = self._state, TransactionName(ask.home, ask.producer, ask.sequence)
        if operation in self._said:
            self._tell(operation, self._said[operation])
            return
        own = [state.leases.get(token) for token in state.transactions.promised.get(name, ())]
        if any(_has_all(one, ask.settles) for one in own):  # it is asked again
            self._tell(operation, calls.Settled(0))
            return
        if lost := self._lost(ask.settles):
            self._decline(operation, "LeaseLost", lost)
            return
        token, left = next(self._tokens), IntervalSet()
        for one in ask.settles:
            lease = state.leases[one.token]
            for part in reversed(merged(one.done)):
                lease.left.remove(part)
                left.add(part)
            state.touch(one.token)
            if not lease.left.total:
                state.end_lease(one.token)
        state.leases[token] = Lease(operation, left, promised=name)
        state.tokens[operation] = token
        state.transactions.promise(name, token)
        state.touch(token)
        self._forget_ended(ask.settles)
        self._asked[name] = self._outbox.now
        self._outbox.wake(later(self._outbox.now, ASK_AFTER))
        self._tell(operation, calls.Settled(0))

    def decided(self, word: Decided, *, numbered: bool = False) -> None:
        """The home says what was decided (rule 6); where there is no room it is told again."""
        state, name = self._state, TransactionName(word.queue, word.producer, word.number)
        repeated = name not in state.transactions.promised and not state.staged.has(name)
        if not self._publishing.bring_in(word, name, numbered=numbered):
            return
        for token in state.transactions.promised.pop(name, ()):
            lease = state.leases.get(token)
            if lease is not None and word.committed:
                state.settle(token, list(lease.left))
            elif lease is not None:
                state.expire(token, "")
        self._asked.pop(name, None)
        if word.committed:
            home = self._home
            done = PartDone(home.queue, home.term, word.queue, word.producer, word.number)
            self._owe(done, again=repeated)  # another may lead there by now

    # --- time -------------------------------------------------------------------------------------

    def tick(self, over: list[TransactionName]) -> None:
        """Says again, and asks, also after what was staged for longer than its hold."""
        now, known = self._outbox.now, self._state.transactions
        for operation in self._patience.over(now):
            what = known.open.get(self._names[operation])
            self.gone(operation)
            self._tell(operation, calls.Committed(0 if what is None else len(what.queues)))
        told = self._told
        silent = [
            one for one in known.open if one not in told or later(told[one], AGAIN_AFTER) <= now
        ]
        for name in silent[:AT_ONCE]:
            self._send(name, known.open[name], again=name in self._told)
        if known.open:
            self._outbox.wake(later(now, AGAIN_AFTER))
        asked, home = self._asked, self._home
        for promised in known.promised:
            asked.setdefault(promised, now)
        some = (*known.promised, *over)
        late = [one for one in some if one not in asked or later(asked[one], ASK_AFTER) <= now]
        for full in late[:AT_ONCE]:
            word = AskDecision(home.queue, home.term, full.home, full.producer, full.number)
            self._owe(word, again=full in asked)
            asked[full] = now
        if known.promised:
            self._outbox.wake(later(now, ASK_AFTER))

    def _owe(self, word: Decided | PartDone | AskDecision, *, again: bool = False) -> None:
        """It is said when all that it says is safe."""
        self._log.owe(ToLeaderOf(word, again))

    def _tell(self, operation: OperationId, answer: msgspec.Struct) -> None:
        self._log.owe(ReplyTo(operation, answer))

    def _decline(self, operation: OperationId, error: str, text: str) -> None:
        declined = Declined(error, text)
        self._tell(operation, keep(self._said, operation, declined, self._outbox.limits.answered))


def _has_all(lease: Lease | None, settles: Iterable[calls.Settle]) -> bool:
    return lease is not None and all(
        lease.left.covers(where) for one in settles for where in one.done
    )
