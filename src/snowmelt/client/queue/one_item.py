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
from snowmelt.protocols.queue.api.statuses import (
    ChangeItem,
    DescribeItem,
    ItemStanding,
    ItemStatus,
    ShowItem,
)
from snowmelt.protocols.queue.state.tails import PRIORITY_BITS

DROPPED: Final = "dropped"
READY: Final = "ready"


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
