"""The simulated universe, asynchronous: an event heap, nodes, and what may happen to them.

The world owns time. It takes the next event off its heap, gives it to a node, and carries out the
effects: a `Send` meets the network's fate, a `Persist` the disk's, a `SetTimer` the node's clock.
After every step the node's own invariants are checked. Nothing here draws chance except from the
seed, and everything that happened is in the trace.

A process is a *slot*: its disk and clock outlive it, its node does not. A node that halts, or that
a fault killed, is started again by its supervisor, as it would be in life.
"""

import heapq
from collections.abc import Callable
from enum import Enum
from random import Random
from typing import Any, Final

from snowmelt.core.instant import MICROSECOND, START, Duration, Instant, later, milliseconds
from snowmelt.core.names import Address, NodeId, OperationId, address_of
from snowmelt.core.node import (
    Announce,
    CancelTimer,
    Effect,
    Event,
    Expired,
    Halt,
    Load,
    Node,
    Note,
    Persist,
    Received,
    Reply,
    Requested,
    Scan,
    Send,
    SetTimer,
)
from snowmelt_world.clock import Clock, running_since, wall
from snowmelt_world.disk import NOTHING, Copy, Disk, Ending
from snowmelt_world.network import LinkStyle, Network
from snowmelt_world.trace import Trace

Build = Callable[[Random], Node[Any]]

DISK_WAIT: Final = Duration(200 * MICROSECOND)
SUPERVISOR_WAIT: Final = milliseconds(1_500)


class Broken(Exception):
    """An invariant does not hold. `subject` is the node or item whose story tells why."""

    def __init__(self, sentence: str, subject: str) -> None:
        super().__init__(sentence)
        self.subject = subject


class MachineCrashed(Exception):
    """A machine raised where it must never raise."""

    def __init__(self, sentence: str, subject: str) -> None:
        super().__init__(sentence)
        self.subject = subject


class Slot:
    __slots__ = (
        "build",
        "clock",
        "copies",
        "disk",
        "disk_slowness",
        "doom",
        "fenced",
        "flushing",
        "halted",
        "life",
        "node",
        "paused_until",
        "slowness",
        "timers",
        "wall_by",
        "wanted",
    )

    def __init__(self, build: Build, disk: Disk, clock: Clock) -> None:
        self.build = build
        self.disk = disk
        self.clock = clock
        self.node: Node[Any] | None = None
        self.life = 0  # counts starts; what was meant for an earlier life is dropped
        self.wanted = True  # whether its supervisor starts it again
        self.halted = ""
        self.flushing = False
        self.doom: Ending | None = None  # how it ends as soon as it asks its disk for something
        self.paused_until = START
        self.slowness = Duration(0)
        self.disk_slowness = Duration(0)  # of every flush
        self.wall_by = Duration(0)  # how much more than the truth its wall clock shows
        self.fenced: list[Load | Scan] = []  # what is read once it is known what the disk took
        self.copies: dict[Instant, Copy] = {}  # of its disk, by when each was taken
        self.timers: dict[Enum, tuple[Instant, int]] = {}


class Observer:
    """Whoever wants to see what happens; a family's life overrides what it needs."""

    def announced(self, at: Instant, node: NodeId, effect: Announce) -> None:
        """A machine told a fact."""

    def replied(self, at: Instant, node: NodeId, effect: Reply[Any]) -> None:
        """A client machine (or a node called from inside) got its answer."""

    def started(self, at: Instant, node: NodeId) -> None:
        """A process began."""

    def ended(self, at: Instant, node: NodeId) -> None:
        """A process is gone."""

    def halted(self, at: Instant, node: NodeId, reason: str) -> None:
        """A process said that it must not go on; if it is wanted, it is started again soon."""

    def damaged(self, at: Instant, node: NodeId, key: bytes) -> None:
        """A fault hurt a record on a node's disk."""

    def set_back(self, at: Instant, node: NodeId, taken: Instant) -> None:
        """A node's disk, which runs no process now, is what it was when this copy was taken."""

    def disk_lost(self, at: Instant, node: NodeId) -> None:
        """A node's disk, which runs no process now, is empty.

        It starts again as after a crash, unless this sets `wanted` of its slot to False: then
        whoever did starts it, as an operator would who has first to tell the others.
        """


