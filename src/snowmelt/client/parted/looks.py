"""What is asked about a queue of several partitions as a whole, as steps: of each, put together.

1. What changes something is asked of one partition after the other. When one can't be asked, those
   before it have changed, which a note of the error says; asked again it is done in all.
2. What is shown is in order over all. Each partition is asked for itself, so that what changes
   meanwhile may be seen in one and not in another.
3. `stats` counts what can be asked, and says which partitions could not be. While none can be, all
   are asked again, as long as the call may take.
4. Each of them has the bound of the whole divided by their number, and so many dead items a second.

The item of a rank in several sorted rows, which are asked for one item by its rank at a time.

Each row has a stretch in which the item may lie. The middles of all stretches are sorted. Of a row
whose middle has so many items behind it, or before it, that the rank can't be there, a half is left
out. Only of a row that lost a half the middle is asked anew: so it takes as many questions as rows,
for each bit of their lengths.
"""

from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Any, Final, TypeVar

import msgspec

from snowmelt.client.connection.steps import Sleep, Steps, all_of, at_once
from snowmelt.client.connection.waits import Wait
from snowmelt.client.leases.delivered import portion
from snowmelt.client.leases.fetching import Fetching
from snowmelt.client.leases.steps import BYTES_HIGHEST
from snowmelt.client.parted.parts import ROUND, PartitionedQueue, PartitionSteps
from snowmelt.core.errors import (
    BadOption,
    OutcomeUnknown,
    SnowmeltError,
    Unavailable,
    Unreachable,
)
from snowmelt.core.keys import key_at
from snowmelt.protocols.queue.api.calls import (
    Alter,
    Assign,
    Changed,
    Commit,
    Describe,
    Groups,
    GroupStatus,
    ItemRun,
    ListGroups,
    Locate,
    Pause,
    Peek,
    Peeked,
    Plan,
    Promise,
    PublishStaged,
    Purge,
    Put,
    QueueStatus,
    Redrive,
    ReleaseGroup,
    Select,
    Survey,
)
from snowmelt.protocols.queue.api.schedules import ListSchedules, Schedule, Unschedule
from snowmelt.protocols.queue.api.statuses import ChangeItem, DescribeItem, ShowItem, TraceItem

_LOOK: Final = 2.0
"""So many seconds a partition is asked how it is before it counts as away."""
_AWAY: Final = (OutcomeUnknown, Unavailable, Unreachable)
"""So ends what is asked of a partition that is away."""
_MAXIMA: Final = frozenset({"paused", "tail", "followers_behind"})
_ALIKE: Final = frozenset({"term", "copied"})
_AGES: Final = frozenset({"oldest_ready", "oldest_leased", "oldest_delayed", "delivery_age"})
"""The oldest of these is returned."""
_OF_ONE: Final[dict[Any, str]] = {
    Assign: "a group",
    Locate: "a group",
    Survey: "a survey",
    PublishStaged: "a publication",
    Plan: "a plan",
    Commit: "a step",
    Promise: "a step",
    Put: "what is staged",
    DescribeItem: "one item",
    ShowItem: "one item",
    TraceItem: "one item",
    ChangeItem: "one item",
}
"""What only each partition has by itself."""
T = TypeVar("T")


