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
from collections.abc import Iterable
from typing import Final

import msgspec

from snowmelt_world.check.history import NEVER, Ended, History, Kind, Operation, Value, rows
from snowmelt_world.check.verdict import Invalid, Undecided, Valid, Verdict

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


class Setting(msgspec.Struct, frozen=True):
    """What of a history matters to all its values; two parts of one add up."""

    moved: int = -1
    """When the last put, or get that found something, had returned."""
    empty: tuple[Operation, ...] = ()
    """What showed the queue to be empty, and began later."""
    lost_get: bool = False
    acknowledges: bool = False

    @classmethod
    def of(cls, history: Iterable[Operation]) -> "Setting":
        moved, empty, lost_get, acknowledges = -1, [], False, False
        for one in history:
            if one.ended is Ended.SUCCEEDED:
                if one.kind in (Kind.PUT, Kind.GET) and one.values:
                    moved = max(moved, one.until)
                elif one.kind in (Kind.DRAIN, Kind.GET) and one.called > moved:
                    empty.append(one)
            lost_get |= one.kind is Kind.GET and one.ended is Ended.UNKNOWN
            acknowledges |= (
                one.kind is Kind.ACK and one.ended is not Ended.FAILED and bool(one.values)
            )
        return cls(moved, _after(moved, empty), lost_get, acknowledges)

    def __add__(self, later: "Setting") -> "Setting":
        moved = max(self.moved, later.moved)
        empty = _after(moved, (*self.empty, *later.empty))
        lost_get = self.lost_get or later.lost_get
        return Setting(moved, empty, lost_get, self.acknowledges or later.acknowledges)

    @property
    def drain(self) -> Operation | None:
        """The strongest of what shows the queue to be empty, and of those the first."""
        first = (one for one in self.empty if one.kind is Kind.DRAIN)
        return next(first, next(iter(self.empty), None))


def _after(moved: int, empty: Iterable[Operation]) -> tuple[Operation, ...]:
    return tuple(one for one in empty if one.called > moved)


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
    return conserved(history, Setting.of(history))


def conserved(history: History, setting: Setting, counts: Counts | None = None) -> Verdict:
    """What a setting makes of values, if these are not all; `counts` then says how many all are."""
    ledger = _Ledger(history)
    counts = counts or ledger.counts(drained=setting.drain is not None)
    return (
        _invented(ledger, counts)
        or _revived(ledger, history, counts)
        or _lost(ledger, history, setting, counts)
        or Valid(NAME, counts)
    )


def added(parts: Iterable[Counts], setting: Setting) -> Counts:
    """The counts of all parts together."""
    rows_ = [msgspec.structs.asdict(one) for one in parts]
    sums = {name: sum(row[name] or 0 for row in rows_) for name in Counts.__struct_fields__}
    drained = setting.drain is not None
    told = drained or sums["undelivered"] == 0
    lost = sums["undelivered"] if told else None
    return Counts(**sums | {"lost": lost, "drained": drained})


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
    value, get = revived[0]
    return Undecided(
        NAME,
        f"{value!r} was put more than once and delivered after an acknowledgement; "
        "which of them was acknowledged can't be told: put distinct values",
        counts,
        (get,),
    )


def _lost(ledger: _Ledger, history: History, setting: Setting, counts: Counts) -> Verdict | None:
    undelivered = ledger.undelivered()
    if not undelivered:
        return None
    value = next(iter(undelivered))
    put = next(put for one, put in rows(history.succeeded(Kind.PUT)) if one == value)
    told = f"{_values(counts.undelivered)} put and not got"
    if setting.drain is None:
        reason = "nothing shows that the queue was emptied afterwards"
        return Undecided(NAME, f"{told}, and {reason}", counts, (put,))
    certain = setting.acknowledges and setting.drain.kind is Kind.DRAIN
    if setting.lost_get and not certain:
        reason = "a get whose outcome is unknown may have taken such a value"
        return Undecided(NAME, f"{told}, but {reason}", counts, (put,))
    lost = "1 value is lost" if counts.lost == 1 else f"{counts.lost} values are lost"
    sentence = f"{value!r} was put and never got, though the queue was emptied; {lost}"
    return Invalid(NAME, sentence, (put, setting.drain), counts)


def _values(count: int) -> str:
    return "1 value was" if count == 1 else f"{count} values were"
