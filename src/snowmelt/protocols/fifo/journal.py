"""A queue's records, and the steps in which they are written here and at its mirrors.

The journal of a queue is a small map of keys to values, and a *step* is what one write changes in
it. Rules:

1. A step is written on the master's disk and sent to the mirrors at the same time; steps have
   numbers without gaps within a term.
2. A step is *safe* when the master and so many mirrors as make `copies_needed` have it, flushed.
   What depends on a step is told only then, in the order of steps.
3. A mirror that misses a step, or is new, gets the whole map as a snapshot.
4. A mirror takes nothing of a term earlier than one it has been fenced by (`mirrors.py`).
"""

from collections import deque
from collections.abc import Callable, Container, Iterator
from typing import Final

import msgspec

from snowmelt.core.instant import Duration, Instant, later, milliseconds
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.names import OperationId
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.extents import Columns, Run
from snowmelt.protocols.fifo.groups import Group
from snowmelt.protocols.fifo.leases import Lease
from snowmelt.protocols.fifo.limits import LIMITS, Limits
from snowmelt.protocols.fifo.messages import Mirror, Pairs, Snapshot
from snowmelt.protocols.fifo.publications import Publication
from snowmelt.protocols.fifo.publications import key as publication_key
from snowmelt.protocols.fifo.publications import name_of as publication_name
from snowmelt.protocols.fifo.queue import Failure, Queue
from snowmelt.protocols.fifo.settings import QueueSettings
from snowmelt.protocols.fifo.staged import StagedBatch
from snowmelt.protocols.fifo.staged import key as staged_key
from snowmelt.protocols.fifo.staged import name_of as staged_name
from snowmelt.protocols.fifo.streams import Stream, node_of

Then = Callable[[], None]
RESEND_AFTER: Final[Duration] = milliseconds(500)


class KeptStatus(msgspec.Struct, frozen=True, array_like=True):
    """The record of the queue as a whole."""

    tail: int
    next_token: int
    paused: bool
    done: int
    lost: int


class KeptRun(msgspec.Struct, frozen=True, array_like=True):
    """The record of a run; of its items that are alive, some may have records of their own."""

    columns: Columns
    dropped: int
    alive: tuple[Interval, ...]


class KeptFailure(msgspec.Struct, frozen=True, array_like=True):
    """The record of items that were delivered in vain so often; of a run's a thousand may be."""

    stop: int
    failure: Failure


class KeptDelay(msgspec.Struct, frozen=True, array_like=True):
    """The record of items that wait for a moment."""

    stop: int
    due: int


class KeptLease(msgspec.Struct, frozen=True, array_like=True):
    """The record of a lease."""

    operation: OperationId
    left: tuple[Interval, ...]
    kept: bool


class KeptStream(msgspec.Struct, frozen=True, array_like=True):
    """The record of a stream that has not ended."""

    decided: tuple[Interval, ...]
    refused: tuple[Interval, ...]


_encode = msgspec.msgpack.encode


def record(queue: Queue, key: bytes) -> bytes | None:
    """The present value of one record; None when there is none any more."""
    rest = key[1:]
    match key[:1]:
        case b"s":
            token = queue.leases.next_token
            status = KeptStatus(queue.tail, token, queue.paused, queue.done, queue.lost)
            return _encode(status)
        case b"x":
            run = queue.runs.at(int.from_bytes(rest))
            return None if run is None else _encode(_kept_run(queue, run))
        case b"y" | b"z":
            piece = _kept_piece(queue, key)
            return None if piece is None else _encode(piece)
        case b"l":
            lease = queue.leases.held(int.from_bytes(rest))
            if lease is None:
                return None
            return _encode(KeptLease(lease.operation, tuple(lease.left), lease.kept))
        case b"p" | b"n":
            return queue.producers.record(key)
        case b"d":
            stream = queue.streams.get(rest.decode())
            if stream is None:
                return None
            return _encode(KeptStream(tuple(stream.decided), tuple(stream.refused)))
        case b"t":
            return _encode(tuple(queue.leases.settled))
        case b"g":
            group = queue.groups.named(rest.decode())
            return None if group is None else _encode(group)
        case b"h":
            batch = queue.staged.named(staged_name(rest))
            return None if batch is None else _encode(batch)
        case b"u":
            publication = queue.publications.named(publication_name(rest))
            return None if publication is None else _encode(publication)
        case _:
            raise AssertionError(f"no record has the key {key!r}")


def records(queue: Queue) -> Pairs:
    """Every record of a queue, in the order in which `restored` can take them."""
    keys = [b"s", b"t"]
    keys += [b"x" + run.start.to_bytes(8) for run in queue.runs]
    keys += [b"y" + start.to_bytes(8) for start in queue.failures.starts()]
    keys += [b"z" + start.to_bytes(8) for start in queue.delays.starts()]
    keys += [b"l" + lease.token.to_bytes(8) for lease in queue.leases]
    keys += queue.producers.keys()
    keys += [b"d" + name.encode() for name in queue.streams]
    keys += [b"g" + name.encode() for name, _ in queue.groups]
    keys += [staged_key(name) for name, _ in queue.staged]
    keys += [publication_key(name) for name, _ in queue.publications]
    return tuple((key, record(queue, key)) for key in sorted(keys))


