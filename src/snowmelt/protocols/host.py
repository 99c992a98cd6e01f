"""Several machines in one process, seen from outside as one node.

A real node is a member of its cluster, and keeps items, and orders queues: three families, three
machines, one network address, one disk, one clock. The host is the wrapper that makes them one
`Node`, so that the world and the network run a whole process as they run a single machine:

1. A message goes to the machine whose family declares its type; nobody's message is counted and
   dropped. A client's `Call` becomes `Requested` for that machine, its `Reply` an `Answer`.
2. Tickets and disk keys are told apart by family; no machine sees another's.
3. What a machine announces goes to every other machine at once, before the next event, and to
   whoever runs the host.
4. A message to oneself does not touch the network: it is handled within the same step.
5. Whoever can't write halts: a write that failed otherwise than for room ends the whole node, and
   no machine is asked. It could promise nothing more, and while it is here no other does its work.
6. Membership says until when this node is `Current`. Before the first event that comes after that
   it is told its own word back, and looks at the clock. So a process that slept, whatever wakes it,
   hears that it is cut off before any of its machines acts as if it were not.
7. Membership says until when a view is `Unsure`: somebody may be current whom it lacks. Of who is
   here, and who leads, only those machines hear before that time whose promises are *fenced*, kept
   without any clock. The others hear it then, in order, as if it had been told then, and at once
   when a later view is sure; unless this node is cut off, or leads no more, meanwhile.
8. A timer that comes much too late shows that the process `Slept`, or is behind with its work: what
   it reads next may have waited as long. Those machines hear of it that others' calls wait at.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any, Final

import msgspec

from snowmelt.core.instant import START, Duration, Instant, later, milliseconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import (
    Announce,
    Announced,
    CancelTimer,
    Effect,
    Event,
    Expired,
    Halt,
    Load,
    Loaded,
    Node,
    Note,
    Persist,
    Persisted,
    PersistFailed,
    Received,
    Reply,
    Requested,
    Scan,
    Send,
    SetTimer,
    Started,
)
from snowmelt.core.record import BULK, Change, Damaged, Erase, Found, Missing, Record, Write
from snowmelt.protocols.calling import Answer, Call, Declined
from snowmelt.protocols.membership.facts import Leads, LeadsNoMore, Slept
from snowmelt.protocols.membership.view import Current, CutOff, Unsure, View

SLEPT: Final = milliseconds(500)
"""By so much a timer is much too late (rule 8)."""
ROUNDS_MAX: Final = 10_000
"""So often what was said within a step may be answered within it, however many speak at a time."""

Message = Any  # the union of all families' messages, which only the wire knows whole


class HostTimer(Enum):
    """When the newest view is sure."""

    SURE = "host.sure"


class Family(msgspec.Struct, frozen=True):
    """One machine and what belongs to it: a name for its keys, and the messages it takes."""

    name: str
    machine: Node[Message]
    messages: tuple[type[msgspec.Struct], ...]
    fenced: bool = False
    """Whether it keeps its promises though somebody is current whom its view lacks (rule 7)."""


class Host:
    """A node made of machines."""

    def __init__(self, me: NodeId, families: Sequence[Family]) -> None:
        self.me = me
        self._families = families
        self._machines = [family.machine for family in families]
        self._prefixes = [family.name.encode() + b"/" for family in families]
        """How the keys of each begin on the disk that all share (rule 2)."""
        self._home = {kind: index for index, one in enumerate(families) for kind in one.messages}
        assert len(self._home) == sum(len(one.messages) for one in families), (
            "two families, one type"
        )
        self._timers: dict[type[Enum], int] = {}
        self._current: tuple[Instant, int, Announced] | None = None
        """Until when this node is current, who said so, and its word (rule 6)."""
        self._due: dict[Enum, Instant] = {}
        self._overdue: Instant = START
        """When the first of these is much too late, or before (rule 8)."""
        self._now: Instant = START
        self._unsure: Instant = START
        """Until when what is told of views is for fenced machines alone (rule 7)."""
        self._held: list[tuple[Instant, int, Announced]] = []
        """What the others are to hear, when, and who said it."""
        self.strays = 0
        self._heard = 0
        """A bit for each machine."""

    @property
    def waits(self) -> bool:
        """Whether some of its machines have yet to hear what others have (rule 7)."""
        return bool(self._held)

    def handle(self, event: Event[Message], now: Instant) -> list[Effect[Message]]:
        """One door in: finds whose event it is, and carries on until nothing stays inside."""
        self._now = now
        effects: list[Effect[Message]] = []
        if self._current is not None and self._current[0] <= now:  # rule 6
            _, index, word = self._current
            self._current = None
            self._carry_on([(index, word)], now, effects)
        if self._held:
            self._carry_on(self._sure(effects), now, effects)
        if self._overdue < now:
            self._carry_on(self._slept(now), now, effects)
        if type(event) is Expired and event.timer is HostTimer.SURE:
            return effects
        if type(event) is Received:  # the most frequent by far
            inside = self._delivered(event.source, event.message, effects)
        elif type(event) is Persisted:
            ticket, index = divmod(event.ticket, len(self._families))
            inside = [(index, Persisted(ticket))]
        elif type(event) is Requested:
            inside = [(self._home[type(event.message)], event)]
        elif type(event) is PersistFailed and event.fatal:  # rule 5
            return [*effects, Halt(event.reason, "StoreError")]
        else:
            inside = self._inward(event)
        self._carry_on(inside, now, effects)
        return effects

    def _carry_on(
        self,
        inside: list[tuple[int, Event[Message]]],
        now: Instant,
        effects: list[Effect[Message]],
    ) -> None:
        rounds = 0
        while inside:
            told: list[tuple[int, Event[Message]]] = []
            for index, inner in inside:
                self._heard |= 1 << index
                for effect in self._machines[index].handle(inner, now):
                    if type(effect) is Reply and effect.operation.client != self.me:
                        operation = effect.operation
                        answer = Answer(operation.number, effect.message)
                        effects.append(Send(operation.client, answer))
                    else:
                        self._outward(index, effect, effects, told)
            inside = told
            rounds += 1
            assert rounds < ROUNDS_MAX, f"the machines of {self.me} talk without end"

    def check(self) -> None:
        """Those that have heard something since the last check: no other has changed."""
        heard, self._heard = self._heard, 0
        for index, machine in enumerate(self._machines):
            if heard >> index & 1:
                machine.check()

    # --- from outside to a machine ----------------------------------------------------------------

    def _inward(self, event: Event[Message]) -> list[tuple[int, Event[Message]]]:
        match event:
            case Expired(timer):
                self._due.pop(timer, None)
                return [(self._timers[type(timer)], event)]
            case PersistFailed() | Loaded():
                return [self._completed(event)]
            case Started(records, damaged, wall):
                return [
                    (index, own_start(prefix, records, damaged, wall))
                    for index, prefix in enumerate(self._prefixes)
                ]
            case _:
                return [(index, event) for index in range(len(self._families))]

    def _delivered(
        self, source: NodeId, message: Message, effects: list[Effect[Message]]
    ) -> list[tuple[int, Event[Message]]]:
        if type(message) is Call:
            body = message.body
            index = self._home.get(type(body))
            if index is not None:
                operation = OperationId(source, message.number)
                return [(index, Requested(operation, body))]
            refusal = Declined("MessageError", f"{type(body).__name__} is nothing this node does")
            effects.append(Send(source, Answer(message.number, refusal)))
            return []
        index = self._home.get(type(message))
        if index is None:
            self.strays += 1
            effects.append(Note(f"{type(message).__name__} from {source} has no family here"))
            return []
        return [(index, Received(source, message))]

    def _completed(self, event: PersistFailed | Loaded) -> tuple[int, Event[Message]]:
        ticket, index = divmod(event.ticket, len(self._families))
        match event:
            case PersistFailed(_, reason):
                return index, PersistFailed(ticket, reason)
            case Loaded(_, found):
                prefix = self._prefixes[index]
                return index, Loaded(ticket, tuple(_own_found(prefix, one) for one in found))

    # --- from a machine to outside ----------------------------------------------------------------

    def _outward(
        self,
        index: int,
        effect: Effect[Message],
        effects: list[Effect[Message]],
        inside: list[tuple[int, Event[Message]]],
    ) -> None:
        if type(effect) is Persist:
            prefix = self._prefixes[index]
            shared = _shared_changes(prefix, BULK + prefix, effect.changes)
            effects.append(Persist(self._shared_ticket(index, effect.ticket), shared))
            return
        match effect:
            case Send(target, message) if target == self.me:
                inside.extend(self._delivered(self.me, message, effects))
            case Load(ticket, keys, client):
                prefix = self._prefixes[index]
                shared_keys = tuple(shared_key(prefix, key) for key in keys)
                effects.append(Load(self._shared_ticket(index, ticket), shared_keys, client))
            case Scan(ticket, start, stop, bytes_max):
                first, end = shared_range(self._prefixes[index], start, stop)
                effects.append(Scan(self._shared_ticket(index, ticket), first, end, bytes_max))
            case SetTimer(timer, at):
                self._timers[type(timer)] = index
                self._due[timer] = at
                effects.append(effect)
            case CancelTimer(timer):
                self._due.pop(timer, None)
                effects.append(effect)
            case Announce(fact):
                told = Announced(fact)
                if isinstance(fact, Current):
                    self._current = fact.until, index, told
                inside.extend((other, told) for other in self._hearers(index, told, effects))
                effects.append(effect)
            case _:
                effects.append(effect)

    def _hearers(self, index: int, told: Announced, effects: list[Effect[Message]]) -> list[int]:
        """Who hears a fact at once (rules 3 and 7)."""
        others = [other for other in range(len(self._families)) if other != index]
        fenced = [other for other in others if self._families[other].fenced]
        match told.fact:
            case Unsure(until):
                self._unsure = until
            case CutOff():
                self._held = [one for one in self._held if not isinstance(one[2].fact, View)]
            case LeadsNoMore() if any(isinstance(one.fact, Leads) for _, _, one in self._held):
                self._held = [one for one in self._held if not isinstance(one[2].fact, Leads)]
                return fenced
            case View() | Leads() if self._held or self._unsure > self._now:
                self._held.append((self._unsure, index, told))
                effects.append(self._wake())
                return fenced
        return others

    def _sure(self, effects: list[Effect[Message]]) -> list[tuple[int, Event[Message]]]:
        """Who hears what now, of what was held: what is sure, and all that was told before it."""
        ripe = [at for at, (until, _, _) in enumerate(self._held, 1) if until <= self._now]
        if not ripe:
            return []
        told, self._held = self._held[: ripe[-1]], self._held[ripe[-1] :]
        if self._held:
            effects.append(self._wake())
        families = enumerate(self._families)
        patient = [at for at, family in families if not family.fenced]
        return [(at, one) for _, by, one in told for at in patient if at != by]

    def _slept(self, now: Instant) -> list[tuple[int, Event[Message]]]:
        """Looks whether a timer is much too late, and when to look next (rule 8)."""
        late = Duration(now - min(self._due.values(), default=now))
        self._overdue = later(now, SLEPT)
        if late < SLEPT:
            return []
        told = Announced(Slept(late))
        return [(at, told) for at, family in enumerate(self._families) if family.fenced]

    def _wake(self) -> Effect[Message]:
        return SetTimer(HostTimer.SURE, max(self._now, min(one[0] for one in self._held)))

    def _shared_ticket(self, index: int, ticket: int) -> int:
        return ticket * len(self._families) + index


def shared_key(prefix: bytes, key: bytes) -> bytes:
    """Where a family's key stands on the disk that all share; bulk stays bulk."""
    return BULK + prefix + key[len(BULK) :] if key.startswith(BULK) else prefix + key


