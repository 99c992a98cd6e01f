"""What a holder may get as a value: the last one that was left, or saved; never an invented one.

Every value is `FENCE.COUNT`, so it tells which hold set it, and none is set twice.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise

import msgspec

from snowmelt_world.storms.baton.turns import HeldTurn, by_fence

Version = tuple[int, int]


class ValueCounts(msgspec.Struct, kw_only=True):
    """What is counted of them."""

    followed: int = 0
    """Grants of a baton that the holder before had had, too: its value is known."""
    made_anew: int = 0
    """Grants of a baton that was lost and made again since the one before."""
    forgotten: int = 0
    """Of those, how many had an older value than the last that was left."""
    broken: list[str] = []


def judge_values(turns: Iterable[HeldTurn]) -> ValueCounts:
    """All of it."""
    values = ValueCounts()
    for baton, holds in by_fence(turns).items():
        values.broken += _foreign(baton, holds)
        for before, after in pairwise(holds):
            if before.made == after.made:
                values.followed += 1
                allowed = possible_after(before)
                if after.value not in allowed:
                    values.broken.append(
                        f"{after.who} got {after.value!r} with {baton} and fence {after.fence}, "
                        f"but {before.who} had left {' or '.join(map(repr, allowed))}"
                    )
            else:
                values.made_anew += 1
        values.broken += _unsaved(baton, holds)
        values.forgotten += _forgotten(holds)
    return values


def possible_after(hold: HeldTurn) -> list[str]:
    """With what the baton may have gone on.

    >>> from snowmelt_world.storms.baton.turns import ValueChange
    >>> hold = HeldTurn(who="w", baton="b", asked=1, fence=7, value="6.1")
    >>> hold.changes = [ValueChange("7.1", True, True), ValueChange("7.2", False, False)]
    >>> possible_after(hold)
    ['7.2', '7.1']
    """
    allowed = []
    for change in reversed(hold.changes):
        allowed.append(change.value)
        if change.sure:
            return allowed
    return [*allowed, hold.value]


def version(value: str) -> Version:
    """How new a value is.

    >>> version("12.3") > version("12.2") > version("")
    True
    """
    fence, _, count = value.partition(".")
    return int(fence or 0), int(count or 0)


def _foreign(baton: str, holds: list[HeldTurn]) -> Iterator[str]:
    """Got, though nobody with a smaller fence had ever meant it."""
    meant = {""}
    for hold in holds:
        if hold.value not in meant:
            yield f"{hold.who} got {hold.value!r} with {baton}, which nobody had left"
        meant.update(change.value for change in hold.changes)


def _unsaved(baton: str, holds: list[HeldTurn]) -> Iterator[str]:
    """Got an older value than one that was saved under a smaller fence."""
    saved = ""
    for hold in holds:
        if version(hold.value) < version(saved):
            yield f"{hold.who} got {hold.value!r} with {baton}, though {saved!r} had been saved"
        for change in hold.changes:
            if change.saved:
                saved = change.value


def _forgotten(holds: list[HeldTurn]) -> int:
    left, count = "", 0
    for before, after in pairwise(holds):
        sure = [change.value for change in before.changes if change.sure]
        left = max([left, *sure], key=version)
        count += before.made != after.made and version(after.value) < version(left)
        left = after.value
    return count
