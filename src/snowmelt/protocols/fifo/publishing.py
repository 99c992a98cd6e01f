"""Putting staged batches into the queue: all that are named, in one step, once under one number.

1. What this producer published under this number is not published again; where it went is told.
2. All or nothing: when one of the batches is not staged any more, or there is no room for all of
   them together, nothing is put.
3. A batch whose keepers have all come back with other disks is not staged any more.
"""

from collections.abc import Callable

from snowmelt.core.interval import Interval
from snowmelt.core.names import OperationId
from snowmelt.protocols.fifo.calls import Publish, PutDone, Receipt
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.extents import Run
from snowmelt.protocols.fifo.journal import Journal
from snowmelt.protocols.fifo.messages import Entry
from snowmelt.protocols.fifo.queue import Dropped, Lost
from snowmelt.protocols.fifo.staged import StagedBatch, soon
from snowmelt.protocols.fifo.streams import gone_for_ever


class Publishing:
    """The staged batches of one queue, at its master."""

    def __init__(
        self, desk: Desk, journal: Journal, watch: Callable[[Run], None], dropped: Dropped
    ) -> None:
        self._desk = desk
        self._journal = journal
        self._queue = journal.queue
        self._watch = watch
        self._dropped = dropped

    def stage(self, stream: str, entry: Entry) -> None:
        """A segment was put with a hold; its verdict is `admission`'s matter."""
        until = self._desk.wall + entry.hold
        batch = StagedBatch(entry.stop, entry.bytes, entry.keepers, entry.due, until)
        self._queue.staged.keep((stream, entry.first), batch)
        self._desk.wake(soon(self._desk.now))

    def publish(self, operation: OperationId, ask: Publish) -> None:
        """A producer names what belongs together."""
        queue = self._queue
        earlier = queue.producers.earlier(ask.producer, ask.sequence)
        if earlier is not None:  # rule 1
            self._answer(operation, earlier, (), repeated=True)
            return
        found = [(one, queue.staged.named((one.stream, one.first))) for one in ask.receipts]
        batches = [(one, batch) for one, batch in found if self._is_there(one, batch)]
        refused = self._refused(ask, [batch for _, batch in batches if batch is not None])
        if refused is not None:
            self._desk.decline(operation, *refused)
            return
        parts = [self._put(one, batch) for one, batch in batches if batch is not None]
        start = parts[0].start if parts else 0
        where = Interval(start, parts[-1].stop if parts else start)
        forgotten = queue.producers.note(ask.producer, ask.sequence, where, self._desk.wall)
        for name in (ask.producer, *forgotten):
            queue.changed[b"p" + name.encode()] = None
        visible = [part for part in parts if not queue.delays.common(part)]
        self._answer(operation, where, visible, repeated=False)

    def _is_there(self, receipt: Receipt, batch: StagedBatch | None) -> bool:
        """Rule 3."""
        if batch is None or batch.stop != receipt.stop:
            return False
        presence = self._desk.presence
        return presence is None or not gone_for_ever(batch.keepers, presence)

    def _refused(self, ask: Publish, batches: list[StagedBatch]) -> tuple[str, str] | None:
        """Why not, as an error's name and text (rule 2)."""
        queue, settings = self._queue, self._queue.settings
        names = {(one.stream, one.first): None for one in ask.receipts}
        if len(batches) < len(ask.receipts) or len(names) < len(ask.receipts):
            missing = len(ask.receipts) - min(len(batches), len(names))
            text = (
                f"{missing} of {len(ask.receipts)} batches are not staged in queue {queue.name!r} "
                "(any more): they were published, their time was over, or their disks were lost"
            )
            return "NotStaged", text
        items = sum(one.stop - one.first for one in ask.receipts)
        size = sum(batch.bytes for batch in batches)
        if (0 < settings.items_max < items) or (0 < settings.bytes_max < size):
            text = f"{items} items in {size} bytes never fit into queue {queue.name!r}"
        elif not queue.fits(items, size):
            text = f"queue {queue.name!r} holds {queue.alive.total} items in {queue.bytes} bytes"
        else:
            return None
        bounds = f"{settings.items_max or 'no'} items and {settings.bytes_max or 'no'} bytes"
        return "Full", f"{text}; its bounds are {bounds}"

    def _put(self, receipt: Receipt, batch: StagedBatch) -> Interval:
        queue, name = self._queue, (receipt.stream, receipt.first)
        count = receipt.stop - receipt.first
        where = queue.admit(receipt.stream, receipt.first, count, batch.bytes, batch.keepers)
        queue.staged.forget(name)
        if batch.due > self._desk.wall:
            queue.delay(where, batch.due)
            self._desk.wake(self._desk.instant_of(batch.due))
        for run in queue.runs.over(where):
            self._watch(run)
        return where

    def _answer(
        self,
        operation: OperationId,
        where: Interval,
        visible: list[Interval] | tuple[()],
        *,
        repeated: bool,
    ) -> None:
        settings = self._queue.settings
        told = PutDone(
            where.start, where.stop, settings.copies_needed, not settings.linger, repeated
        )

        def safe() -> None:
            for part in visible:
                self._queue.show(part)
            self._desk.reply(operation, told)

        self._journal.after(safe)

    def tick(self) -> None:
        """Drops what nobody published in its time."""
        staged = self._queue.staged
        over = staged.over(self._desk.wall)
        self._dropped([Lost(staged.dropped(name, batch), batch.keepers) for name, batch in over])
        if len(staged):
            self._desk.wake(soon(self._desk.now))