def restored(
    name: str,
    settings: QueueSettings,
    pairs: Pairs,
    now: Instant,
    limits: Limits = LIMITS,
) -> Queue:
    """A queue from its records; raises `ValueError` when they don't read."""
    queue = Queue(name, settings, limits)
    decode = msgspec.msgpack.decode
    for key, value in sorted(pairs):  # runs by their positions, then what is said of their items
        assert value is not None
        rest = key[1:]
        match key[:1]:
            case b"s":
                status = decode(value, type=KeptStatus)
                queue.tail, queue.leases.next_token = status.tail, status.next_token
                queue.paused, queue.done, queue.lost = status.paused, status.done, status.lost
            case b"x":
                _restore_run(queue, int.from_bytes(rest), decode(value, type=KeptRun))
            case b"y":
                failed, start = decode(value, type=KeptFailure), int.from_bytes(rest)
                queue.restore_failure(Interval(start, failed.stop), failed.failure)
            case b"z":
                delayed, start = decode(value, type=KeptDelay), int.from_bytes(rest)
                queue.restore_delay(Interval(start, delayed.stop), delayed.due)
            case b"l":
                kept = decode(value, type=KeptLease)
                token = int.from_bytes(rest)
                left = IntervalSet(kept.left)
                lease = Lease(token, kept.operation, left, now, kept.kept)
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
            case b"g":
                queue.groups.keep(rest.decode(), decode(value, type=Group))
            case b"h":
                queue.staged.keep(staged_name(rest), decode(value, type=StagedBatch))
            case b"u":
                publication = decode(value, type=Publication)
                queue.publications.keep(publication_name(rest), publication)
            case _:
                raise ValueError(f"no record of a queue has the key {key!r}")
    queue.restored()
    return queue


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


def _restore_run(queue: Queue, start: int, kept: KeptRun) -> None:
    run = Run.of(start, kept.columns)
    run.dropped = kept.dropped
    queue.runs.restore(run, list(kept.alive))
    for part in kept.alive:
        queue.alive.add(part)


class Copyist(msgspec.Struct):
    """A mirror as the master sees it."""

    step: int = -1
    """The last step it said it has; -1: nothing of this term yet."""
    asked: Instant = Instant(0)
    """When it was last sent something that it has not confirmed."""


class Journal:
    """The steps of one queue in one term, as its master writes them."""

    def __init__(self, queue: Queue, term: int, step: int, mirrors: tuple[str, ...]) -> None:
        self.queue = queue
        self.term = term
        self.step = step
        self.here = step
        self.mirrors = {name: Copyist() for name in mirrors}
        self._next: list[Then] = []
        self._waiting: deque[tuple[int, Then]] = deque()

    @property
    def safe(self) -> int:
        """The last step that is safe (rule 2)."""
        needed = self.queue.settings.copies_needed - 1
        if needed == 0:
            return self.here
        steps = sorted((one.step for one in self.mirrors.values()), reverse=True)
        return min(self.here, steps[needed - 1]) if needed <= len(steps) else -1

    def after(self, then: Then) -> None:
        """What is to be done when all that was changed until now is safe."""
        self._next.append(then)

    @property
    def lax(self) -> bool:
        """Whether nothing waits for a step: there is no mirror, and flushes may be late."""
        return bool(self.queue.settings.linger) and not self.mirrors

    def write(self) -> Pairs:
        """Makes the next step of what has changed; nothing when nothing has."""
        keys = list(self.queue.changed)
        self.queue.changed.clear()
        if keys:
            self.step += 1
        self._waiting.extend((self.step, then) for then in self._next)
        self._next.clear()
        return tuple((key, record(self.queue, key)) for key in keys)

    def to_mirrors(self, pairs: Pairs, now: Instant) -> Iterator[tuple[str, Mirror]]:
        """The step just written, for those mirrors that follow."""
        step = Mirror(self.queue.name, self.term, self.step, self.queue.settings.linger, pairs)
        for name, mirror in self.mirrors.items():
            if mirror.step >= 0:
                mirror.asked = now
                yield name, step

    def to_laggards(
        self, here: Container[str], now: Instant, *, anew: bool = False
    ) -> Iterator[tuple[str, Snapshot]]:
        """A snapshot for each mirror here that has been silent for too long (rule 3)."""
        behind = [
            (name, mirror)
            for name, mirror in self.mirrors.items()
            if name in here
            and mirror.step < self.step
            and (anew or later(mirror.asked, RESEND_AFTER) <= now)
        ]
        if not behind:
            return
        snapshot = Snapshot(self.queue.name, self.term, self.step, records(self.queue))
        for name, mirror in behind:
            mirror.asked = now
            yield name, snapshot

    def mirrored(self, name: str, step: int) -> None:
        """A mirror has all steps up to this one."""
        mirror = self.mirrors.get(name)
        if mirror is not None:
            mirror.step = max(mirror.step, step)

    def lagging(self, name: str) -> None:
        """A mirror needs a snapshot, now."""
        mirror = self.mirrors.get(name)
        if mirror is not None:
            mirror.step = -1
            mirror.asked = Instant(0)

    def again(self, here: Container[str]) -> Instant | None:
        """When a silent mirror here is to be written to again; None when none is behind."""
        mirrors = self.mirrors.items()
        behind = [one.asked for name, one in mirrors if name in here and one.step < self.step]
        return later(min(behind), RESEND_AFTER) if behind else None

    def due(self) -> list[Then]:
        """What may be done now, since its step is safe; in order."""
        if self.lax:
            ready, self._next = self._next, []
            return ready
        safe = self.safe
        ready = []
        while self._waiting and self._waiting[0][0] <= safe:
            ready.append(self._waiting.popleft()[1])
        return ready


def remind_mirrors(desk: Desk, journal: Journal, *, anew: bool = False) -> None:
    """Sends a snapshot to each mirror that is here and lacks something."""
    if desk.presence is not None:
        for name, snapshot in journal.to_laggards(desk.presence.keepers, desk.now, anew=anew):
            desk.send(node_of(name), snapshot)
