"""When a queue's copies and its clients were well enough, and how long puts waited then.

A put may wait while its queue has no majority, or its client hears nobody. A promise is broken
only when it waits beside nodes that are well. When they were is told by what was done to them:

1. Enough are well when a majority of the copies is that serve at that time, with the coordinator,
   and all of these hear each other.
2. Who was injured counts as such for some seconds more: a process starts, and is sent what it
   lacks.
3. A client that stood still, or heard only some nodes, waited for itself.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import combinations, pairwise
from pathlib import Path
from typing import Final

import msgspec
from benchmarks.chaos.journals import read
from benchmarks.chaos.plan import QUEUE

from snowmelt_world.check import Ended, Kind, Operation

BACK: Final = 3_000_000_000
"""So many nanoseconds who was injured needs to be there again (rule 2)."""
LEAST: Final = 1_000_000_000
"""Shorter waits are not looked at."""
_SERVED: Final = re.compile(rf'"at": "([^"]+)".*"{QUEUE}: term \d+ is served by ([^"]+)"')

Stretch = tuple[int, int]


class Noted(msgspec.Struct, frozen=True):
    """An event of a storm (`Storm.note`); most have no more than a name and a time."""

    at: int
    wall: float
    event: str
    kind: str = ""
    whose: str = ""
    cuts: tuple[tuple[str, str], ...] = ()


class Hurt(msgspec.Struct, frozen=True):
    """Who was injured, and from when to when; of links, whose."""

    start: int
    stop: int
    who: str
    cuts: tuple[tuple[str, str], ...]

    def touches(self, group: Sequence[str]) -> bool:
        """Whether it is felt by these, as they work together."""
        return self.who in group or any(a in group and b in group for a, b in self.cuts)


class Waits(msgspec.Struct, frozen=True):
    """How long puts waited while enough was well, in seconds."""

    well: float
    """For so long it was, for clients that were well."""
    longest_put: float
    longest_stall: float
    """Without any put."""
    who: str = ""
    """Whose put that was, and from when to when by the clock of all histories."""
    between: Stretch = (0, 0)


def waits(folder: Path, coordinator: str, edges: Sequence[int], over: int) -> Waits:
    """Of a run that was judged; the clients' processes begin and end at these numbers.

    After the load there are no puts to wait for.
    """
    puts = [one for one in read(folder / "history.jsonl", Operation) if _is_put(one)]
    noted = list(read(folder / "events.jsonl", Noted))
    if not puts or not noted:
        return Waits(0.0, 0.0, 0.0)
    begin, end = min(one.called for one in puts), max(one.returned or 0 for one in puts)
    hurts, served = list(_hurts(noted)), _served(folder, noted[0], (begin, end))
    names = ["", *[f"c{at}" for at in range(len(edges) - 1)]]
    well = {name: list(_well(hurts, served, coordinator, name)) for name in names}
    longest = (0, (0, 0), "")
    for put in puts:
        assert put.returned is not None
        if put.returned - put.called > max(LEAST, longest[0]):
            of = well[f"c{bisect_right(edges, int(put.process.partition('-')[2])) - 1}"]
            longest = max(longest, (*_common(of, put.called, put.returned), put.process))
    returned = sorted([one.returned or 0 for one in puts if (one.returned or 0) <= over])
    stall = max([_common(well[""], a, b)[0] for a, b in pairwise(returned)], default=0)
    total = sum([stop - start for start, stop in well[""]])
    return Waits(_seconds(total), _seconds(longest[0]), _seconds(stall), longest[2], longest[1])


def _is_put(one: Operation) -> bool:
    return one.kind is Kind.PUT and one.ended is Ended.SUCCEEDED


def _hurts(noted: Sequence[Noted]) -> Iterator[Hurt]:
    on: dict[tuple[str, str], Noted] = {}
    for one in noted:
        which = one.kind, one.whose
        if one.event == "begins":
            on[which] = one
        elif one.event == "ends" and which in on:
            begun = on.pop(which)
            yield Hurt(begun.at, one.at + BACK, begun.whose, begun.cuts)


def _served(folder: Path, clock: Noted, whole: Stretch) -> list[tuple[Stretch, list[str]]]:
    """Which nodes' copies served from when to when, as the controller wrote down."""
    told: list[tuple[int, list[str]]] = []
    for log in (folder / "nodes").glob("*.log"):
        for at, keepers in _SERVED.findall(log.read_text("utf-8", "replace")):
            moment = clock.at + round((datetime.fromisoformat(at).timestamp() - clock.wall) * 1e9)
            told.append((moment, [one.partition("/")[0] for one in keepers.split(", ")]))
    told.sort()
    moments = [at for at, _ in told] + [whole[1]]
    return [
        ((max(start, whole[0]), stop), who)
        for (start, stop), (_, who) in zip(pairwise(moments), told, strict=True)
    ]


def _well(
    hurts: Sequence[Hurt],
    served: Sequence[tuple[Stretch, list[str]]],
    coordinator: str,
    client: str,
) -> Iterator[Stretch]:
    """When enough was, for a process of clients (rule 1)."""
    edges = [one for hurt in hurts for one in (hurt.start, hurt.stop)]
    since = None
    for (begin, end), copies in served:
        majorities = list(combinations(copies, len(copies) // 2 + 1))
        for start, stop in pairwise([begin, *sorted({e for e in edges if begin < e < end}), end]):
            on = [hurt for hurt in hurts if hurt.start <= start < hurt.stop]
            groups = [(*some, coordinator) for some in majorities]
            out = any(client and hurt.who == client for hurt in on)  # rule 3
            if out or all(any(hurt.touches(some) for hurt in on) for some in groups):
                if since is not None:
                    yield since, start
                since = None
            elif since is None:
                since = start
            last = stop
    if since is not None:
        yield since, last


def _common(well: Sequence[Stretch], start: int, stop: int) -> tuple[int, Stretch]:
    """The longest of what both have, and where it is."""
    both = [(max(a, start), min(b, stop)) for a, b in well]
    a, b = max(both, key=lambda one: one[1] - one[0], default=(start, start))
    return max(0, b - a), (a, b)


def _seconds(nanoseconds: int) -> float:
    return round(nanoseconds / 1e9, 2)
