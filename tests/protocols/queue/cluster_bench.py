"""Some whole fifo nodes on a bench: views, links, disks and the clock are turned by hand."""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from snowmelt.core.batch import Batch
from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.core.names import Address, NodeId, OperationId
from snowmelt.core.node import (
    Announce,
    Announced,
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
    Started,
)
from snowmelt.protocols.calling import Elsewhere
from snowmelt.protocols.membership import CutOff, Member, View
from snowmelt.protocols.queue import QueueNode
from snowmelt.protocols.queue.api.calls import Get, Open, Put
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.leader.terms import Terms
from snowmelt.protocols.queue.limits import LIMITS, QueueLimits
from snowmelt_world.disk import Disk, Ending

CLIENT = NodeId("c-1")
TURN = milliseconds(10)
Drops = Callable[[NodeId, NodeId, Any], bool]


class Slot:
    """One process, and what outlives it."""

    def __init__(self, name: NodeId, number: int) -> None:
        self.name = name
        self.disk = Disk(Random(number))
        self.start = 0
        self.birth = 1
        self.node: QueueNode | None = None
        self.due: tuple[Any, Instant] | None = None
        self.held = False
        """Whether its flushes wait."""
        self.notes: list[str] = []
        self.facts: list[Any] = []
        """What it announced."""

    def member(self) -> Member:
        """As views have it."""
        number = int(self.name[1:])
        return Member(
            self.name, Address("127.0.0.1", 4410 + number), birth=self.birth, start=self.start
        )


