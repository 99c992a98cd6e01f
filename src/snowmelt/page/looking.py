"""One look at a cluster: what its nodes report of queues, of each other, of batons and of pools."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from snowmelt.client.connection.naming import Program
from snowmelt.client.connection.steps import Query, Steps, at_once
from snowmelt.client.connection.waits import Wait
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.leases.delivered import PLACE_BITS, position_of
from snowmelt.client.leases.steps import Seen
from snowmelt.client.pool.status import pools
from snowmelt.client.priority.steps import RankedSteps
from snowmelt.client.queue.consumers import ConsumerOverview, consumers
from snowmelt.client.queue.held_items import HeldItem, first_held, held_in, with_holder
from snowmelt.client.queue.item_words import happened, standing, when
from snowmelt.client.queue.one_item import trace
from snowmelt.client.queue.overviews import NODE_SECONDS
from snowmelt.client.queue.rows import QueueRow, settings_object
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.instant import SECOND
from snowmelt.core.names import NodeId, contact
from snowmelt.core.shown import printable
from snowmelt.core.users import Right
from snowmelt.page.pressing import steps_of
from snowmelt.protocols.baton.calls import BatonLooks, BatonStatus, LookAtBatons
from snowmelt.protocols.baton.settings import TOPICS
from snowmelt.protocols.membership.messages import GetStatus, Status
from snowmelt.protocols.pool.introductions import PoolStatus
from snowmelt.protocols.queue.api.calls import Peek, Peeked
from snowmelt.protocols.queue.api.partition_names import part_name, part_names
from snowmelt.protocols.queue.api.statuses import Describe, QueueStatus

ROWS_MAX: Final = 10_000
"""So many queues are shown, as many as a cluster may have."""
BATONS_MAX: Final = 1_000
POOLS_MAX: Final = 1_000
NAMES_MAX: Final = 20
"""So many processes of a pool, and nodes at which a baton is waited for, by name."""
LETTERS_MAX: Final = 300
ITEM_SECONDS: Final = 5.0
ITEMS_MAX: Final = 20
CONSUMERS_MAX: Final = 100
BODY_BYTES: Final = 120
ITEM_BYTES: Final = 64 << 10
"""Of the items of a queue, or a partition, that are shown; one is, however large."""

FIELDS: Final = (
    "queue", "order", "paused", "ready", "delayed", "leased", "dead", "bytes", "oldest",
    "in_per_second", "out_per_second", "leader", "term", "copies", "replicas", "copied", "away",
    "waits", "short_of_copies",
)  # fmt: skip
"""What of a line the page is sent, in this order."""


class NodeRow(msgspec.Struct, frozen=True):
    """A node that is present."""

    id: str
    address: str
    starts: int
    heard: float | None
    """For how many seconds the coordinator has not heard of it; it alone knows."""


class BatonRow(msgspec.Struct, frozen=True):
    """One baton that somebody holds, or waits for."""

    name: str
    holder: str
    """The node at which it is; "" where nobody says so."""
    state: str
    fence: int
    waiting: int
    waits_at: list[tuple[str, int]]
    """How many wait at which node."""


class PoolRow(msgspec.Struct, frozen=True):
    """One row of the table of pools."""

    name: str
    producers: list[tuple[str, int, float]]
    """By name: what each has, and how many objects a second it makes."""
    consumers: list[str]
    producing: int
    consuming: int
    stock: int


class ClusterTables(msgspec.Struct, frozen=True):
    """What the page shows beside queues: nodes, batons and pools."""

    node: str
    standing: str
    cluster: str = ""
    epoch: int = 0
    coordinator: str = ""
    members: list[NodeRow] = []
    batons: list[BatonRow] = []
    pools: list[PoolRow] = []


class PresentNodes:
    """The nodes of the last view, by which a cluster's overview asks."""

    def __init__(self, me: NodeId) -> None:
        self._me = me
        self.status: Status | None = None
        self.mine: NodeId | None = None
        """By which name this node itself is called."""

    def ask(self, timeout: float) -> Steps[tuple[tuple[NodeId, NodeId], ...]]:
        """Asks this node who is in its view; each by name and contact."""
        told: Status = yield Query(GetStatus(), timeout)
        self.status = told
        here = () if told.view is None else told.view.members
        named = tuple([(one.id, contact(one.address)) for one in here])
        self.mine = dict(named).get(self._me)
        return named


