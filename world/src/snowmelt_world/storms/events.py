"""What was done to whom, and when it was calm: written by the storm, read by the judges."""

import time
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from snowmelt_world.storms.faults import Fault
from snowmelt_world.storms.journals import Journal, now, read

EVENTS: Final = "events.jsonl"
FOR_EVER: Final = 1 << 63
SECOND: Final = 1_000_000_000


class Happened(StrEnum):
    """What is written down."""

    STORM = "storm"
    """From now on there are faults."""
    CALM = "calm"
    """From now on there are none, and all is up."""
    OVER = "over"
    """Clients are asked to end."""
    BEGINS = "begins"
    ENDS = "ends"
    """The process goes on, or the next one in its place has started."""
    NOTE = "note"


class StormEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the storm's journal."""

    at: int
    what: Happened
    fault: Fault | None = None
    who: str = ""
    part: str = ""
    """Why it is this one."""
    cuts: tuple[tuple[str, str], ...] = ()
    of: str = ""
    """What was held there at that moment, and under which fence; of batons."""
    fence: int = 0
    wall: float = 0.0
    """The same moment by the clock of the nodes' logs."""
    text: str = ""


class Spell(msgspec.Struct, frozen=True, order=True):
    """From when to when something was so, and of whom."""

    start: int
    stop: int
    name: str = ""

    @property
    def length(self) -> int:
        """In nanoseconds."""
        return self.stop - self.start

    def meets(self, start: int, stop: int) -> bool:
        """Whether the two have a moment in common."""
        return self.start <= stop and start <= self.stop

    def common(self, start: int, stop: int) -> int:
        """For how long both are."""
        return max(0, min(self.stop, stop) - max(self.start, start))


class Events:
    """The storm's journal."""

    def __init__(self, folder: Path) -> None:
        self._journal = Journal(folder / EVENTS)

    def write(self, event: StormEvent) -> None:
        self._journal.add(event)

    def note(self, what: Happened, text: str = "") -> None:
        """Something happened, now."""
        self.write(StormEvent(at=now(), wall=time.time(), what=what, text=text))

    def close(self) -> None:
        self._journal.close()


class Done(msgspec.Struct, frozen=True):
    """A fault, from its beginning to its end."""

    event: StormEvent
    span: Spell


def read_events(folder: Path) -> list[StormEvent]:
    """All that was done."""
    return sorted(read(folder / EVENTS, StormEvent), key=lambda event: event.at)


def done(events: Iterable[StormEvent], *faults: Fault) -> list[Done]:
    """These faults (or all), each with its end; what did not end lasted for ever."""
    return sorted(_done(events, faults), key=lambda one: one.span)


def _done(events: Iterable[StormEvent], faults: tuple[Fault, ...]) -> Iterator[Done]:
    begun: dict[tuple[Fault, str], StormEvent] = {}
    for event in events:
        if event.fault is None or (faults and event.fault not in faults):
            continue
        key = event.fault, event.who
        if event.what is Happened.BEGINS:
            begun[key] = event
        elif key in begun:
            begin = begun.pop(key)
            yield Done(begin, Spell(begin.at, event.at, event.who))
    for begin in begun.values():
        yield Done(begin, Spell(begin.at, FOR_EVER, begin.who))


def stops(events: Iterable[StormEvent]) -> dict[str, list[Spell]]:
    """When each process stood still."""
    found: dict[str, list[Spell]] = {}
    for one in done(events, Fault.STOP):
        found.setdefault(one.span.name, []).append(one.span)
    return found


def calms(events: Iterable[StormEvent]) -> list[Spell]:
    """When nothing was done; the last of them is the end of the run."""
    return _between(events, Happened.CALM, (Happened.STORM, Happened.OVER))


def storms(events: Iterable[StormEvent]) -> list[Spell]:
    """When something was, until everything was up again."""
    return _between(events, Happened.STORM, (Happened.CALM, Happened.OVER))


def _between(
    events: Iterable[StormEvent], opening: Happened, closing: tuple[Happened, ...]
) -> list[Spell]:
    found: list[Spell] = []
    begun: int | None = None
    for event in events:
        if event.what is opening:
            begun = event.at
        elif event.what in closing and begun is not None:
            found.append(Spell(begun, event.at))
            begun = None
    return found


def without(spells: Iterable[Spell], gaps: Iterable[Spell]) -> list[Spell]:
    """What is left of those.

    >>> without([Spell(1, 9, "one")], [Spell(3, 4), Spell(8, 12)])
    [Spell(start=1, stop=3, name='one'), Spell(start=4, stop=8, name='one')]
    """
    left = list(spells)
    for gap in gaps:
        before = [Spell(one.start, min(one.stop, gap.start), one.name) for one in left]
        after = [Spell(max(one.start, gap.stop), one.stop, one.name) for one in left]
        left = [piece for piece in (*before, *after) if piece.length > 0]
    return left