class ClusterBench:
    """Nodes n1, n2, ...; the first one decides."""

    def __init__(self, count: int, limits: QueueLimits = LIMITS) -> None:
        self.limits = limits
        self.now = Instant(1)
        self.epoch = 0
        self.slots = {NodeId(f"n{at}"): Slot(NodeId(f"n{at}"), at) for at in range(1, count + 1)}
        self.drops: list[Drops] = []
        self.sent: list[tuple[NodeId, NodeId, Any]] = []
        self.answers: dict[OperationId, Any] = {}
        self._way: deque[tuple[NodeId, NodeId, Any]] = deque()
        self._calls = 0
        for name in self.slots:
            self.start(name)
        self.view()

    # --- who is here ------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """A process begins on its disk; it is in no view yet."""
        slot = self.slots[NodeId(name)]
        slot.start += 1
        slot.node = QueueNode(
            slot.name, Random(100 * slot.start + int(name[1:])), limits=self.limits
        )
        slot.due = None
        found = slot.disk.start()
        self._give(slot, Started(found.records, found.damaged, 10**18 + self.now))

    def kill(self, name: str, ending: Ending = Ending.POWER) -> None:
        """A process ends."""
        slot = self.slots[NodeId(name)]
        slot.disk.end(ending)
        slot.node = None
        self._way = deque(one for one in self._way if slot.name not in one[:2])

    def born_anew(self, name: str) -> None:
        """The disk of a node that does not run is lost; it has another, with nothing on it."""
        slot = self.slots[NodeId(name)]
        slot.birth += 1
        slot.disk = Disk(Random(100 * slot.birth))

    def view(self, *names: str) -> None:
        """Those who run see a new view, of these or of all who run."""
        here = [NodeId(one) for one in names] or [n for n, s in self.slots.items() if s.node]
        self.epoch += 1
        members = tuple(self.slots[name].member() for name in here)
        view = View(1, self.epoch, NodeId("n1"), members)
        for name in here:
            self._give(self.slots[name], Announced(view))

    def cut_off(self, name: str) -> None:
        """A node is not current any more."""
        self._give(self.slots[NodeId(name)], Announced(CutOff(self.epoch)))

    # --- what happens -----------------------------------------------------------------------------

    def run(self, time: float) -> None:
        """Lets so much time pass."""
        end = later(self.now, seconds(time))
        self._deliver()
        while self.now < end:
            self.now = later(self.now, TURN)
            for slot in self.slots.values():
                if slot.due is not None and slot.due[1] <= self.now:
                    timer, slot.due = slot.due[0], None
                    self._give(slot, Expired(timer))
            self._deliver()

    def call(self, node: str, request: Any) -> OperationId:
        """A client asks a node."""
        self._calls += 1
        operation = OperationId(CLIENT, self._calls)
        self._give(self.slots[NodeId(node)], Requested(operation, request))
        return operation

    def ask(self, node: str, request: Any, within: float = 2) -> Any:
        """Asks, whom it is pointed at too, and again, until it is told; None when not in time."""
        return self.ask_again(self.call(node, request), node, request, within)

    def ask_again(self, operation: OperationId, node: str, request: Any, within: float) -> Any:
        """Waits for what was asked before."""
        end = later(self.now, seconds(within))
        while self.now < end:
            told = self.answers.get(operation)
            if isinstance(told, Elsewhere):
                node = told.node
                del self.answers[operation]
            elif told is not None:
                return told
            else:
                self.run(0.3)
            slot = self.slots[NodeId(node)]
            if operation not in self.answers and slot.node is not None:
                self._give(slot, Requested(operation, request))
        return self.answers.get(operation)

    def put(self, node: str, number: int, queue: str = "q", within: float = 2) -> Any:
        """One item."""
        batch = Batch.of([b"item %d" % number])
        request = Put(queue, "p", number, bytes(batch.offsets), bytes(batch.blob))
        return self.ask(node, request, within)

    def get(self, node: str, items: int = 100, queue: str = "q", within: float = 2) -> Any:
        """Whatever is ready."""
        return self.ask(node, Get(queue, items, 1 << 20, seconds(0), None), within)

    def home(self, queue: str = "q") -> Any:
        """Where the queue is at home, as the coordinator knows it."""
        node = self.slots[NodeId("n1")].node
        assert node is not None
        return node._controller._kept.known[queue]

    def terms(self, name: str) -> Terms:
        """Whom a node leads."""
        node = self.slots[NodeId(name)].node
        assert node is not None
        return node._terms

    def receive(self, source: str, target: str, message: Any) -> None:
        """A message arrives, again or late."""
        self._give(self.slots[NodeId(target)], Received(NodeId(source), message))
        self._deliver()

    def open(self, queue: str = "q", **settings: Any) -> str:
        """Makes a queue; returns its master's name."""
        opened = self.ask("n1", Open(queue, QueueSettings(**settings)))
        return str(opened.master.node)

    def beside(self, coordinator: str = "n1", **settings: Any) -> list[str]:
        """Makes a queue that the coordinator does not keep, if it can be; its name and keepers."""
        best: list[str] = []
        for number in range(40):
            queue = f"q{number}"
            master = self.open(queue, **settings)
            home = self.home(queue)
            keepers = [one.partition("/")[0] for one in (home.master, *home.mirrors)]
            if coordinator not in keepers:
                return [queue, *keepers]
            if master != coordinator:
                best = [queue, *keepers]
        return best

    def messages(self, name: str) -> list[Any]:
        """What was sent of one kind."""
        return [one for _, _, one in self.sent if type(one).__name__ == name]

    # --- parts of the above -----------------------------------------------------------------------

    def _give(self, slot: Slot, event: Any) -> None:
        events = deque([event])
        while events:
            if slot.node is None:
                return
            for effect in slot.node.handle(events.popleft(), self.now):
                match effect:
                    case Send(target, message):
                        self._way.append((slot.name, target, message))
                    case SetTimer(timer, at):
                        slot.due = timer, at
                    case Persist():
                        slot.disk.ask(effect)
                    case Load() | Scan():
                        events.append(slot.disk.answer(effect))
                    case Reply(operation, message):
                        self.answers[operation] = message
                    case Announce(fact):
                        slot.facts.append(fact)
                    case Note(text):
                        slot.notes.append(text)
                    case _:
                        raise AssertionError(effect)
            slot.node.check()

    def _flush(self) -> bool:
        done = False
        for slot in self.slots.values():
            if slot.node is not None and not slot.held:
                for told in slot.disk.flush():
                    self._give(slot, Persisted(told) if isinstance(told, int) else told)
                    done = True
        return done

    def _deliver(self) -> None:
        while self._way or self._flush():
            if not self._way:
                continue
            source, target, message = self._way.popleft()
            self.sent.append((source, target, message))
            slot = self.slots.get(target)
            dropped = any(drop(source, target, message) for drop in self.drops)
            if slot is not None and slot.node is not None and not dropped:
                self._give(slot, Received(source, message))
