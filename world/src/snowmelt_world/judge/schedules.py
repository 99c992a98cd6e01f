"""What schedules may not do, as seen by whoever takes what they put.

Rules:

1. No moment is fired twice: what comes for one has one position.
2. Nothing is fired early, by the clock of who led, as the item's time of put has it.
3. None is left out: after an item comes the one for the first moment after that, or, where that
   item was late, for the first moment after it was put. Where what is missed is skipped, more may
   be left out.
4. In the end all came that the queue says were fired.
"""

from datetime import datetime
from itertools import pairwise
from typing import Final, NoReturn

import msgspec

from snowmelt.core.instant import SECOND, Duration
from snowmelt_world.world import Broken

MARK: Final = SECOND
"""An item may say that it was put so much earlier than it was (`queue/put_times.py`)."""


class Fired(msgspec.Struct):
    """An item that came, times in nanoseconds since 1970."""

    position: int
    put_at: int


class Known(msgspec.Struct):
    """One schedule."""

    interval: Duration
    skips: bool
    anchor: int = 0
    """One of its moments, once one was told."""
    fired: dict[int, Fired] = {}
    """By moments, to the second."""


class Said(msgspec.Struct, frozen=True):
    """What the queue says of one, times in nanoseconds since 1970."""

    name: str
    next: int
    last: int
    fired: int


class ScheduleLedger:
    """Of one queue with schedules."""

    def __init__(self, queue: str, *, keeps: bool) -> None:
        self.queue = queue
        self.keeps = keeps
        """Whether no disk is lost or damaged."""
        self.calls = 0
        self.known: dict[str, Known] = {}

    @property
    def excused(self) -> dict[str, int]:
        """None is."""
        return {}

    def wrong(self, sentence: str) -> NoReturn:
        raise Broken(f"{self.queue}: {sentence}", self.queue)

    def came(self, name: str, said: str, position: int, put_at: datetime) -> None:
        """An item of a schedule, perhaps once more."""
        self.calls += 1
        moment = round(datetime.fromisoformat(said).timestamp()) * SECOND
        before = self.known[name].fired.get(moment)
        if before is not None and before.position != position and self.keeps:
            places = f"{before.position} and {position}"
            self.wrong(f"{name} fired twice for {said}: at positions {places}")
        put = round(put_at.timestamp() * SECOND)
        self.known[name].fired[moment] = Fired(position, put)
        if put + MARK < moment:
            self.wrong(f"{name} fired at {put_at} for {said}, which was to come")

    def told(self, rows: tuple[Said, ...]) -> None:
        """The queue says how its schedules are."""
        self.calls += 1
        for row in rows:
            known = self.known[row.name]
            if known.anchor and (row.next - known.anchor) % known.interval and self.keeps:
                self.wrong(f"{row.name} is to fire at {row.next}, which is none of its own")
            known.anchor = known.anchor or row.next

    def drained(self, rows: tuple[Said, ...]) -> None:
        """All that was put has come; so much the queue said before its schedules were removed."""
        for row in rows if self.keeps else ():
            known = self.known[row.name]
            self._left_out(row.name, known)
            last = row.last // SECOND * SECOND
            there = sum([moment <= last for moment in known.fired])
            if there != row.fired:
                self.wrong(f"{row.name} fired {row.fired} times, and {there} items came")

    def _left_out(self, name: str, known: Known) -> None:
        """Rule 3."""
        moments = sorted(known.fired)
        for moment, after in pairwise(moments):
            late = known.fired[moment].put_at + MARK
            passed = max(moment, late)
            due = passed - (passed - moment) % known.interval + known.interval
            if after > due and not known.skips:
                self.wrong(f"{name} fired for {moment} by {late}, and then for {after}, not {due}")
