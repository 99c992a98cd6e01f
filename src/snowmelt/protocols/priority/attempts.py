"""Which of several attempts at one put counts: package, rule 11; settling, rule 1.

1. An *attempt* at an element of a put is a position that a door gave it. A door that goes on with a
   put counts what was found of it, stored or gone, and begins the rest anew, at new positions;
   these it marks as begun anew, since whoever has an earlier attempt may be away, and come back. So
   of two attempts at one element, one at least is so marked.
2. An attempt has a *stamp*: the number of the last view in which its home had to do with it. There
   it was stored, or stored again by a door that went on with its put, or leased, or came back. All
   who keep it know the stamp: it is the epoch of its standing, or that of the position itself.
3. What was got for good counts, whatever else there is. What is void does not, unless its stamp is
   of a later view than the void: then those who were there did not know of that, and went on with
   it. Of several that count the greatest stamp wins, and of the same the later position: what was
   answered, or leased, wins over all that was left from before by who was away at that time.
4. When a view settles, all tell all which attempts they have that were begun anew. When anybody has
   told one, all tell all what other attempts they know at the same elements (rule 1). So all know
   the same, and choose alike. The others are void as of this view, at every node.
5. The home of what was chosen so stamps it with this view: with whomever another attempt is still,
   and whatever was its stamp, it is of an earlier view.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from snowmelt.core.interval import Interval
from snowmelt.core.names import OperationId
from snowmelt.protocols.priority.anchor import EPOCH_BITS
from snowmelt.protocols.priority.batches import Share, Shares, union
from snowmelt.protocols.priority.messages import Attempt, Mark, Origin
from snowmelt.protocols.priority.positions import minus
from snowmelt.protocols.priority.rows import GOT, Rows
from snowmelt.protocols.priority.settings import State
from snowmelt.protocols.priority.standing import marked

_NEVER: Final = -1
"""Before any view."""


class Known(NamedTuple):
    """What is known of an attempt, in the order in which it counts (rule 3)."""

    got: bool
    stamp: int
    position: int


class Chosen(NamedTuple):
    """What counts of some elements of a put, which follow each other, and what of it does not."""

    origin: Origin
    share: Share
    beaten: Shares


def attempts_of(rows: Rows, origin: Origin, share: Share) -> Iterator[Attempt]:
    """A stretch of elements, by what is known of each; its share is one interval."""
    row, interval = rows.row(share.priority), share.intervals[0]
    parts = [
        (part, 0, State.GONE) if void == GOT else (part, void, State.VOID)
        for part, void in row.gone.common(interval)
    ]
    for living in row.living(interval):
        parts += [
            (part, max(part.start >> EPOCH_BITS, standing.epoch), State.FREE)
            for part, standing in row.standings(living)
        ]
    for part, stamp, state in parts:
        made = origin.part(part.start - interval.start, part.size)
        yield Attempt(made, Share(share.priority, (part,)), stamp, state)


def stored_of(rows: Rows, attempts: Iterable[Attempt], spared: Shares) -> Iterator[Attempt]:
    """Of these, what is here, or was at any time of this view, or is known to be gone.

    What is only remembered is in no census: taken for an attempt that counts it would be stored
    again where no anchor knows of it, and nobody could get it before the next view. What was spared
    in this view is with others: some of them may have been asked before it came to them (inquiry,
    rule 7).
    """
    for one in attempts:
        start = one.share.intervals[0].start
        for share in minus((one.share,), minus(rows.lacking((one.share,)), spared)):
            for part in share.intervals:
                made = one.origin.part(part.start - start, part.size)
                yield Attempt(made, Share(share.priority, (part,)), one.stamp, one.state)


def stamped(rows: Rows, shares: Shares, epoch: int) -> Iterator[Mark]:
    """These count as of this view: those of them of which nothing was said in it yet (rule 2)."""
    for priority, where, standing in rows.standings(shares):
        if max(where.start >> EPOCH_BITS, standing.epoch) < epoch:
            new = standing.after(standing, epoch)
            yield marked((Share(priority, (where,)),), new)


def chosen(attempts: Iterable[Attempt]) -> Iterator[Chosen]:
    """What counts of one put, in its order, by what everybody knows of it (rule 3)."""
    told = list(dict.fromkeys(attempts))
    cuts = sorted({cut for one in told for cut in _ends(one.origin)})
    between: dict[int, list[tuple[Attempt, int]]] = {}
    for one in told:
        first, last = _ends(one.origin)
        for cut in cuts[bisect_left(cuts, first) : bisect_left(cuts, last)]:
            between.setdefault(cut, []).append((one, cut - first))
    for at, cut in enumerate(cuts):
        if cut in between:
            choice = _best(between[cut], cuts[at + 1] - cut)
            if choice is not None:
                yield choice


def decided(attempts: Iterable[Attempt]) -> tuple[Shares, Shares]:
    """Of all puts: what was chosen among several, and what is void for that (rule 4)."""
    by_put: dict[OperationId, list[Attempt]] = {}
    for one in attempts:
        by_put.setdefault(one.origin.operation, []).append(one)
    best = [one for put in by_put.values() for one in chosen(put) if one.beaten]
    return union([one.share for one in best]), union([beat for one in best for beat in one.beaten])


def _ends(origin: Origin) -> tuple[int, int]:
    return origin.first, origin.first + origin.count


def _best(candidates: list[tuple[Attempt, int]], size: int) -> Chosen | None:
    """Of these elements of a put, at several places each."""
    places: dict[tuple[int, int], list[tuple[Attempt, int]]] = {}
    for one, skipped in candidates:
        position = one.share.intervals[0].start + skipped
        places.setdefault((one.share.priority, position), []).append((one, skipped))
    living = [(_known(those, where[1]), where) for where, those in places.items()]
    ranks = sorted([(known, where) for known, where in living if known is not None])
    if not ranks:
        return None
    *beaten, best = [where for _, where in ranks]
    one, skipped = places[best][0]
    origin = one.origin.part(skipped, size)
    return Chosen(origin, _share(best, size), tuple([_share(where, size) for where in beaten]))


def _known(told: list[tuple[Attempt, int]], position: int) -> Known | None:
    """What all know of one attempt; None when it is void."""
    got = any(one.state == State.GONE for one, _ in told)
    void = max([one.stamp for one, _ in told if one.state == State.VOID], default=_NEVER)
    stamp = max([one.stamp for one, _ in told if one.state == State.FREE], default=_NEVER)
    return Known(got, stamp, position) if got or stamp > void else None


def _share(where: tuple[int, int], size: int) -> Share:
    priority, position = where
    return Share(priority, (Interval(position, position + size),))
