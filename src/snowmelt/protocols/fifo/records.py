"""How a queue is written down: the records of its journal, and how they are read again.

A record has a key whose first byte is its kind. What has changed is noted by keys, and each is
written as it is when its step is made. Any of them may be missing when they are read.
"""

from typing import Any

import msgspec

from snowmelt.core.instant import Instant
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.names import OperationId
from snowmelt.protocols.fifo.doubts import LEFT
from snowmelt.protocols.fifo.extents import Columns, Run
from snowmelt.protocols.fifo.groups import Group
from snowmelt.protocols.fifo.leases import Lease, ender_key
from snowmelt.protocols.fifo.messages import Pairs
from snowmelt.protocols.fifo.publications import Publication
from snowmelt.protocols.fifo.publications import key as publication_key
from snowmelt.protocols.fifo.publications import name_of as publication_name
from snowmelt.protocols.fifo.queue import Failure, Queue
from snowmelt.protocols.fifo.staged import StagedBatch
from snowmelt.protocols.fifo.staged import key as staged_key
from snowmelt.protocols.fifo.staged import name_of as staged_name
from snowmelt.protocols.fifo.streams import Stream


class KeptStatus(msgspec.Struct, frozen=True, array_like=True):
    tail: int
    next_token: int
    paused: bool
    done: int
    lost: int
    bound: int = 0
    whole: int = -1
    """Below this position nothing is in doubt (`early.py`, rule 3); -1 stands for the tail."""


