"""The life of one item, as steps (`connection.steps`): what its queue has records of."""

from datetime import UTC, datetime
from typing import Final

import msgspec

from snowmelt.client.connection.naming import Program, program_of
from snowmelt.client.connection.steps import Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.queue.one_item import ItemOverview, overview_of, place_of
from snowmelt.core.instant import SECOND
from snowmelt.protocols.queue.api.partition_names import part_of
from snowmelt.protocols.queue.api.statuses import (
    ItemStanding,
    TracedItem,
    TraceEvent,
    TraceItem,
    TraceKind,
)
from snowmelt.protocols.queue.state.producers import is_unnamed

BY_NAME: Final = (TraceKind.PUT, TraceKind.GIVEN)
"""Who does these has a name of its own, and need not be a client."""


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
