"""How queues and items look on a terminal, and as JSON."""

import base64
import math
from collections.abc import Iterator, Mapping

import msgspec
from rich.table import Table

from snowmelt.cli.tables import PlainTable
from snowmelt.client.leases.steps import Seen
from snowmelt.client.queue.one_item import ItemOverview
from snowmelt.client.queue.rows import settings_object
from snowmelt.core.shown import age, printable
from snowmelt.protocols.queue.api.calls import QueueStatus
from snowmelt.protocols.queue.api.deletes import Deleted, counted
from snowmelt.protocols.queue.api.settings import ANY

SHOWN_BYTES = 60
COUNTS = (
    "ready",
    "delayed",
    "leased",
    "assigned",
    "dead",
    "staged",
    "bytes",
    "tail",
    "done",
    "lost",
)
AGES = ("oldest_ready", "oldest_leased", "oldest_delayed", "delivery_age")
BESIDE = ("schedules", "short_of_copies", "waiting_gets", "waiting_puts", "producers", "blocks")
GROWN = ("put", "delivered", "returned", "failed", "expired", "died", "purged", "aged")


def so_many(count: int) -> str:
    """A number of items.

    >>> so_many(1), so_many(2000)
    ('1 item', '2,000 items')
    """
    return f"{count:,} {'item' if count == 1 else 'items'}"


def items_in(told: QueueStatus | Deleted) -> str:
    """How many items a queue has, or had.

    >>> items_in(Deleted(counted=True, ready=2, leased=1)), items_in(Deleted(counted=True))
    ('3 items (2 ready, 1 leased)', 'nothing in it')
    """
    held = counted(told)
    return f"{so_many(held.items)} ({held.text})" if held.items else "nothing in it"


Reach = Mapping[str, int | float]
"""The first, the middle and the last of priorities that may be any numbers."""


def queue_object(status: QueueStatus, reach: Reach) -> dict[str, object]:
    """A queue's status as one JSON object, its fields by name."""
    fields: dict[str, object] = msgspec.structs.asdict(status)
    if status.settings.priorities == ANY:
        fields["ready_reach"] = {word: plain_number(one) for word, one in reach.items()}
    fields["followers"] = list(status.followers)
    fields["settings"] = settings_object(status.settings)
    return fields


def plain_number(number: float) -> int | float | str:
    """As JSON has it, which knows no infinity.

    >>> plain_number(2.5), plain_number(float("-inf"))
    (2.5, '-inf')
    """
    return number if math.isfinite(number) else str(number)


def queue_title(status: QueueStatus, *, folder: bool = False) -> str:
    """A queue's status in one sentence."""
    state = "paused" if status.paused else "open"
    where = "in this folder" if folder else f"at {status.leader} in term {status.term}"
    if status.leaders:
        where = f"in {len(status.leaders)} partitions"
    copies = _alone(status.settings.replicas, grows=status.settings.grows and not folder)
    return f"{status.queue} is {state}, {where}{copies}"


def queue_table(status: QueueStatus, reach: Reach) -> Table:
    """A queue's status, a line a fact."""
    table = _table()
    for name in COUNTS:
        table.add_row(name, f"{getattr(status, name):,}")
        if name == "ready":
            _add_ready(table, status, reach)
    for name in AGES:
        table.add_row(name.replace("_", " "), age(getattr(status, name)))
    for name in GROWN:
        table.add_row(name, f"{getattr(status, name):,}")
    for name in BESIDE:
        table.add_row(name.replace("_", " "), f"{getattr(status, name):,}")
    for number, leader in enumerate(status.leaders):
        table.add_row(f"partition {number}", leader or "away, and not counted")
    table.add_row("followers", " ".join(status.followers) or "-")
    table.add_row("followers behind", str(status.followers_behind))
    if status.copied < 100:
        table.add_row("of their copies", f"{status.copied} %")
    for option, value in settings_object(status.settings).items():
        table.add_row(option.replace("_", " "), str(value))
    return table


def _add_ready(table: Table, status: QueueStatus, reach: Reach) -> None:
    """By priority, or how far these reach."""
    for priority, count in enumerate(status.ready_of):
        if count:
            table.add_row(f"  priority {priority}", f"{count:,}")
    for word, number in reach.items():
        table.add_row(f"  {word} priority", str(number))


def _alone(replicas: int, *, grows: bool = False) -> str:
    """What is to be known of few copies.

    >>> _alone(1, grows=True), _alone(2), _alone(1)
    ('; each item is on one disk, and on more when nodes join', '', '; each item is on one disk')
    """
    more = ", and on more when nodes join" if grows else ""
    return f"; each item is on one disk{more}" if replicas == 1 else ""


def _table() -> Table:
    table = PlainTable(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    return table


def seen_object(seen: Seen) -> dict[str, object]:
    r"""An item as a JSON object; bytes that are no text come in base64.

    >>> from snowmelt.core.interval import Position
    >>> found = seen_object(Seen(b"a", Position(7), {"a": "b", "c": b"\xff"}, 0, ""))
    >>> found["headers"], found["headers_base64"]
    ({'a': 'b'}, {'c': '/w=='})
    """
    own: dict[str, dict[str, str]] = {"headers": {}}
    for name, value in seen.headers.items():
        form, told = _told("headers", value)
        own.setdefault(form, {})[name] = told
    form, told = _told("body", seen.body)
    return {
        "position": seen.position,
        "priority": plain_number(seen.priority),
        form: told,
        **own,
        "failures": seen.failures,
        "reason": seen.reason,
        "put_at": None if seen.put_at is None else seen.put_at.isoformat(),
        **holder_object(seen),
    }


def holder_object(one: Seen | ItemOverview) -> dict[str, object]:
    """Who has an item, and until when, as a part of a JSON object."""
    return {name: getattr(one, name) for name in ("program", "pid", "host", "held", "left")}


def _told(name: str, value: str | bytes) -> tuple[str, str]:
    """Under which name a value stands in JSON, and how."""
    if isinstance(value, str):
        return name, value
    try:
        return name, value.decode()
    except UnicodeDecodeError:
        return f"{name}_base64", base64.b64encode(value).decode()


def peek_lines(items: list[Seen], ranked: bool = False) -> Iterator[str]:
    r"""A line an item: position, size, when it was put, how it begins, and how it failed if it did.

    The time is UTC. Its priority stands in front where some have one that is not 0, or if asked.

    >>> from snowmelt.core.interval import Position
    >>> list(peek_lines([Seen(b"caf" + bytes([0xe9]), Position(7), {}, 2, "too hot")]))
    ["       7         4  'caf\\xe9'  failed 2 times: too hot"]
    """
    ranked = ranked or any(one.priority for one in items)
    width = max((len(str(one.priority)) for one in items), default=0)
    for one in items:
        begin = repr(one.body[:SHOWN_BYTES])[1:]
        more = "…" if len(one.body) > SHOWN_BYTES else ""
        headers = f"  {one.headers}" if one.headers else ""
        put_at = f"  {one.put_at:%F %T}" if one.put_at else ""
        times = "once" if one.failures == 1 else f"{one.failures} times"
        failed = f"  failed {times}: {printable(one.reason)}" if one.failures else ""
        urgent = f"{one.priority!s:>{max(3, width)}} " if ranked else ""
        yield f"{urgent}{one.position:8} {len(one.body):9}{put_at}  {begin}{more}{headers}{failed}"
