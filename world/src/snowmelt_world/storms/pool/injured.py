"""When processes stood still, had slow links or, of nodes, were gone: what the judge excuses.

1. Who was stopped, or slow, is not judged by the clock meanwhile.
2. What such a consumer has borrowed is nobody else's meanwhile, so a producer may be full of it.
3. What it gets after, it may have got when it began.
4. Who came while a node was gone is known to the others a little after that is back.
5. What a producer had begun to give when it was stopped is waited for, until nothing has come of it
   for long; and what comes from a slow one is, until it is there or the time of the get is over.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from snowmelt_world.storms.events import FOR_EVER, Spell, done, read_events
from snowmelt_world.storms.faults import Fault
from snowmelt_world.storms.pool.idling import INTRODUCED
from snowmelt_world.storms.pool.journal import PoolLine, PoolStep
from snowmelt_world.storms.pool.load import life_of

OF_CLIENTS: Final = (Fault.STOP, Fault.SLOW)
EXCUSING: Final = (*OF_CLIENTS, Fault.KILL, Fault.LEAVE)
"""The last two of nodes only."""
SETTLED: Final = (PoolStep.ACKED, PoolStep.LATE, PoolStep.UNKNOWN, PoolStep.BACK)
GIVEN_UP: Final = 2_500_000_000
"""What comes no more is given up after so many nanoseconds."""
ARRIVING: Final = 3_000_000_000
"""What was asked for before comes within so many nanoseconds after."""


class Injured(msgspec.Struct, frozen=True):
    """From when to when who was injured, by the names that the storm uses."""

    spells: tuple[Spell, ...] = ()
    stops: tuple[Spell, ...] = ()
    """Of those, when somebody was stopped."""

    def during(self, start: int, stop: int) -> tuple[str, ...]:
        """Who was, in this time."""
        return tuple(one.name for one in self.spells if one.start < stop and start < one.stop)

    def awaited(self, life: str, lines: Iterable[PoolLine]) -> list[Spell]:
        """While this consumer may have waited for what one that was injured gave (rule 5)."""
        still = (one for one in self.stops if one.name.startswith("producer"))
        found = [Spell(one.start, min(one.stop, one.start + GIVEN_UP), life) for one in still]
        slow = [
            one for one in self.spells if one.name.startswith("producer") and one not in self.stops
        ]
        asked = 0
        for line in lines:
            if line.what is PoolStep.ASKED:
                asked = line.at
            elif line.what is PoolStep.EMPTY:
                over = (one for one in slow if one.start < line.at and asked < one.stop)
                found += (Spell(max(one.start, asked), line.at, life) for one in over)
            elif line.what is PoolStep.GOT:
                makers = {f"producer-{number}-{of}" for number, of in map(life_of, line.ids)}
                makers |= {name.rpartition("-")[0] for name in makers}
                over = (one for one in self.spells if one.name in makers and one.start < line.at)
                found += (
                    Spell(max(one.start, asked), min(one.stop, line.at), life) for one in over
                )
        return [one for one in found if one.length > 0]

    def of(self, life: str, started: int = 0) -> list[Spell]:
        """What excuses this life of a process (rules 1 and 4)."""
        home = life.rpartition("-")[0]
        return [
            *(spell for spell in self.spells if spell.name in {life, home}),
            *(
                Spell(spell.start, spell.stop + INTRODUCED, life)
                for spell in self.spells
                if "-" not in spell.name and spell.start <= started <= spell.stop
            ),
        ]

    def got(self, line: PoolLine, life: str) -> int:
        """When a consumer may have got this (rule 3); its maker may have been the slow one."""
        makers = {f"producer-{number}-{life}" for number, life in map(life_of, line.ids)}
        spells = (spell for name in (life, *makers) for spell in self.of(name))
        begun = (spell.start for spell in spells if _during(spell, line.at))
        return min([line.at, *begun])


def read_injured(folder: Path) -> Injured:
    """All of a run; what was not ended lasted for ever."""
    found = [
        one
        for one in done(read_events(folder), *EXCUSING)
        if one.event.fault in OF_CLIENTS or "-" not in one.event.who
    ]
    return Injured(
        tuple(one.span for one in found),
        tuple(one.span for one in found if one.event.fault is Fault.STOP),
    )


def loans(lines: Iterable[PoolLine], spells: list[Spell]) -> list[Spell]:
    """While a consumer was injured, and had borrowed something: whose it was (rule 2)."""
    found: list[Spell] = []
    asked, had = 0, dict[int, int]()
    for line in lines:
        if line.what is PoolStep.ASKED:
            asked = line.at
        elif line.what is PoolStep.GOT:
            had |= dict.fromkeys(line.ids, asked)
        elif line.what in SETTLED:
            found += (_loan(id_, had.pop(id_), line.at) for id_ in line.ids if id_ in had)
    found += (_loan(id_, since, FOR_EVER) for id_, since in had.items())
    both = (
        Spell(max(loan.start, one.start), min(loan.stop, one.stop), loan.name)
        for loan in found
        for one in spells
    )
    return [one for one in both if one.length > 0]


def _loan(id_: int, start: int, stop: int) -> Spell:
    number, life = life_of(id_)
    return Spell(start, stop, f"producer-{number}-{life}")


def _during(spell: Spell, at: int) -> bool:
    return spell.start <= at <= spell.stop + ARRIVING
