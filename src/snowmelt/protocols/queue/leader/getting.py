"""Gets of one queue, in one term of its leader: served in their order, or left.

1. A get that finds nothing waits, for its patience at most. Whoever only wants what is more urgent
   than what it has (`Get.before`) does not wait.
2. The same get has the same lease. One that was answered with nothing is answered so again.
3. A client says that it *leaves* a get (`calls.CancelGet`). One that waits is answered with
   nothing, at once. What one was leased goes back, and that does not count as a delivery that
   failed: nobody took it. One that comes only after its leave settles what it came to settle, and
   has nothing.
4. A client is gone when its last connection to this node closed. Then it leaves what waits here,
   and what was leased and is not told yet. It may live, and ask again under the same number: so
   nothing is remembered of that, and it may have something then.
"""

from collections import OrderedDict
from collections.abc import Iterator

from snowmelt.core.instant import later
from snowmelt.core.names import OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.leader.deadlines import Deadlines
from snowmelt.protocols.queue.leader.open_calls import Answers, keep
from snowmelt.protocols.queue.leader.part import LeaderPart, Own
from snowmelt.protocols.queue.leader.waiting import WaitingGets
from snowmelt.protocols.queue.messages.words import Deliver, ReplyTo
from snowmelt.protocols.queue.state.pacing import Pace


class Getting(LeaderPart):
    """Of one queue, in one term."""

    def __init__(
        self, own: Own, deadlines: Deadlines, tokens: Iterator[int], pace: Pace | None
    ) -> None:
        super().__init__(own)
        self.waiting = WaitingGets()
        self.deadlines = deadlines
        self.tokens = tokens
        self.pace = pace
        self._had: Answers[bool] = OrderedDict()
        """Gets that were answered with nothing, or left."""

    def waits(self, operation: OperationId) -> bool:
        """Whether it is asked again, and waits: so it goes on waiting."""
        waiting = self.waiting.gets.get(operation)
        if waiting is None:
            return False
        waiting.asked = self._outbox.now
        return True

    def get(self, operation: OperationId, get: calls.Get, refused: str) -> None:
        """A consumer wants items; `refused` is why what it came to settle was not."""
        limits, waiting = self._outbox.limits, self.waiting
        token = self._state.tokens.get(operation)
        if token is not None:
            self._log.owe(Deliver(operation, token, refused))
        elif operation in self._had or self._state.takers.had(operation):
            self._empty(operation, refused)
        elif self._lease(operation, get, refused):
            return
        elif get.patience <= 0 or get.before >= 0:
            self._empty(operation, refused)
        elif not waiting.has_room(operation.client, limits.waiting_gets):
            text = f"{len(waiting.gets)} gets wait at queue {self._home.queue!r} already"
            self._log.owe(ReplyTo(operation, Declined("Unavailable", text)))
        else:
            waiting.add_get(operation, get, refused, self._outbox.now)
            self._outbox.wake(later(self._outbox.now, get.patience))

    def _lease(self, operation: OperationId, get: calls.Get, refused: str) -> bool:
        state, limits = self._state, self._outbox.limits
        if not state.ready.total:
            return False
        items_max = min(get.items_max, limits.get_items)
        bytes_max = min(get.bytes_max, limits.fetch_bytes)
        ahead = get.ahead and self._home.settings.deliveries_max > 1
        if get.ahead and not ahead:  # each delivery is the last
            items_max = 1
        before, together = get.before, get.together
        found = state.first(items_max, bytes_max, before=before, together=together, pace=self.pace)
        if not found:
            return False
        token = next(self.tokens)
        secret = self._outbox.secret()
        state.take(operation, token, found, ahead=ahead, length=get.lease, secret=secret)
        self._log.owe(Deliver(operation, token, refused))
        return True

    def _empty(self, operation: OperationId, refused: str) -> None:
        keep(self._had, operation, True, self._outbox.limits.answered)
        answer = calls.Leased(0, (), (), self._home.settings.lease, refused)
        self._log.owe(ReplyTo(operation, answer))

    def serve(self) -> None:
        """Items may have become ready, or patience has ended."""
        waiting, now = self.waiting, self._outbox.now
        while self._state.ready.total and (one := waiting.first(now)) is not None:
            if not self._lease(one.operation, one.get, one.refused):
                break
            waiting.leave(one.operation)
        for over in waiting.over(now):
            self._empty(over.operation, over.refused)

    # --- those that nobody waits for --------------------------------------------------------------

    def leave(self, operation: OperationId, get: OperationId) -> None:
        """Its client waits for it no more (rule 3)."""
        waiting = self.waiting.gets.get(get)
        if waiting is not None:
            self.waiting.leave(get)
            self._empty(get, waiting.refused)
        else:
            self._take_back(get)
            keep(self._had, get, True, self._outbox.limits.answered)
        self._log.owe(ReplyTo(operation, calls.GetCancelled()))

    def gone(self, get: OperationId) -> None:
        """The connections of its client closed before it was answered (rule 4)."""
        self.waiting.leave(get)
        self._take_back(get)
        self._state.takers.forget(get)

    def _take_back(self, get: OperationId) -> None:
        token = self._state.tokens.get(get)
        if token is not None:
            self._state.give_back(get, token, list(self._state.leases[token].left))
            self.deadlines.forget(token)

    def check(self) -> None:
        """What was answered with nothing, or left, waits for nothing and holds nothing."""
        assert not any(one in self._had for one in self.waiting.gets), "one that left waits"
        assert not any(one in self._had for one in self._state.tokens), "one that left has a lease"

    def expired(self, get: OperationId) -> None:
        """Its lease ended by itself, and it may have something anew (`state.py`, rule 4)."""
        self._had.pop(get, None)
