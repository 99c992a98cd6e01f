"""A backup is read, and a queue made of one, as steps (`connection.steps`).

1. All partitions are begun before anything of them is read, and read in turn. So they are as of
   nearly the same moment, and none is given up meanwhile.
2. A leader that knows nothing of the backup is a new one: all of it is begun anew.
3. The pieces of a queue that comes into being are asked for by their numbers. The node says which
   is next, so a restore that broke off goes on where it was.
"""

from random import Random
from typing import Final

import msgspec

from snowmelt.client.backup.file import Head, Piece
from snowmelt.client.connection.steps import Steps
from snowmelt.client.fifo.steps import FifoSteps, queue_names
from snowmelt.client.leases.fetching import CHANCE, Fetching
from snowmelt.client.leases.steps import BYTES_HIGHEST
from snowmelt.client.priority.steps import RankedSteps
from snowmelt.client.queue.options import ProducerSequence
from snowmelt.core import times
from snowmelt.core.errors import CallerError, QueueExists, Unavailable
from snowmelt.protocols.queue.api.backups import Lot, Restore, Restored, Save, Saved
from snowmelt.protocols.queue.api.calls import ItemRun, Span
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.state.segments import Segment, stored

PIECE_WEIGHT: Final = 4 << 20


class Read(msgspec.Struct, frozen=True):
    """One piece that was read."""

    piece: Piece
    items: int
    lost: int


class Begun(Unavailable):
    """The leader changed: it has to be begun anew (rule 2)."""


class Reading:
    """A backup of one queue."""

    def __init__(self, name: str, chance: Random = CHANCE) -> None:
        self.name = name
        self.backup = 0
        self.items = self.bytes = 0
        """So many live in the queue as it begins."""
        self.settings = QueueSettings()
        self._chance = chance
        self._parts: list[FifoSteps] = []
        self._next: dict[int, int] = {}
        """Which piece is next of each partition that has more."""

    def begin(self, timeout: float) -> Steps[int]:
        """Anew; of how many partitions it is."""
        told = yield from queue_names(timeout)
        kind = RankedSteps if self.name in told.ranked else FifoSteps
        steps = kind(self.name, None, ProducerSequence(), self._chance)
        self._parts = yield from steps.partitions(timeout)
        self.backup = self._chance.getrandbits(48)
        self.items = self.bytes = 0
        for part in reversed(self._parts):  # `protocols/queue/api/backups.py`, rule 10
            saved: Saved = yield from part.ask_about(Save(part.name, self.backup, 0), timeout)
            self.settings = saved.settings
            self.items += saved.items
            self.bytes += saved.bytes
        self._next = dict.fromkeys(range(len(self._parts)), 1)
        return len(self._parts)

    def piece(self, timeout: float) -> Steps[Read | None]:
        """The next one; None when there are no more."""
        if not self._next:
            return None
        at, number = next(iter(self._next.items()))
        part = self._parts[at]
        ask = Save(part.name, self.backup, number)
        saved: Saved = yield from part.ask_about(ask, timeout, PIECE_WEIGHT)
        if saved.gone:
            raise Begun(f"the leader of queue {part.name!r} changed while it was backed up")
        del self._next[at]
        if not saved.last:
            self._next[at] = number + 1
        lots, lost = list(saved.lots), saved.lost
        for lot, span in saved.elsewhere:
            found = yield from self._fetched(part.name, lot, span)
            if found is None:
                lost += living(lot)
            else:
                lots.append(found)
        lots.sort(key=lambda lot: lot.start)
        items = sum(map(living, lots))
        return Read(Piece(at, number, saved.records, tuple(lots)), items, lost)

    def _fetched(self, queue: str, lot: Lot, span: Span) -> Steps[Lot | None]:
        """With its bodies, of which data nodes have copies."""
        fetching = Fetching(queue, BYTES_HIGHEST, self._chance)
        yield from fetching.fetch([span])
        if fetching.away:
            raise Unavailable(
                f"bodies of queue {queue!r} lie on data nodes that are away; back it up when they "
                "are here"
            )
        if [part.count for part in fetching.parts] != [lot.stop - lot.start]:
            return None
        (part,) = fetching.parts
        return msgspec.structs.replace(lot, body=stored(_segment(part)))

    def end(self, timeout: float) -> Steps[None]:
        """Nothing is kept for it any more, if anything was."""
        parts, self._parts = self._parts, []
        for part in parts:
            yield from part.ask_about(Save(part.name, self.backup, 0, over=True), timeout)


def living(lot: Lot) -> int:
    """How many of its items live."""
    return sum([one.size for one in lot.alive])


def _segment(part: ItemRun) -> Segment:
    put_at = times.at(part.times, 0)
    return Segment(part.start, part.offsets, part.blob, part.headers, put_at)


class Making:
    """A queue that is made of a backup."""

    def __init__(
        self, head: Head, name: str, replicas: int | None, chance: Random = CHANCE
    ) -> None:
        settings = head.settings
        if replicas is not None:
            settings = msgspec.structs.replace(settings, replicas=replicas, durable_copies=0)
        kind = FifoSteps if settings.priorities == 1 else RankedSteps
        self.name = name
        self._backup = head.backup
        self._steps = kind(name, settings, ProducerSequence(), chance)
        self._parts: list[FifoSteps] = []
        self._next: dict[int, int] = {}

    def begin(self, timeout: float) -> Steps[None]:
        """It is there, and closed; raises `QueueExists` for one that is no restore of this."""
        try:
            yield from self._steps.create(timeout)
        except CallerError as error:
            if str(error).startswith("replicas is"):
                raise CallerError(f"{error}; say how many: --replicas, or replicas=1") from None
            raise
        self._parts = yield from self._steps.partitions(timeout)
        done = 0
        for at, part in enumerate(self._parts):
            told: Restored = yield from part.ask_about(Restore(part.name, self._backup, 0), timeout)
            self._next[at] = told.next
            done += told.done
        if done == len(self._parts):
            raise QueueExists(
                f"queue {self.name!r} is there, and was made of this very backup; give another "
                f"name (--as), or delete it: snowmelt delete {self.name}"
            )

    def piece(self, piece: Piece, timeout: float) -> Steps[None]:
        """One more, if it is not there yet (rule 3)."""
        if piece.number < self._next[piece.part]:
            return
        part = self._parts[piece.part]
        ask = Restore(part.name, self._backup, piece.number, piece.lots, piece.records)
        yield from self._say(piece.part, ask, timeout)

    def finish(self, timeout: float) -> Steps[None]:
        """All pieces are there: it opens, the first partition last."""
        for at, part in reversed(list(enumerate(self._parts))):
            ask = Restore(part.name, self._backup, self._next[at], last=True)
            yield from self._say(at, ask, timeout)

    def _say(self, at: int, ask: Restore, timeout: float) -> Steps[None]:
        told: Restored = yield from self._parts[at].ask_about(ask, timeout, ask.size)
        if told.next != ask.number + 1 and not told.done:
            raise Unavailable(
                f"queue {self.name!r} has {told.next} pieces of the backup, and should have "
                f"{ask.number + 1}: run the restore again, it goes on there"
            )
        self._next[at] = told.next
