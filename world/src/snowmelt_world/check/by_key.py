"""Order and limits by key, as those saw it who put and got.

1. *In order.* Of a key, what stands behind an item is got only when that one has ended: somebody
   began to acknowledge it before. Or both came with one get. Items that were set aside as dead are
   not known here, so where some may be, nothing is said.
2. *At once.* An item is in hand for certain from when its get returned until somebody began to say
   what became of it, or until `held`. No more are at any moment than the limit says.
3. *In a second.* A lease was given while its get lasted. So many gets as the limit says may lie
   within one second from the first one's call to the last one's return; one more may not.
4. *Fair.* With the last item of a key in a get, so many of it were in hand for certain; of another
   key, of which an item was ready for certain all the time that the get lasted, so many at most.
   Of a key of weight w each w whole ones count as one; the other key's may not be fewer. It is for
   histories without other limits, without delays, and in which no get's answer was lost.

In none of them is anything wrong that might have been right: what is not certain is let pass. The
world's clock must go as leaders' do.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from heapq import heappop, heappush
from typing import Final

from snowmelt.core.instant import SECOND
from snowmelt_world.check.history import NEVER, History, Kind, Operation, Value, rows
from snowmelt_world.check.verdict import Invalid, Valid, Verdict

IN_ORDER: Final = "in_order_by_key"
AT_ONCE: Final = "at_once"
PER_SECOND: Final = "per_second"
FAIR: Final = "fair"
ALL: Final = "all items"


def _keys(history: History) -> dict[Value, str]:
    """Of what has one."""
    return {
        value: key
        for one in history
        if one.keys
        for value, key in zip(one.values, one.keys, strict=True)
        if key
    }


def check_in_order_by_key(history: History) -> Verdict:
    """Rule 1.

    >>> print(check_in_order_by_key(History.of([
    ...     Operation("p", Kind.PUT, ("a", "b"), 1, 2, positions=(0, 1), keys=("k", "k")),
    ...     Operation("c", Kind.GET, ("b",), 3, 4, positions=(1,)),
    ... ])))
    in_order_by_key: invalid: 'b' of key 'k' was got before 'a' had ended
        p put 'a' 'b' [1, 2]
        c get 'b' [3, 4]
    """
    keys, places = _keys(history), dict[Value, tuple[int, Operation]]()
    for kind in (Kind.GET, Kind.PUT):
        for one in history.succeeded(kind):
            if one.positions:
                places |= {
                    value: (at, one) for value, at in zip(one.values, one.positions, strict=True)
                }
    ends: dict[Value, int] = {}
    for value, ack in rows(history.attempted(Kind.ACK)):
        ends[value] = min(ends.get(value, NEVER), ack.called)
    first: dict[Value, Operation] = {}
    for value, get in rows(history.succeeded(Kind.GET)):
        if value not in first or get.until < first[value].until:
            first[value] = get
    lines: dict[str, list[tuple[int, Value]]] = defaultdict(list)
    for value, (at, _) in places.items():
        if value in keys:
            lines[keys[value]].append((at, value))
    for key, line in lines.items():
        behind: list[tuple[int, Value]] = []
        for _, value in sorted(line, key=lambda one: one[0]):
            if value in first:
                came = first[value]
                late = [one for one in behind if one[0] > came.until and one[1] not in came.values]
                if late:
                    _, before = max(late, key=lambda one: one[0])
                    sentence = f"{value!r} of key {key!r} was got before {before!r} had ended"
                    return Invalid(IN_ORDER, sentence, (places[before][1], came))
            behind.append((ends.get(value, NEVER), value))
    return Valid(IN_ORDER)


def check_at_once(history: History, most: int, *, by_key: bool) -> Verdict:
    """Rule 2, of each key or of all.

    >>> print(check_at_once(History.of([
    ...     Operation("c", Kind.GET, ("a",), 1, 2, token=1, held=9),
    ...     Operation("d", Kind.GET, ("b",), 3, 4, token=2, held=9),
    ... ]), 1, by_key=False))
    at_once: invalid: 2 of all items were in hand, and 1 may be
        c get 'a' [1, 2]
        d get 'b' [3, 4]
    """
    said: dict[tuple[Value, int | None], int] = {}
    for kind in (Kind.ACK, Kind.BACK):
        for value, one in rows(history.attempted(kind)):
            name = value, one.token
            said[name] = min(said.get(name, NEVER), one.called)
    for what, gets in _sorted(history, by_key=by_key):
        hand: list[tuple[int, int, Operation]] = []
        for number, (value, get) in enumerate(sorted(gets, key=lambda one: one[1].until)):
            while hand and hand[0][0] <= get.until:
                heappop(hand)
            end = min(said.get((value, get.token), NEVER), NEVER if get.held is None else get.held)
            if end > get.until:
                heappush(hand, (end, number, get))
            if len(hand) > most:
                sentence = f"{len(hand)} of {what} were in hand, and {most} may be"
                return Invalid(AT_ONCE, sentence, tuple([one for *_, one in sorted(hand)]))
    return Valid(AT_ONCE)


def check_per_second(history: History, most: int, *, by_key: bool, second: int = SECOND) -> Verdict:
    """Rule 3, of each key or of all; a second lasts so long, by the fastest clock.

    >>> gets = [Operation("c", Kind.GET, (n,), n * 10**8, n * 10**8 + 5) for n in range(3)]
    >>> print(check_per_second(History.of(gets), 2, by_key=False))
    per_second: invalid: 3 of all items were given within a second, and 2 may be
        c get 0 [0, 5]
        c get 1 [100000000, 100000005]
        c get 2 [200000000, 200000005]
    """
    for what, gets in _sorted(history, by_key=by_key):
        begun = sorted([get.called for _, get in gets])
        by_end = sorted([get for _, get in gets], key=lambda one: one.until)
        for called in begun:
            within = [one for one in by_end if called <= one.called and one.until < called + second]
            if len(within) > most:
                sentence = f"{len(within)} of {what} were given within a second, and {most} may be"
                return Invalid(PER_SECOND, sentence, tuple(within))
    return Valid(PER_SECOND)


def check_fair(history: History, weights: Mapping[str, int]) -> Verdict:
    """Rule 4.

    >>> put = Operation("p", Kind.PUT, ("a", "b", "c"), 1, 2, keys=("k", "k", "other"))
    >>> gets = [Operation("c", Kind.GET, (one,), at, at + 1) for one, at in (("a", 3), ("b", 5))]
    >>> print(check_fair(History.of([put, *gets]), {"k": 2}))
    fair: valid
    >>> print(check_fair(History.of([put, *gets]), {"other": 2}))
    fair: invalid: 'k' came with 1 in hand, and 'other' was ready with 0
        c get 'b' [5, 6]
    """
    keys, since = dict[Value, str](), dict[Value, int]()
    for put in history.succeeded(Kind.PUT):
        keys |= zip(put.values, put.keys or ("",) * len(put.values), strict=True)
        since |= dict.fromkeys(put.values, put.until)
    ends: dict[tuple[Value, int | None], Operation] = {}
    for kind in (Kind.ACK, Kind.BACK):
        ends |= {(value, one.token): one for value, one in rows(history.attempted(kind))}
    gets = history.succeeded(Kind.GET)
    stays = [(value, get, ends.get((value, get.token))) for value, get in rows(gets)]
    for get in gets:
        surely, perhaps, away = _hands(get, stays)
        sure, most = (Counter([keys[one] for one in some]) for some in (surely, perhaps))
        ready = {keys[one] for one, at in since.items() if at <= get.called and one not in away}
        for key, more in Counter([keys[one] for one in get.values]).items():
            mine = sure[key] + more - 1
            for other in sorted(ready - {key}):
                if most[other] // weights.get(other, 1) < mine // weights.get(key, 1):
                    said = f"{key!r} came with {mine} in hand, and {other!r} was ready with"
                    return Invalid(FAIR, f"{said} {most[other]}", (get,))
    return Valid(FAIR)


def _hands(
    get: Operation, stays: Iterable[tuple[Value, Operation, Operation | None]]
) -> tuple[list[Value], list[Value], set[Value]]:
    """What was in hand besides while a get lasted, or perhaps was; and what was not there then."""
    surely, perhaps, away = list[Value](), list[Value](), set[Value]()
    for value, own, end in stays:
        if own.called >= get.until and own is not get:
            continue
        over = end is not None and end.until <= get.called
        if not over:
            perhaps.append(value)
        if not over or end is None or end.kind is Kind.ACK:
            away.add(value)
        if own.until <= get.called and (end is None or end.called >= get.until):
            surely.append(value)
    return surely, perhaps, away


def _sorted(
    history: History, *, by_key: bool
) -> Iterator[tuple[str, list[tuple[Value, Operation]]]]:
    """Gets of each key, or of all; each lease once."""
    keys, seen = _keys(history), Counter[tuple[Value, int | None]]()
    found: dict[str, list[tuple[Value, Operation]]] = defaultdict(list)
    for value, get in rows(history.succeeded(Kind.GET)):
        seen[value, get.token] += 1
        if seen[value, get.token] > 1 and get.token is not None:
            continue
        if not by_key:
            found[ALL].append((value, get))
        elif value in keys:
            found[f"key {keys[value]!r}"].append((value, get))
    yield from found.items()
