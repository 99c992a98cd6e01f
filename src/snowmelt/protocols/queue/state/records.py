"""How a state is written down: its records, and how they are read again.

A record has a key whose first byte is its kind:

    h           who led when it was written (`copy.py`)
    s           how many of each priority were put, how many ended and lost, and what is paused
    t POSITION  when what was put from there on was put (`put_times.py`)
    b POSITION  a block of batches
    d NUMBER    what ended in many blocks (`endings.py`)
    k PAGE      the keys of some positions (`keys.py`)
    i POSITION  the numbers of the keys of a batch, where it has several (`by_key.py`)
    j PAGE      the names of some of those keys (`key_names.py`)
    l TOKEN     a lease: whose call it answers, what it has, and for how long if not as others
    c CLIENT    which of its last gets had something
    p, n NAME   a producer
    e TOKEN     which call ended a lease of which something went back
    y POSITION  items that failed, how often, and why
    z POSITION  items that are for later
    g NAME      a group: who reads as it, and what it has
    v           positions that were left out, since what stood there may be lost (`tails.py`)
    w           which place is next for what is staged
    w PLACE     a batch that is staged
    x PLACE     which data nodes have the bodies of a batch
    u NAME      what was published under a number, or is planned
    q, m NAME   a schedule: what it puts, and when it fires next (`schedules.py`)
    o NAME      a transaction that was decided, and whose parts are not done (`transactions.py`)
    a DIGEST    what was put under a uniqueness key (`uniques.py`)
    r           how far a queue is that is made of a backup (`backups.py`)
"""

from bisect import insort
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec

from snowmelt.core.ahead import Count, Number
from snowmelt.core.instant import Duration
from snowmelt.core.interval import Interval, IntervalSet, without
from snowmelt.core.names import OperationId
from snowmelt.core.spans import stepped, steps
from snowmelt.protocols.queue.api.backups import NEVER_RESTORED, Records, Restoration
from snowmelt.protocols.queue.api.phase_stamp import NEVER, PhaseStamp
from snowmelt.protocols.queue.api.schedules import Schedules
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.limits import LIMITS, QueueLimits
from snowmelt.protocols.queue.state import publications
from snowmelt.protocols.queue.state.failures import Failure
from snowmelt.protocols.queue.state.groups import GroupState
from snowmelt.protocols.queue.state.key_names import KeyNames
from snowmelt.protocols.queue.state.keys import KeysByPosition
from snowmelt.protocols.queue.state.put_times import PutTimes
from snowmelt.protocols.queue.state.spread import Spread
from snowmelt.protocols.queue.state.staged import NEXT, StagedBatches
from snowmelt.protocols.queue.state.state import (
    STATUS,
    ItemCounts,
    Lease,
    QueueState,
    keep_keys,
)
from snowmelt.protocols.queue.state.tails import PRIORITY_BITS, Tails
from snowmelt.protocols.queue.state.transactions import TransactionName, Transactions
from snowmelt.protocols.queue.state.uniques import Uniques

RESTORING: Final = b"r"
TAIL_LEAP: Final = 1 << 20
"""So far above what is known positions go on where it can't be read which were given."""
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.decode


Given = Annotated[int, msgspec.Meta(ge=0, lt=1 << (PRIORITY_BITS - 1))]
"""So many positions, of which each has room for as many more."""


class StatusRecord(msgspec.Struct, frozen=True, array_like=True):
    """How many were put, and what became of them."""

    tail: Given | list[Given]
    """Of each priority, where there are several."""
    done: Count
    lost: Count
    paused: bool
    redriving: Count
    bound: Given = 0
    keeps: bool = False
    counts: ItemCounts = msgspec.field(default_factory=ItemCounts)


class LeaseRecord(msgspec.Struct, frozen=True, array_like=True):
    """Whose call a lease answers, and what it has; `left` is as of `core.spans.steps`."""

    operation: OperationId
    left: list[int]
    ahead: bool
    length: Duration = Duration(0)
    seen: PhaseStamp = NEVER
    secret: bytes = b""
    promised: TransactionName | None = None
    of: int = 0


def changed(
    state: QueueState,
) -> tuple[tuple[tuple[bytes, bytes | None], ...], tuple[Interval, ...]]:
    """The records that changed since this was last asked, and the bodies that are over."""
    keys, over = state.changes()
    return tuple([(key, record(state, key)) for key in keys]), over