def about(parts: PartitionedQueue, body: Any, wait: Wait) -> Steps[Any]:
    """Asks each partition about itself; the answer that one queue would give."""
    match body:
        case Purge() | Pause() | Alter() | ReleaseGroup():
            return (yield from _changed(parts, body, wait))
        case Redrive():
            each = msgspec.structs.replace(body, per_second=-(-body.per_second // len(parts.all)))
            return (yield from _changed(parts, each, wait))
        case Describe():
            return (yield from _described(parts, wait))
        case ListGroups():
            return (yield from _grouped(parts, wait))
        case Peek():
            return (yield from _peeked(parts, body, wait))
        case Select():
            return (yield from _selected(parts, body, wait))
        case Schedule() | Unschedule() | ListSchedules():  # they are of the first
            first = parts.all[0]
            ask = msgspec.structs.replace(body, queue=first.name)
            return (yield from first.ask_about(ask, wait.left))
        case _:
            raise of_one_partition(parts, body)


def of_one_partition(parts: PartitionedQueue, body: Any) -> BadOption:
    """What is not to be had of all partitions together."""
    allowed = (
        f"one of its {len(parts.all)} partitions, each of which has its own; `queue.parts()` gives "
        "them as queues"
    )
    return BadOption(f"the queue of {_OF_ONE.get(type(body), 'this')}", parts.name, allowed)


def _changed(parts: PartitionedQueue, body: Any, wait: Wait) -> Steps[Changed]:
    done = items = 0
    try:
        for part in parts.all:
            ask = msgspec.structs.replace(body, queue=part.name)
            changed = yield from part.ask_about(ask, wait.left)
            items += getattr(changed, "items", 0)
            done += 1
    except SnowmeltError as error:
        if done:
            error.add_note(f"it is done in {done} of {len(parts.all)} partitions; say it again")
        raise
    return Changed(items)


# --- how it is ------------------------------------------------------------------------------------


def _described(parts: PartitionedQueue, wait: Wait) -> Steps[QueueStatus]:
    told: list[Any] = []
    while True:
        looks = [part.ask_about(Describe(part.name), min(_LOOK, wait.left)) for part in parts.all]
        told = yield from at_once(looks)
        if wait.over or not all(isinstance(one, _AWAY) for one in told):
            break
        yield Sleep(min(ROUND, wait.left))
    found = {at: one for at, one in enumerate(told) if isinstance(one, QueueStatus)}
    for one in told:
        if isinstance(one, SnowmeltError) and not (found and isinstance(one, _AWAY)):
            raise one
    return summed(parts.name, len(parts.all), found)


def summed(queue: str, partitions: int, found: dict[int, QueueStatus]) -> QueueStatus:
    """How all of them are, put together; `found` are those that could be asked."""
    some = list(found.values())
    first = found.get(0, some[0])
    told: dict[str, Any] = {}
    for name in QueueStatus.__struct_fields__:
        values = [getattr(one, name) for one in some]
        if name in _MAXIMA:
            told[name] = max(values)
        elif name not in _ALIKE and type(values[0]) is int:
            told[name] = sum(values)
        elif name in _AGES:
            told[name] = max([one for one in values if one is not None], default=None)
    return msgspec.structs.replace(
        first,
        **told,
        queue=queue,
        followers=tuple(dict.fromkeys([node for one in some for node in one.followers])),
        copied=min([one.copied for one in some]),
        delivery_ages=sum([one.delivery_ages for one in some]),
        tails=tuple(map(max, zip(*[one.tails for one in some], strict=True))),
        ready_of=tuple(map(sum, zip(*[one.ready_of for one in some], strict=True))),
        leaders=tuple([found[at].leader if at in found else "" for at in range(partitions)]),
        away=tuple([at for at in range(partitions) if at not in found]),
    )


def _grouped(parts: PartitionedQueue, wait: Wait) -> Steps[Groups]:
    """How far each group is in all partitions together."""
    found: dict[str, GroupStatus] = {}
    asks = [part.ask_about(ListGroups(part.name), wait.left) for part in parts.all]
    for told in all_of((yield from at_once(asks))):
        for one in told.groups:
            found[one.name] = _both(found.get(one.name), one)
    return Groups(tuple(found.values()))


def _both(before: GroupStatus | None, one: GroupStatus) -> GroupStatus:
    if before is None:
        return one
    lease, heard = max(before.lease, one.lease), max(before.heard, one.heard)
    return GroupStatus(one.name, lease, before.done + one.done, before.given + one.given, heard)


# --- what is in it --------------------------------------------------------------------------------


def _peeked(parts: PartitionedQueue, ask: Peek, wait: Wait) -> Steps[Peeked]:
    """The first of all; only what no partition that has more can have something before."""
    rows: list[ItemRun] = []
    bound: int | None = None
    asks = [
        part.ask_about(msgspec.structs.replace(ask, queue=part.name), wait.left, ask.bytes_max)
        for part in parts.all
    ]
    for part, peeked in zip(parts.all, all_of((yield from at_once(asks))), strict=True):
        some = yield from _bodies(part, peeked)
        rows += some
        if some and not some[0].keys and sum([part.count for part in some]) < ask.items_max:
            # It has more, perhaps, that did not fit: what comes behind is not certain.
            stop = max(one.start + one.count for one in some)
            bound = stop if bound is None else min(bound, stop)
    return _told(_first(rows, ask.items_max, bound))


def _bodies(part: PartitionSteps, peeked: Peeked) -> Steps[list[ItemRun]]:
    """What came along, and what has to be fetched."""
    fetching = Fetching(part.name, BYTES_HIGHEST)
    yield from fetching.fetch(peeked.spans)
    return [*peeked.parts, *fetching.parts]


def _first(rows: Sequence[ItemRun], count: int, bound: int | None) -> list[ItemRun]:
    """So many items of these, the first first."""
    found: list[ItemRun] = []
    for row in sorted(_singly(rows), key=_place):
        if count <= 0:
            break
        some = portion(row, 0, min(count, row.count))
        if bound is not None and found and some.start >= bound:
            break
        found.append(some)
        count -= some.count
    return found


def _singly(rows: Sequence[ItemRun]) -> list[ItemRun]:
    """Each item by itself where it has a key; what lies together else."""
    return [
        one
        for row in rows
        for one in ([portion(row, at, at + 1) for at in range(row.count)] if row.keys else [row])
    ]


def _place(row: ItemRun) -> tuple[int, int]:
    """By what they are ordered: their key, if they have one, and their position."""
    return (key_at(row.keys, 0) if row.keys else 0, row.start)


def _selected(parts: PartitionedQueue, ask: Select, wait: Wait) -> Steps[Peeked]:
    """The item of a rank, or the last of a key."""
    if ask.key is not None:
        looks = [
            part.ask_about(msgspec.structs.replace(ask, queue=part.name), wait.left)
            for part in parts.all
        ]
        answers: list[Peeked] = all_of((yield from at_once(looks)))
        rows: list[ItemRun] = []
        for one, peeked in zip(parts.all, answers, strict=True):
            rows += yield from _bodies(one, peeked)
        return _told([max(rows, key=_place)] if rows else [])
    asks = [part.ask_about(Describe(part.name), wait.left) for part in parts.all]
    ready = [one.ready for one in all_of((yield from at_once(asks)))]

    def nth(number: int, rank: int) -> Steps[ItemRun | None]:
        part = parts.all[number]
        peeked: Peeked = yield from part.ask_about(Select(part.name, rank), wait.left)
        return next(iter((yield from _bodies(part, peeked))), None)

    found = yield from selected(ready, ask, nth, _place)
    return _told([] if found is None else [found])


def _told(rows: Sequence[ItemRun]) -> Peeked:
    """All of it came along; what is cut of a part looks as one."""
    return Peeked(tuple(rows), ())


def selected(
    ready: Sequence[int],
    ask: Select,
    nth: Callable[[int, int], Steps[T | None]],
    place: Callable[[T], Any],
) -> Steps[T | None]:
    """The item that is asked for; None when there are fewer.

    `nth` is the item of a row by its rank there, from 1 on; `place` is what orders them.
    """
    rank = ask.rank or share_rank(ask.share, sum(ready))
    low, high = [0] * len(ready), [min(rank, one) for one in ready]
    middles: dict[int, T] = {}
    while True:
        for row in [row for row in range(len(ready)) if row not in middles]:
            while low[row] < high[row]:
                found = yield from nth(row, _middle(low[row], high[row]) + 1)
                if found is not None:
                    middles[row] = found
                    break
                high[row] = _middle(low[row], high[row])  # it became shorter meanwhile
        rows = sorted(middles, key=lambda row: place(middles[row]))
        left = rank - sum(low)
        total = sum(high[row] - low[row] for row in rows)
        if not 1 <= left <= total:
            return None
        if total == 1:
            return middles[rows[0]]
        for row in _halved(rows, low, high, left, total):
            del middles[row]


def share_rank(share: float, total: int) -> int:
    """Of so large a part of so many it is the last, or it is the first (as `queue/keyed.py`).

    >>> share_rank(0.07, 100), share_rank(0.0, 100), share_rank(1.0, 100)
    (7, 1, 100)
    """
    part = Decimal(repr(float(share))) * total
    return max(1, int(part.to_integral_value(ROUND_CEILING)))


def _middle(low: int, high: int) -> int:
    return (low + high) // 2


def _halved(
    rows: Sequence[int], low: list[int], high: list[int], left: int, total: int
) -> set[int]:
    """Leaves out what can't be it; in which rows another item is the middle now."""
    lows, highs = list(low), list(high)
    behind, before, changed = 0, 0, set[int]()
    for row in reversed(rows):
        middle = _middle(lows[row], highs[row])
        behind += highs[row] - middle  # the middle, and all that is known to be behind it
        if left > total - behind + 1:
            low[row] = middle + 1
        elif left > total - behind:
            low[row] = middle
        if low[row] != lows[row]:
            changed.add(row)
    for row in rows:
        middle = _middle(lows[row], highs[row])
        before += middle - lows[row] + 1  # the same, before it
        if left < before:
            high[row] = middle
        elif left == before:
            high[row] = middle + 1
        if high[row] != highs[row]:
            changed.add(row)
        high[row] = max(low[row], high[row])
    assert changed, "a half of some row can always be left out"
    return changed
