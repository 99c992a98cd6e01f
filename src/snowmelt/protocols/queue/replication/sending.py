"""A copy on its way to another node, piece by piece: its bodies first, and then its records.

1. It is as of one step: the records are taken when it begins, and of the bodies that they name none
   is erased while it is under way (`log.py`, rule 4).
2. One that lasts so long that too many steps came behind it goes on as of the last of these: what
   is there of it already is not sent again.
"""

from itertools import islice
from typing import Final

from snowmelt.protocols.queue.messages.words import PIECE_BYTES, Pairs
from snowmelt.protocols.queue.state.batches import KINDS, Batches, StoredBatch
from snowmelt.protocols.queue.state.staged import KIND as STAGED_KIND
from snowmelt.protocols.queue.state.staged import StagedBatches
from snowmelt.protocols.queue.store.copy import Copy

PIECE_BODIES: Final = 500


def with_bodies(records: Pairs) -> list[StoredBatch]:
    """The batches of which a copy with these records has bodies: the last are those staged.

    None of those that lie on data nodes.
    """
    batches, staged = Batches({}), StagedBatches({}, [])
    for key, value in records:
        if key[:1] in KINDS and value is not None:
            batches.restore(key, value)
        elif key[:1] == STAGED_KIND and value is not None:
            staged.restore(key, value)
    return [one for one in (*batches.all(), *staged.all()) if not one.spread]


class Sending:
    """A copy on its way to one node, piece by piece."""

    def __init__(self, copy: Copy, earlier: "Sending | None" = None) -> None:
        self.head = copy.head
        self.records: Pairs = tuple(sorted(copy.records.items()))
        self._there: dict[StoredBatch, None] = {} if earlier is None else earlier.brought
        self._batches = [one for one in with_bodies(self.records) if one not in self._there]
        self._begins: list[tuple[int, int]] = [(0, 0)]
        """By piece, the first of its batches, and of its records."""
        self._asked = 0
        """Which piece was asked for last: those before it are there."""

    def piece(self, number: int) -> tuple[list[StoredBatch], Pairs, bool] | None:
        """Whose bodies are in it, its records, and whether it is the last.

        None for one that is not next.
        """
        if number >= len(self._begins):
            return None
        self._asked = max(self._asked, number)
        (at, first), size, batches = self._begins[number], 0, list[StoredBatch]()
        for batch in islice(self._batches, at, at + PIECE_BODIES):
            batches.append(batch)
            size += batch.size
            if size >= PIECE_BYTES:
                break
        stop, end = at + len(batches), first
        if stop == len(self._batches):
            for key, value in islice(self.records, first, None):
                if size >= PIECE_BYTES:
                    break
                size += len(key) + len(value or b"")
                end += 1
        if number + 1 == len(self._begins):
            self._begins.append((stop, end))
        last = stop == len(self._batches) and end == len(self.records)
        return batches, self.records[first:end], last

    @property
    def share(self) -> int:
        """Of a hundred parts of it, how many are there."""
        all_ = len(self._there) + len(self._batches)
        return 100 * (len(self._there) + self._begins[self._asked][0]) // max(1, all_)

    @property
    def brought(self) -> dict[StoredBatch, None]:
        """Those whose bodies are there (rule 2)."""
        return self._there | dict.fromkeys(self._batches[: self._begins[self._asked][0]])