def records(state: QueueState) -> dict[bytes, bytes]:
    """All of them.

    >>> state = QueueState(QueueSettings())
    >>> batch = state.put(3, 300, term=1)
    >>> records(restored(state.settings, records(state))) == records(state)
    True
    """
    found = ((key, record(state, key)) for key in _keys(state))
    return {key: value for key, value in found if value is not None}


def _keys(state: QueueState) -> Iterator[bytes]:
    yield STATUS
    yield from state.tails.keys()
    yield from state.times.keys()
    yield from state.batches.keys()
    yield from state.keys.keys()
    if state.by_key is not None:
        yield from state.by_key.names.keys()
    yield from state.producers.keys()
    for where, _ in state.failures:
        yield b"y" + where.start.to_bytes(8)
    for where, _ in state.delays:
        yield b"z" + where.start.to_bytes(8)
    for token in state.leases:
        yield b"l" + token.to_bytes(8)
    for token in state.enders:
        yield b"e" + token.to_bytes(8)
    yield from state.takers.keys()
    for name, _ in state.groups:
        yield b"g" + name.encode()
    yield from state.staged.keys()
    yield from state.spread.keys()
    yield from state.schedules.keys()
    yield from state.transactions.keys()
    yield from state.uniques.keys()
    yield from (publications.key(name) for name, _ in state.publications)
    if state.restoring != NEVER_RESTORED:
        yield RESTORING


def record(state: QueueState, key: bytes) -> bytes | None:
    """The present value of one; None when it is there no more."""
    kind, rest = key[:1], key[1:]
    match kind:  # those that most steps change come first
        case b"s":
            tail = state.tails[0] if state.settings.priorities == 1 else state.tails
            counts = tail, state.done, state.lost
            late = state.bound, state.keeps, state.counts
            return _ENCODE(StatusRecord(*counts, state.paused, state.redriving, *late))
        case b"b" | b"d" | b"i":
            return state.batches.record(key)
        case b"l":
            lease = state.leases.get(int.from_bytes(rest))
            return None if lease is None else _of_lease(lease)
        case b"c":
            return state.takers.record(key)
        case b"p" | b"n":
            return state.producers.record(key)
        case b"g":
            group = state.groups.named(rest.decode())
            return None if group is None else _ENCODE(group)
        case b"e":
            ender = state.enders.get(int.from_bytes(rest))
            return None if ender is None else _ENCODE(ender)
        case b"y":
            failure = state.failures.at(int.from_bytes(rest))
            return None if failure is None else _ENCODE((failure[0].stop, failure[1]))
        case b"z":
            delay = state.delays.at(int.from_bytes(rest))
            return None if delay is None else _ENCODE((delay[0].stop, delay[1]))
        case b"w" | b"v" | b"x" | b"t" | b"q" | b"m" | b"k" | b"j" | b"o" | b"a":
            return _part(state, kind).record(key)
        case b"u":
            known = state.publications.named(publications.name_of(rest))
            return None if known is None else _ENCODE(known)
        case b"r":
            return _ENCODE(state.restoring)
        case _:
            raise AssertionError(f"no record has the key {key!r}")


_Plain = StagedBatches | Tails | Spread | PutTimes | Schedules
_Part = _Plain | KeysByPosition | KeyNames | Uniques | Transactions


def _part(state: QueueState, kind: bytes) -> _Part:
    """Whose records are of this kind."""
    match kind:
        case b"k":
            return state.keys
        case b"j":
            return keep_keys(state).names
        case b"a":
            return state.uniques
        case b"w":
            return state.staged
        case b"x":
            return state.spread
        case b"t":
            return state.times
        case b"v":
            return state.tails
        case b"o":
            return state.transactions
        case _:
            return state.schedules


def _of_lease(lease: Lease) -> bytes:
    row = lease.operation, steps(lease.left), lease.ahead
    if lease.promised is not None or lease.of:
        late = lease.secret, lease.promised, lease.of
        return _ENCODE((*row, lease.length, lease.seen, *late))
    if lease.secret:
        return _ENCODE((*row, lease.length, lease.seen, lease.secret))
    if lease.seen != NEVER:
        return _ENCODE((*row, lease.length, lease.seen))
    return _ENCODE((*row, lease.length) if lease.length else row)


