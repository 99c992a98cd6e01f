"""Several processes of one pool on a bench: post, disks and the clock are turned by hand.

Nothing moves by itself. A message lies in the `post` until it is delivered, dropped or doubled; a
disk has what it was asked until it is flushed; time stands until `wait`. After each step every
machine that was touched is asked for its invariants.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from snowmelt.core.batch import Batch
from snowmelt.core.instant import Instant, seconds
from snowmelt.core.names import Address, NodeId, OperationId
from snowmelt.core.node import (
    Announce,
    Announced,
    Expired,
    Load,
    Loaded,
    Note,
    Persist,
    Persisted,
    PersistFailed,
    Received,
    Reply,
    Requested,
    Send,
    SetTimer,
    Started,
)
from snowmelt.core.record import BULK, Erase, Missing, Record
from snowmelt.protocols.calling import Lost
from snowmelt.protocols.pool import calls
from snowmelt.protocols.pool.alarms import PoolTimer
from snowmelt.protocols.pool.introductions import Acquaintance
from snowmelt.protocols.pool.messages import Message
from snowmelt.protocols.pool.peer import PoolPeer
from snowmelt.protocols.pool.settings import PoolSettings

PATIENCE = seconds(3600)
_wire = msgspec.msgpack.Decoder(Message)

Sort = type | tuple[type, ...]


class Envelope(msgspec.Struct, frozen=True):
    """A message on its way."""

    source: NodeId
    target: NodeId
    message: Any


def bodies_of(found: Any) -> list[bytes]:
    """What a `Found` or a `Got` brought."""
    at, bodies = 0, []
    for span in found.spans:
        batch = Batch(span.offsets, found.blob[at : at + span.size])
        bodies += [bytes(body) for body in batch]
        at += span.size
    return bodies


def batch_of(*bodies: bytes) -> tuple[bytes, bytes]:
    """Edges and blob, as a put takes them."""
    batch = Batch.of(bodies)
    return bytes(batch.offsets), bytes(batch.blob)


class Process:
    """One process: what its program asks, and what it was told."""

    def __init__(self, bench: "PoolBench", name: str, peer: PoolPeer, spill: bool) -> None:
        self.bench = bench
        self.name = NodeId(name)
        self.peer = peer
        self.spill = spill
        self.disk: dict[bytes, bytes] = {}
        self.asked: list[Persist | Load] = []
        self.due: Instant | None = None
        self.told: dict[int, Any] = {}
        self.notes: list[str] = []
        self._calls = 0

    # --- its program ------------------------------------------------------------------------------

    def ask(self, message: Any) -> int:
        """Calls; the answer will be in `told` under this number."""
        self._calls += 1
        self.hear(Requested(OperationId(self.name, self._calls), message))
        return self._calls

    def put(self, *bodies: bytes, patience: int = PATIENCE) -> int:
        return self.ask(calls.PoolPut(*batch_of(*bodies), patience, asker=7))

    def get(self, count: int = 1, patience: int = PATIENCE, bytes_max: int = 1 << 30) -> int:
        return self.ask(calls.PoolGet(count, bytes_max, patience))

    def ack(self, got: calls.Got, *intervals: Any, patience: int = PATIENCE) -> int:
        return self.ask(calls.Ack(got.token, intervals, patience))

    def nack(self, got: calls.Got, *intervals: Any) -> int:
        return self.ask(calls.Nack(got.token, intervals))

    def stop(self, patience: int = PATIENCE) -> int:
        return self.ask(calls.Stop(patience))

    def fetch(self, count: int = 1) -> calls.Got:
        """Gets, with all post delivered."""
        call = self.get(count)
        self.bench.deliver()
        return self.told[call]

    @property
    def statistics(self) -> calls.PeerStatistics:
        return self.told[self.ask(calls.DescribePeer())]

    # --- its machine ------------------------------------------------------------------------------

    def hear(self, event: Any) -> None:
        for effect in self.peer.handle(event, self.bench.now):
            match effect:
                case Send(target, message):
                    self.bench.post.append(Envelope(self.name, target, message))
                case Reply(operation, message):
                    assert operation.number not in self.told, "answered twice"
                    self.told[operation.number] = message
                case SetTimer(PoolTimer.NEXT, at):
                    self.due = at
                case Persist() | Load():
                    self.asked.append(effect)
                case Note(text):
                    self.notes.append(text)
                case Announce():
                    pass
                case _:
                    raise AssertionError(effect)
        self.peer.check()

    def lost(self, other: "Process") -> None:
        """The way to another has ended."""
        self.hear(Announced(Lost(other.name)))

    def reached(self, other: "Process") -> None:
        self.hear(Announced(calls.Reachable(other.name)))

    # --- its disk ---------------------------------------------------------------------------------

    def flush(self, failure: str = "") -> None:
        """The disk does what it was asked, or can't."""
        asked, self.asked = self.asked, []
        for one in asked:
            match one:
                case Load(ticket, keys):
                    found = [
                        Record(key, self.disk[key]) if key in self.disk else Missing(key)
                        for key in keys
                    ]
                    self.hear(Loaded(ticket, tuple(found)))
                case Persist(ticket) if failure:
                    self.hear(PersistFailed(ticket, failure))
                case Persist(ticket, changes):
                    for change in changes:
                        self._change(change)
                    self.hear(Persisted(ticket))

    def _change(self, change: Any) -> None:
        if isinstance(change, Erase):
            for key in [key for key in self.disk if change.start <= key < change.stop]:
                del self.disk[key]
        else:
            self.disk[change.key] = bytes(change.value)

    @property
    def small(self) -> tuple[Record, ...]:
        """What it is told of its disk when it starts."""
        keys = sorted(key for key in self.disk if not key.startswith(BULK))
        return tuple(Record(key, self.disk[key]) for key in keys)


