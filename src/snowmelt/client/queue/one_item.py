"""One item by itself, as steps (`connection.steps`): looked at, dropped, brought back, moved."""

from datetime import UTC, datetime
from typing import Final

import msgspec

from snowmelt.client.connection.naming import Program, program_of
from snowmelt.client.connection.steps import Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.leases.steps import Seen
from snowmelt.client.priority.steps import RankedSteps
from snowmelt.core.errors import BadOption
from snowmelt.core.instant import SECOND
from snowmelt.core.interval import POSITION_MAX
from snowmelt.protocols.queue.api.calls import Changed, Peeked
from snowmelt.protocols.queue.api.partition_names import part_of
from snowmelt.protocols.queue.api.statuses import (
    ChangeItem,
    DescribeItem,
    ItemStanding,
    ItemStatus,
    ShowItem,
    TracedItem,
    TraceEvent,
    TraceItem,
    TraceKind,
)
from snowmelt.protocols.queue.state.producers import is_unnamed
from snowmelt.protocols.queue.state.tails import PRIORITY_BITS

DROPPED: Final = "dropped"
READY: Final = "ready"
BY_NAME: Final = (TraceKind.PUT, TraceKind.GIVEN)
"""Who does these has a name of its own, and need not be a client."""


def checked_fate(to: object) -> str:
    """What an item is to be; raises `BadOption`."""
    if to not in {DROPPED, READY}:
        raise BadOption("to", to, f"{DROPPED!r}, {READY!r} or a queue")
    return str(to)


class ItemOverview(msgspec.Struct, frozen=True):
    """How one item is, wherever it is."""

    standing: ItemStanding
    """`READY`, `DELAYED`, `LEASED`, `DEAD`, `WITH_A_GROUP`, `ENDED` or `NEVER`."""
    position: int
    priority: int | float | None
    bytes: int
    """Of its body, about."""
    put_at: datetime | None
    """When it was put, to a second, by the clock of the node that took it."""
    failures: int
    reason: str
    """Why the last of these deliveries failed."""
    program: str
    """Which program has it; nothing where none does."""
    pid: int
    host: str
    held: float
    """For how many seconds, as the queue's leader knows it."""
    left: float
    """So many seconds its lease or its delay lasts still."""
    group: str
    """The group that has it."""
    seen: Seen | None
    """Body and headers, as `peek` shows them; None where it has ended."""


def look_at(
    steps: FifoSteps, position: int, priority: float | None, wait: Wait
) -> Steps[ItemOverview]:
    """How it is."""
    place = yield from place_of(steps, position, priority, wait)
    told: ItemStatus = yield from steps.ask_about(DescribeItem(steps.name, place), wait.left)
    return (yield from overview_of(steps, told, position, priority, wait))


def overview_of(
    steps: FifoSteps, told: ItemStatus, position: int, priority: float | None, wait: Wait
) -> Steps[ItemOverview]:
    """The same, of an item whose status is known."""
    place = yield from place_of(steps, position, priority, wait)
    peeked: Peeked = yield from steps.ask_about(ShowItem(steps.name, place), wait.left)
    seen = next(iter((yield from steps.shown(peeked))), None)
    who = program_of(told.client) if told.client else Program("", 0, "")
    put_at = datetime.fromtimestamp(told.put_at / SECOND, UTC) if told.put_at else None
    return ItemOverview(
        told.standing, position, priority, told.bytes, put_at, told.failures, told.reason,
        who.name, who.pid, who.host, told.held, told.left, told.group, seen,
    )  # fmt: skip


def change(
    steps: FifoSteps,
    position: int,
    priority: float | None,
    wait: Wait,
    *,
    drop: bool,
    dead: bool = False,
) -> Steps[bool]:
    """Drops it, or brings it back, only from the dead where so said; whether that was done."""
    place = yield from place_of(steps, position, priority, wait)
    ask = ChangeItem(steps.name, place, drop, dead)
    told: Changed = yield from steps.ask_about(ask, wait.left)
    return told.items > 0


def read_one(steps: FifoSteps, position: int, priority: float | None, wait: Wait) -> Steps[Seen]:
    """What is there, to be put elsewhere."""
    place = yield from place_of(steps, position, priority, wait)
    peeked: Peeked = yield from steps.ask_about(ShowItem(steps.name, place), wait.left)
    for seen in (yield from steps.shown(peeked)):
        return seen
    raise BadOption("position", position, f"that of an item that is in {steps.name}")


def put_again(steps: FifoSteps, seen: Seen, wait: Wait, of: FifoSteps) -> Steps[None]:
    """Puts what was read of another queue."""
    if isinstance(steps, RankedSteps):
        rank = seen.priority if isinstance(of, RankedSteps) else None
        put = steps.put_ranked([seen.body], rank, seen.headers, 0.0, wait.left, None, seen.key)
    else:
        put = steps.put_many([seen.body], seen.headers, 0.0, wait.left, None, key=seen.key)
    yield from put