# --- read again -----------------------------------------------------------------------------------


def restored(
    settings: QueueSettings, kept: dict[bytes, bytes], limits: QueueLimits = LIMITS
) -> QueueState:
    """A state from its records; any of them may be missing."""
    state = QueueState(settings, limits)
    for key in sorted(kept):
        _restore(state, key, kept[key])
    if kept and STATUS not in kept:
        state.tails.raise_to([*state.batches.stops, *state.producers.stops], TAIL_LEAP)
    if NEXT not in kept:
        state.staged.begin_above(state.batches.all())
    if state.restoring.done:
        find_ready(state)
    return state


def bring_in(state: QueueState, some: Records) -> None:
    """These of a backup are its own from now on (`backups.py`, rule 7)."""
    for key, value in some:
        _restore(state, key, value)
        state.changed[key] = None


def _restore_lease(state: QueueState, token: int, told: LeaseRecord) -> None:
    left, how = IntervalSet(stepped(told.left)), (told.ahead, told.length, told.seen)
    late = told.secret, told.promised, told.of
    state.leases[token] = Lease(told.operation, left, *how, *late)
    if told.of:
        state.pieces.setdefault(told.of, []).append(token)
    else:
        state.tokens[told.operation] = token
    state.transactions.promise(told.promised, token)


def _restore(state: QueueState, key: bytes, value: bytes) -> None:
    rest = key[1:]
    match key[:1]:
        case b"s":
            kept = _DECODE(value, type=StatusRecord)
            state.tails.given([kept.tail] if isinstance(kept.tail, int) else kept.tail)
            state.done, state.lost = kept.done, kept.lost
            state.paused, state.redriving, state.bound = kept.paused, kept.redriving, kept.bound
            state.keeps, state.counts = kept.keeps, kept.counts
        case b"b" | b"d" | b"i":
            state.batches.restore(key, value)
        case b"l":
            _restore_lease(state, int.from_bytes(rest), _DECODE(value, type=LeaseRecord))
        case b"c":
            state.takers.restore(key, value)
        case b"p" | b"n":
            state.producers.restore(key, value)
        case b"g":
            state.groups.restore(rest.decode(), _DECODE(value, type=GroupState))
        case b"e":
            state.enders[int.from_bytes(rest)] = _DECODE(value, type=OperationId)
        case b"y":
            stop, failure = _DECODE(value, type=tuple[Count, Failure])
            state.failures.restore(Interval(int.from_bytes(rest), stop), failure)
        case b"z":
            stop, due = _DECODE(value, type=tuple[Count, Number])
            start = int.from_bytes(rest)
            state.delays.restore(Interval(start, stop), due)
            insort(state.dues, (due, start, stop))
        case b"w" | b"v" | b"x" | b"t" | b"q" | b"m" | b"k" | b"j" | b"o" | b"a":
            _part(state, key[:1]).restore(key, value)
        case b"u":
            publication = _DECODE(value, type=publications.PublicationRecord)
            state.publications.restore(publications.name_of(rest), publication)
        case b"r":
            state.restoring = _DECODE(value, type=Restoration)
        case b"h":
            pass  # who led (`copy.py`)
        case _:
            raise ValueError(f"no record of a queue has the key {key!r}")


def find_ready(state: QueueState) -> None:
    """What lives and is neither leased, nor delayed, nor dead."""
    live = state.batches.live
    ready = IntervalSet(live)
    for token, lease in list(state.leases.items()):
        lease.left = IntervalSet([part for one in lease.left for part in live.common(one)])
        ready.remove_all(list(lease.left))
        if not lease.left.total:  # where what it had could not be read
            state.end_lease(token)
    ready.remove_all(state.groups.held(live))
    for some in (state.delays, state.failures):
        for where, _ in list(some):
            for part in without([where], live.common(where)):
                some.clear(part)
    for where, _ in state.delays:
        ready.remove(where)
    for where, failure in state.failures:
        if failure.dead:
            state.dead.add(where)
            ready.remove(where)
    state.ready.add_all(ready)
    if state.by_key is not None:
        held = [part for lease in state.leases.values() for part in lease.left]
        state.by_key.find(live, [*held, *state.groups.held(live)])
