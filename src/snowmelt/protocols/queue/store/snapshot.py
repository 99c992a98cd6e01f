"""The records of a copy as of one step, and how far somebody is who reads them for a backup.

No batch is made before it is asked for: of a million single puts some hundred blocks are small, and
a million batches are not.
"""

from typing import Final

import msgspec

from snowmelt.core.instant import Instant
from snowmelt.core.interval import Interval, IntervalSet, merged
from snowmelt.core.spans import steps
from snowmelt.protocols.queue.api.backups import KINDS, LOTS_MAX, Records
from snowmelt.protocols.queue.messages.words import PIECE_BYTES
from snowmelt.protocols.queue.state.batches import KIND, Batches, StoredBatch
from snowmelt.protocols.queue.state.endings import ENDED, EndBundles
from snowmelt.protocols.queue.state.spread import KIND as SPREAD_KIND
from snowmelt.protocols.queue.state.spread import Lies, Spread
from snowmelt.protocols.queue.store.copy import Copy

LOT_COST: Final = 100
"""What a lot takes beside its bodies, about."""
Living = tuple[StoredBatch, bytes]
"""A batch, and what lives of it, as `Lot.left` tells it."""


class Snapshot:
    """Of one backup."""

    def __init__(self, copy: Copy, until: Instant) -> None:
        self.until = until
        self.piece: tuple[tuple[Living, ...], Records, bool] = (), (), False
        """The last that was asked for."""
        self.number = 0
        self._records = dict(copy.records)
        keys = sorted(self._records)
        self._told = [key for key in keys if key[0] in KINDS]
        self._blocks = [key for key in keys if key[:1] == KIND]
        self._next = 0
        """Which of the records is next, and then which block, and which of its batches."""
        self._block = self._batch = 0
        endings = EndBundles({})
        gone = [endings.restore(key, self._records[key])[1] for key in keys if key[:1] == ENDED]
        self._ended = IntervalSet(merged([one for some in gone for one in some]))

    def turn(self) -> None:
        """On to the next piece."""
        size, records, batches = 0, list[tuple[bytes, bytes]](), list[Living]()
        while self._next < len(self._told) and size < PIECE_BYTES:
            key = self._told[self._next]
            records.append((key, self._records[key]))
            size += len(key) + len(records[-1][1])
            self._next += 1
        while self._block < len(self._blocks) and size < PIECE_BYTES:
            block = self._read(self._blocks[self._block])
            for batch in list(block.all())[self._batch :]:
                batches.append((batch, _left(block, batch)))
                size += batch.size + LOT_COST
                self._batch += 1
                if size >= PIECE_BYTES or len(batches) == LOTS_MAX:
                    size = PIECE_BYTES
                    break
            else:
                self._block, self._batch = self._block + 1, 0
        self.number += 1
        self.piece = tuple(batches), tuple(records), self._block == len(self._blocks)

    def _read(self, key: bytes) -> Batches:
        """One of them, by itself."""
        block = Batches({})
        block.restore(key, self._records[key])
        start = int.from_bytes(key[1:])
        for part in reversed(self._ended.common(Interval(start, block.stops[-1]))):
            block.end(part)
        return block

    def lies(self, place: int) -> Lies:
        """On which data nodes a body lay."""
        spread, key = Spread({}), SPREAD_KIND + place.to_bytes(8)
        spread.restore(key, self._records[key])
        return spread.held[place]


def _left(block: Batches, batch: StoredBatch) -> bytes:
    live = block.live.common(Interval(batch.start, batch.stop))
    if live[0].size == batch.stop - batch.start:
        return b""
    left = steps(live)
    left[0] -= batch.start
    return msgspec.msgpack.encode(left)
