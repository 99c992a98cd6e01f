"""Elements on their way: cut for those who keep parts of them, and put together again."""

from collections.abc import Iterator, Sequence

from snowmelt.core.batch import Batch as Bodies
from snowmelt.core.interval import Interval
from snowmelt.core.keys import part as keys_of
from snowmelt.protocols.priority.batches import Share, Shares, union
from snowmelt.protocols.priority.messages import Elements, Origin
from snowmelt.protocols.priority.positions import overlaps


def cut(elements: Elements, wanted: Shares) -> Elements:
    """Those at the wanted positions, in the same order; itself when all are wanted.

    >>> bodies = Bodies.of([b"one", b"two", b"three"])
    >>> from snowmelt.core.names import OperationId
    >>> made = Origin(OperationId("c", 1), 0, 3)
    >>> where = (Share(0, (Interval(4, 7),)),)
    >>> whole = Elements(where, (made,), bytes(bodies.offsets), bytes(bodies.blob))
    >>> part = cut(whole, (Share(0, (Interval(5, 6),)),))
    >>> part.blob, part.origins[0].first, part.shares == (Share(0, (Interval(5, 6),)),)
    (b'two', 1, True)
    """
    stretches = list(_stretches(elements.shares, wanted))
    total = sum([share.total for share in elements.shares])
    if sum([index.size for index, _ in stretches]) == total:
        return elements
    bodies = Bodies.known(elements.offsets, elements.blob)
    chosen = Bodies.joined([bodies.slice(index.start, index.stop) for index, _ in stretches])
    return Elements(
        in_order([share for _, share in stretches]),
        tuple(_origins(elements.origins, [index for index, _ in stretches])),
        bytes(chosen.offsets),
        bytes(chosen.blob),
        elements.headers,
        elements.due,
        b"".join([keys_of(elements.keys, index.start, index.stop) for index, _ in stretches]),
        elements.put_at,
    )


def together(parts: Sequence[Bodies]) -> Bodies:
    """Several runs of bodies as one.

    >>> whole = together([Bodies.of([b"one"]), Bodies.of([b"two", b"three"])])
    >>> [bytes(body) for body in whole]
    [b'one', b'two', b'three']
    """
    if len(parts) == 1:
        return parts[0]
    return Bodies.joined(parts)


def whole(view: memoryview) -> bytes:
    """The bytes of a view; those that it is of, when it is of all of them."""
    if type(view.obj) is bytes and len(view.obj) == view.nbytes:
        return view.obj
    return bytes(view)


def in_order(shares: list[Share]) -> Shares:
    """The same positions in the same order, neighbours of one priority together."""
    if len(shares) == 1 and len(shares[0].intervals) == 1:  # as often
        return tuple(shares)
    joined: list[Share] = []
    row: list[Interval] = []
    """Of one priority, that is not at its end yet."""
    priority = -1
    for share in shares:
        if share.priority != priority:
            if row:
                joined.append(Share(priority, tuple(row)))
            priority, row = share.priority, []
        for one in share.intervals:
            if row and row[-1].stop == one.start:
                row[-1] = Interval(row[-1].start, one.stop)
            else:
                row.append(one)
    if row:
        joined.append(Share(priority, tuple(row)))
    return tuple(joined)


def _stretches(shares: Shares, wanted: Shares) -> Iterator[tuple[Interval, Share]]:
    """The wanted positions, and where among the elements they stand, in the elements' order."""
    by_priority = {share.priority: share.intervals for share in union(wanted)}
    at = 0
    for share in shares:
        for interval in share.intervals:
            for part in overlaps(interval, by_priority.get(share.priority, ())):
                first = at + part.start - interval.start
                yield Interval(first, first + part.size), Share(share.priority, (part,))
            at += interval.size


def _origins(origins: tuple[Origin, ...], chosen: list[Interval]) -> Iterator[Origin]:
    """Who made the chosen ones, which are in order. O(n)."""
    left = iter(chosen)
    index = next(left, None)
    at = 0
    for origin in origins:
        where = Interval(at, at + origin.count)
        while index is not None and index.start < where.stop:
            part = where.common(index)
            if part.start < part.stop:
                yield origin.part(part.start - where.start, part.size)
            if index.stop > where.stop:
                break
            index = next(left, None)
        at = where.stop
