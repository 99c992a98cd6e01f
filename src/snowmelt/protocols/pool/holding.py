"""What a consumer holds, says so while it does, and settles (rules 4 and 5)."""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Reply, Send
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.pool.alarms import Alarms, Effects
from snowmelt.protocols.pool.calls import Ack, Acked, Nack
from snowmelt.protocols.pool.messages import (
    PIECES_MAX,
    TOKENS_AT_ONCE,
    GiveBack,
    Hold,
    LoanSettled,
    ObjectsLent,
    ObjectSpan,
    Over,
    SettleLoan,
)
from snowmelt.protocols.pool.settings import LEASE_SHORTEST

ASK_AGAIN: Final = milliseconds(500)
LINGER: Final = milliseconds(5)
SAY: Final = ("say", None)
LONGEST: Final = seconds(50)
"""A settlement is asked again for less long than a producer remembers it."""


class HeldLoan(msgspec.Struct):
    token: int
    producer: NodeId
    spans: tuple[ObjectSpan, ...]
    lease: Duration
    parts: IntervalSet | None = None
    """What is open of it, once parts of it were named."""

    @property
    def open(self) -> IntervalSet:
        if self.parts is None:
            self.parts = IntervalSet(span.interval for span in self.spans)
        return self.parts

    @property
    def rest(self) -> tuple[Interval, ...]:
        """What is open, by name once that is not all: what went back before may be lost on its way.

        So a settlement of "all" would reach further than was meant.
        """
        whole = self.parts is None or self.parts.total == sum(span.count for span in self.spans)
        return () if whole else tuple(self.open)

    def has(self, intervals: tuple[Interval, ...]) -> bool:
        return not intervals or all(self.open.covers(interval) for interval in intervals)


class _Settling(msgspec.Struct):
    operation: OperationId
    held: HeldLoan
    word: SettleLoan
    deadline: Instant


