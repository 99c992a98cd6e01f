"""For how long nobody held a baton that somebody wanted, and how long it took after which fault."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from statistics import median
from typing import Final

import msgspec
from benchmarks.baton_chaos_parts.events import Deed, Event, Part, Span
from benchmarks.baton_chaos_parts.turns import Turn, by_fence

SECOND: Final = 1_000_000_000
FAULTS: Final = (Deed.KILLED, Deed.STOPPED)


class Pause(msgspec.Struct, frozen=True, order=True):
    """Nobody held this baton for so long, and somebody wanted it all the time."""

    seconds: float = 0.0
    baton: str = ""
    at: int = 0
    """When it began, by the clock of the journals."""
    after: str = ""
    """The last fault before, and how long before."""


class Recovery(msgspec.Struct, frozen=True):
    """From faults of one kind to the next grant of the baton that was held, in seconds."""

    fault: str
    count: int
    median: float
    longest: float
    alone: int
    """After how many of them no other holder and no node was struck before that grant."""
    longest_alone: float
    """Of those."""


def pauses(turns: Iterable[Turn], stopped: dict[str, list[Span]], end: int) -> list[Pause]:
    """All of them, until the run was over."""
    steps: dict[str, list[tuple[int, int, int]]] = {}
    for turn in turns:
        mine = steps.setdefault(turn.baton, [])
        mine += [(turn.asked, 1, 0), (turn.waited_until, -1, 0)]
        if turn.granted:
            held = _really_until(turn, stopped.get(turn.who, []))
            mine += [(turn.granted, 0, 1), (held, 0, -1)]
    return [
        Pause(round((min(idle.stop, end) - idle.start) / SECOND, 2), baton, idle.start)
        for baton, mine in sorted(steps.items())
        for idle in _idle(sorted(mine))
        if idle.start < end
    ]


def longest(found: list[Pause], events: Iterable[Event]) -> Pause:
    """The longest, and what was done before."""
    worst = max(found, default=Pause())
    faults = [one for one in events if one.deed in FAULTS and one.at <= worst.at + SECOND // 100]
    if not faults:
        return worst
    last = faults[-1]
    assert last.part is not None
    before = (worst.at - last.at) / SECOND
    after = f"{last.part.value} {last.deed.value} ({last.who}, {before:.1f} s before)"
    return msgspec.structs.replace(worst, after=after)


def longest_within(found: list[Pause], windows: list[Span]) -> float:
    """How much of one pause lay in one of these windows, at most; in seconds."""
    lengths = (
        window.common(pause.at, pause.at + round(pause.seconds * SECOND))
        for pause in found
        for window in windows
    )
    return round(max(lengths, default=0) / SECOND, 2)


def _really_until(turn: Turn, stops: list[Span]) -> int:
    """Who is stopped does nothing with what it holds."""
    during = [one.start for one in stops if turn.granted <= one.start < turn.held_until]
    return min([turn.held_until, *during])


def _idle(steps: list[tuple[int, int, int]]) -> Iterator[Span]:
    """When somebody wanted it and nobody held it, of steps up and down in time."""
    wanting, holding, since = 0, 0, 0
    for at, wants, holds in steps:
        was_idle = wanting > 0 and holding == 0
        wanting, holding = wanting + wants, holding + holds
        is_idle = wanting > 0 and holding == 0
        if is_idle and not was_idle:
            since = at
        elif was_idle and not is_idle and at > since:
            yield Span(since, at)


def recoveries(turns: list[Turn], events: list[Event]) -> list[Recovery]:
    """How long it took until the next one had it, kind by kind."""
    faults = [one for one in events if one.deed in FAULTS and one.part is not Part.WAITER]
    found: dict[str, list[Span]] = {}
    for mine in by_fence(turns).values():
        for hold, following in pairwise(mine):
            for event in faults:
                if _struck(hold, event):
                    assert event.part is not None
                    name = f"{event.part.value} {event.deed.value}"
                    found.setdefault(name, []).append(Span(event.at, following.granted))
    return [_recovery(name, spans, faults) for name, spans in sorted(found.items())]


def _recovery(name: str, spans: list[Span], faults: list[Event]) -> Recovery:
    times = [round((span.stop - span.start) / SECOND, 2) for span in spans]
    alone = [
        seconds
        for seconds, span in zip(times, spans, strict=True)
        if not any(span.start < fault.at < span.stop for fault in faults)
    ]
    middle = round(median(times), 2)
    return Recovery(name, len(times), middle, max(times), len(alone), max(alone, default=0.0))


def _struck(hold: Turn, event: Event) -> bool:
    if not hold.granted <= event.at <= hold.held_until:
        return False
    if event.part is Part.HOLDER:
        return hold.who == event.who
    return (hold.baton, hold.fence) == (event.baton, event.fence)
