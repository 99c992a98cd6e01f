"""What is leased, or delayed, as steps (`connection.steps`): who has it, and what comes when.

1. What has been leased for longest comes first, or what is due next; of all partitions together.
2. Bodies that did not come along are asked for one by one: of so many items as are shown.
3. What has ended since is left out.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from snowmelt.client.connection.naming import Program, program_of
from snowmelt.client.connection.steps import Steps, all_of, at_once
from snowmelt.client.connection.waits import Wait
from snowmelt.client.fifo.steps import PEEK_BYTES, FifoSteps, fetched
from snowmelt.client.leases.delivered import places_of
from snowmelt.client.leases.steps import Seen, shown
from snowmelt.core.errors import BadOption
from snowmelt.core.interval import Interval
from snowmelt.protocols.queue.api.calls import Peeked
from snowmelt.protocols.queue.api.statuses import HeldRun, ItemStanding, PeekHeld, ShowItem

T = TypeVar("T", bound=msgspec.Struct)

STATES: Final = (
    ItemStanding.READY,
    ItemStanding.LEASED,
    ItemStanding.DELAYED,
    ItemStanding.DEAD,
)
"""What a look at several items may be about."""


class HeldItem(msgspec.Struct, frozen=True):
    """One item, where it is, and what came along of it."""

    run: HeldRun
    part: Any
    """The queue, or its partition, as steps."""
    place: int
    seen: Seen | None


def checked_state(state: str, *, dead: bool) -> ItemStanding:
    """Which items are to be shown; raises `BadOption`.

    >>> checked_state("leased", dead=False), checked_state("ready", dead=True)
    (<ItemStanding.LEASED: 'leased'>, <ItemStanding.DEAD: 'dead'>)
    >>> checked_state("gone", dead=False)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: state is 'gone'; allowed: 'ready', 'leased', 'delayed' or 'dead'
    """
    if type(dead) is not bool:
        raise BadOption("dead", dead, "True or False")
    if type(state) not in (str, ItemStanding) or state not in STATES:
        raise BadOption("state", state, "'ready', 'leased', 'delayed' or 'dead'")
    found = ItemStanding(state)
    if dead and found not in (ItemStanding.READY, ItemStanding.DEAD):
        raise BadOption("state", state, "'dead', where dead is True")
    return ItemStanding.DEAD if dead else found


def peek(steps: FifoSteps, count: int, state: ItemStanding, timeout: float) -> Steps[list[Seen]]:
    """The first items of that state, taking none of them."""
    if state in (ItemStanding.READY, ItemStanding.DEAD):
        return (yield from steps.peek(count, state is ItemStanding.DEAD, timeout))
    wait, told, delayed = Wait(timeout), list[Seen](), state is ItemStanding.DELAYED
    parts = yield from steps.partitions(wait.left)
    asks = [held_in(part, count, PEEK_BYTES, wait, delayed=delayed) for part in parts]
    found = all_of((yield from at_once(asks)))
    for one in first_held(found, count, delayed=delayed):
        seen = one.seen
        if seen is None:  # rule 2
            ask = ShowItem(one.part.name, one.place)
            peeked = yield from one.part.ask_about(ask, wait.left, PEEK_BYTES)
            seen = next(iter((yield from one.part.shown(peeked))), None)
        if seen is not None:
            told.append(with_holder(seen, one.run))
    return told


def held_in(
    part: FifoSteps, count: int, bytes_max: int, wait: Wait, *, delayed: bool, names: bool = True
) -> Steps[list[HeldItem]]:
    """So many of one partition, with those bodies that came along; clients by their `names`."""
    ask = PeekHeld(part.name, count, bytes_max, delayed, names)
    peeked: Peeked = yield from part.ask_about(ask, wait.left, bytes_max)
    some = yield from fetched(part, peeked)
    places = [place for one in some for place in places_of(one)]
    seen = dict(zip(places, shown(some), strict=True))
    return [
        HeldItem(run, part, place, seen.get(place))
        for run in peeked.held
        for place in Interval(run.start, run.stop)
    ]


def first_held(found: Iterable[Sequence[HeldItem]], count: int, *, delayed: bool) -> list[HeldItem]:
    """So many of all partitions (rule 1)."""
    every = [one for some in found for one in some]
    return sorted(every, key=lambda one: one.run.left if delayed else -one.run.held)[:count]


def with_holder(item: T, run: HeldRun) -> T:
    """The same item, with which program has it, where that is known, and until when."""
    who = program_of(run.client) if run.client else Program("", 0, "")
    return msgspec.structs.replace(
        item, left=run.left, held=run.held, program=who.name, pid=who.pid, host=who.host
    )
