"""Putting staged batches into the queue: all that are named, in one step, once under one number.

1. What this producer published under this number is not published again; where it went is told.
   But when it is not the same that is to be published now (`publications.py`), that is refused:
   who says it is done would lose what is new in it.
2. All or nothing: when one of the batches is not staged any more, or there is no room for all of
   them together, nothing is put.
3. A batch whose keepers have all come back with other disks is not staged any more.
4. What goes into several queues is written down as a plan before any of them has its share. The
   first plan under a number stands, however a second one would share the same items out; it ends
   when the number is published in the queue that has the plan.
5. What was refused does not come: a question that is asked again, and was long on its way, is told
   the same, though there be room by now.
"""

from collections.abc import Callable

from snowmelt.core.interval import Interval
from snowmelt.core.names import OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.fifo.answers import Answers
from snowmelt.protocols.fifo.calls import Plan, Planned, Publish, PutDone, Receipt
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.journal import Journal
from snowmelt.protocols.fifo.messages import Entry
from snowmelt.protocols.fifo.publications import Publication, items_of
from snowmelt.protocols.fifo.queue import Dropped, Lost
from snowmelt.protocols.fifo.staged import StagedBatch, soon
from snowmelt.protocols.fifo.streams import gone_for_ever


class Publishing:
    def __init__(
        self,
        desk: Desk,
        journal: Journal,
        watch: Callable[[tuple[str, ...]], None],
        dropped: Dropped,
    ) -> None:
        self._desk = desk
        self._journal = journal
        self._queue = journal.queue
        self._watch = watch
        self._dropped = dropped
        self._refusals: Answers[Declined] = Answers(desk.limits.answered)

    def stage(self, stream: str, entry: Entry) -> None:
        """A segment was put with a hold; its verdict is `admission`'s matter."""
        until = self._desk.wall + entry.hold
        due = self._desk.moment(entry.due)
        batch = StagedBatch(entry.stop, entry.bytes, entry.keepers, due, until)
        self._queue.staged.keep((stream, entry.first), batch)
        self._desk.wake(soon(self._desk.now))

    def publish(self, operation: OperationId, ask: Publish) -> None:
        if self._refused_again(operation):
            return
        queue, number = self._queue, (ask.producer, ask.sequence)
        earlier = queue.producers.earlier(*number)
        if earlier is not None:  # rule 1
            other = queue.publications.other(ask, items_of(ask.receipts), earlier)
            if other:
                self._decline(operation, "AlreadyPublished", other)
            else:
                self._answer(operation, earlier, (), repeated=True)
            return
        past = queue.producers.past(*number)
        if past:
            self._decline(operation, "SequenceTooOld", past)
            return
        crowded = queue.producers.crowded(ask.producer)
        if crowded:
            self._tell(operation, Declined("Full", crowded))  # asked again, there may be room
            return
        found = [(one, queue.staged.named((one.stream, one.first))) for one in ask.receipts]
        batches = [(one, batch) for one, batch in found if self._is_there(one, batch)]
        refused = self._refused(ask, [batch for _, batch in batches if batch is not None])
        if refused is not None:
            self._decline(operation, *refused)
            return
        parts = [self._put(one, batch) for one, batch in batches if batch is not None]
        start = parts[0].start if parts else 0
        where = Interval(start, parts[-1].stop if parts else start)
        queue.producers.note(*number, where, self._desk.wall)
        queue.publications.end(ask, queue.producers.lately(ask.producer))
        visible = [part for part in parts if not queue.delays.common(part)]
        self._answer(operation, where, visible, repeated=False)

    def plan(self, operation: OperationId, ask: Plan) -> None:
        """A producer says what goes where (rule 4)."""
        if self._refused_again(operation):
            return
        queue, number = self._queue, (ask.producer, ask.sequence)
        earlier = queue.producers.earlier(*number)
        known = queue.publications.named(number)
        items = sum(items_of(one.receipts) for one in ask.shares)
        begun = known is not None and known.shares
        other = ""
        if begun or earlier is not None:
            other = queue.publications.other(ask, items, earlier)
        if other:
            self._decline(operation, "AlreadyPublished", other)
            return
        shares = known.shares if known is not None else ()
        if earlier is None and not begun:
            past = queue.producers.past(*number)
            if past:
                self._decline(operation, "SequenceTooOld", past)
                return
            text = queue.publications.too_many(ask)
            if text:
                self._decline(operation, "Full", text)
                return
            shares = ask.shares
            if shares:
                queue.publications.keep(number, Publication(ask.digest, items, shares))
        self._tell(operation, Planned(shares, ended=earlier is not None))

    def _refused_again(self, operation: OperationId) -> bool:
        """Rule 5."""
        before = self._refusals.of(operation)
        if before is not None:
            self._decline(operation, before.error, before.text)
        return before is not None

    def _decline(self, operation: OperationId, error: str, text: str) -> None:
        self._tell(operation, self._refusals.keep(operation, Declined(error, text)))

    def _tell(self, operation: OperationId, told: Planned | Declined) -> None:
        self._journal.after(lambda: self._desk.reply(operation, told))

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
        items = items_of(ask.receipts)
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
        self._watch(batch.keepers)
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
        staged = self._queue.staged
        over = staged.over(self._desk.wall)[: self._desk.limits.offers]  # the rest comes soon
        self._dropped([Lost(staged.dropped(name, batch), batch.keepers) for name, batch in over])
        if len(staged):
            self._desk.wake(soon(self._desk.now))
