"""Bodies with their priorities, cut into calls, and made what a queue's settings ask for.

What goes in one call goes in the order of its priorities, of equal ones the first first: so what is
got together lies together, and a get of a thousand from a hundred puts is some hundred stretches.
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import Any, Final, cast

import msgspec

from snowmelt.client.queue.bodies import (
    AHEAD,
    CALL_BYTES,
    CALL_ITEMS,
    Parcel,
    as_bytes,
    parcels,
    together,
)
from snowmelt.core.batch import OFFSET_BYTES, Batch, Buffer
from snowmelt.core.errors import BadOption
from snowmelt.core.keys import KEY_MAX, KEY_MIN, of_float, packed
from snowmelt.protocols.priority.calls import Part
from snowmelt.protocols.priority.settings import QueueSettings

Prioritized = tuple[int | float, Buffer]
RANK_HIGHEST: Final = 1 << 40
NOT_BOTH: Final = (
    "a body is bytes, not tuple; give priority= or pairs of a priority and a body, not both"
)
FEW: Final = 8
"""So many priorities are told apart without putting what is put in order."""


class Some(msgspec.Struct, frozen=True):
    """Bodies with one priority, or one each, in the order of these."""

    priority: int | float | tuple[int | float, ...]
    offsets: bytes
    blob: bytes

    @classmethod
    def of(cls, priority: float | tuple[int | float, ...], items: Parcel) -> "Some":
        return cls(priority, items.offsets, items.blob)

    @property
    def priorities(self) -> tuple[int | float, ...]:
        if isinstance(self.priority, tuple):
            return self.priority
        return (self.priority,) * (len(self.offsets) // OFFSET_BYTES - 1)


def checked_priority(priority: object) -> int | float:
    """A priority that some queue may have; raises `BadOption`.

    >>> checked_priority(float("nan"))
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: priority is nan; allowed: a whole number of 64 bits or a float
    """
    if type(priority) is int and KEY_MIN <= priority <= KEY_MAX:
        return priority
    if type(priority) is float and not math.isnan(priority):
        return priority
    raise BadOption("priority", priority, "a whole number of 64 bits or a float")


def checked_share(share: object) -> None:
    """Which part of all; raises `BadOption`."""
    if type(share) not in (int, float) or not 0 <= share <= 1:  # type: ignore[operator]
        raise BadOption("share", share, "0 to 1")


def calls_of(
    items: Iterable[Buffer] | Iterable[Prioritized] | Batch, priority: float | None
) -> Iterator[tuple[Some, ...]]:
    """Items cut into calls: bodies of one priority, or pairs of a priority and a body.

    >>> [[one.priority for one in some] for some in calls_of([(2, b"b"), (0, b"a")], None)]
    [[0, 2]]
    >>> list(calls_of([(2, b"b")], 1))
    Traceback (most recent call last):
    TypeError: a body is bytes, not tuple; give priority= or pairs of a priority and a body...
    """
    if not isinstance(items, Batch | str | bytes | bytearray | memoryview):
        rest = iter(items)
        first = list(islice(rest, 1))
        if not isinstance(items, list | tuple):
            items = cast("Iterator[Any]", chain(first, rest))
        if first and isinstance(first[0], tuple):
            if priority is not None:
                raise TypeError(NOT_BOTH)
            for pairs in drawn(items):
                yield from _mixed(pairs)
            return
    own = checked_priority(0 if priority is None else priority)
    for one in parcels(cast("Iterable[Buffer]", items)):  # which looks at each
        yield (Some.of(own, one),)


def drawn(pairs: Iterable[Any]) -> Iterator[list[Prioritized]]:
    """A call's worth each; what a generator gives is read before it is asked for the next."""
    if isinstance(pairs, list | tuple):
        for at in range(0, len(pairs), CALL_ITEMS):
            part = pairs[at : at + CALL_ITEMS]
            yield [one if type(one) is tuple and len(one) == 2 else _pair(one) for one in part]
        return
    some: list[Prioritized] = []
    size = 0
    while more := [
        one if type(one) is tuple and len(one) == 2 and type(one[1]) is bytes else _pair(one)
        for one in islice(pairs, min(len(some), AHEAD) or 1)
    ]:
        some += more
        size += sum([len(body) for _, body in more])
        if size >= CALL_BYTES or len(some) >= CALL_ITEMS:
            yield some
            some, size = [], 0
    if some:
        yield some


