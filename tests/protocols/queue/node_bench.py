"""A whole node alone on a bench: its disk and its clock are turned by hand, and timers ring."""

from random import Random
from typing import Any

from snowmelt.core.instant import Instant, seconds
from snowmelt.core.names import Address, NodeId, OperationId
from snowmelt.core.node import (
    Announced,
    Event,
    Expired,
    Load,
    Persist,
    Persisted,
    Reply,
    Requested,
    Scan,
    SetTimer,
)
from snowmelt.core.record import Write
from snowmelt.protocols.membership import Member, View
from snowmelt.protocols.queue import QueueNode
from snowmelt.protocols.queue.api.calls import Open, Put
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.limits import LIMITS, QueueLimits
from snowmelt.protocols.queue.state.state import QueueState
from snowmelt_world.disk import Disk, Ending

ME = Member(NodeId("n1"), Address("127.0.0.1", 4410), birth=1, start=1)
WALL = 10**18


class NodeBench:
    """A node that leads all its queues; its disk answers at once unless it is `held`."""

    def __init__(self, limits: QueueLimits = LIMITS, hours: int = 0) -> None:
        self.now = Instant(0)
        self.limits = limits
        self._wall = WALL + hours * seconds(3600)
        """What its clock showed when it began."""
        self.clock = 0
        """How much more than the steady clock it shows by now, if it was set since."""
        self.node = QueueNode(ME.id, Random(1), limits=limits)
        self.told: dict[int, Any] = {}
        self.held = False
        self.hold_reads = False
        self.written = 0
        """Bytes of the values that went to the disk."""
        self._disk = Disk(Random(1))
        self._waiting: list[Event[Any]] = []
        self._timer: SetTimer | None = None
        self._calls = 0
        self._starts = 0
        self._begin()

    def _begin(self) -> None:
        self._starts += 1
        me = Member(ME.id, ME.address, ME.birth, self._starts)
        self.give(self._disk.start(self._wall + self.now))
        self.give(Announced(View(1, self._starts, me.id, (me,))))

    def restart(self, *, alone: bool = True) -> None:
        """The process is killed, and begins again on its disk; with leases, where others may be."""
        self._disk.flush()
        self.crash(alone=alone)

    def crash(self, *, alone: bool = False) -> None:
        """As above, and what was not flushed is gone."""
        self._disk.end(Ending.POWER)
        self.held = self.hold_reads = False
        self._waiting.clear()
        self._timer = None
        self.node = QueueNode(ME.id, Random(2), alone=alone, limits=self.limits)
        self._begin()
        self.pass_time(2)

    @property
    def state(self) -> QueueState:
        """Of queue q."""
        return self.node._terms.leaders["q"].state

    def give(self, event: Event[Any]) -> None:
        """An event, and all that the disk answers to it."""
        events = [event]
        for one in events:
            for effect in self.node.handle(one, self.now):
                match effect:
                    case Persist(ticket, changes):
                        self._disk.ask(effect)
                        if not self.held:
                            self._disk.flush()
                        self.written += sum(
                            len(one.value) for one in changes if isinstance(one, Write)
                        )
                        self._answer(Persisted(ticket), events, held=self.held)
                    case Load() | Scan():
                        self._answer(self._disk.answer(effect), events, held=self.hold_reads)
                    case Reply(operation, message):
                        self.told[operation.number] = message
                    case SetTimer():
                        self._timer = effect

    def _answer(self, event: Event[Any], events: list[Event[Any]], *, held: bool) -> None:
        (self._waiting if held else events).append(event)

    def release(self) -> None:
        """The disk answers what it was asked, and from now on at once."""
        self.held = self.hold_reads = False
        self._disk.flush()
        while self._waiting:
            self.give(self._waiting.pop(0))

    def ask(self, request: Any, number: int = 0) -> int:
        """Calls, anew or under a number once more; returns the number."""
        return self.ask_as("c-1", request, number)

    def ask_as(self, client: str, request: Any, number: int = 0) -> int:
        """The same, by another client."""
        self._calls += 1
        number = number or 10_000 + self._calls
        self.give(Requested(OperationId(NodeId(client), number), request))
        return number

    def answer(self, request: Any) -> Any:
        """Calls, and returns what is told."""
        return self.told.pop(self.ask(request))

    def open(self, queue: str = "q", **settings: Any) -> None:
        """Makes a queue."""
        self.answer(Open(queue, QueueSettings(**settings)))

    def put(self, queue: str = "q", items: int = 1, sequence: int = 1) -> None:
        """Puts so many items of one byte."""
        offsets = b"".join(at.to_bytes(4, "little") for at in range(items + 1))
        self.answer(Put(queue, "p", sequence, offsets, b"x" * items))

    def pass_time(self, length: float) -> int:
        """The clock goes on, and timers ring on the way; returns how often."""
        end, rings = Instant(self.now + seconds(length)), 0
        while self._timer is not None and self._timer.at <= end:
            timer, self._timer = self._timer, None
            self.now = max(self.now, timer.at)
            self.give(Expired(timer.timer, self.now + self.clock if self.clock else 0))
            rings += 1
        self.now = end
        return rings
