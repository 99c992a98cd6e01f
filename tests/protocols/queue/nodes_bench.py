"""Some whole nodes on a bench: messages arrive at once, disks flush at once, one clock for all."""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from snowmelt.core.batch import Batch
from snowmelt.core.instant import Instant, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import Address, NodeId, OperationId
from snowmelt.core.node import (
    Announced,
    Event,
    Expired,
    Load,
    Note,
    Persist,
    Persisted,
    Received,
    Reply,
    Requested,
    Scan,
    Send,
    SetTimer,
)
from snowmelt.core.record import BULK
from snowmelt.protocols.calling import Elsewhere
from snowmelt.protocols.membership import Member, View
from snowmelt.protocols.queue import QueueNode
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt_world.disk import Disk

WALL = 10**18


class Nodes:
    """So many nodes, of which the first is the coordinator. `lost` decides what never arrives."""

    def __init__(self, count: int) -> None:
        self.now = Instant(0)
        self.lost: Callable[[NodeId, NodeId, Any], bool] = lambda *_: False
        self.sent: list[tuple[NodeId, NodeId, Any]] = []
        self.notes: list[str] = []
        self.members = {
            NodeId(f"n{at}"): Member(NodeId(f"n{at}"), Address("127.0.0.1", 4410 + at), at, 1)
            for at in range(1, count + 1)
        }
        self.disks = {name: Disk(Random(1)) for name in self.members}
        self.nodes: dict[NodeId, QueueNode] = {}
        self._timers: dict[NodeId, SetTimer] = {}
        self._events: deque[tuple[NodeId, Event[Any]]] = deque()
        self.told: dict[int, Any] = {}
        self._calls = 0
        self._views = 0
        for name in self.members:
            self.nodes[name] = QueueNode(name, Random(name))
            self._events.append((name, self.disks[name].start(WALL)))
        self.view(*self.members)

    # --- the world --------------------------------------------------------------------------------

    def view(self, *names: str) -> None:
        """These are members from now on."""
        self._views += 1
        members = tuple(self.members[NodeId(name)] for name in names)
        view = View(1, self._views, members[0].id, members)
        self._events.extend((one.id, Announced(view)) for one in members)
        self._run()

    def restart(self, name: str) -> None:
        """A node's process ends and begins again; the view is another matter."""
        old = self.members[NodeId(name)]
        self.members[old.id] = Member(old.id, old.address, old.birth, old.start + 1)
        self._timers.pop(old.id, None)
        self.nodes[old.id] = QueueNode(old.id, Random(f"{name}/{old.start}"))
        self._events.append((old.id, self.disks[old.id].start(WALL + self.now)))
        self._run()

    def pass_time(self, length: float) -> None:
        """The clock goes on, and timers ring on the way."""
        end = Instant(self.now + seconds(length))
        while self._timers:
            name, timer = min(self._timers.items(), key=lambda one: (one[1].at, one[0]))
            if timer.at > end:
                break
            del self._timers[name]
            self.now = max(self.now, timer.at)
            self._events.append((name, Expired(timer.timer)))
            self._run()
        self.now = end

    def _run(self) -> None:
        while self._events:
            name, event = self._events.popleft()
            for effect in self.nodes[name].handle(event, self.now):
                self._carry_out(name, effect)

    def _carry_out(self, name: NodeId, effect: Any) -> None:
        match effect:
            case Send(target, message):
                self.sent.append((name, target, message))
                if target in self.nodes and not self.lost(name, target, message):
                    self._events.append((target, Received(name, message)))
            case Persist(ticket):
                self.disks[name].ask(effect)
                self.disks[name].flush()
                self._events.append((name, Persisted(ticket)))
            case Load() | Scan():
                self._events.append((name, self.disks[name].answer(effect)))
            case Reply(operation, message):
                self.told[operation.number] = message
            case SetTimer():
                self._timers[name] = effect
            case Note(text):
                self.notes.append(text)

    def receive(self, source: str, target: str, message: Any) -> None:
        """A message arrives, again or late."""
        self._events.append((NodeId(target), Received(NodeId(source), message)))
        self._run()

    # --- a client ---------------------------------------------------------------------------------

    def ask(self, request: Any, at: str = "n1") -> Any:
        """Calls a node, and whomever it points at; what is told within ten seconds."""
        self._calls += 1
        for _ in range(100):
            told = self.told.pop(self._asked(request, at, self._calls), None)
            if isinstance(told, Elsewhere):
                at = told.node
            elif told is not None:
                return told
            else:
                self.pass_time(0.1)
        raise AssertionError(f"no answer to {request}")

    def asked(self, request: Any, at: str) -> int:
        """Calls a node, and does not wait; under which number it is told."""
        self._calls += 1
        return self._asked(request, at, self._calls)

    def _asked(self, request: Any, at: str, number: int) -> int:
        self._events.append((NodeId(at), Requested(OperationId(NodeId("c-1"), number), request)))
        self._run()
        return number

    def open(self, **settings: Any) -> calls.Opened:
        """Makes queue q; its master is whoever the coordinator chose."""
        opened: calls.Opened = self.ask(calls.Open("q", QueueSettings(**settings)))
        return opened

    def put(self, bodies: list[bytes], sequence: int, at: str = "n1", **more: Any) -> Any:
        """Puts some at a node."""
        batch = Batch.of(bodies)
        put = calls.Put("q", "p", sequence, bytes(batch.offsets), bytes(batch.blob), **more)
        return self.ask(put, at)

    def get(self, items_max: int, bytes_max: int = 1 << 20) -> calls.Leased:
        """Leases some."""
        leased: calls.Leased = self.ask(calls.Get("q", items_max, bytes_max, seconds(0)))
        return leased

    def settle(self, token: int, *done: Interval) -> Any:
        """Acknowledges some."""
        return self.ask(calls.Settle("q", token, done=done))

    def status(self) -> calls.QueueStatus:
        """How the queue is."""
        status: calls.QueueStatus = self.ask(calls.Describe("q"))
        return status

    # --- what is where ----------------------------------------------------------------------------

    def bodies(self, name: str) -> list[bytes]:
        """Under which keys a node has segments."""
        return [one.key for one in self.disks[NodeId(name)].scan(BULK, BULK + b"\xff", 1 << 40)]

    def lose(self, name: str, *, damage: bool = False, first: int = 0, stop: int = 1 << 62) -> None:
        """A node's disk loses the segments that end from one index to another, or damages them."""
        disk = self.disks[NodeId(name)]
        for key in self.bodies(name):
            if first < int.from_bytes(key[-8:]) <= stop:
                if damage:
                    value, check = disk._values[key]
                    disk._values[key] = value + b"!", check
                else:
                    disk._keys.remove(key)
                    del disk._values[key]