class KeptRun(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The record of a run; of its items that are alive, some may have records of their own."""

    columns: Columns
    dropped: int
    alive: tuple[Interval, ...]


class KeptFailure(msgspec.Struct, frozen=True, array_like=True):
    """The record of items that were delivered in vain so often; of a run's a thousand may be."""

    stop: int
    failure: Failure


class KeptDelay(msgspec.Struct, frozen=True, array_like=True):
    stop: int
    due: int


class KeptLease(msgspec.Struct, frozen=True, array_like=True):
    operation: OperationId
    left: tuple[Interval, ...]
    kept: bool
    ahead: bool = False


class KeptStream(msgspec.Struct, frozen=True, array_like=True):
    decided: tuple[Interval, ...]
    refused: tuple[Interval, ...]


_encode = msgspec.msgpack.Encoder().encode


def record(queue: Queue, key: bytes) -> bytes | None:
    """The present value of one record; None when there is none any more."""
    kind, rest = key[:1], key[1:]
    match kind:  # those that most steps change come first
        case b"s":
            return _encode(_kept_status(queue))
        case b"x":
            run = queue.runs.at(int.from_bytes(rest))
            return None if run is None else _encode(_kept_run(queue, run))
        case b"l":
            lease = queue.leases.held(int.from_bytes(rest))
            if lease is None:
                return None
            kept = (lease.operation, tuple(lease.left), lease.kept)
            return _encode((*kept, True) if lease.ahead else kept)
        case b"t":
            return _encode(tuple(queue.leases.settled))
        case b"d":
            stream = queue.streams.get(rest.decode())
            if stream is None:
                return None
            return _encode(KeptStream(tuple(stream.decided), tuple(stream.refused)))
        case b"p" | b"n":
            return queue.producers.record(key)
        case b"y" | b"z":
            piece = _kept_piece(queue, key)
            return None if piece is None else _encode(piece)
        case b"e":
            ender = queue.leases.enders.get(int.from_bytes(rest))
            return None if ender is None else _encode(ender)
        case _:
            named = _named(queue, kind, rest)
            return None if named is None else _encode(named)


def _named(queue: Queue, kind: bytes, name: bytes) -> Group | StagedBatch | Publication | None:
    match kind:
        case b"g":
            return queue.groups.named(name.decode())
        case b"h":
            return queue.staged.named(staged_name(name))
        case b"u":
            return queue.publications.named(publication_name(name))
        case _:
            raise AssertionError(f"no record has the key {kind + name!r}")


def other_keys(queue: Queue) -> list[bytes]:
    """The keys of all records but those of runs and of what is said of their items."""
    keys = [b"s", b"t"]
    keys += [b"l" + lease.token.to_bytes(8) for lease in queue.leases]
    keys += [ender_key(token) for token in queue.leases.enders]
    keys += queue.producers.keys()
    keys += [b"d" + name.encode() for name in queue.streams]
    keys += [b"g" + name.encode() for name, _ in queue.groups]
    keys += [staged_key(name) for name, _ in queue.staged]
    keys += [publication_key(name) for name, _ in queue.publications]
    return keys


Shared = dict[Any, Any]
"""Values that many records have in common: in memory each stands once."""


def restore(queue: Queue, pairs: Pairs, now: Instant, shared: Shared) -> None:
    """Takes some records in; runs must come in the order of their positions."""
    decode = msgspec.msgpack.decode
    for key, value in pairs:  # runs by their positions, then what is said of their items
        assert value is not None
        rest = key[1:]
        match key[:1]:
            case b"s":
                _restore_status(queue, decode(value, type=KeptStatus))
            case b"x":
                _restore_run(queue, int.from_bytes(rest), decode(value, type=KeptRun), shared)
            case b"y":
                _restore_failure(queue, int.from_bytes(rest), decode(value, type=KeptFailure))
            case b"z":
                _restore_delay(queue, int.from_bytes(rest), decode(value, type=KeptDelay))
            case b"l":
                kept = decode(value, type=KeptLease)
                token = int.from_bytes(rest)
                left = IntervalSet(kept.left)
                lease = Lease(token, kept.operation, left, now, kept.kept, kept.ahead)
                queue.leases.restore(lease, now)
            case b"p" | b"n":
                queue.producers.restore(key, value)
            case b"d":
                ends = decode(value, type=KeptStream)
                stream = Stream(IntervalSet(ends.decided), IntervalSet(ends.refused))
                queue.streams[rest.decode()] = stream
            case b"t":
                tokens = decode(value, type=tuple[Interval, ...])
                queue.leases.settled = IntervalSet(tokens)
            case b"e":
                ender = decode(value, type=OperationId)
                queue.leases.enders[int.from_bytes(rest)] = ender
            case b"g":
                queue.groups.restore(rest.decode(), decode(value, type=Group))
            case b"h":
                queue.staged.keep(staged_name(rest), decode(value, type=StagedBatch))
            case b"u":
                publication = decode(value, type=Publication)
                queue.publications.keep(publication_name(rest), publication)
            case _:
                raise ValueError(f"no record of a queue has the key {key!r}")


def _kept_status(queue: Queue) -> KeptStatus:
    token, done, lost = queue.leases.next_token, queue.done, queue.lost
    whole = queue.doubts.whole(queue.tail)
    return KeptStatus(queue.tail, token, queue.paused, done, lost, queue.bound, whole)


def _kept_run(queue: Queue, run: Run) -> KeptRun:
    where = run.interval
    return KeptRun(
        columns=run.columns(),
        dropped=run.dropped,
        alive=tuple(queue.alive.common(where)),
    )


def _kept_piece(queue: Queue, key: bytes) -> KeptFailure | KeptDelay | None:
    """What begins there, of the failures or of the delays."""
    start = int.from_bytes(key[1:])
    if key[:1] == b"y":
        failed = queue.failures.at(start)
        return None if failed is None else KeptFailure(failed[0].stop, failed[1])
    delayed = queue.delays.at(start)
    return None if delayed is None else KeptDelay(delayed[0].stop, delayed[1])


def _restore_status(queue: Queue, status: KeptStatus) -> None:
    queue.tail, queue.leases.next_token = status.tail, status.next_token
    queue.paused, queue.done, queue.lost = status.paused, status.done, status.lost
    queue.bound = status.bound
    if 0 <= status.whole < status.tail:
        queue.doubts.add(LEFT, Interval(status.whole, status.tail))


def _restore_run(queue: Queue, start: int, kept: KeptRun, shared: Shared) -> None:
    run = Run.of(start, kept.columns)
    run.dropped = kept.dropped
    for lane in run.lanes:
        lane.stream = shared.setdefault(lane.stream, lane.stream)
        lane.keepers = shared.setdefault(lane.keepers, lane.keepers)
    queue.runs.restore(run, list(kept.alive))
    queue.tail = max(queue.tail, run.stop)  # the record that has it may be missing
    queue.bytes += run.held
    for part in kept.alive:
        queue.alive.add(part)
        queue.ready.add(part)


def _restore_failure(queue: Queue, start: int, kept: KeptFailure) -> None:
    """What of these is alive failed so often; the runs were read before."""
    for part in queue.alive.common(Interval(start, kept.stop)):
        queue.failures.restore(part, kept.failure)
        if kept.failure.times >= queue.settings.deliveries_max:
            queue.dead.add(part)
            queue.ready.remove(part)


def _restore_delay(queue: Queue, start: int, kept: KeptDelay) -> None:
    """What of these is alive waits until then."""
    for part in queue.alive.common(Interval(start, kept.stop)):
        queue.delays.restore(part, kept.due)
        queue.ready.remove(part)
