"""For how long nobody held a baton that somebody wanted."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from snowmelt_world.storms.baton.turns import HeldTurn
from snowmelt_world.storms.events import SECOND, Spell, StormEvent, done
from snowmelt_world.storms.faults import Fault

FAULTS: Final = (Fault.KILL, Fault.STOP, Fault.LEAVE)


class IdleBaton(msgspec.Struct, frozen=True, order=True):
    """Nobody held this baton for so long, and somebody wanted it all the time."""

    seconds: float = 0.0
    baton: str = ""
    at: int = 0
    """When it began, by the clock of the journals."""
    after: str = ""
    """The last fault before, and how long before."""


def pauses(turns: Iterable[HeldTurn], stopped: dict[str, list[Spell]], end: int) -> list[IdleBaton]:
    """All of them, until the run was over."""
    steps: dict[str, list[tuple[int, int, int]]] = {}
    for turn in turns:
        mine = steps.setdefault(turn.baton, [])
        mine += [(turn.asked, 1, 0), (turn.waited_until, -1, 0)]
        if turn.granted:
            held = _really_until(turn, stopped.get(turn.who, []))
            mine += [(turn.granted, 0, 1), (held, 0, -1)]
    return [
        IdleBaton(round((min(idle.stop, end) - idle.start) / SECOND, 2), baton, idle.start)
        for baton, mine in sorted(steps.items())
        for idle in _idle(sorted(mine))
        if idle.start < end
    ]


def longest(found: list[IdleBaton], events: Iterable[StormEvent]) -> IdleBaton:
    """The longest, and what was done before."""
    worst = max(found, default=IdleBaton())
    faults = [one.event for one in done(events, *FAULTS)]
    faults = [one for one in faults if one.at <= worst.at + SECOND // 100]
    if not faults:
        return worst
    last = faults[-1]
    before = (worst.at - last.at) / SECOND
    after = f"{last.fault or ''} {last.part} ({last.who}, {before:.1f} s before)"
    return msgspec.structs.replace(worst, after=after)


def longest_within(found: list[IdleBaton], windows: list[Spell]) -> float:
    """How much of one pause lay in one of these windows, at most; in seconds."""
    lengths = (
        window.common(pause.at, pause.at + round(pause.seconds * SECOND))
        for pause in found
        for window in windows
    )
    return round(max(lengths, default=0) / SECOND, 2)


def _really_until(turn: HeldTurn, stops: list[Spell]) -> int:
    """Who is stopped does nothing with what it holds."""
    during = [one.start for one in stops if turn.granted <= one.start < turn.held_until]
    return min([turn.held_until, *during])


def _idle(steps: list[tuple[int, int, int]]) -> Iterator[Spell]:
    """When somebody wanted it and nobody held it, of steps up and down in time."""
    wanting, holding, since = 0, 0, 0
    for at, wants, holds in steps:
        was_idle = wanting > 0 and holding == 0
        wanting, holding = wanting + wants, holding + holds
        is_idle = wanting > 0 and holding == 0
        if is_idle and not was_idle:
            since = at
        elif was_idle and not is_idle and at > since:
            yield Spell(since, at)
