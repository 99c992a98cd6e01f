"""For how long a consumer was idle while one producer was full all the time.

A consumer is idle while its get lasts, and while one get that came to nothing follows another. A
producer is full while a put lasts. Both are read from journals, so an idle moment of the machine
itself counts too. What was killed in the middle of a call was in it until it was killed; what is
excused (see `injured`) is taken out.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from snowmelt_world.storms.crowd import ClientLife
from snowmelt_world.storms.events import Spell
from snowmelt_world.storms.pool.journal import PoolLine, PoolStep

INTRODUCED: Final = 2_500_000_000
"""After so many nanoseconds a process knows the others, and they know it."""
FOLLOWING: Final = 50_000_000
"""A get that begins within so many nanoseconds after an empty one continues it."""


class Idle(msgspec.Struct, frozen=True, order=True):
    """A consumer that had nothing to do beside a full producer."""

    seconds: float = 0.0
    consumer: str = ""
    producer: str = ""
    at: int = 0
    """When it began, by the clock of the journals."""
    starved: float = 0.0
    """For how long the worst of all processes stood in line for a processor meanwhile."""
    injured: tuple[str, ...] = ()
    """Who was stopped, slow or gone meanwhile."""

    @property
    def stop(self) -> int:
        """When it ended."""
        return self.at + round(self.seconds * 1e9)


def full(life: ClientLife, lines: Iterable[PoolLine]) -> list[Spell]:
    """When this producer's puts lasted."""
    return list(_spells(life, lines, PoolStep.INTENT, (PoolStep.KEPT, PoolStep.REFUSED)))


def idle(life: ClientLife, lines: Iterable[PoolLine]) -> list[Spell]:
    """When this consumer waited for an object; gets that follow each other are one."""
    lines = list(lines)
    empty = {line.at for line in lines if line.what is PoolStep.EMPTY}
    found: list[Spell] = []
    for spell in _spells(life, lines, PoolStep.ASKED, (PoolStep.GOT, PoolStep.EMPTY)):
        before = found[-1] if found else None
        if before and before.stop in empty and spell.start - before.stop < FOLLOWING:
            found[-1] = Spell(before.start, spell.stop, spell.name)
        else:
            found.append(spell)
    return found


def longest_idle(idles: list[Spell], fulls: list[Spell]) -> Idle:
    """The longest time that one of those and one of these have in common."""
    worst = Idle()
    fulls = sorted(fulls, key=lambda spell: -spell.length)
    for spell in sorted(idles, key=lambda spell: -spell.length):
        if spell.length / 1e9 <= worst.seconds:
            break
        for other in fulls:
            if other.length / 1e9 <= worst.seconds:
                break
            start = max(spell.start, other.start)
            seconds = round((min(spell.stop, other.stop) - start) / 1e9, 3)
            if seconds > worst.seconds:
                worst = Idle(seconds, spell.name, other.name, start)
    return worst


def idlings(idles: list[Spell], fulls: list[Spell], least: float) -> list[Idle]:
    """All times longer than so many seconds that one of those and one of these have in common."""
    long_fulls = [one for one in fulls if one.length / 1e9 > least]
    long_idles = [one for one in idles if one.length / 1e9 > least]
    return [
        worst
        for one in long_idles
        for other in long_fulls
        if (worst := longest_idle([one], [other])).seconds > least
    ]


def _spells(
    life: ClientLife, lines: Iterable[PoolLine], opening: PoolStep, closing: tuple[PoolStep, ...]
) -> Iterator[Spell]:
    known, begun = 0, 0
    for line in lines:
        if line.what is PoolStep.STARTED:
            known = line.at + INTRODUCED
        elif line.what is opening:
            begun = line.at
        elif line.what in closing and begun:
            if line.at > known:
                yield Spell(max(begun, known), line.at, life.name)
            begun = 0
    if begun and life.killed > max(begun, known):
        yield Spell(max(begun, known), life.killed, life.name)
