"""What a picture of a run is drawn from: the journals in its folder, with one clock."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec
from benchmarks.baton_chaos_parts.crowd import Life
from benchmarks.baton_chaos_parts.events import (
    Deed,
    Event,
    Part,
    Span,
    calms,
    read_events,
    stops,
)
from benchmarks.baton_chaos_parts.pauses import Pause, pauses
from benchmarks.baton_chaos_parts.turns import NEVER, Turn, read_turns

from snowmelt.core.errors import BadOption

SECOND: Final = 1_000_000_000
LIVES: Final = "lives.json"


class Outage(msgspec.Struct, frozen=True):
    """A process did nothing from a strike on."""

    lane: str
    deed: Deed
    """What was done to it: killed or stopped."""
    span: Span
    of_worker: bool
    batons: list[str]
    """What was held by it, or at it."""


class History(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    start: int
    stop: int
    turns: list[Turn]
    outages: list[Outage]
    calms: list[Span]
    pauses: list[Pause]
    """When nobody held a baton that somebody wanted."""

    def second(self, at: int) -> float:
        """A moment as seconds since the run began; none is before it, or after its end."""
        return (min(max(at, self.start), self.stop) - self.start) / SECOND


def read_history(folder: Path) -> History:
    """All that was written down; refuses a folder of a run that did not come to its end."""
    events = read_events(folder)
    if not events or not (folder / LIVES).exists():
        allowed = "the folder of a run that came to its end, with its events.jsonl and lives.json"
        raise BadOption("FOLDER", str(folder), allowed)
    lives = msgspec.json.decode((folder / LIVES).read_bytes(), type=list[Life])
    turns = read_turns(folder, lives)
    start = min([events[0].at, *(turn.asked for turn in turns)])
    stop = events[-1].at
    return History(
        start=start,
        stop=stop,
        turns=turns,
        outages=list(outages(events, turns, stop)),
        calms=calms(events),
        pauses=pauses(turns, stops(events), stop),
    )


def outages(events: Iterable[Event], turns: list[Turn], end: int) -> Iterator[Outage]:
    """From each strike until the same process goes on, or the next one in its place starts."""
    begun: dict[str, Event] = {}
    for event in events:
        lane = lane_of(event.who)
        if event.deed in {Deed.KILLED, Deed.STOPPED}:
            begun[lane] = event
        elif event.deed in {Deed.CONTINUED, Deed.STARTED} and lane in begun:
            yield _outage(begun.pop(lane), event.at, turns)
    for event in begun.values():
        yield _outage(event, end, turns)


def overlaps(holds: list[Turn]) -> list[Span]:
    """When a holder was sure, though a larger fence was granted already; by the judge's rule.

    >>> one = Turn(who="a", baton="b", asked=1, granted=2, fence=7, believed=[3, 5])
    >>> other = Turn(who="c", baton="b", asked=1, granted=4, fence=8)
    >>> overlaps([one, other])
    [Span(start=4, stop=5)]
    """
    found: list[Span] = []
    newer = NEVER
    for hold in reversed(holds):
        last = max(hold.believed, default=0)
        if last > newer:
            found.append(Span(newer, last))
        newer = min(newer, hold.granted)
    return found[::-1]


def lane_of(who: str) -> str:
    """A worker's lives are one after the other in one lane, and so are a node's.

    >>> lane_of("worker-3-1"), lane_of("n7")
    ('worker-3', 'n7')
    """
    return who.rpartition("-")[0] or who


def _outage(event: Event, until: int, turns: list[Turn]) -> Outage:
    of_worker = event.part in {Part.HOLDER, Part.WAITER}
    batons = [turn.baton for turn in turns if _had(turn, event)]
    return Outage(lane_of(event.who), event.deed, Span(event.at, until), of_worker, batons)


def _had(turn: Turn, event: Event) -> bool:
    if not turn.granted or not turn.granted <= event.at <= turn.held_until:
        return False
    if event.part is Part.HOLDERS_NODE:
        return (turn.baton, turn.fence) == (event.baton, event.fence)
    return turn.who == event.who
