"""Conservation: what was put comes out, and nothing else does.

A queue that delivers at least once may deliver a value again, but it may not lose one, invent one,
or deliver one that was already acknowledged. With every value counted as often as it occurs
(the total-queue check of Jepsen, and acknowledgements added to it):

- undelivered: the put succeeded, and no get returned the value;
- lost: undelivered although the queue was emptied;
- unexpected: got, but by then no put of it had been attempted, or each had failed;
- duplicated: got more often than its put was attempted: counted, and allowed;
- recovered: got although no put of it is known to have succeeded: counted, and allowed;
- revived: got by a get that was called after an acknowledgement of the value had returned.

Lost, unexpected and revived are violations. Two things must be certain before a value is lost:

1. The queue was emptied. It shows in a `DRAIN`, or else in a get that found nothing, when it was
   called after every put, and every get that found something, had returned.
2. No get whose outcome is unknown took the value with it. Where items are leased, and there is an
   acknowledgement in the history to show it, a get that got lost only delays, but a get that
   finds nothing does not see what is leased: there a `DRAIN` is needed. Where they are not leased,
   nothing can tell.

One pass over the operations, O(n).
"""

from collections import Counter
from typing import Final

import msgspec

from snowmelt.check.history import NEVER, Ended, History, Kind, Operation, Value, rows
from snowmelt.check.verdict import Invalid, Undecided, Valid, Verdict

NAME: Final = "conservation"


class Counts(msgspec.Struct, frozen=True):
    """How many values went which way. `lost` is None where it can't be judged."""

    put: int
    got: int
    undelivered: int
    lost: int | None
    unexpected: int
    duplicated: int
    recovered: int
    revived: int
    drained: bool


class _Ledger:
    """The values of a history, counted."""

    def __init__(self, history: History) -> None:
        puts = history.attempted(Kind.PUT)
        self.gets = history.succeeded(Kind.GET)
        self.put = Counter(value for value, _ in rows(history.succeeded(Kind.PUT)))
        self.attempted = Counter(value for value, _ in rows(puts))
        self.got = Counter(value for value, _ in rows(self.gets))
        self.first_put: dict[Value, int] = {}
        for value, put in rows(puts):
            self.first_put[value] = min(put.called, self.first_put.get(value, NEVER))
        # Who acknowledges a value has it, even if the answer to its get was never recorded.
        self.acknowledging = {value for value, _ in rows(history.attempted(Kind.ACK))}
        self.first_ack: dict[Value, Operation] = {}
        for value, ack in rows(history.succeeded(Kind.ACK)):
            held = self.first_ack.setdefault(value, ack)
            if ack.until < held.until:
                self.first_ack[value] = ack

    def undelivered(self) -> dict[Value, int]:
        """The values put and not got, and how often."""
        return {
            value: count - self.got[value]
            for value, count in self.put.items()
            if count > self.got[value] and value not in self.acknowledging
        }

    def unexpected(self) -> list[tuple[Value, Operation]]:
        """The deliveries that no put explains."""
        first = self.first_put
        return [
            (value, get) for value, get in rows(self.gets) if get.until < first.get(value, NEVER)
        ]

    def revived(self) -> list[tuple[Value, Operation]]:
        """The deliveries after an acknowledgement, of whatever was put at least once."""
        return [
            (value, get)
            for value, get in rows(self.gets)
            if value in self.first_ack and self.first_ack[value].until < get.called
        ]

    def counts(self, drained: bool) -> Counts:
        """All of it, each value as often as it occurs."""
        extra = self.got - self.attempted
        undelivered = sum(self.undelivered().values())
        return Counts(
            put=self.put.total(),
            got=self.got.total(),
            undelivered=undelivered,
            lost=undelivered if drained or undelivered == 0 else None,
            unexpected=len(self.unexpected()),
            duplicated=sum(count for value, count in extra.items() if value in self.attempted),
            recovered=sum(value in self.attempted and value not in self.put for value in self.got),
            revived=len(self.revived()),
            drained=drained,
        )


def check_conservation(history: History) -> Verdict:
    """Nothing is lost, invented, or delivered after it was acknowledged.

    >>> history = History.of([
    ...     Operation("p1", Kind.PUT, ("a", "b"), 1, 2),
    ...     Operation("p2", Kind.GET, ("b",), 3, 4),
    ... ])
    >>> print(check_conservation(history))
    conservation: unknown: 1 value was put and not got, and nothing shows that the queue was \
emptied afterwards
    >>> drain = Operation("p2", Kind.GET, (), 5, 6)
    >>> print(check_conservation(History.of([*history, drain])))
    conservation: invalid: 'a' was put and never got, though the queue was emptied; 1 value is lost
        p1 put 'a' 'b' [1, 2]
        p2 get nothing [5, 6]
    """
    ledger = _Ledger(history)
    drains = _drains(history)
    counts = ledger.counts(drained=bool(drains))
    return (
        _invented(ledger, counts)
        or _revived(ledger, history, counts)
        or _lost(ledger, history, drains, counts)
        or Valid(NAME, counts)
    )


def _drains(history: History) -> list[Operation]:
    """The operations that show the queue to be empty, the strongest first."""
    moved = [one for one in history if one.kind in (Kind.PUT, Kind.GET) and one.values]
    last = max((one.until for one in moved if one.ended is Ended.SUCCEEDED), default=-1)
    empty = [get for get in history.succeeded(Kind.GET) if not get.values]
    return [one for one in history.succeeded(Kind.DRAIN) + empty if one.called > last]


def _invented(ledger: _Ledger, counts: Counts) -> Verdict | None:
    unexpected = ledger.unexpected()
    if not unexpected:
        return None
    value, get = unexpected[0]
    sentence = f"{value!r} was got, and by then no put of it had been attempted or all had failed"
    return Invalid(NAME, sentence, (get,), counts)


def _revived(ledger: _Ledger, history: History, counts: Counts) -> Verdict | None:
    revived = ledger.revived()
    for value, get in revived:
        if ledger.attempted[value] == 1:
            put = next(put for one, put in rows(history.attempted(Kind.PUT)) if one == value)
            sentence = f"{value!r} was delivered after it had been acknowledged"
            return Invalid(NAME, sentence, (put, ledger.first_ack[value], get), counts)
    if not revived:
        return None
    value, _ = revived[0]
    return Undecided(
        NAME,
        f"{value!r} was put more than once and delivered after an acknowledgement; "
        "which of them was acknowledged can't be told: put distinct values",
        counts,
    )


def _lost(
    ledger: _Ledger, history: History, drains: list[Operation], counts: Counts
) -> Verdict | None:
    undelivered = ledger.undelivered()
    if not undelivered:
        return None
    if not drains:
        reason = "nothing shows that the queue was emptied afterwards"
        return Undecided(
            NAME, f"{_values(counts.undelivered)} put and not got, and {reason}", counts
        )
    certain = bool(ledger.acknowledging) and drains[0].kind is Kind.DRAIN
    if history.unknown(Kind.GET) and not certain:
        reason = "a get whose outcome is unknown may have taken such a value"
        return Undecided(
            NAME, f"{_values(counts.undelivered)} put and not got, but {reason}", counts
        )
    value = next(iter(undelivered))
    put = next(put for one, put in rows(history.succeeded(Kind.PUT)) if one == value)
    lost = "1 value is lost" if counts.lost == 1 else f"{counts.lost} values are lost"
    sentence = f"{value!r} was put and never got, though the queue was emptied; {lost}"
    return Invalid(NAME, sentence, (put, drains[0]), counts)


def _values(count: int) -> str:
    return "1 value was" if count == 1 else f"{count} values were"
