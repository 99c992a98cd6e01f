"""What is to be put into a queue with priorities, cut into calls, the most urgent of each first.

What goes in one call goes in the order of its ranks, of equal ones the first first: so what is got
together lies together, and few intervals name its positions.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final, cast

from msgspec.structs import replace

from snowmelt.client.queue.bodies import (
    AHEAD,
    CALL_BYTES,
    CALL_ITEMS,
    PutItems,
    as_bytes,
    parcels,
    together,
)
from snowmelt.client.queue.ranks import Ranks
from snowmelt.core.batch import Batch, Buffer
from snowmelt.core.keys import packed
from snowmelt.protocols.queue.api.calls import PriorityRun

Prioritized = tuple[int | float, Buffer]
_NOT_BOTH: Final = (
    "a body is bytes, not tuple; give priority= or pairs of a priority and a body, not both"
)
_A_LIST: Final = "a pair of a priority and a body is a tuple, not list; say tuple(pair)"
_ONE: Final = str | bytes | bytearray | memoryview


def ranked_parcels(
    items: Iterable[Buffer] | Iterable[Prioritized] | Batch, priority: float | None, ranks: Ranks
) -> Iterator[PutItems]:
    """Items cut into calls: bodies of one priority, or pairs of a priority and a body.

    >>> [one] = ranked_parcels([(2, b"b"), (0, b"a"), (2, b"c")], None, Ranks("jobs", 3))
    >>> one.blob, one.order, one.runs
    (b'abc', (1, 0, 2), (PriorityRun(priority=0, count=1), PriorityRun(priority=2, count=2)))
    >>> list(ranked_parcels([(2, b"b")], 1, Ranks("jobs", 3)))
    Traceback (most recent call last):
    TypeError: a body is bytes, not tuple; give priority= or pairs of a priority and a body...
    """
    if not isinstance(items, Batch | _ONE):
        rest = iter(items)
        first = list(islice(rest, 1))
        if not isinstance(items, list | tuple):
            items = cast("Iterator[Any]", chain(first, rest))
        if first and isinstance(first[0], list):
            raise TypeError(_A_LIST)
        if first and isinstance(first[0], tuple):
            if priority is not None:
                raise TypeError(_NOT_BOTH)
            for pairs in _drawn(items):
                yield from _mixed(pairs, ranks)
            return
    own = ranks.rank(0 if priority is None else priority)
    for one in parcels(cast("Iterable[Buffer]", items)):  # which looks at each
        yield _alike(one, own, ranks)


def sorted_parcel(bodies: Sequence[bytes], own: Sequence[int], ranks: Ranks) -> PutItems:
    """Bodies of one call, each with its rank, the most urgent first."""
    if own.count(own[0]) == len(own):
        return _alike(together(list(bodies)), own[0], ranks)
    order = tuple(sorted(range(len(own)), key=own.__getitem__))
    items, went = together([bodies[at] for at in order]), [own[at] for at in order]
    if ranks.keyed:
        return replace(items, keys=packed(went), order=order)
    runs = tuple([PriorityRun(rank, count) for rank, count in Counter(went).items()])
    return replace(items, runs=runs, order=order)


def _mixed(pairs: list[Prioritized], ranks: Ranks) -> Iterator[PutItems]:
    """As few calls as they fit into, each of the next ones."""
    own = ranks.ranks([priority for priority, _ in pairs])
    bodies = [body if type(body) is bytes else as_bytes(body) for _, body in pairs]
    if sum(map(len, bodies)) <= CALL_BYTES:
        yield sorted_parcel(bodies, own, ranks)
        return
    at = 0
    for one in parcels(bodies):
        some = slice(at, at := at + one.count)
        yield sorted_parcel(bodies[some], own[some], ranks)


def _alike(items: PutItems, rank: int, ranks: Ranks) -> PutItems:
    if ranks.keyed:
        return replace(items, keys=packed([rank]) * items.count)
    return replace(items, runs=(PriorityRun(rank, items.count),)) if rank else items


def _drawn(pairs: Iterable[Any]) -> Iterator[list[Prioritized]]:
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
        raise TypeError(_A_LIST if isinstance(one, list) else _NOT_BOTH)
    if len(one) != 2:
        raise TypeError(f"pairs of a priority and a body are put, not {len(one)} things")
    return one[0], as_bytes(one[1])
