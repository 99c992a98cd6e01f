"""The items of a backup one by one, as people export them.

1. They come in the order of their positions within each partition: by what a put was, and not by
   what is first. `priority` tells the rest.
2. Records come before the items that they tell of. So all that is kept is how items failed, until
   when they are delayed, and the keys of a queue of any priorities.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from snowmelt.client.backup.file import Head, Piece
from snowmelt.client.leases.delivered import PLACE_BITS
from snowmelt.client.queue.ranks import Ranks
from snowmelt.core.batch import Batch
from snowmelt.core.headers import Headers
from snowmelt.core.interval import Interval
from snowmelt.protocols.queue.api.backups import Lot
from snowmelt.protocols.queue.api.labels import unpack
from snowmelt.protocols.queue.api.settings import ANY, QueueSettings
from snowmelt.protocols.queue.state.records import bring_in
from snowmelt.protocols.queue.state.segments import unstored
from snowmelt.protocols.queue.state.state import QueueState

KEPT: Final = (b"y", b"z", b"k")
"""How the keys of those records begin (rule 2)."""
PLACE_MASK: Final = (1 << PLACE_BITS) - 1


class Row(msgspec.Struct, frozen=True):
    """One item."""

    queue: str
    position: int
    """Within its priority, where priorities have a number."""
    body: bytes
    headers: Headers
    key: bytes | None
    put_at: int
    """Nanoseconds since 1970; 0 where it is not known."""
    priority: int | float | None
    """None in a fifo."""
    partition: int | None
    """None where there is one."""
    failures: int
    reason: str
    dead: bool
    due: int
    """Until when it is delayed (nanoseconds since 1970); 0 if it is not."""


class Rows:
    """Of one backup."""

    def __init__(self, queue: str, settings: QueueSettings, parts: int) -> None:
        self._queue = queue
        self._settings = settings
        self._ranks = Ranks.of(queue, settings)
        self._parts = [QueueState(settings) for _ in range(parts)]

    @classmethod
    def of(cls, head: Head) -> "Rows":
        """Those of a file."""
        return cls(head.queue, head.settings, head.parts)

    def add(self, piece: Piece) -> Iterator[Row]:
        """The items of the next piece."""
        state = self._parts[piece.part]
        bring_in(state, tuple([one for one in piece.records if one[0][:1] in KEPT]))
        state.changed.clear()
        part = piece.part if len(self._parts) > 1 else None
        for lot in piece.lots:
            yield from self._of_lot(state, part, lot)

    def _of_lot(self, state: QueueState, part: int | None, lot: Lot) -> Iterator[Row]:
        segment = unstored(lot.body, lot.stop)
        bodies, labels = Batch.known(segment.offsets, segment.blob), unpack(segment.headers)
        ranked, keyed = self._settings.priorities != 1, self._settings.priorities == ANY
        for where in [position for one in lot.alive for position in one]:
            place, index = Interval(where, where + 1), where - lot.start
            failed, delayed = state.failures.common(place), state.delays.common(place)
            rank = state.keys.of(place)[0] if keyed else where >> PLACE_BITS
            key, headers = labels.of(index)
            yield Row(
                self._queue,
                where if keyed else where & PLACE_MASK,
                bytes(bodies[index]),
                headers,
                key,
                segment.put_at,
                self._ranks.told(rank) if ranked else None,
                part,
                failed[0][1].times if failed else 0,
                failed[0][1].reason if failed else "",
                bool(failed) and failed[0][1].dead,
                delayed[0][1] if delayed else 0,
            )