def _own_key(prefix: bytes, key: bytes) -> bytes | None:
    """The family's key again; None when it is another family's."""
    for mark in (BULK, b""):
        begin = mark + prefix
        if key.startswith(begin):
            return mark + key[len(begin) :]
    return None


def _shared_changes(prefix: bytes, bulk: bytes, changes: tuple[Change, ...]) -> tuple[Change, ...]:
    """Where a family's changes are made; each key as by `shared_key`, at every step of a node."""
    return tuple(
        [
            Write((bulk + key[1:] if (key := one.key)[:1] == BULK else prefix + key), one.value)
            if type(one) is Write
            else _shared_erase(prefix, one)
            for one in changes
        ]
    )


def _shared_erase(prefix: bytes, change: Change) -> Erase:
    assert type(change) is Erase
    return Erase(*shared_range(prefix, change.start, change.stop))


def shared_range(prefix: bytes, start: bytes, stop: bytes) -> tuple[bytes, bytes]:
    """A range of the family's small records or of its bulk; across both lie other families."""
    bulk = start[:1] == BULK
    assert bulk == (stop[:1] == BULK), "from small records into bulk"
    if bulk:
        return BULK + prefix + start[1:], BULK + prefix + stop[1:]
    return prefix + start, prefix + stop


def _own_found(prefix: bytes, found: Found) -> Found:
    key = _own_key(prefix, found.key)
    assert key is not None, f"{found.key!r} was not asked for by {prefix!r}"
    match found:
        case Record(_, value):
            return Record(key, value)
        case Missing():
            return Missing(key)
        case Damaged():
            return Damaged(key)


def own_start(
    prefix: bytes, records: tuple[Record, ...], damaged: tuple[bytes, ...], wall: int
) -> Started:
    """What of a disk that all share is this family's; prefixes end with a stroke."""
    own = [(_own_key(prefix, record.key), record.value) for record in records]
    hurt = [_own_key(prefix, key) for key in damaged]
    return Started(
        tuple(Record(key, value) for key, value in own if key is not None),
        tuple(key for key in hurt if key is not None),
        wall,
    )