class HeldLoans:
    def __init__(self, alarms: Alarms, grace: Duration) -> None:
        self.late = 0
        self._alarms = alarms
        self._grace = grace
        self._held: dict[int, HeldLoan] = {}
        self._unsaid: Effects = []
        self._settling: dict[int, _Settling] = {}

    def __contains__(self, token: int) -> bool:
        return token in self._held

    @property
    def settling(self) -> bool:
        return bool(self._settling)

    @property
    def any(self) -> bool:
        return bool(self._held)

    def needs(self, producer: NodeId) -> bool:
        """Whether anything of this one's is held, or is to be settled still."""
        return (
            any(held.producer == producer for held in self._held.values())
            or any(one.held.producer == producer for one in self._settling.values())
            or any(isinstance(one, Send) and one.target == producer for one in self._unsaid)
        )

    def __iter__(self) -> Iterator[HeldLoan]:
        return iter(list(self._held.values()))

    def begin(self, producer: NodeId, found: ObjectsLent, now: Instant) -> None:
        lease = max(found.lease, LEASE_SHORTEST)
        held = HeldLoan(found.token, producer, found.spans, lease)
        self._held[found.token] = held
        at, due = self._alarms.at(("hold", producer)), _renewal(held, now)
        if at is None or due < at:
            self._alarms.set(("hold", producer), due)

    def settle_soon(self, producer: NodeId, token: int, now: Instant) -> None:
        """At most once, a loan is done when it comes. Nobody waits to hear it, so it may linger."""
        if not self._unsaid:
            self._alarms.set(SAY, later(now, LINGER))
        self._unsaid.append(Send(producer, SettleLoan(0, token)))

    def say(self) -> Effects:
        """Sends the acknowledgements that have lingered."""
        self._alarms.cancel(SAY)
        unsaid, self._unsaid = self._unsaid, []
        return unsaid

    # --- what its own program says ----------------------------------------------------------------

    def ack(
        self, operation: OperationId, ack: Ack, number: Callable[[], int], now: Instant
    ) -> Effects:
        held = self._held.get(ack.token)
        if held is None or not held.has(ack.intervals):
            return [Reply(operation, self._too_late(ack.token))]
        intervals = ack.intervals or held.rest
        if len(intervals) > PIECES_MAX:
            text = f"{len(intervals)} stretches of objects; {PIECES_MAX} are settled at a time"
            return [Reply(operation, Declined("TooLarge", text))]
        word = SettleLoan(number() if ack.patience else 0, ack.token, intervals)
        send = Send(held.producer, word)
        if not ack.patience:
            self._close(held, intervals)
            return [send, Reply(operation, Acked())]
        deadline = later(now, min(ack.patience, LONGEST))
        self._settling[word.number] = _Settling(operation, held, word, deadline)
        self._alarms.set(("settle", word.number), min(deadline, later(now, ASK_AGAIN)))
        return [send]

    def nack(self, operation: OperationId, nack: Nack) -> Effects:
        held = self._held.get(nack.token)
        if held is None:
            return [Reply(operation, Acked())]  # they are back already
        intervals = nack.intervals or held.rest
        self._close(held, intervals)
        return [*_given_back(held, intervals), Reply(operation, Acked())]

    def let_go(self, token: int) -> Effects:
        """Nobody here will say anything of it: it is not renewed, and ends with its lease."""
        self._held.pop(token, None)
        return []

    def leave(self) -> Effects:
        """All goes back, but what is just being settled."""
        settling = [one.held.token for one in self._settling.values()]
        back = [held for held in self if held.token not in settling]
        for held in back:
            del self._held[held.token]
        return [word for held in back for word in _given_back(held, held.rest, used=True)]

    # --- what producers say -----------------------------------------------------------------------

    def settled(self, source: NodeId, word: LoanSettled) -> Effects:
        settling = self._settling.get(word.number)
        if settling is None or settling.held.producer != source:
            return []
        del self._settling[word.number]
        self._alarms.cancel(("settle", word.number))
        if word.lost:
            self._held.pop(settling.held.token, None)
            return [Reply(settling.operation, self._too_late(settling.held.token))]
        self._close(settling.held, settling.word.intervals)
        return [Reply(settling.operation, Acked())]

    def over(self, source: NodeId, word: Over) -> Effects:
        """Loans are over, and what they gave may be another's."""
        for token in word.tokens:
            held = self._held.get(token)
            if held is not None and held.producer == source:
                del self._held[token]
        return []

    def lost(self, producer: NodeId, now: Instant) -> None:
        """The way to a producer has ended: it has a grace to come back."""
        for number, settling in self._settling.items():
            if settling.held.producer == producer:
                settling.deadline = min(settling.deadline, later(now, self._grace))
                self._alarms.set(("settle", number), settling.deadline)

    def reached(self, producer: NodeId) -> Effects:
        """There is a way again: it is told at once what is held, and asked what was asked."""
        words: Effects = [
            Send(producer, one.word)
            for one in self._settling.values()
            if one.held.producer == producer
        ]
        return [*self._renew(producer), *words]

    # --- what is due ------------------------------------------------------------------------------

    def settle_due(self, number: int, now: Instant) -> Effects:
        settling = self._settling.get(number)
        if settling is None:
            return []
        if now < settling.deadline:
            due = min(settling.deadline, later(now, ASK_AGAIN))
            self._alarms.set(("settle", number), due)
            return [Send(settling.held.producer, settling.word)]
        del self._settling[number]
        self._close(settling.held, settling.word.intervals)
        text = f"{settling.held.producer} did not confirm it in time; it may be gone"
        return [Reply(settling.operation, Declined("OutcomeUnknown", text))]

    def hold_due(self, producer: NodeId, now: Instant) -> Effects:
        """A producer is to hear that its loans are in good hands."""
        mine = [held for held in self._held.values() if held.producer == producer]
        if not mine:
            return []
        shortest = min(mine, key=lambda held: held.lease)
        self._alarms.set(("hold", producer), _renewal(shortest, now))
        return self._renew(producer)

    def check(self) -> None:
        """Whatever is held is renewed, and whatever is asked is asked again."""
        for held in self._held.values():
            assert self._alarms.at(("hold", held.producer)) is not None, f"{held} runs out"
        for number in self._settling:
            assert self._alarms.at(("settle", number)) is not None

    def _renew(self, producer: NodeId) -> Effects:
        tokens = tuple(held.token for held in self._held.values() if held.producer == producer)
        return [
            Send(producer, Hold(tokens[at : at + TOKENS_AT_ONCE]))
            for at in range(0, len(tokens), TOKENS_AT_ONCE)
        ]

    def _close(self, held: HeldLoan, intervals: tuple[Interval, ...]) -> None:
        """These are not held any more, all of the loan when none is named."""
        for interval in intervals:
            held.open.remove(interval)
        if not intervals or not held.open.total:
            self._held.pop(held.token, None)

    def _too_late(self, token: int) -> Declined:
        self.late += 1
        text = f"loan {token} is over: its objects were acknowledged or given back before, or its"
        return Declined("LeaseLost", f"{text} lease ended, and they may be another's by now")


def _renewal(held: HeldLoan, now: Instant) -> Instant:
    return later(now, Duration(held.lease // 3))


def _given_back(held: HeldLoan, intervals: tuple[Interval, ...], *, used: bool = False) -> Effects:
    """As many at once as one word may name; none is all."""
    parts = [intervals[at : at + PIECES_MAX] for at in range(0, len(intervals), PIECES_MAX)]
    return [Send(held.producer, GiveBack(held.token, part, used)) for part in parts or [()]]