def around(present: PresentNodes, timeout: float) -> Steps[ClusterTables]:
    """What there is beside queues. A node that does not answer is left out."""
    named = yield from present.ask(timeout)
    told = present.status
    assert told is not None
    if told.view is None:
        return ClusterTables(told.node, told.standing)
    looked = yield from at_once([_batons_of(address) for _, address in named])
    seen = [one for some in looked if not isinstance(some, SnowmeltError) for one in some]
    try:
        found: Iterable[PoolStatus] = yield from pools(timeout)
    except SnowmeltError:
        found = ()
    return ClusterTables(
        told.node,
        told.standing,
        told.view.identity,
        told.view.epoch,
        told.view.coordinator,
        [
            NodeRow(one.id, str(one.address), one.start, _seconds(told.silent.get(one.id)))
            for one in told.view.members
        ],
        baton_lines(seen)[:BATONS_MAX],
        [_pool_line(one) for one in found][:POOLS_MAX],
    )


def _seconds(span: int | None) -> float | None:
    return None if span is None else round(span / SECOND, 1)


def _batons_of(address: NodeId) -> Steps[list[BatonStatus]]:
    found = list[BatonStatus]()
    while len(found) < BATONS_MAX:
        after = found[-1].name if found else ""
        told: BatonLooks = yield Query(LookAtBatons(after), NODE_SECONDS, address)
        if not told.statuses or told.statuses[-1].name <= after:
            break
        found += told.statuses
    return found


def baton_lines(seen: Iterable[BatonStatus]) -> list[BatonRow]:
    """What several nodes see, put together by names; topics have batons too, and are none.

    >>> here = BatonStatus("index", NodeId("n1"), "held", 7, 1, NodeId("n1"))
    >>> there = BatonStatus("index", NodeId("n2"), "elsewhere", 6, 2, NodeId("n1"))
    >>> one, = baton_lines([there, here])
    >>> one.holder, one.waiting, one.waits_at
    ('n1', 3, [('n2', 2), ('n1', 1)])
    """
    by_name: dict[str, list[BatonStatus]] = {}
    for one in seen:
        if not one.name.startswith(TOPICS):
            by_name.setdefault(one.name, []).append(one)
    lines = []
    for name, some in sorted(by_name.items()):
        newest = max(some, key=lambda one: (one.state != "elsewhere", one.fence))
        there = newest.state != "elsewhere"
        waits = [(one.node, one.waiting) for one in some if one.waiting]
        lines.append(
            BatonRow(
                name,
                newest.node if there else "",
                newest.state if there else "on its way",
                newest.fence,
                sum([count for _, count in waits]),
                [(str(node), count) for node, count in waits[:NAMES_MAX]],
            )
        )
    return lines


def _pool_line(pool: PoolStatus) -> PoolRow:
    producers = list(zip(pool.producers, pool.stocks, strict=False))
    return PoolRow(
        pool.name,
        [(one.name or one.id, stock, _short(one.rate)) for one, stock in producers[:NAMES_MAX]],
        [str(one) for one in pool.consumers[:NAMES_MAX]],
        len(pool.producers),
        len(pool.consumers),
        sum(pool.stocks),
    )


def row(line: QueueRow) -> list[Any]:
    """A queue as the page is sent it.

    >>> row(QueueRow(queue="q", oldest=1.23456, in_per_second=1234.5))[8:10]
    [1.23, 1230.0]
    """
    short = msgspec.structs.replace(
        line,
        oldest=None if line.oldest is None else round(line.oldest, 2),
        in_per_second=_short(line.in_per_second),
        out_per_second=_short(line.out_per_second),
        waits=line.waits[:LETTERS_MAX],
    )
    return [getattr(short, name) for name in FIELDS]


def _short(rate: float | None) -> Any:
    """Three digits are enough to look at."""
    return rate and float(f"{rate:.3g}")