def place_of(steps: FifoSteps, position: int, priority: float | None, wait: Wait) -> Steps[int]:
    """Where it is to nodes."""
    if type(position) is not int or not 0 <= position < POSITION_MAX:
        raise BadOption("position", position, f"0 to {POSITION_MAX - 1}")
    if not isinstance(steps, RankedSteps):
        if priority is not None:
            raise BadOption("priority", priority, f"none in {steps.name}, which is a fifo")
        return position
    ranks = yield from steps.known(wait)
    if ranks.keyed:
        if priority is not None:
            raise BadOption("priority", priority, "none: positions of this queue are of all items")
        return position
    if priority is None:
        raise BadOption("priority", priority, f"that of the item, for positions of {steps.name}")
    if position >= 1 << PRIORITY_BITS:
        raise BadOption("position", position, f"0 to {(1 << PRIORITY_BITS) - 1}")
    return (ranks.rank(priority) << PRIORITY_BITS) + position


class TraceEntry(msgspec.Struct, frozen=True):
    """Something that happened to an item."""

    kind: TraceKind
    """`PUT`, `LEASED`, `EXTENDED`, `RELEASED`, `FAILED`, `DIED`, `BROUGHT_BACK`, `GIVEN`,
    `ACKNOWLEDGED`, `REMOVED`, `AGED`, `LOST` or `ENDED`."""
    after: datetime | None
    """It was not before this moment, by the clock of the queue's leader."""
    before: datetime | None
    """And not behind this one."""
    name: str
    """The producer or the group, where it has a name; the user before it, where there are users."""
    program: str
    """Which program did it; nothing where that is not known, or you may not know it."""
    pid: int
    host: str
    number: int
    """Of a put, its number at its producer; of a lease, its token."""
    length: float
    """For how many seconds it was leased."""
    failures: int
    """How often it had failed by then."""
    reason: str
    due: datetime | None
    """For when it was put, or came back, where it was delayed."""
    term: int
    step: int
    """Of the queue's log; 0 where it is not known which."""


class ItemTrace(msgspec.Struct, frozen=True):
    """How an item is now, and what is known to have happened to it, the first first."""

    now: ItemOverview
    entries: tuple[TraceEntry, ...]
    partition: int | None
    """In which of the queue's partitions it is; None where there is one."""
    unknown: str
    """What is not known any more, in words; nothing where all of it is."""


def trace(
    steps: FifoSteps, position: int, priority: float | None, wait: Wait, *, names: bool = True
) -> Steps[ItemTrace]:
    """Of several partitions the one that knows most of it; without `names` not who did it."""
    parts = yield from steps.partitions(wait.left)
    best: tuple[FifoSteps, TracedItem] | None = None
    for part in parts:
        place = yield from place_of(part, position, priority, wait)
        told: TracedItem = yield from part.ask_about(TraceItem(part.name, place, names), wait.left)
        if best is None or _known(told) > _known(best[1]):
            best = part, told
    assert best is not None
    part, told = best
    now = yield from overview_of(part, told.status, position, priority, wait)
    number = part_of(part.name) if len(parts) > 1 else None
    return ItemTrace(now, tuple(map(_entry, told.events)), number, _unknown(told, len(parts)))


def _known(told: TracedItem) -> tuple[bool, int]:
    over = told.status.standing in (ItemStanding.ENDED, ItemStanding.NEVER)
    return not over, len(told.events)


def _entry(one: TraceEvent) -> TraceEntry:
    kind, who, name = one.kind, Program("", 0, ""), ""
    if one.who and (kind not in BY_NAME or (kind is TraceKind.PUT and is_unnamed(one.who))):
        who = program_of(one.who.rpartition("/")[2])
    else:
        name = one.who
    return TraceEntry(
        kind, _moment(one.after), _moment(one.before), name, who.name, who.pid, who.host,
        one.number, one.length, one.times, one.reason, _moment(one.due), one.term, one.step,
    )  # fmt: skip


def _moment(wall: int) -> datetime | None:
    return datetime.fromtimestamp(wall / SECOND, UTC) if wall else None


def _unknown(told: TracedItem, partitions: int) -> str:
    """What the records do not tell any more."""
    standing, events = told.status.standing, told.events
    if standing is ItemStanding.NEVER:
        return ""
    if standing is ItemStanding.ENDED and not events and partitions > 1:
        return "whether it was in this partition, and what became of it"
    whole = bool(events) and events[0].kind is TraceKind.PUT and events[0].step > 0
    if whole and not told.left_out:
        return ""
    if told.since >= told.head:
        text = "what happened to it before now; steps of the queue's log are kept from here on"
    else:
        moment = _moment(told.begun)
        when = "" if moment is None else f", which was made by {moment:%Y-%m-%d %H:%M:%S} UTC"
        text = f"what happened to it up to step {told.since} of the queue's log{when}"
    return f"{text}, and {told.left_out:,} events since" if told.left_out else text
