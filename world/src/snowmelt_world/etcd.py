"""An etcd for the world: one that is linearizable, and has a process, a clock and weather.

It is a machine like a node, so whatever the world does to nodes it does to this: requests and
answers are lost, doubled, late and out of order; it dies and comes back, is paused or slow; its
clock runs wrong or leaps, and then leases end early. What it answers is on its disk, which the
world leaves whole: a real one has a majority of disks for that. Besides:

1. It answers one request at a time, in one step, at one revision: so it is linearizable.
2. A process that begins gives every lease its whole time anew, as a new leader of a real etcd does.
3. A lease ends when it is looked at, which may be late; its keys go with it, as a change of theirs.
"""

from enum import Enum
from typing import Any, Final

import msgspec

from snowmelt.core.errors import StoreDamaged
from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import (
    Effect,
    Event,
    Expired,
    Persist,
    Persisted,
    Received,
    Send,
    SetTimer,
    Started,
)
from snowmelt.core.record import Write, decoded
from snowmelt.protocols import etcd
from snowmelt.protocols.membership.founding import in_etcd
from snowmelt.protocols.membership.records import LEADER, LeaderRecord
from snowmelt_world.world import World

LEAST_SECONDS: Final = 2
"""No lease is shorter, as with a real one: half as long again as it takes to miss a leader."""
STATE: Final = b"etcd"
NAME: Final = "snowmelt"
"""What a simulated cluster is called."""


class EtcdTimer(Enum):
    LEASE = "etcd.lease"


class Held(msgspec.Struct):
    """A key's value, its last change, and the lease that it goes with."""

    value: bytes
    revision: int
    lease: int = 0


class State(msgspec.Struct):
    revision: int = 1
    keys: dict[str, Held] = {}
    leases: dict[int, int] = {}
    """By lease: its seconds."""
    leases_made: int = 0


class Model:
    """What etcd does with each request; the time comes as an argument, and nothing is sent.

    >>> model, now = Model(), Instant(0)
    >>> put = etcd.Transact(1, (etcd.Unchanged("a", 0),), (etcd.PutKey("a", b"x"),),
    ...     (etcd.Read("a"),))
    >>> model.answer(put, now).succeeded, model.answer(put, now).succeeded
    (True, False)
    """

    def __init__(self, state: State | None = None) -> None:
        self.state = State() if state is None else state
        self.ends: dict[int, Instant] = {}
        """When each lease ends, by the clock of this process."""

    def begin(self, now: Instant) -> None:
        """Rule 2."""
        for lease, length in self.state.leases.items():
            self.ends[lease] = later(now, seconds(length))

    def expire(self, now: Instant) -> None:
        """Rule 3."""
        for lease in [lease for lease, end in self.ends.items() if end <= now]:
            del self.ends[lease], self.state.leases[lease]
            gone = [key for key, held in self.state.keys.items() if held.lease == lease]
            if gone:
                self.state.revision += 1
            for key in gone:
                del self.state.keys[key]

    def answer(self, request: etcd.Request, now: Instant) -> etcd.Answer:
        """Rule 1."""
        match request:
            case etcd.LeaseGrant(number, length):
                state = self.state
                state.leases_made += 1
                lease, length = 1000 + state.leases_made, max(length, LEAST_SECONDS)
                state.leases[lease] = length
                self.ends[lease] = later(now, seconds(length))
                return etcd.LeaseGranted(number, lease, length)
            case etcd.Refresh(number, lease):
                length = self.state.leases.get(lease, 0)
                if length:
                    self.ends[lease] = later(now, seconds(length))
                return etcd.Refreshed(number, length)
            case etcd.Revoke(number, lease):
                if lease not in self.state.leases:
                    return etcd.EtcdFailed(
                        number, etcd.Trouble.NO_LEASE, "requested lease not found"
                    )
                self.ends[lease] = now
                self.expire(now)
                return etcd.Revoked(number)
            case etcd.Transact():
                return self._transacted(request)

    def _transacted(self, request: etcd.Transact) -> etcd.Answer:
        sides = (request.when, request.then, request.otherwise)
        if max(map(len, sides)) > etcd.OPERATIONS_MAX:
            return etcd.EtcdFailed(
                request.number, etcd.Trouble.REFUSED, "too many operations in txn request"
            )
        succeeded = all(self._holds(one) for one in request.when)
        side = request.then if succeeded else request.otherwise
        puts = [one for one in side if isinstance(one, etcd.PutKey)]
        if any(put.lease and put.lease not in self.state.leases for put in puts):
            return etcd.EtcdFailed(
                request.number, etcd.Trouble.NO_LEASE, "requested lease not found"
            )
        if puts or any(
            isinstance(one, etcd.DeleteKey) and one.key in self.state.keys for one in side
        ):
            self.state.revision += 1
        read = tuple([self._done(one) for one in side])
        rows = tuple(rows for rows in read if rows is not None)
        return etcd.Transacted(request.number, self.state.revision, succeeded, rows)

    def _holds(self, condition: etcd.Condition) -> bool:
        held = self.state.keys.get(condition.key)
        match condition:
            case etcd.Unchanged(_, revision):
                return (0 if held is None else held.revision) == revision
            case etcd.CompareValue(_, value):
                return held is not None and held.value == value

    def _done(self, operation: etcd.Operation) -> tuple[etcd.Row, ...] | None:
        keys = self.state.keys
        match operation:
            case etcd.PutKey(key, value, lease):
                keys[key] = Held(value, self.state.revision, lease)
                return None
            case etcd.DeleteKey(key):
                keys.pop(key, None)
                return None
            case etcd.Read(start, stop, most):
                found = sorted(key for key in keys if key == start or start <= key < stop)
                within = found[: min(most, etcd.ROWS_MAX)]
                return tuple(etcd.Row(key, keys[key].value, keys[key].revision) for key in within)


