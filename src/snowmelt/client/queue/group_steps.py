"""What a group asks of a queue, as steps (`connection.steps`).

A group takes items for good: they have no time-out. Until the group is past them it gets the same
items again, in the same order. What it needs to remember is a `Mark`, two numbers. So a program
that writes its mark down before it works, and works again from there after a crash, does everything
exactly once, as long as its own results go where doing them twice is doing them once.
"""

from collections.abc import Iterable
from random import Random
from typing import Final

import msgspec

from snowmelt.client.connection.session import checked_kind, new_name
from snowmelt.client.connection.steps import Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.leases.fetching import CHANCE, Fetching
from snowmelt.core.errors import BadOption, TooLarge
from snowmelt.core.interval import POSITION_MAX, Interval
from snowmelt.core.names import plain_name
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.calls import ItemRun

EVERYTHING: Final = 1 << 40
"""A limit that limits nothing."""


class Mark(msgspec.Struct, frozen=True):
    """How far a group is: so many items since it began, under which lease."""

    lease: int = 0
    count: int = 0


BEGINNING: Final = Mark()
MARK: Final = "a Mark that an earlier call returned"


class GroupRange(msgspec.Struct, frozen=True):
    end: Mark
    """The group's own goes up to here; equal to where it stood when there was nothing."""
    ready: int
    """How many items wait behind that."""
    located: int = 0
    """So many of the group's were located, and may have been read, whether noted or not."""


class GroupBodies(msgspec.Struct, frozen=True):
    parts: tuple[ItemRun, ...]
    """In the order of the spans."""
    unread: tuple[Interval, ...]
    """Positions that no node could give just now."""


class GroupSteps:
    def __init__(self, queue: FifoSteps, name: str, reader: str | None = None) -> None:
        self.name = name
        self._queue = queue
        self._reader = new_name() if reader is None else reader

    def advance(
        self, done: Mark, items_max: int, bytes_max: int, below: tuple[int, ...], timeout: float
    ) -> Steps[GroupRange]:
        """The group is done with all up to a mark; what comes next."""
        check_asked(done, items_max, bytes_max)
        ask = calls.Assign(
            self._queue.name,
            self.name,
            done.lease,
            self._reader,
            done.count,
            items_max,
            bytes_max,
            below,
        )
        told: calls.Assigned = yield from self._queue.ask_about(ask, timeout)
        end = done if told.given == done.count else Mark(told.lease, told.given)
        return GroupRange(end, told.ready, told.located)

    def locate(self, start: Mark, end: Mark, timeout: float) -> Steps[calls.Located]:
        """Where the items between two marks lie: half as many at a time while it is too much."""
        checked_kind("start", start, Mark, MARK)
        checked_kind("end", end, Mark, MARK)
        wait, spans, lost, size = Wait(timeout), list[calls.Span](), 0, 0
        after, most = start.count, max(1, end.count - start.count)
        while True:
            until = min(after + most, end.count)
            ask = calls.Locate(self._queue.name, self.name, end.lease, after, until)
            try:
                told: calls.Located = yield from self._queue.ask_about(ask, wait.left)
            except TooLarge:
                if until - after <= 1:
                    raise
                most = (until - after) // 2
                continue
            spans += told.spans
            lost, size, after = lost + told.lost, size + told.bytes, until
            if after >= end.count:
                return calls.Located(tuple(spans), lost, size)

    def release(self, timeout: float) -> Steps[int]:
        """Forgets the group; how many items went back."""
        ask = calls.ReleaseGroup(self._queue.name, self.name)
        changed: calls.Changed = yield from self._queue.ask_about(ask, timeout)
        return changed.items


def check_asked(done: Mark, items_max: int, bytes_max: int) -> None:
    """Raises `BadOption` for what no group can be asked.

    >>> check_asked(BEGINNING, 2.5, 1)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: items_max is 2.5; allowed: 0 to 1099511627776
    """
    checked_kind("done", done, Mark, MARK)
    for option, value in (("items_max", items_max), ("bytes_max", bytes_max)):
        if type(value) is not int or not 0 <= value <= EVERYTHING:
            raise BadOption(option, value, f"0 to {EVERYTHING}")


def group_name(text: str) -> str:
    """Checks a group's name.

    >>> group_name("")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: group is ''; allowed: 1 to 64 of A-Z a-z 0-9 . _ -, ...
    """
    return plain_name("group", text, 64)


def groups(queue: FifoSteps, timeout: float) -> Steps[list[calls.GroupStatus]]:
    told: calls.Groups = yield from queue.ask_about(calls.ListGroups(queue.name), timeout)
    return list(told.groups)


def survey(queue: FifoSteps, start: int, items_max: int, timeout: float) -> Steps[calls.Located]:
    """Where ready items lie; nobody takes them."""
    if type(start) is not int or not 0 <= start <= POSITION_MAX:
        raise BadOption("start", start, f"a position, 0 to {POSITION_MAX}")
    ask = calls.Survey(queue.name, start, items_max)
    located: calls.Located = yield from queue.ask_about(ask, timeout)
    return located


def read(
    queue: str, spans: Iterable[calls.Span], bytes_max: int, chance: Random = CHANCE
) -> Steps[GroupBodies]:
    """The bodies of spans, each from a node that keeps it."""
    fetching = Fetching(queue, bytes_max, chance)
    allowed = "Spans that `locate` or `survey` returned"
    yield from fetching.fetch([checked_kind("span", one, calls.Span, allowed) for one in spans])
    return GroupBodies(tuple(fetching.parts), tuple(fetching.unread))