class World:
    """Runs nodes against one seed.

    >>> from snowmelt.protocols.echo import Echo, EchoNode
    >>> world = World(seed=1)
    >>> _ = world.add(NodeId("n1"), lambda chance: EchoNode())
    >>> world.start(NodeId("n1"))
    >>> world.request(NodeId("n1"), OperationId(NodeId("c1"), 1), Echo(b"hey"), at=Instant(5))
    >>> world.run(Instant(10)); world.trace.steps
    2
    """

    def __init__(
        self,
        seed: int | str,
        style: LinkStyle | None = None,
        observer: Observer | None = None,
        dice: Callable[[str], Random] = Random,
        *,
        keep: bool = False,
    ) -> None:
        self.now = START
        self.trace = Trace(keep=keep)
        self.slots: dict[NodeId, Slot] = {}
        self.network = Network(style or LinkStyle(), dice(f"{seed}/network"))
        self._seed = seed
        self._observer = observer or Observer()
        self._dice = dice
        self._chance = dice(f"{seed}/world")
        self._addresses: dict[Address, NodeId] = {}
        self._heap: list[tuple[Instant, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = 0

    # --- who there is -----------------------------------------------------------------------------

    def add(self, node: NodeId, build: Build, address: Address | None = None) -> Slot:
        assert node not in self.slots, f"{node} is there already"
        disk = Disk(self._dice(f"{self._seed}/{node}/disk"))
        slot = self.slots[node] = Slot(build, disk, Clock(running_since(node)))
        if address is not None:
            self._addresses[address] = node
        return slot

    def start(self, node: NodeId) -> None:
        """A process begins, on the disk that is there."""
        slot = self.slots[node]
        if slot.node is not None:
            return
        slot.life += 1
        slot.halted = ""
        slot.timers.clear()
        slot.flushing = False
        slot.fenced.clear()
        slot.node = slot.build(self._dice(f"{self._seed}/{node}/{slot.life}"))
        self._observer.started(self.now, node)
        self._handle(node, slot, slot.disk.start(wall(self.now) + slot.wall_by))

    def wake(self, node: NodeId) -> None:
        """Its supervisor starts a process, unless somebody has to do something first."""
        if self.slots[node].wanted:
            self.start(node)

    def stop(self, node: NodeId, ending: Ending = Ending.CRASH) -> None:
        """A process is gone, without a word."""
        slot = self.slots[node]
        if slot.node is None:
            return
        slot.node = None
        slot.disk.end(ending)
        self._observer.ended(self.now, node)

    def request(
        self, node: NodeId, operation: OperationId, message: Any, at: Instant | None = None
    ) -> None:
        """Somebody calls a node from inside its process: a person a client, an operator a node."""
        when = self.now if at is None else at
        self.at(when, self._deliver, node, None, Requested(operation, message))

    def give(self, node: NodeId, event: Event[Any]) -> None:
        """Whoever runs a process gives it an event: to the life that runs now, to no other."""
        self.at(self.now, self._deliver, node, self.slots[node].life, event)

    def post(self, source: NodeId, target: NodeId, message: Any) -> None:
        """Whoever runs a process sends what it had kept back."""
        slot = self.slots[source]
        if slot.node is not None:
            self._send(source, slot, target, message)

    # --- time -------------------------------------------------------------------------------------

    def at(self, when: Instant, act: Callable[..., None], *arguments: Any) -> None:
        """Something will be done at a moment; among equals, the first asked comes first."""
        self._order += 1
        heapq.heappush(self._heap, (when, self._order, act, arguments))

    def run(self, until: Instant, steps_max: int | None = None) -> None:
        heap, pop = self._heap, heapq.heappop
        last = None if steps_max is None else self.trace.steps + steps_max
        while heap and heap[0][0] <= until:
            self.now, _, act, arguments = pop(heap)
            act(*arguments)
            if last is not None and self.trace.steps >= last:
                return
        self.now = max(self.now, until)

    # --- one step ---------------------------------------------------------------------------------

    def _deliver(self, node: NodeId, life: int | None, event: Event[Any]) -> None:
        slot = self.slots.get(node)
        if slot is None or slot.node is None or life not in (None, slot.life):
            return
        if slot.paused_until > self.now:
            self.at(slot.paused_until, self._deliver, node, slot.life, event)
            return
        self._handle(node, slot, event)

    def _handle(self, name: NodeId, slot: Slot, event: Event[Any]) -> None:
        node = slot.node
        assert node is not None
        try:
            effects = node.handle(event, slot.clock.read(self.now))
        except Exception as error:
            self.trace.add(self.now, name, event, [Note(f"crashed: {error!r}")])
            raise MachineCrashed(f"{name} raised {error!r}", name) from error
        self.trace.add(self.now, name, event, effects)
        for effect in effects:
            self._carry_out(name, slot, effect)
        try:
            node.check()
        except AssertionError as error:
            raise Broken(f"{name}: {error}", name) from error

    def _carry_out(self, name: NodeId, slot: Slot, effect: Effect[Any]) -> None:
        match effect:
            case Send(target, message):
                self._send(name, slot, target, message)
            case SetTimer(timer, at):
                self._order += 1
                slot.timers[timer] = at, self._order
                self._arm(name, slot, timer)
            case Persist():
                self._persist(name, slot, effect)
            case CancelTimer(timer):
                slot.timers.pop(timer, None)
            case Load() | Scan():
                self._load(name, slot, effect)
            case Reply():
                self._observer.replied(self.now, name, effect)
            case Announce():
                self._observer.announced(self.now, name, effect)
            case Note():
                pass
            case Halt(reason):
                self._halted(name, slot, reason)

    def _send(self, source: NodeId, slot: Slot, target: NodeId, message: Any) -> None:
        address = address_of(target)
        if address is not None:
            found = self._addresses.get(address)
            if found is None:
                return
            target = found
        received = Received(source, message)
        sent = later(self.now, slot.slowness)
        for arrival in self.network.fate(source, target, sent):
            receiver = self.slots.get(target)
            late = receiver.slowness if receiver else Duration(0)
            self.at(later(arrival, late), self._deliver, target, None, received)

    # --- timers -----------------------------------------------------------------------------------

    def _arm(self, name: NodeId, slot: Slot, timer: Enum) -> None:
        at, mark = slot.timers[timer]
        when = max(slot.clock.when(at), self.now)
        self.at(when, self._expire, name, slot, timer, mark)

    def _expire(self, name: NodeId, slot: Slot, timer: Enum, mark: int) -> None:
        at_mark = slot.timers.get(timer)
        if slot.node is None or at_mark is None or at_mark[1] != mark:
            return  # replaced, cancelled, or of an earlier life
        if slot.paused_until > self.now:
            self.at(slot.paused_until, self._expire, name, slot, timer, mark)
            return
        if slot.clock.read(self.now) < at_mark[0]:  # its clock was turned slower since
            self._arm(name, slot, timer)
            return
        del slot.timers[timer]
        self._handle(name, slot, Expired(timer))

    def turn_clock(
        self,
        node: NodeId,
        *,
        ppm: int | None = None,
        by: Duration | None = None,
        until: Instant | None = None,
    ) -> None:
        """A node's clock changes its rate, leaps, or stands still until then; its timers follow."""
        slot = self.slots[node]
        if ppm is not None:
            slot.clock.skew(self.now, ppm)
        if by is not None:
            slot.clock.jump(self.now, by)
        if until is not None:
            slot.clock.stop(self.now, until)
        for timer in slot.timers:
            self._arm(node, slot, timer)

    # --- the disk ---------------------------------------------------------------------------------

    def _persist(self, name: NodeId, slot: Slot, persist: Persist) -> None:
        if slot.disk.full or slot.disk.failed:
            failed = slot.disk.refusal(persist.ticket)
            wait = self._disk_wait(slot)
            self.at(later(self.now, wait), self._deliver, name, slot.life, failed)
            return
        slot.disk.ask(persist)
        if slot.doom is not None:  # after this step's other effects: what it told too soon is told
            self.at(self.now, self.stop, name, slot.doom)
            slot.doom = None
        if not slot.flushing:
            slot.flushing = True
            wait = Duration(self._disk_wait(slot) + slot.disk_slowness)
            self.at(later(self.now, wait), self._flush, name, slot, slot.life)

    def _flush(self, name: NodeId, slot: Slot, life: int) -> None:
        if slot.node is None or slot.life != life:
            return
        slot.flushing = False
        for answer in slot.disk.flush():  # one flush serves all that waited
            self.at(self.now, self._deliver, name, life, answer)
        fenced, slot.fenced = slot.fenced, []
        for effect in fenced:
            self._load(name, slot, effect)

    def _load(self, name: NodeId, slot: Slot, effect: Load | Scan) -> None:
        if slot.disk.failed:  # as the driver does: a read that raises ends the process
            self._halted(name, slot, "the disk failed")
        elif slot.flushing and slot.disk.uncertain:
            slot.fenced.append(effect)
        else:
            loaded = slot.disk.answer(effect)
            wait = self._disk_wait(slot)
            self.at(later(self.now, wait), self._deliver, name, slot.life, loaded)

    def _disk_wait(self, slot: Slot) -> Duration:
        spread = int(self._chance.expovariate(1.0 / DISK_WAIT))
        return Duration(DISK_WAIT // 4 + spread + slot.slowness)

    def flip(self, node: NodeId) -> None:
        """A bit of a node's disk turns."""
        key = self.slots[node].disk.flip()
        if key is not None:
            self._observer.damaged(self.now, node, key)

    def replace_disk(self, node: NodeId, taken: Instant | None = None) -> None:
        """A node is stopped, and its disk is a copy that was taken then, or a new one.

        A copy from before it first wrote anything is as good as a new disk.
        """
        self.stop(node)
        slot = self.slots[node]
        copy = NOTHING if taken is None else slot.copies[taken]
        slot.disk.put_back(copy)
        if taken is None or copy == NOTHING:
            self._observer.disk_lost(self.now, node)
        else:
            self._observer.set_back(self.now, node, taken)

    # --- endings ----------------------------------------------------------------------------------

    def _halted(self, name: NodeId, slot: Slot, reason: str) -> None:
        slot.halted = reason
        self._observer.halted(self.now, name, reason)
        self.at(self.now, self._supervise, name, slot, slot.life)

    def _supervise(self, name: NodeId, slot: Slot, life: int) -> None:
        if slot.life == life:
            self.stop(name)
            self.at(later(self.now, SUPERVISOR_WAIT), self.wake, name)
