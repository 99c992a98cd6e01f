"""What goes over the wire to and from the overlay's nodes, which name items by rows of positions.

A queue has a row for each priority; one of any priorities has one row, and a key goes with each
item. To a client an item's place has its row in the upper bits (`leases/delivered.py`).
"""

from collections.abc import Iterable, Sequence

from snowmelt.client.leases.delivered import WIDE, Refused, told_interval
from snowmelt.client.leases.steps import Late, Word
from snowmelt.client.queue.bodies import Parcel
from snowmelt.client.queue.ranks import Ranks
from snowmelt.core.batch import Batch
from snowmelt.core.interval import Interval
from snowmelt.protocols.priority.batches import Share
from snowmelt.protocols.priority.calls import Part, PutDone, Receipt, Settle
from snowmelt.protocols.priority.settings import QueueSettings


def ranks_of(settings: QueueSettings) -> Ranks:
    """What its priorities are; which end is the first its nodes know by themselves."""
    return Ranks(settings.queue, settings.priorities, settings.floats)


def parts_of(items: Parcel) -> tuple[Part, ...]:
    """A call's items, each priority by itself.

    >>> from snowmelt.client.priority.sorting import sorted_parcel
    >>> items = sorted_parcel([b"a", b"b", b"c"], [2, 0, 2], Ranks("jobs", 4))
    >>> [(one.priority, one.blob) for one in parts_of(items)]
    [(0, b'b'), (2, b'ac')]
    """
    if items.keys or len(items.runs) <= 1:
        row = items.runs[0].priority if items.runs else 0
        return (Part(row, items.offsets, items.blob, items.keys),)
    bodies, parts, start = Batch.known(items.offsets, items.blob), list[Part](), 0
    for run in items.runs:
        part = bodies.slice(start, start := start + run.count).trimmed()
        parts.append(Part(run.priority, bytes(part.offsets), bytes(part.blob)))
    return tuple(parts)


def positions_of(done: PutDone) -> list[Interval]:
    """Where a call's items are within their rows, in their order."""
    return [one for share in done.shares for one in share.intervals]


def done_of(queue: str, words: Sequence[Word]) -> Settle:
    """What says that these are done."""
    return Settle(
        queue, tuple([one for word in words for one in receipts_of(word.token, word.done)])
    )


def receipts_of(token: int, places: Iterable[Interval]) -> tuple[Receipt, ...]:
    """Places as the nodes name them."""
    rows: dict[int, list[Interval]] = {}
    for one in places:
        rows.setdefault(one.start >> WIDE, []).append(told_interval(one, WIDE))
    shares = tuple([Share(one, tuple(rows[one])) for one in sorted(rows)])
    return (Receipt(token, shares),) if shares else ()


def late(lost: Iterable[Receipt]) -> Late:
    """What the nodes name as not held any more, by leases."""
    places: dict[int, list[Interval]] = {}
    for receipt in lost:
        own = places.setdefault(receipt.token, [])
        for share in receipt.shares:
            base = share.priority << WIDE
            own += [Interval(base + one.start, base + one.stop) for one in share.intervals]
    told = {token: refused_of(token, tuple(places[token])) for token in places}
    return {token: one for token, one in told.items() if one is not None}


def refused_of(token: int, places: tuple[Interval, ...]) -> Refused | None:
    """What a person is told of these; nothing when there are none."""
    if not places:
        return None
    first, count = places[0], sum(one.size for one in places)
    text = (
        f"position {told_interval(first, WIDE).start} of priority {first.start >> WIDE}"
        f"{f' and {count - 1} more' if count > 1 else ''} are not held any more: the lease of "
        f"token {token} ran out, or they lie with a node that is away"
    )
    return Refused(text, places)
