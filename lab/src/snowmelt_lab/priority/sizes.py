"""How large messages are, as the machines would send them: those near the anchor, and of the table.

A batch is as long as the longest row in it, so the largest are those of the largest parts of the
tree; what is looked at are the edges above the largest parts, in every wave.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import numpy as np

from snowmelt_lab.machines.overlay.labels import CIRCLE, Kind, Place
from snowmelt_lab.machines.overlay.messages import Climb, Granted, Put, Routed, Wave, Word
from snowmelt_lab.machines.overlay.routing import Route, point
from snowmelt_lab.machines.overlay.table import Getter
from snowmelt_lab.machines.skeap.batches import Batch, Grant, Run, Some, decomposed
from snowmelt_lab.overlay.arrays import Indices, name
from snowmelt_lab.priority.load import GET
from snowmelt_lab.priority.skeap import slot
from snowmelt_lab.priority.tree import Operations, Waves

EDGES: Final = 64
"""So many are looked at, those above the largest parts of the tree."""

_encode: Final = msgspec.msgpack.Encoder().encode


def counted(priorities: Indices, rows: int) -> Run:
    counts = np.bincount(priorities[priorities != GET], minlength=rows).tolist()
    puts = [Some(priority, count) for priority, count in enumerate(counts) if count]
    return Run(tuple(puts), int((priorities == GET).sum()))


def bits_max(waves: Waves, one: Operations, grants: Sequence[Grant], rows: int, salt: str) -> int:
    """Of the largest message; a grant a wave that brought anything."""
    largest = 0
    for word in _words(waves, one, grants, rows, salt):
        largest = max(largest, len(_encode(word)))
    return 8 * largest


def _words(
    waves: Waves, one: Operations, grants: Sequence[Grant], rows: int, salt: str
) -> Iterator[Word]:
    puts = np.flatnonzero(one.priorities != GET)
    if len(puts):
        for column in (one.turns, one.positions):
            yield _routed(waves, one, int(puts[np.argmax(column[puts])]), salt)
    circle = waves.circle
    below = np.flatnonzero(circle.owners[waves.above] != circle.owners)
    below = below[np.argsort(-waves.sizes[below])][:EDGES]
    for number, grant in zip(np.unique(one.waves).tolist(), grants, strict=True):
        part = np.flatnonzero(one.waves == number)
        for place in below.tolist():
            before, mine = _batches(waves, one, part, place, rows)
            share = decomposed(grant, [before, mine])[1]
            here, above = _place(waves, place), _place(waves, int(waves.above[place]))
            yield Word(0, here, above, Climb(number, Wave(mine)))
            yield Word(0, above, here, Granted(number, share))


def _batches(
    waves: Waves, one: Operations, part: Indices, place: int, rows: int
) -> tuple[Batch, Batch]:
    """Of what comes before this part of the tree in a wave, and of the part."""
    ranks = waves.ranks[waves.circle.places[Kind.LEFT][one.nodes[part]]]
    first = waves.ranks[place]
    inside = (ranks >= first) & (ranks < first + waves.sizes[place])
    return (
        _batch(one, part[ranks < first], rows),
        _batch(one, part[inside], rows),
    )


def _batch(one: Operations, part: Indices, rows: int) -> Batch:
    if not len(part):
        return Batch()
    runs = one.runs[part]
    count = int(runs.max()) + 1
    return Batch(tuple([counted(one.priorities[part[runs == run]], rows) for run in range(count)]))


def _place(waves: Waves, at: int) -> Place:
    return Place(name(int(waves.circle.owners[at])), int(waves.circle.kinds[at]))


def _routed(waves: Waves, one: Operations, at: int, salt: str) -> Word:
    """A put on its way; its ideal point may be anywhere."""
    where = slot(salt, (int(one.rows[at]), int(one.positions[at])))
    node, ticket = name(int(one.nodes[at])), int(one.turns[at])
    put = Put(where, f"{node}.{ticket}", Getter(node, ticket))
    route = Route(point(where.point), waves.circle.nodes.bit_length(), CIRCLE - 1)
    return Word(0, Place(node, 0), Place(node, 0), Routed(route, put))