def leader_of(world: World) -> NodeId | None:
    slot = world.slots.get(etcd.ETCD)
    node = None if slot is None else slot.node
    held = node.held(LEADER) if isinstance(node, EtcdNode) else None
    try:
        return None if held is None else decoded(held, LeaderRecord).node
    except StoreDamaged:  # somebody else put something there
        return None


class EtcdNode:
    """The model as a process of the world: it answers when what it answers is on its disk.

    A cluster is founded in it, unless it is said that there is none.
    """

    def __init__(self, *, founded: bool = True) -> None:
        self._model = Model()
        if founded:
            self._model.answer(etcd.Transact(1, (), in_etcd(1, NAME)), Instant(0))
        self._tickets = 0
        self._told: dict[int, tuple[NodeId, etcd.Answer]] = {}

    def handle(self, event: Event[Any], now: Instant) -> list[Effect[Any]]:
        """One request, or the end of a lease."""
        model = self._model
        match event:
            case Started(records):
                if records:
                    state = msgspec.msgpack.decode(records[0].value, type=State)
                    model = self._model = Model(state)
                model.begin(now)
                return self._look_later()
            case Received(source, message):
                model.expire(now)
                self._tickets += 1
                self._told[self._tickets] = source, model.answer(message, now)
                return [self._persist(), *self._look_later()]
            case Persisted(ticket) if ticket in self._told:
                return [Send(*self._told.pop(ticket))]
            case Expired():
                model.expire(now)
                self._tickets += 1
                return [self._persist(), *self._look_later()]
            case _:
                return []

    def held(self, key: str) -> bytes | None:
        held = self._model.state.keys.get(key)
        return None if held is None else held.value

    def check(self) -> None:
        """A key's lease is there."""
        state = self._model.state
        assert all(not one.lease or one.lease in state.leases for one in state.keys.values())

    def _persist(self) -> Effect[Any]:
        value = msgspec.msgpack.encode(self._model.state)
        return Persist(self._tickets, (Write(STATE, value),))

    def _look_later(self) -> list[Effect[Any]]:
        ends = self._model.ends
        return [SetTimer(EtcdTimer.LEASE, min(ends.values()))] if ends else []
