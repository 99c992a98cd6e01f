"""Some whole nodes on a bench: messages cross a wire, disks flush at once, one clock for all."""

from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Union

import msgspec

from snowmelt.core.batch import Batch as Bodies
from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.names import Address, NodeId, OperationId
from snowmelt.core.node import (
    Announced,
    Event,
    Expired,
    Load,
    Persist,
    Persisted,
    Received,
    Reply,
    Requested,
    Send,
    SetTimer,
)
from snowmelt.core.record import BULK, Write
from snowmelt.protocols.membership import Member, View
from snowmelt.protocols.priority import MESSAGES, PriorityNode, calls
from snowmelt.protocols.priority.batches import union
from snowmelt.protocols.priority.calls import Leased, Part, PutDone, Receipt
from snowmelt.protocols.priority.keyed import by_key
from snowmelt.protocols.priority.limits import LIMITS, Limits
from snowmelt.protocols.priority.messages import Several
from snowmelt.protocols.priority.settings import QueueSettings
from snowmelt.sim.disk import Disk, Ending
from snowmelt.wire.framing import FRAME_BYTES_MAX

WALL = 10**18
CLIENT = NodeId("c-1")
_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(Union[MESSAGES]).decode  # type: ignore[var-annotated]  # noqa: UP007


class Nodes:
    """So many nodes; `lost` decides what never arrives."""

    def __init__(self, count: int, limits: Limits = LIMITS) -> None:
        self.now = Instant(0)
        self.limits = limits
        self.lost: Callable[[NodeId, NodeId, Any], bool] = lambda *_: False
        self.sent: list[tuple[NodeId, NodeId, Any]] = []
        self.members = {
            NodeId(f"n{at}"): Member(NodeId(f"n{at}"), Address("127.0.0.1", 4410 + at), at, 1)
            for at in range(1, count + 1)
        }
        self.disks = {name: Disk(Random(1)) for name in self.members}
        self.nodes: dict[NodeId, PriorityNode] = {}
        self.timers: dict[NodeId, SetTimer] = {}
        self._events: deque[tuple[NodeId, Event[Any]]] = deque()
        self._told: dict[int, Any] = {}
        self._calls = 0
        self._views = 0
        self.hanging: set[str] = set()
        """Whose disks flush nothing for now."""
        self.full: set[str] = set()
        """Whose disks have no room for what is large: bodies."""
        self.written: list[int] = []
        """How many records each flush has."""
        self._hung: list[tuple[NodeId, Persist]] = []
        self.again = False
        """Whether the next view has the number of the last one."""
        for name in self.members:
            self._start(name)
        self.view(*self.members)

    # --- the world --------------------------------------------------------------------------------

    def view(self, *names: str) -> None:
        """These are members from now on."""
        self._views += not self.again
        members = tuple(self.members[NodeId(name)] for name in names)
        view = View(1 + self.again, self._views, members[0].id, members)
        self._events.extend((one.id, Announced(view)) for one in members)
        self._run()

    def stop(self, name: str) -> None:
        """A node's process ends; what was not flushed is lost."""
        self.disks[NodeId(name)].end(Ending.POWER)
        self.timers.pop(NodeId(name), None)
        self._hung = [one for one in self._hung if one[0] != name]
        del self.nodes[NodeId(name)]

    def restart(self, name: str) -> None:
        """It begins again, on its disk; the view is another matter."""
        old = self.members[NodeId(name)]
        self.members[old.id] = Member(old.id, old.address, old.birth, old.start + 1)
        self.timers.pop(old.id, None)
        self._start(old.id)

    def flush(self) -> None:
        """The disks that hang flush again, or find that they have no room."""
        self.hanging.clear()
        hung, self._hung = self._hung, []
        for name, asked in hung:
            disk = self.disks[name]
            disk.room = 0 if self._is_too_much(name, asked) else None
            self._events.extend((name, answer) for answer in disk.flush())
            disk.room, disk.full = None, False
        self._run()

    def _is_too_much(self, name: NodeId, asked: Persist) -> bool:
        large = any(isinstance(one, Write) and one.key.startswith(BULK) for one in asked.changes)
        return large and name in self.full

    def pass_time(self, length: float) -> None:
        """The clock goes on, and timers ring on the way."""
        end = later(self.now, seconds(length))
        while self.timers:
            name, timer = min(self.timers.items(), key=lambda one: (one[1].at, one[0]))
            if timer.at > end:
                break
            del self.timers[name]
            self.now = max(self.now, timer.at)
            self._events.append((name, Expired(timer.timer)))
            self._run()
        self.now = end

    def _start(self, name: NodeId) -> None:
        self.nodes[name] = PriorityNode(name, Random(name), limits=self.limits)
        self._events.append((name, self.disks[name].start(WALL + self.now)))
        self._run()

    def _run(self) -> None:
        while self._events:
            name, event = self._events.popleft()
            if name not in self.nodes:
                continue
            node = self.nodes[name]
            for effect in node.handle(event, self.now):
                self._carry_out(name, effect)
            node.check()

    def _carry_out(self, name: NodeId, effect: Any) -> None:
        match effect:
            case Send(target, message):
                self.sent.append((name, target, message))
                for one in self._arriving(name, target, message):
                    packed = _ENCODE(one)
                    assert len(packed) <= FRAME_BYTES_MAX, f"{len(packed)} bytes in one message"
                    self._events.append((target, Received(name, _DECODE(packed))))
            case Persist(ticket) if name not in self.hanging and self._is_too_much(name, effect):
                self._events.append((name, self.disks[name].refusal(ticket)))
            case Persist(ticket):
                self.disks[name].ask(effect)
                self.written.append(len(effect.changes))
                if name in self.hanging:
                    self._hung.append((name, effect))
                    return
                self.disks[name].flush()
                self._events.append((name, Persisted(ticket)))
            case Load():
                self._events.append((name, self.disks[name].answer(effect)))
            case Reply(operation, message):
                self._told[operation.number] = message
            case SetTimer():
                self.timers[name] = effect

    def _arriving(self, source: NodeId, target: NodeId, message: Any) -> list[Any]:
        """What of it is not lost: messages that go together may be lost one by one."""
        if target not in self.nodes:
            return []
        several = message.messages if isinstance(message, Several) else (message,)
        left = [one for one in several if not self.lost(source, target, one)]
        return [message] if len(left) == len(several) else left

    # --- clients ----------------------------------------------------------------------------------

    def ask(self, node: str, call: Any, number: int | None = None) -> int:
        """A client calls; the number of its call."""
        if number is None:
            self._calls += 1
            number = self._calls
        self._events.append((NodeId(node), Requested(OperationId(CLIENT, number), call)))
        self._run()
        return number

    def give(self, node: str, event: Event[Any]) -> None:
        """Something else happens to a node."""
        self._events.append((NodeId(node), event))
        self._run()

    def at_once(self, node: str, asked: Iterable[Any]) -> list[int]:
        """Calls that come together; their numbers."""
        numbers = []
        for call in asked:
            self._calls += 1
            numbers.append(self._calls)
            self._events.append((NodeId(node), Requested(OperationId(CLIENT, self._calls), call)))
        self._run()
        return numbers

    def told(self, number: int) -> Any:
        """What it was answered; None while it was not."""
        return self._told.get(number)

    def call(self, node: str, call: Any) -> Any:
        """A call, and its answer, after some seconds if need be."""
        number = self.ask(node, call)
        for _ in range(20):
            if number in self._told:
                break
            self.pass_time(0.25)
        return self._told[number]

    def sent_of(self, kind: str) -> list[tuple[NodeId, NodeId, Any]]:
        """Every message of a kind that one sent to another, also those that went together."""
        return [
            (source, target, one)
            for source, target, message in self.sent
            for one in (message.messages if isinstance(message, Several) else (message,))
            if type(one).__name__ == kind
        ]

    def anchor(self, node: str) -> NodeId:
        """The node that gives the positions of `jobs`."""
        status: calls.Status = self.call(node, calls.Statistics("jobs"))
        return status.anchor

    def via(self, node: str) -> calls.Via:
        """The present life of a node."""
        return calls.Via(NodeId(node), self.members[NodeId(node)].life)

    def open(self, node: str, **settings: Any) -> Any:
        """Opens the queue `jobs`, of four priorities unless others are wanted."""
        wanted = QueueSettings(queue="jobs", **{"priorities": 4, **settings})
        return self.call(node, calls.Open("jobs", wanted))

    def put(self, node: str, *bodies: tuple[int, bytes], **options: Any) -> PutDone:
        """Puts bodies with their priorities."""
        done = self.call(node, self.put_call(node, *bodies, **options))
        assert isinstance(done, PutDone), done
        return done

    def put_call(self, node: str, *bodies: tuple[int, bytes], **options: Any) -> calls.Put:
        """A put that is not made yet."""
        parts = tuple(part(priority, [body]) for priority, body in bodies)
        return calls.Put("jobs", self.via(node), parts, **options)

    def get_call(self, node: str, most: int = 1, patience: float = 0) -> calls.Get:
        """A get that is not made yet."""
        return calls.Get("jobs", self.via(node), most, seconds(patience))

    def get(self, node: str, most: int = 1, patience: float = 0) -> Leased:
        """Gets elements."""
        leased = self.call(node, self.get_call(node, most, patience))
        assert isinstance(leased, Leased), leased
        return leased

    def settle(self, node: str, **words: Any) -> Any:
        """Says what became of elements."""
        return self.call(node, calls.Settle("jobs", **words))


def part(priority: int, bodies: Iterable[bytes]) -> Part:
    """Elements of one priority."""
    batch = Bodies.of(bodies)
    return Part(priority, bytes(batch.offsets), bytes(batch.blob))


def bodies(leased: Leased | calls.Peeked) -> list[bytes]:
    """What was got, in order; the least key first."""
    pieces = leased.pieces
    if pieces and pieces[0].keys:
        pieces = by_key(pieces, largest_first=False)
    return [bytes(body) for piece in pieces for body in Bodies(piece.offsets, piece.blob)]


def receipt(leased: Leased) -> Receipt:
    """All of a lease."""
    return Receipt(leased.token, union([one.share for one in leased.pieces]))