class PoolBench:
    """The processes, the post between them, and the clock."""

    def __init__(self, seed: int = 1) -> None:
        self.now = Instant(0)
        self.post: list[Envelope] = []
        self.processes: dict[str, Process] = {}
        self._chance = Random(seed)
        self._settings: dict[str, PoolSettings] = {}

    def add(self, name: str, **settings: Any) -> Process:
        """A process begins to live; it knows nobody yet."""
        self._settings[name] = PoolSettings(**settings).checked()
        return self._begin(name, {})

    def restart(self, name: str, under: str = "") -> Process:
        """It was killed and lives again, with nothing but its disk; what it had sent is on its way.

        It knows nobody yet. It may have another name in its next life.
        """
        killed = self.processes.pop(name)
        self._settings[under or name] = self._settings[name]
        return self._begin(under or name, killed.disk)

    def _begin(self, name: str, disk: dict[bytes, bytes]) -> Process:
        settings = self._settings[name]
        chance = Random(self._chance.getrandbits(64))
        peer = PoolPeer(NodeId(name), "frames", settings, chance)
        process = self.processes[name] = Process(self, name, peer, settings.spill)
        process.disk = disk
        process.hear(Started(process.small))
        return process

    def meet(self, *producers: Process) -> None:
        """Everybody learns who produces; with no name, that nobody does."""
        known = tuple(
            Acquaintance(one.name, one.name, Address("127.0.0.1", 1)) for one in producers
        )
        for process in list(self.processes.values()):
            process.hear(Announced(calls.PoolMembers(known, tuple(one.id for one in known))))

    # --- the post ---------------------------------------------------------------------------------

    def deliver(self, sort: Sort | None = None) -> int:
        """Delivers until nothing is left, or nothing of this sort; returns how many."""
        for count in range(10_000):
            letter = self._next(sort)
            if letter is None:
                return count
            self.post.remove(letter)
            self.hand(letter)
        raise AssertionError("the post never ends")

    def take(self, sort: Sort) -> list[Envelope]:
        """Takes messages of a sort out of the post: dropped, unless the test hands them later."""
        taken = [letter for letter in self.post if isinstance(letter.message, sort)]
        self.post = [letter for letter in self.post if not isinstance(letter.message, sort)]
        return taken

    def double(self) -> None:
        """Everything in the post comes twice."""
        self.post = [letter for letter in self.post for _ in range(2)]

    def hand(self, letter: Envelope) -> None:
        """One message arrives, as it comes off the wire."""
        target = self.processes.get(letter.target)
        if target is not None:
            message = _wire.decode(msgspec.msgpack.encode(letter.message))
            target.hear(Received(letter.source, message))

    def _next(self, sort: Sort | None) -> Envelope | None:
        fitting = (one for one in self.post if sort is None or isinstance(one.message, sort))
        return next(fitting, None)

    # --- the clock --------------------------------------------------------------------------------

    def wait(self, span: float, between: Callable[[], object] | None = None) -> None:
        """Time passes; alarms ring in their order, and all post is delivered after each.

        `between` stands in for the delivery, where a test wants the post to be late or lost.
        """
        end = Instant(self.now + seconds(span))
        between = between or self.deliver
        between()
        while ringing := [one for one in self._set() if one.due is not None and one.due <= end]:
            first = min(ringing, key=lambda one: one.due or 0)
            assert first.due is not None
            self.now = max(self.now, first.due)
            first.due = None
            first.hear(Expired(PoolTimer.NEXT))
            between()
        self.now = end

    def _set(self) -> list[Process]:
        return list(self.processes.values())
