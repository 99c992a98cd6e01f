"""What was done to the processes, and when it was calm: written by the storm, read by the judge."""

from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Final

import msgspec
from benchmarks.chaos.journals import now, read

EVENTS: Final = "events.jsonl"


class Deed(Enum):
    """What happened."""

    KILLED = "killed"
    STOPPED = "stopped"
    CONTINUED = "continued"
    STARTED = "started"
    SLOWED = "slowed"
    QUICKENED = "quickened"
    STORM = "storm"
    """From now on there are faults."""
    CALM = "calm"
    """From now on there are none, and everything is up."""
    OVER = "over"
    """Workers are asked to end."""


class Part(Enum):
    """Whom it was done to, and why to this one."""

    HOLDER = "holder"
    WAITER = "waiter"
    WORKER = "worker"
    NODE = "node"
    HOLDERS_NODE = "holder's node"
    LEADER = "leader"


class Event(msgspec.Struct, frozen=True, array_like=True):
    """One line of the storm's journal."""

    at: int
    deed: Deed
    who: str = ""
    part: Part | None = None
    baton: str = ""
    fence: int = 0
    """Of a holder's node: which hold it was at."""


class Events:
    """The storm's journal."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / EVENTS

    def write(self, event: Event) -> None:
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(event) + b"\n")

    def note(self, deed: Deed, who: str = "", part: Part | None = None) -> None:
        """Something happened, now."""
        self.write(Event(now(), deed, who, part))


class Span(msgspec.Struct, frozen=True, order=True):
    """From when to when something was so."""

    start: int
    stop: int

    def meets(self, start: int, stop: int) -> bool:
        """Whether the two have a moment in common."""
        return self.start <= stop and start <= self.stop

    def common(self, start: int, stop: int) -> int:
        """For how long both are."""
        return max(0, min(self.stop, stop) - max(self.start, start))


def read_events(folder: Path) -> list[Event]:
    """All that was done."""
    return sorted(read(folder / EVENTS, Event), key=lambda event: event.at)


def stops(events: Iterable[Event]) -> dict[str, list[Span]]:
    """When each process was stopped; one that was never continued, for ever."""
    found: dict[str, list[Span]] = {}
    begun: dict[str, int] = {}
    for event in events:
        if event.deed is Deed.STOPPED:
            begun[event.who] = event.at
        elif event.who in begun and event.deed in {Deed.CONTINUED, Deed.KILLED}:
            found.setdefault(event.who, []).append(Span(begun.pop(event.who), event.at))
    for who, start in begun.items():
        found.setdefault(who, []).append(Span(start, 1 << 63))
    return found


def calms(events: Iterable[Event]) -> list[Span]:
    """When nothing was done; the last of them is the end of the run."""
    return _between(events, Deed.CALM, (Deed.STORM, Deed.OVER))


def storms(events: Iterable[Event]) -> list[Span]:
    """When something was, until everything was up again."""
    return _between(events, Deed.STORM, (Deed.CALM, Deed.OVER))


def _between(events: Iterable[Event], opening: Deed, closing: tuple[Deed, ...]) -> list[Span]:
    found: list[Span] = []
    begun: int | None = None
    for event in events:
        if event.deed is opening:
            begun = event.at
        elif event.deed in closing and begun is not None:
            found.append(Span(begun, event.at))
            begun = None
    return found
