"""The priority machine: who hears what. All else is in its parts.

Every event goes the same way: it is given to the part it is for; what the parts say to each other
within this node is worked off; then batches leave, and the disk, if it is free, begins to write.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from random import Random
from typing import Any

from snowmelt.core.errors import BadOption
from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import (
    Announced,
    Effect,
    Event,
    Expired,
    Loaded,
    Persist,
    Persisted,
    PersistFailed,
    Received,
    Requested,
    SetTimer,
    Started,
)
from snowmelt.core.record import BULK
from snowmelt.protocols.calling import Gone
from snowmelt.protocols.membership import CutOff, Leads, LeadsNoMore, RecordsKept, View
from snowmelt.protocols.priority import calls, messages, phase_messages
from snowmelt.protocols.priority.asked import problem
from snowmelt.protocols.priority.attempts import decided
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.limits import LIMITS, Limits
from snowmelt.protocols.priority.messages import Anew, Attempt, Kept, Mark, Others, Several, Tell
from snowmelt.protocols.priority.phasing import Phasing
from snowmelt.protocols.priority.queue import NO_GETS, Here, Queue, queue_of
from snowmelt.protocols.priority.queues import Queues
from snowmelt.protocols.priority.roll import SETTINGS
from snowmelt.protocols.priority.settings import State
from snowmelt.protocols.priority.settling import Settling
from snowmelt.protocols.priority.sound import credible
from snowmelt.protocols.priority.stash import Stash
from snowmelt.protocols.priority.writing import Part, Task

Hears = Callable[[Queue, Here, NodeId, Any], None]


class PriorityTimer(Enum):
    TICK = "priority.tick"


class PriorityNode:
    """One node's part in all priority queues.

    With `alone` there is no other process that could hold a lease given before this one began.
    Which queues there are is `on_disk` of the coordinator, or in etcd as well.
    """

    def __init__(
        self,
        me: NodeId,
        chance: Random,
        *,
        alone: bool = False,
        limits: Limits = LIMITS,
        on_disk: bool = True,
    ) -> None:
        desk = self._desk = Desk(me, chance, alone=alone)
        self._limits = limits
        self._queues = Queues(desk, limits, on_disk=on_disk)
        self._settling: Settling | None = None
        self._stash = Stash(limits)
        self._cut_off = True
        """Whether this node is not current: it says and hears nothing, and keeps what it has."""
        self._late: list[Task] = []
        """What was flushed while it was cut off."""
        self._timer: Instant | None = None
        self._touched: dict[str, None] = {}
        self._dirty: dict[str, None] = {}
        """Queues of which something may have to be written."""
        self._hears = _table()

    def handle(self, event: Event[Any], now: Instant) -> list[Effect[Any]]:
        desk = self._desk
        desk.now = now
        if (
            type(event) is Requested
        ):  # these three by far the most; a `match` takes ten times as long
            self._requested(event.operation, event.message)
        elif type(event) is Persisted:
            self._flushed(desk.disk.written(event.ticket))
            self._touched.update(dict.fromkeys(desk.disk.held_up()))
            self._go_on()
        elif type(event) is Received:
            self._received(event.source, event.message)
        else:
            self._told(event, now)
        self._settle()
        return desk.taken()

    def _told(self, event: Event[Any], now: Instant) -> None:
        desk = self._desk
        match event:
            case PersistFailed():
                tasks, again = desk.disk.refused(now)
                desk.wake(again, "")
                self._no_room(tasks)
                self._go_on()
            case Loaded(ticket, found):
                task, found = desk.loaded(ticket, found)
                if task.queue in self._queues.all and task.era == desk.era:
                    self._queues.all[task.queue].loaded(task.part, task.number, found)
                    self._touched[task.queue] = None
            case Expired():
                self._timer = None
                self._tick(desk.alarms.due(now))
            case Announced(View() as view):
                self._current(view)
            case Announced(CutOff()):
                self._cut_off = True
            case Announced((Leads() | LeadsNoMore() | RecordsKept()) as fact):
                self._queues.by_etcd(fact)
                self._go_on()
            case Announced(Gone(client)):
                for queue in self._queues.all.values():
                    queue.door.gone(client)
            case Started():
                desk.set_wall(event.wall, now)
                self._restore(event)
            case _:
                pass

    def check(self) -> None:
        for queue in self._queues.all.values():
            queue.check()

    # --- the disk ---------------------------------------------------------------------------------

    def _restore(self, event: Started) -> None:
        self._queues.restore(one.value for one in event.records if one.key.startswith(SETTINGS))
        for record in event.records:
            queue = self._queues.all.get(queue_of(record.key))
            if queue is not None:
                queue.shelf.restore(record.key, record.value)

    def _flushed(self, tasks: list[Task]) -> None:
        if self._cut_off:
            self._late.extend(tasks)
            return
        for task in tasks:
            if task.part == Part.QUEUES:
                self._queues.written(task.number)
            elif task.queue in self._queues.all and task.era == self._desk.era:
                self._queues.all[task.queue].flushed(task.part, task.number)
                self._touched[task.queue] = None

    def _no_room(self, tasks: list[Task]) -> None:
        waiting: list[Task] = []
        for task in tasks:
            if task.era != self._desk.era and task.part != Part.QUEUES:
                continue
            queue = self._queues.all.get(task.queue)
            if queue is None or not queue.no_room(task.part, task.number):
                waiting.append(task)
        self._desk.disk.put_back(waiting)
        for key in self._desk.disk.large:  # fetched, or of a view that is over
            self._queues.all[queue_of(key.removeprefix(BULK))].take_back(key)
        self._touched.update(dict.fromkeys(self._queues.all))

    # --- views ------------------------------------------------------------------------------------

    def _current(self, view: View) -> None:
        """This node is current in a view: in another one, or again in that which it was in.

        When it comes again, nobody has done anything without this node meanwhile: all goes on.
        """
        again = self._desk.is_in(view)
        self._cut_off = False
        if again:
            self._go_on()
        else:
            self._viewed(view)
        late, self._late = self._late, []
        self._flushed(late)
        self._tick(["", *self._queues.all])

    def _viewed(self, view: View) -> None:
        desk = self._desk
        desk.inside.clear()
        desk.set_view(view)
        self._queues.viewed()
        self._settling = Settling(desk)
        self._go_on()
        for source, message in self._stash.taken():
            self._received(source, message)

    def _begin(self, settling: Settling) -> None:
        """All are told which queues there are, and what was begun anew, or begins anew."""
        redone = [
            (queue.name, one) for queue in self._queues.all.values() for one in queue.shelf.redone()
        ]
        interrupted = [
            (queue.name, operation, token)
            for queue in self._queues.all.values()
            for operation, token in queue.door.interrupted
        ]
        settling.begin(self._queues.roll.all, redone, interrupted)

    def _heard(self, source: NodeId, message: Anew | Others | Tell) -> None:
        settling = self._settling
        assert settling is not None, "messages of a view come within it"
        settling.heard(source, message)
        self._go_on()

    def _go_on(self) -> None:
        """The settling of this view goes as far as what was heard lets it."""
        settling = self._settling
        if settling is None or self._queues.settled or self._cut_off:
            return
        if not settling.begun and self._queues.roll.is_heard:
            self._begin(settling)
        if settling.whole(Anew) and not settling.comparing and not settling.telling:
            self._queues.learn(one for word in settling.anew() for one in word.queues)
            redone = settling.redone()
            if redone:
                settling.compare(self._others(redone))
        all_known = settling.whole(Others) if settling.comparing else settling.whole(Anew)
        kept_safely = self._queues.roll.is_kept() and not self._holds_bodies
        if all_known and kept_safely and not settling.telling:
            self._touched.update(dict.fromkeys(self._queues.all))
            self._choose(settling)
            kept: dict[NodeId, list[Kept]] = {}
            for queue in self._queues.all.values():
                for node, parts in queue.kept().items():
                    kept.setdefault(node, []).extend(parts)
            settling.tell(kept)
        if settling.whole(Tell):
            told, interrupted = settling.kept(), settling.interrupted()
            for name, queue in self._queues.all.items():
                chosen = settling.chosen.get(name, ())
                queue.settled(told.get(name, {}), interrupted.get(name, NO_GETS), chosen)
            self._queues.settle()
            self._touched.update(dict.fromkeys(self._queues.all))

    @property
    def _holds_bodies(self) -> bool:
        """Whether some are here, and not on the disk yet (settling, rule 5)."""
        shelves = [queue.shelf for queue in self._queues.all.values()]
        return self._desk.disk.holds_bodies or any(shelf.unwritten for shelf in shelves)

    def _others(self, redone: Mapping[str, Iterable[OperationId]]) -> list[tuple[str, Attempt]]:
        """What else there is here of operations that were begun anew (settling, rule 1)."""
        return [
            (name, one)
            for name, operations in redone.items()
            if name in self._queues.all
            for operation in sorted(operations)
            for one in self._queues.all[name].shelf.made_by(operation)
            if not one.origin.again
        ]

    def _choose(self, settling: Settling) -> None:
        """Of several attempts at a put one counts (settling, rule 1)."""
        for name, attempts in settling.attempts().items():
            queue = self._queues.all.get(name)
            if queue is not None:
                settling.chosen[name], beaten = decided(attempts)
                if beaten:
                    queue.shelf.mark(Mark(beaten, self._desk.epoch, 0, State.VOID))

    # --- messages and calls -----------------------------------------------------------------------

    def _received(self, source: NodeId, message: Any) -> None:
        if type(message) is Several:
            for one in message.messages:
                self._received(source, one)
            return
        era = self._desk.era
        if message.era != era or self._cut_off:
            if message.era > era:
                self._stash.add(source, message)
            return
        if source != self._desk.me and not self._credible(source, message):
            return
        kind = type(message)
        hears = self._hears.get(kind)
        if hears is not None:  # as mostly
            queue = self._queues.all.get(message.queue)
            if queue is not None and queue.here is not None:
                hears(queue, queue.here, source, message)
                self._touched[message.queue] = None
        elif kind is Anew or kind is Others or kind is Tell:
            self._heard(source, message)
        elif kind is messages.Told:
            if self._settling is not None:
                self._settling.told(source, message)
        else:
            self._about_queues(source, message)

    def _about_queues(self, source: NodeId, message: Any) -> None:
        kind = type(message)
        if kind is messages.Make:
            self._queues.make(source, message)
        elif kind is messages.Made:
            self._queues.made(message)
        elif kind is messages.Declare:
            self._queues.declared_here(source, message)
            self._touched[message.settings.queue] = None
        elif kind is messages.Declared:
            self._queues.declared(source, message)

    def _credible(self, source: NodeId, message: Any) -> bool:
        """Whether another can have said that; else it is not heard."""
        if credible(message, self._queues.roll.known):
            return True
        word = type(message).__struct_config__.tag
        self._desk.note(f"{source} says {word!r} with fields that can't be: it is not heard")
        return False

    def _requested(self, operation: OperationId, call: Any) -> None:
        desk = self._desk
        if self._cut_off:
            text = "this node has no current view of its cluster"
            desk.decline(operation, "Unavailable", text)
            return
        if type(call) is calls.Queues:
            self._queues.answer(operation)
            return
        if type(call) is calls.Open:
            try:
                self._queues.open(operation, call)
            except BadOption as error:
                desk.decline(operation, "BadOption", str(error))
            return
        queue = self._queues.all.get(call.queue)
        if queue is None or not self._queues.settled:
            self._queues.missing(operation, call.queue)
            return
        wrong = problem(call, queue.settings, self._limits)
        if wrong is not None:
            desk.decline(operation, *wrong)
            return
        self._touched[call.queue] = None
        _ask(queue, operation, call)

    # --- the rest ---------------------------------------------------------------------------------

    def _tick(self, names: Iterable[str]) -> None:
        if self._cut_off:  # all are told when it is current again
            return
        for name in names:
            if name:
                self._queues.all[name].tick()
                self._touched[name] = None
            else:
                self._queues.tick()
                if self._settling is not None:
                    self._settling.again()

    def _settle(self) -> None:
        """Works off what this node says to itself, lets batches leave, and begins to write."""
        desk = self._desk
        while True:
            while not self._cut_off and (desk.inside or self._touched):
                while desk.inside:
                    self._received(desk.me, desk.inside.popleft())
                touched, self._touched = self._touched, {}
                self._dirty.update(touched)
                for name in touched:
                    self._queues.all[name].pump()
            if not desk.disk.may_begin(desk.now):
                break
            changes = self._queues.roll.changes()
            dirty, self._dirty = self._dirty, {}
            for name in dirty:
                queue = self._queues.all[name]
                if queue.here is not None and not self._cut_off:
                    queue.here.home.spreading.leave()
                changes.extend(queue.shelf.changes(desk.wall))
            begun = desk.disk.begin(changes)
            if isinstance(begun, Persist):
                desk.effect(begun)
                break
            if not begun:
                break
            self._flushed(begun)
        alarm = desk.alarms.next
        if alarm is not None and (self._timer is None or alarm < self._timer):
            self._timer = alarm
            desk.effect(SetTimer(PriorityTimer.TICK, self._timer))


def _ask(queue: Queue, operation: OperationId, call: Any) -> None:
    if type(call) is calls.Put:
        queue.door.put(operation, call)
        return
    match call:
        case calls.Get():
            queue.door.get(operation, call)
        case calls.Settle():
            queue.door.settle(operation, call)
        case calls.Purge(dead=False):
            queue.door.purge(operation, call)
        case _:
            queue.looking.begin(operation, call)


def _table() -> dict[type, Hears]:
    """What each message between nodes is for, within a view."""
    return {
        messages.Climb: lambda _, here, source, message: here.gathering.climbed(source, message),
        messages.Granted: lambda queue, _, source, message: queue.granted(source, message),
        messages.Food: lambda _q, here, _, message: here.gathering.feed(message.index),
        messages.Store: lambda _, here, source, message: here.home.store(source, message),
        messages.Stored: lambda queue, _, source, message: queue.door.stored(source, message),
        messages.Take: lambda _, here, source, message: here.home.take(source, message),
        messages.Taken: lambda queue, _, source, message: queue.door.taken(source, message),
        messages.End: lambda _, here, source, message: here.home.end(source, message),
        messages.Ended: lambda queue, _, source, message: queue.ended(source, message),
        messages.Follow: lambda _, here, source, message: here.copies.follow(source, message),
        messages.Followed: lambda _, here, source, message: here.home.followed(source, message),
        messages.Fetch: lambda _, here, source, message: here.copies.fetch(source, message),
        messages.Fetched: lambda queue, _, source, message: queue.fetched(source, message),
        messages.Spare: lambda _q, here, _, message: here.copies.spare(message),
        messages.Inquire: lambda queue, here, source, message: queue.door.beginnings.inquired(
            source, message, here.copies.spared
        ),
        messages.Inquired: lambda queue, _, source, message: queue.door.found(source, message),
        messages.Look: lambda queue, _, source, message: queue.look(source, message),
        messages.Looked: lambda queue, _, source, message: queue.looking.looked(source, message),
        messages.Read: lambda queue, _, source, message: queue.read(source, message),
        messages.Seen: lambda queue, _, source, message: queue.looking.seen(source, message),
        phase_messages.Sought: lambda queue, _, source, message: queue.sought(source, message),
        **_phases(),
    }


def _phases() -> dict[type, Hears]:
    """The same for queues with any priorities."""

    def phasing(hears: Callable[[Phasing, NodeId, Any], None]) -> Hears:
        def heard(_: Queue, here: Here, source: NodeId, message: Any) -> None:
            if here.phasing is not None:
                hears(here.phasing, source, message)

        return heard

    return {
        phase_messages.Asked: phasing(lambda one, source, word: one.waves.asked(source, word)),
        phase_messages.Answered: phasing(lambda one, source, it: one.waves.answered(source, it)),
        phase_messages.Ranked: phasing(lambda one, source, word: one.meeting.ranked(source, word)),
        phase_messages.Met: phasing(lambda one, source, word: one.meeting.met(source, word)),
        phase_messages.Seek: phasing(lambda one, source, word: one.meeting.seek(source, word)),
    }