class ItemRow(msgspec.Struct, frozen=True):
    """One item, as `peek` shows it."""

    queue: str
    """Or its partition."""
    position: int
    priority: float | None
    """Where priorities are numbered: positions are of each."""
    failures: int | None
    """None where its body is too large to be shown, and so nothing of it is known."""
    reason: str
    put_at: float | None
    """Seconds of the clock of the node that took it."""
    bytes: int
    body: str
    """How it begins."""
    left: float | None = None
    """Of one that is leased, or delayed: for so many seconds still."""
    held: float = 0.0
    program: str = ""
    """Who has it; nothing where that may not be seen."""
    pid: int = 0
    host: str = ""


class WorkerRow(msgspec.Struct, frozen=True):
    """One process that has items of some queues, or waits for some."""

    program: str
    pid: int
    host: str
    queues: list[str]
    using: int
    """So many queues it uses, of those that were looked at."""
    items: int
    held: float
    gets_waiting: int
    puts_waiting: int


class PartitionRow(msgspec.Struct, frozen=True):
    """One partition; the first is the anchor, which says who gets what next."""

    number: int
    status: dict[str, Any] | None
    why: str = ""
    """Why it has no report."""


class QueueDetail(msgspec.Struct, frozen=True):
    """All that the page shows of one queue."""

    queue: str
    settings: dict[str, object]
    parts: list[PartitionRow]
    """One, if it has no partitions."""
    ranked: bool = False
    """Whether it has priorities."""
    may: list[str] = []
    """The rights of who looks."""
    items: list[ItemRow] | None = None
    """The first that wait; None where they may not be seen, as below."""
    dead: list[ItemRow] | None = None
    leased: list[ItemRow] | None = None
    """Those held for longest. One with a large body is there without it, and without its age."""
    delayed: list[ItemRow] | None = None
    """The next that are due."""
    consumers: list[ConsumerOverview] | None = None


def one_queue(queue: str, partitions: int, may: Collection[Right]) -> Steps[QueueDetail]:
    """One queue's overview, or one of each of its partitions; its items by these rights."""
    names = [queue] if partitions == 1 else part_names(queue, partitions)
    told = yield from at_once([_described(name) for name in names])
    settings = [one.settings for one in told if isinstance(one, QueueStatus)]
    parts = [_part(number, one) for number, one in enumerate(told)]
    if not settings:
        return QueueDetail(queue, {}, parts)
    named, ranked = settings_object(settings[0]), settings[0].priorities != 1
    items = dead = leased = delayed = users = None
    if Right.PEEK in may:
        kind, named_too = settings[0].priorities, Right.ADMIN in may
        dead = yield from _items_of(names, kind, dead=True)
        items = yield from _items_of(names, kind, dead=False)
        leased = yield from _held_of(names, kind, delayed=False, named=named_too)
        delayed = yield from _held_of(names, kind, delayed=True, named=named_too)
    if Right.ADMIN in may:
        found = yield from at_once([consumers(steps_of(queue, ranked=ranked), NODE_SECONDS)])
        users = next((one[:CONSUMERS_MAX] for one in found if isinstance(one, list)), [])
    rights = [one.value for one in may]
    shown = items, dead, leased, delayed, users
    return QueueDetail(queue, named, parts, ranked, rights, *shown)


def workers_of(queues: Mapping[str, bool]) -> Steps[list[WorkerRow]]:
    """The processes that use these queues, of which some have priorities; one in all of them."""
    asks = [consumers(steps_of(name, ranked=one), NODE_SECONDS) for name, one in queues.items()]
    told = yield from at_once(asks)
    found = dict[Program, list[tuple[str, ConsumerOverview]]]()
    for name, some in zip(queues, told, strict=True):
        for one in some if isinstance(some, list) else ():
            found.setdefault(Program(one.program, one.pid, one.host), []).append((name, one))
    rows = [
        WorkerRow(
            who.name,
            who.pid,
            who.host,
            [name for name, _ in some[:NAMES_MAX]],
            len(some),
            sum([one.items for _, one in some]),
            max([one.held for _, one in some]),
            sum([one.gets_waiting for _, one in some]),
            sum([one.puts_waiting for _, one in some]),
        )
        for who, some in found.items()
    ]
    return sorted(rows, key=lambda one: (-one.items, -one.gets_waiting, one.program, one.pid))


