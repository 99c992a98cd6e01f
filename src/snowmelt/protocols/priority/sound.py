"""What another node can't have said of a queue: it is dropped before anything is made of it.

Each field is bounded where it is declared. Here is what only a whole message shows, or what queue
it is of. Whoever says such things is broken, or of another make: a node bears it, and goes on with
what others say. That somebody lies about what may be so (that all he has is gone) is not seen here.

1. *Rows.* What has a priority is of one of the queue's rows.
2. *Size.* What is worked off position by position, or block by block, is no more than
   `POSITIONS_MAX`: what is wanted, and what is said of leases, is less than a get may ask for.
3. *Bodies.* There are as many offsets and keys as positions, and origins for all of them.
4. *Ranks.* Where some are is told and asked for as many as fit in one message.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from snowmelt.core.batch import OFFSET_BYTES
from snowmelt.core.errors import BadOption
from snowmelt.core.keys import KEY_BYTES
from snowmelt.core.spans import edges_of, sound
from snowmelt.core.times import runs
from snowmelt.protocols.priority import messages as says
from snowmelt.protocols.priority.anchor import Census
from snowmelt.protocols.priority.batches import Batch, Grant, Share, Some
from snowmelt.protocols.priority.messages import Attempt, Elements, Given, Kept, Mark, Piece
from snowmelt.protocols.priority.phase_messages import Ranked, Seek, Sought
from snowmelt.protocols.priority.settings import QueueSettings, State

_OFFSET: Final = struct.Struct("<i")
POSITIONS_MAX: Final = 1 << 24
STORED_MAX: Final = 1 << 30
"""By one node, of one queue."""
RANKS_MAX: Final = 4_096
"""In one message (`meeting.py`)."""

Named = Iterable[Share | Some]


def credible(message: Any, queues: Mapping[str, QueueSettings]) -> bool:
    """Whether another node can have said it, of queues with these settings.

    >>> from snowmelt.core.interval import Interval
    >>> one = Share(0, (Interval(0, 9),))
    >>> spares = [says.Spare(1, "jobs", (each,)) for each in (one, Share(7, one.intervals))]
    >>> [credible(each, {"jobs": QueueSettings(queue="jobs")}) for each in spares]
    [True, False]
    """
    kind = type(message)
    if kind in _OF_ALL:
        return _of_all(message, queues)
    if kind not in _NAMED and kind not in _WHOLE:
        return True
    settings = queues.get(message.queue)
    return settings is None or _of_one(message, kind, settings)


def _of_one(message: Any, kind: type, settings: QueueSettings) -> bool:
    named, sized, whole = _NAMED.get(kind), _SIZED.get(kind), _WHOLE.get(kind)
    rows = settings.rows
    if named is not None and any(one.priority >= rows for one in named(message)):
        return False
    if sized is not None and any(one.total > POSITIONS_MAX for one in sized(message)):
        return False
    return whole is None or whole(message, settings)


def _of_all(message: Any, queues: Mapping[str, QueueSettings]) -> bool:
    """What is said of all queues at once, or of their settings."""
    match message:
        case says.Anew(queues=made, redone=named):
            return all(_makes(one) for one in made) and _attempts(named, queues)
        case says.Others(attempts=named):
            return _attempts(named, queues)
        case says.Tell(kept=several):
            return all(_kept(one, queues[one.queue]) for one in several if one.queue in queues)
        case _:
            return _makes(message.settings)


def _makes(settings: QueueSettings) -> bool:
    try:
        settings.checked()
    except BadOption:
        return False
    return True


def _attempts(named: Iterable[tuple[str, Attempt]], queues: Mapping[str, QueueSettings]) -> bool:
    return all(
        one.share.priority < queues[name].rows and one.share.total <= POSITIONS_MAX
        for name, one in named
        if name in queues
    )


def _kept(one: Kept, settings: QueueSettings) -> bool:
    marked = chain.from_iterable([mark.shares for mark in one.marks])
    stored = sum([share.total for share in one.stored])
    keys = KEY_BYTES * stored if settings.keyed else 0
    rows = all(share.priority < settings.rows for share in chain(one.stored, one.gone, marked))
    return rows and stored <= STORED_MAX and len(one.keys) == keys and _marks(one.marks)


def _marks(marks: Iterable[Mark]) -> bool:
    """Of what is there, or ended with a lease; all that is gone may be in intervals of any size."""
    sized = [mark for mark in marks if mark.token or mark.state < State.GONE]
    return all(share.total <= POSITIONS_MAX for mark in sized for share in mark.shares)


def answers(grant: Grant, batch: Batch) -> bool:
    """Whether a grant is for such a batch: no more of anything, run by run.

    >>> from snowmelt.core.interval import Interval
    >>> from snowmelt.protocols.priority.batches import GrantedRun, Run
    >>> grant = Grant((GrantedRun(7, (Share(0, (Interval(0, 2),)),), 9, ()),))
    >>> [answers(grant, Batch((Run((Some(0, count),)),))) for count in (1, 2)]
    [False, True]
    """
    if len(grant.runs) != len(batch.runs) or not _within(grant.held, batch.held):
        return False
    return all(
        _within(given.puts, run.puts) and sum([one.total for one in given.gets]) <= run.gets
        for given, run in zip(grant.runs, batch.runs, strict=True)
    )


def _within(shares: Iterable[Share], somes: Iterable[Some]) -> bool:
    asked = {some.priority: some.count for some in somes}
    return all(share.total <= asked.get(share.priority, 0) for share in shares)


# --- rules 1 and 2 --------------------------------------------------------------------------------


def _climbs(message: says.Climb) -> Iterator[Share | Some]:
    batch: Batch = message.batch
    census: Census = message.census or Census()
    yield from chain.from_iterable([run.puts for run in batch.runs])
    yield from chain(batch.held, batch.back, batch.gone, batch.void)
    yield from chain(census.free, census.out, census.gone, census.void)


def _grants(message: says.Granted) -> Iterator[Share]:
    grant = message.grant
    for run in grant.runs:
        yield from chain(run.puts, run.gets)
    yield from chain(grant.held, grant.gone)


def _follows(message: says.Follow) -> list[Share]:
    shares = [share for mark in message.marks for share in mark.shares]
    shares += [share for some in message.elements for share in some.shares]
    return shares


def _given(message: says.Taken) -> Iterator[Share]:
    for one in message.given:
        yield from chain(one.void, one.left)


def _traces(message: says.Inquired) -> Iterator[Share]:
    for trace in message.traces:
        yield from [one.share for one in trace.stored]
        yield from chain.from_iterable([one.shares for one in trace.leased])


_NAMED: Final[dict[type, Callable[[Any], Named]]] = {
    says.Climb: _climbs,
    says.Granted: _grants,
    says.Store: lambda one: one.elements.shares,
    says.Stored: lambda one: one.void,
    says.Take: lambda one: [share for want in one.wants for share in want.shares],
    says.Taken: _given,
    says.End: lambda one: [share for word in one.words for share in word.shares],
    says.Ended: lambda one: chain(one.back, one.gone),
    says.Follow: _follows,
    says.Fetch: lambda one: one.shares,
    says.Fetched: lambda one: chain(
        one.lacking, chain.from_iterable([some.shares for some in one.elements])
    ),
    says.Spare: lambda one: one.shares,
    says.Inquired: _traces,
    says.Looked: lambda one: one.shares,
    says.Read: lambda one: one.shares,
    says.Seen: lambda one: chain(one.dead, one.free),
    Ranked: lambda one: one.shares,
    Sought: lambda one: one.shares,
}
_OF_ALL: Final = {says.Anew, says.Others, says.Tell, says.Make, says.Made, says.Declare}
_SIZED: Final[dict[type, Callable[[Any], Any]]] = {
    kind: _NAMED[kind]
    for kind in (says.Store, says.Take, says.End, says.Fetch, says.Fetched, says.Looked, says.Read)
}


# --- rules 3 and 4 --------------------------------------------------------------------------------


def _bodies(elements: Elements, settings: QueueSettings) -> bool:
    count = sum([share.total for share in elements.shares])
    keys = KEY_BYTES * count if settings.keyed else 0
    if len(elements.offsets) != OFFSET_BYTES * (count + 1) or len(elements.keys) != keys:
        return False
    if sum([origin.count for origin in elements.origins]) != count:
        return False
    return _batch(elements.offsets, elements.blob)


def _piece(piece: Piece, settings: QueueSettings) -> bool:
    keys = KEY_BYTES * piece.count if settings.keyed else 0
    if len(piece.keys) != keys or piece.priority >= settings.rows:
        return False
    if piece.spans and not _spans(piece):
        return False
    return _batch(piece.offsets, piece.blob)


def _spans(piece: Piece) -> bool:
    """It begins where it says, and there is a time for each of its elements."""
    if not sound(piece.spans, piece.count) or piece.headers:
        return False
    timed = sum([count for count, _ in runs(piece.put_times)])
    return piece.start == edges_of(piece.spans)[0] and timed == piece.count


def _batch(offsets: bytes, blob: bytes) -> bool:
    """The first and the last offset: each of them would cost as much as the rest of a message."""
    size = len(offsets)
    if size < OFFSET_BYTES or size % OFFSET_BYTES:
        return False
    (first,) = _OFFSET.unpack_from(offsets)
    (last,) = _OFFSET.unpack_from(offsets, size - OFFSET_BYTES)
    return bool(0 <= first <= last <= len(blob))


def _pieces(given: Iterable[Given], settings: QueueSettings) -> bool:
    return all(_piece(piece, settings) for one in given for piece in one.pieces)


def _ranks(shares: Iterable[Share]) -> int:
    return sum([share.total for share in shares])


_WHOLE: Final[dict[type, Callable[[Any, QueueSettings], bool]]] = {
    says.Store: lambda one, settings: _bodies(one.elements, settings),
    says.Taken: lambda one, settings: _pieces(one.given, settings),
    says.Follow: lambda one, settings: (
        all(_bodies(some, settings) for some in one.elements) and _marks(one.marks)
    ),
    says.Inquired: lambda one, _: all(_marks(trace.leased) for trace in one.traces),
    says.Fetched: lambda one, settings: all(_bodies(some, settings) for some in one.elements),
    says.Seen: lambda one, settings: all(_piece(piece, settings) for piece in one.pieces),
    Ranked: lambda one, _: _ranks(one.shares) <= RANKS_MAX,
    Sought: lambda one, _: _ranks(one.shares) <= RANKS_MAX,
    Seek: lambda one, _: one.ranks.size <= RANKS_MAX,
}
