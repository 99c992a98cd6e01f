"""Processes as values, and their steps, each done once however many states of the world share it.

A state of a small world names its processes by number; what a number stands for lies here. So a
step is one look into a table, unless nobody has seen this process meet this event before. Then the
machine is brought to where it was, by all that it was given since it began: machines are pure, so
nothing of them need ever be copied. One that stands where it is wanted next is not brought there.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple

from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId
from snowmelt.core.node import (
    Announce,
    CancelTimer,
    Effect,
    Event,
    Halt,
    Load,
    Loaded,
    Node,
    Persist,
    Persisted,
    Reply,
    Scan,
    Send,
    SetTimer,
    Started,
)
from snowmelt.core.record import BULK, Change, Found, Missing, Record, Write, scanned
from snowmelt_world.clock import wall
from snowmelt_world.explore.value import Portrait

STANDING_MAX: Final = 20_000
"""So many machines are kept where they are; the others are brought there again."""
NOBODY: Final = 0

Asked = Persist | Load | Scan
Build = Callable[[NodeId, int], Node[Any]]


class Process(NamedTuple):
    """One process' place: its disk outlives it."""

    node: NodeId
    life: int = 0
    machine: int = NOBODY
    """`NOBODY` when it does not run."""
    since: Instant = Instant(0)
    """When it ended, while it does not run."""
    timers: tuple[tuple[Enum, Instant], ...] = ()
    disk: tuple[Record, ...] = ()
    asked: tuple[Asked, ...] = ()
    """What its disk has not answered."""

    @property
    def runs(self) -> bool:
        return self.machine != NOBODY


class Step(NamedTuple):
    event: Event[Any]
    process: Process
    effects: tuple[Effect[Any], ...]
    broken: str = ""
    """The invariant that does not hold now, or how the machine crashed."""

    @property
    def outside(self) -> list[Effect[Any]]:
        return [one for one in self.effects if isinstance(one, Send | Reply | Announce)]


class _Past(NamedTuple):
    """How a machine came to be where it is: from where, and by what."""

    before: int
    event: Event[Any] | None
    now: Instant
    node: NodeId
    life: int


class Machines:
    def __init__(self, build: Build, portrait: Portrait) -> None:
        self._build = build
        self._portrait = portrait
        self._past: list[_Past] = [_Past(NOBODY, None, Instant(0), NodeId(""), 0)]
        self._numbers: dict[tuple[NodeId, bytes], int] = {}
        self._standing: dict[int, Node[Any]] = {}
        self._steps: dict[tuple[Process, Event[Any], Instant], Step] = {}

    @property
    def count(self) -> int:
        """How many states of single machines there were."""
        return len(self._past) - 1

    def start(self, process: Process, now: Instant) -> Step:
        """A process begins, with what its disk holds."""
        life = process.life + 1
        fresh = process._replace(life=life, timers=(), asked=(), since=Instant(0))
        small = tuple(one for one in process.disk if not one.key.startswith(BULK))
        return self.step(fresh, Started(small, (), wall(now)), now)

    def step(self, process: Process, event: Event[Any], now: Instant) -> Step:
        """What comes of this event, whoever asks first."""
        key = process, event, now
        found = self._steps.get(key)
        if found is None:
            found = self._steps[key] = self._taken(process, event, now)
        return found

    def flush(self, process: Process, now: Instant) -> Step:
        """The disk does what it was asked first, and says so."""
        first, *rest = process.asked
        left = process._replace(asked=tuple(rest))
        if isinstance(first, Persist):
            kept = left._replace(disk=applied(process.disk, first.changes))
            return self.step(kept, Persisted(first.ticket), now)
        return self.step(left, Loaded(first.ticket, _found(process.disk, first)), now)

    def end(self, process: Process, kept: int, now: Instant) -> Process:
        """It is killed; of what its disk was asked so many are done."""
        disk = process.disk
        for one in process.asked[:kept]:
            if isinstance(one, Persist):
                disk = applied(disk, one.changes)
        return Process(process.node, process.life, since=now, disk=disk)

    # --- inside -----------------------------------------------------------------------------------

    def _taken(self, process: Process, event: Event[Any], now: Instant) -> Step:
        node = self._standing.pop(process.machine, None) or self._brought(process)
        broken = ""
        effects: list[Effect[Any]] = []
        try:
            effects = node.handle(event, now)
            node.check()
        except AssertionError as error:
            broken = str(error) or "an invariant does not hold"
        except Exception as error:
            broken = f"crashed: {error!r}"
        number = self._number(process, node, event, now)
        after = _carried_out(process._replace(machine=number), effects)
        return Step(event, after, tuple(effects), broken)

    def _brought(self, process: Process) -> Node[Any]:
        """The machine, given again all that it was given."""
        events: list[tuple[Event[Any], Instant]] = []
        at = process.machine
        while at != NOBODY:
            past = self._past[at]
            assert past.event is not None
            events.append((past.event, past.now))
            at = past.before
        node = self._build(process.node, process.life)
        for event, now in reversed(events):
            node.handle(event, now)
        return node

    def _number(self, process: Process, node: Node[Any], event: Event[Any], now: Instant) -> int:
        # Of two lives one machine may be like the other: what it draws next tells them apart.
        key = process.node, self._portrait.of((process.life, node))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._past)
            past = _Past(process.machine, event, now, process.node, process.life)
            self._past.append(past)
        self._standing[number] = node
        if len(self._standing) > STANDING_MAX:
            del self._standing[next(iter(self._standing))]
        return number


def _carried_out(process: Process, effects: list[Effect[Any]]) -> Process:
    timers = dict(process.timers)
    asked = list(process.asked)
    for effect in effects:
        match effect:
            case SetTimer(timer, at):
                timers[timer] = at
            case CancelTimer(timer):
                timers.pop(timer, None)
            case Persist() | Load() | Scan():
                asked.append(effect)
            case Halt():
                return Process(process.node, process.life, disk=process.disk)
            case _:
                pass  # for others
    in_order = tuple(sorted(timers.items(), key=lambda one: str(one[0].value)))
    return process._replace(timers=in_order, asked=tuple(asked))


def applied(disk: tuple[Record, ...], changes: tuple[Change, ...]) -> tuple[Record, ...]:
    """What a disk holds when these changes are done.

    >>> applied((Record(b"a", b"1"),), (Write(b"b", b"2"), Write(b"a", b"3")))
    (Record(key=b'a', value=b'3'), Record(key=b'b', value=b'2'))
    """
    held = {one.key: one for one in disk}
    for change in changes:
        if isinstance(change, Write):
            held[change.key] = Record(change.key, change.value)
        else:
            gone = [key for key in held if change.start <= key < change.stop]
            for key in gone:
                del held[key]
    return tuple(held[key] for key in sorted(held))


def _found(disk: tuple[Record, ...], asked: Load | Scan) -> tuple[Found, ...]:
    match asked:
        case Load(_, keys):
            held = {one.key: one for one in disk}
            return tuple(held.get(key, Missing(key)) for key in keys)
        case Scan(_, start, stop, bytes_max):
            there = [one for one in disk if start <= one.key < stop]
            return tuple(scanned(there, bytes_max))