def _pair(one: Any) -> Prioritized:
    if not isinstance(one, tuple):
        raise TypeError(NOT_BOTH)
    if len(one) != 2:
        raise TypeError(f"pairs of a priority and a body are put, not {len(one)} things")
    return one[0], as_bytes(one[1])


def parts_of(several: tuple[Some, ...], settings: QueueSettings) -> tuple[Part, ...]:
    """As a queue with these settings takes them; raises `BadOption` where it does not.

    >>> some = Some.of(-1, next(parcels([b"a"])))
    >>> parts_of((some,), QueueSettings(queue="jobs", priorities=4))
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: priority is -1; allowed: 0 to 3 in jobs
    """
    if settings.keyed:
        return tuple(
            [
                Part(0, some.offsets, some.blob, packed(_keys(some.priorities, settings)))
                for some in several
            ]
        )
    return tuple([part for some in several for part in _by_number(some, settings)])


def _by_number(some: Some, settings: QueueSettings) -> Iterator[Part]:
    priorities = some.priority if isinstance(some.priority, tuple) else (some.priority,)
    whole = set(map(type, priorities)) == {int}
    if not whole or not 0 <= min(priorities) <= max(priorities) < settings.priorities:
        fit = range(settings.priorities)
        wrong = [one for one in priorities if type(one) is not int or one not in fit]
        allowed = f"0 to {settings.priorities - 1} in {settings.queue}"
        raise BadOption("priority", wrong[0], allowed)
    if priorities[0] == priorities[-1]:
        yield Part(int(priorities[0]), some.offsets, some.blob)
        return
    bodies, start = Batch.known(some.offsets, some.blob), 0
    while start < len(priorities):
        own = priorities[start]
        stop = bisect_right(priorities, own, start)
        part = bodies.slice(start, stop).trimmed()
        yield Part(int(own), bytes(part.offsets), bytes(part.blob))
        start = stop


def _keys(priorities: tuple[int | float, ...], settings: QueueSettings) -> Iterable[int]:
    if not settings.floats and set(map(type, priorities)) == {int}:  # as mostly
        return cast("tuple[int, ...]", priorities)
    return [_key(one, settings) for one in priorities]


def _key(priority: float, settings: QueueSettings) -> int:
    if settings.floats:
        return of_float(priority)
    if type(priority) is not int:
        allowed = f"a whole number in {settings.queue}; make it with priorities=float for others"
        raise BadOption("priority", priority, allowed)
    return priority


def by_priority(pairs: Sequence[Prioritized]) -> tuple[Some, list[int]]:
    """What goes in one call; and of each body, as they go, which of the pairs it was.

    >>> some, order = by_priority([(2, b"b"), (0, b"a"), (2, b"c")])
    >>> some.priority, some.blob, order
    ((0, 2, 2), b'abc', [1, 0, 2])
    """
    if len(pairs) == 1:  # as where nobody asks beside
        ((priority, body),) = pairs
        return Some.of(priority, together([bytes(body)])), [0]
    order = sorted(range(len(pairs)), key=lambda at: pairs[at][0])
    bodies = together([bytes(pairs[at][1]) for at in order])
    return Some.of(tuple([pairs[at][0] for at in order]), bodies), order


def _mixed(pairs: list[Prioritized]) -> Iterator[tuple[Some, ...]]:
    """As few calls as they fit into, each of the next ones."""
    priorities = [priority for priority, _ in pairs]
    plain = set(map(type, priorities)) == {int}
    several = set(priorities) if plain else priorities
    for priority in (min(several), max(several)) if plain else several:
        checked_priority(priority)
    call = _call(pairs, priorities)
    if sum([len(some.blob) for some in call]) <= CALL_BYTES:
        yield call
        return
    at = 0
    for one in parcels([body for _, body in pairs]):
        own = slice(at, at := at + one.count)
        yield _call(pairs[own], priorities[own])


def _call(pairs: list[Prioritized], priorities: list[int | float]) -> tuple[Some, ...]:
    """What goes in one call, in the order of its priorities; of a few each is taken by itself."""
    if len(set(priorities)) <= FEW:
        rows: dict[int | float, list[Buffer]] = defaultdict(list)
        for priority, body in pairs:
            rows[priority].append(body)
        return tuple([Some.of(each, one) for each in sorted(rows) for one in parcels(rows[each])])
    urgent = sorted(pairs, key=itemgetter(0))
    own = tuple([priority for priority, _ in urgent])
    return tuple([Some.of(own, one) for one in parcels([body for _, body in urgent])])
