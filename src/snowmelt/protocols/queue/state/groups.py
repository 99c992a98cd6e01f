"""Groups: who holds items for good, and how far they are. This is what a Spark stream reads as.

A group is given items, and counts them from its beginning on. What it is given is its own, with no
time-out, until it says with how many it is done; told again, they are the same in the same order.
So two numbers say where it stands: under which lease it reads, and how many items it has behind
itself. A lease here is a fence: who begins anew ends the lease of who was there before.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from snowmelt.core.ahead import Count, Whole
from snowmelt.core.interval import Interval
from snowmelt.core.shares import SharesHeld
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api.calls import Assign, GroupStatus, Locate
from snowmelt.protocols.queue.state.blocks import Living

LEASE_MAX: Final = 2**53
"""Leases are drawn, not counted: a mark of another cluster must not fit by accident."""


class GroupState(msgspec.Struct, array_like=True):
    """How one group stands; this is also its record.

    >>> group = GroupState(7, "r", 0, [Interval(0, 3), Interval(8, 9)], 0)
    >>> group.given, group.between(2, 4)
    (4, [Interval(start=2, stop=3), Interval(start=8, stop=9)])
    >>> group.pass_by(2), group.done, group.between(2, 4)
    ([Interval(start=0, stop=2)], 2, [Interval(start=2, stop=3), Interval(start=8, stop=9)])
    """

    lease: Whole
    reader: str
    """Who began with this lease; the same one gets the same lease again."""
    done: Count
    held: list[Interval]
    """What it was given and is not done with, in the order in which it was given."""
    heard: Whole
    """When it was last given something or done with something, by the wall clock."""
    located: Count = 0
    """So many of its items it has asked the places of: whoever did may have read them."""

    @property
    def given(self) -> int:
        """How many items it was given since it began."""
        return self.done + self.holds

    @property
    def holds(self) -> int:
        return sum(piece.size for piece in self.held)

    def between(self, after: int, until: int) -> list[Interval]:
        """Its items from the `after`-th to before the `until`-th, as far as it holds them."""
        found: list[Interval] = []
        count = self.done
        for piece in self.held:
            start = piece.start + min(piece.size, max(0, after - count))
            stop = piece.start + min(piece.size, max(0, until - count))
            if start < stop:
                found.append(Interval(start, stop))
            count += piece.size
        return found

    def pass_by(self, done: int) -> list[Interval]:
        """It is done with so many; returns what it held of them until now."""
        passed = self.between(self.done, done)
        if passed:
            self.held = self.between(done, self.given)
            self.done = done
        return passed


class GroupStates:
    def __init__(self, changed: dict[bytes, None]) -> None:
        self._changed = changed
        self._groups: dict[str, GroupState] = {}

    def __iter__(self) -> Iterator[tuple[str, GroupState]]:
        return iter(list(self._groups.items()))

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def items(self) -> int:
        """How many items groups hold. O(groups)."""
        return sum(group.holds for group in self._groups.values())

    def held(self, live: Living) -> list[Interval]:
        """What of these is theirs."""
        return [part for _, one in self for piece in one.held for part in live.common(piece)]

    def has_room(self, name: str, most: int) -> bool:
        """Whether there is room for one more; of one user only while there is some for others."""
        held, user = SharesHeld[str](), name[: name.find("/") + 1]
        for one in self._groups:
            held.add(one[: one.find("/") + 1])
        return held.has_room(user, 1, most) if user else held.total < most  # `core.users`, rule 5

    def named(self, name: str) -> GroupState | None:
        return self._groups.get(name)

    def restore(self, name: str, group: GroupState) -> None:
        self._groups[name] = group

    def keep(self, name: str, group: GroupState) -> None:
        """A group that is new, or has changed."""
        self._groups[name] = group
        self.touch(name)

    def forget(self, name: str) -> None:
        self._groups.pop(name, None)
        self.touch(name)

    def touch(self, name: str) -> None:
        self._changed[b"g" + name.encode()] = None

    @property
    def told(self) -> tuple[GroupStatus, ...]:
        """How each of them is."""
        groups = self._groups.items()
        return tuple(GroupStatus(a, one.lease, one.done, one.given, one.heard) for a, one in groups)


# --- who is refused -------------------------------------------------------------------------------


def assign_problem(ask: Assign, groups: GroupStates, most: int) -> Declined | None:
    """Why a group can't be given what comes next (`grouping.py`, rules 2 and 3)."""
    group = groups.named(ask.group)
    if ask.lease:
        lost = _lost(ask, group, ask.done, f"and cannot be done with {ask.done}")
        return lost or _behind(ask, group, ask.done)
    if group is None and not groups.has_room(ask.group, most):
        text = (
            f"queue {ask.queue!r} has {len(groups)} groups already, of {most}, and no user may "
            f"have most of them; release some: snowmelt groups release {ask.queue} GROUP"
        )
        return Declined("Full", text)
    if group is None or not (group.done or group.located):
        return None
    if not group.done and group.reader == ask.reader:
        return None
    how = f"done with {group.done} items" if group.done else f"at work on {group.given} items"
    text = (
        f"{_whose(ask)} is {how} already, and this reader does not know "
        "it: another has the group's mark; go on from there, choose another group, or "
        f"release it: snowmelt groups release {ask.queue} {ask.group}"
    )
    return Declined("GroupHeld", text)


def locate_problem(ask: Locate, groups: GroupStates) -> Declined | None:
    """Why nobody is told where a group's items lie (the same rules)."""
    group = groups.named(ask.group)
    lost = _lost(ask, group, ask.until, f"not {ask.until}")
    return lost or _behind(ask, group, ask.after)


def _whose(ask: Assign | Locate) -> str:
    return f"group {ask.group!r} of queue {ask.queue!r}"


def _lost(ask: Assign | Locate, group: GroupState | None, count: int, but: str) -> Declined | None:
    # Rule 3.
    if group is None or group.lease != ask.lease:
        return Declined("LeaseLost", f"{_whose(ask)} was released, or begun anew by another")
    if count > group.given:
        return Declined("LeaseLost", f"{_whose(ask)} was given {group.given} items, {but}")
    return None


def _behind(ask: Assign | Locate, group: GroupState | None, done: int) -> Declined | None:
    # Rule 2.
    if group is None or done >= group.done:
        return None
    text = (
        f"{_whose(ask)} is done with {group.done} items, and this reader knows of {done} "
        "only: what it has is older than the queue; go on from what is newer, or begin anew "
        f"and release the group: snowmelt groups release {ask.queue} {ask.group}"
    )
    return Declined("GroupHeld", text)