def _items_of(names: list[str], priorities: int, *, dead: bool) -> Steps[list[ItemRow]]:
    """The first of each partition; one that is away has none."""
    ranked, most = priorities != 1, max(1, ITEMS_MAX // len(names))
    told = yield from at_once(
        [_peeked(steps_of(name, ranked=ranked), most, dead) for name in names]
    )
    return [
        _item_row(name, one, numbered=priorities > 1)
        for name, some in zip(names, told, strict=True)
        if isinstance(some, list)
        for one in some
    ]


def _held_of(
    names: list[str], priorities: int, *, delayed: bool, named: bool
) -> Steps[list[ItemRow]]:
    """What is leased, or delayed, of all partitions; clients are `named` to an admin."""
    ranked = priorities != 1
    asks = [_held(steps_of(name, ranked=ranked), delayed, named) for name in names]
    told = yield from at_once(asks)
    found = first_held([one for one in told if isinstance(one, list)], ITEMS_MAX, delayed=delayed)
    return [_held_row(one, numbered=priorities > 1) for one in found]


def _held(steps: FifoSteps, delayed: bool, named: bool) -> Steps[list[HeldItem]]:
    wait = yield from _asking(steps)
    held = held_in(steps, ITEMS_MAX, ITEM_BYTES, wait, delayed=delayed, names=named)
    return (yield from held)


def _held_row(one: HeldItem, *, numbered: bool) -> ItemRow:
    if one.seen is None:
        ranks, rank = one.part.ranks, one.place >> PLACE_BITS
        priority = rank if ranks is None else ranks.told(rank)
        where = one.part.name, position_of(one.place), priority if numbered else None
        row = ItemRow(*where, None, "", None, 0, "")
    else:
        row = _item_row(one.part.name, one.seen, numbered=numbered)
    return with_holder(row, one.run)


def _asking(steps: FifoSteps) -> Steps[Wait]:
    """Its priorities are known before its items are asked for."""
    if isinstance(steps, RankedSteps):
        yield from steps.known(Wait(NODE_SECONDS))
    return Wait(NODE_SECONDS)


def _peeked(steps: FifoSteps, most: int, dead: bool) -> Steps[list[Seen]]:
    """Few bytes of them, since this is asked again and again."""
    yield from _asking(steps)
    ask = Peek(steps.name, most, ITEM_BYTES, 0, dead)
    peeked: Peeked = yield from steps.ask_about(ask, NODE_SECONDS)
    return (yield from steps.shown(peeked))


class ItemDetail(msgspec.Struct, frozen=True):
    """One item, wherever it is, and its life, as `snowmelt trace` tells it."""

    queue: str
    """Or its partition."""
    position: int
    standing: str
    row: ItemRow | None
    """None where it has ended."""
    life: list[tuple[str, str]]
    """When, and what."""
    unknown: str
    ranked: bool


def one_item(
    queue: str, position: int, priority: float | None, *, ranked: bool, names: bool
) -> Steps[ItemDetail]:
    """Finds the partition of the item by itself; without `names` not who had it."""
    steps = steps_of(queue, ranked=ranked)
    told = yield from trace(steps, position, priority, Wait(ITEM_SECONDS), names=names)
    seen, where = told.now.seen, queue
    if told.partition is not None:
        where = part_name(queue, told.partition)
    row = None if seen is None else _item_row(where, seen, numbered=priority is not None)
    life = [(when(one), happened(one)) for one in told.entries]
    return ItemDetail(where, position, standing(told.now), row, life, told.unknown, ranked)


def _item_row(name: str, one: Seen, *, numbered: bool) -> ItemRow:
    try:
        text = one.body[:BODY_BYTES].decode()
    except UnicodeDecodeError:
        text = repr(one.body[:BODY_BYTES])[2:-1]
    at = None if one.put_at is None else one.put_at.timestamp()
    reason = one.reason[:LETTERS_MAX]
    where = name, int(one.position), one.priority if numbered else None
    return ItemRow(*where, one.failures, reason, at, len(one.body), printable(text))


def _described(name: str) -> Steps[QueueStatus]:
    status: QueueStatus = yield Query(Describe(name), NODE_SECONDS)
    return status


def _part(number: int, told: QueueStatus | SnowmeltError) -> PartitionRow:
    if isinstance(told, SnowmeltError):
        return PartitionRow(number, None, str(told)[:LETTERS_MAX])
    fields = msgspec.structs.asdict(told)
    del fields["settings"]
    return PartitionRow(number, fields)
