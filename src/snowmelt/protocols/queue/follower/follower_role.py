"""A node as a follower: it takes the steps of whoever leads, and brings its copy up.

1. A leader of an earlier term than was heard of is told so, and nothing of it is taken.
2. Steps may come before those that they go behind: some wait for these.
3. A copy comes piece by piece, in order; a later head begins it anew. Where the first comes again,
   something was lost on the way: its sender is told which is the next.
4. What found no room is given up (`copy.py`, rule 6) where it is too much to be kept in memory, and
   where a later term or another copy comes, which does not wait for it. What is not heard for that
   comes again.
"""

from collections.abc import Iterable
from typing import Final

from snowmelt.core.names import NodeId
from snowmelt.core.record import Found
from snowmelt.protocols.queue.leader.terms import Terms
from snowmelt.protocols.queue.messages import words
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.replication.sending import with_bodies
from snowmelt.protocols.queue.store.copies import Copies
from snowmelt.protocols.queue.store.copy import Copy
from snowmelt.protocols.queue.streams import node_of

EARLY_STEPS: Final = 100


class FollowerRole:
    """Of all queues of a node."""

    def __init__(self, outbox: Outbox, copies: Copies, terms: Terms) -> None:
        self._outbox = outbox
        self._copies = copies
        self._terms = terms
        self._early: dict[str, dict[words.Head, words.Append]] = {}
        """Steps that came before those that they go behind, by these (rule 2)."""
        self._next: dict[str, tuple[int, words.Head, int]] = {}
        """By queue, of the copy that comes: its term, its head, and which piece is next."""
        self._records: dict[str, words.Pairs] = {}
        """Those that came with pieces so far."""

    def follows(self, source: NodeId, queue: str, term: int) -> Copy | None:
        """The copy that is to go by a term; None when that is not to be (rules 1 and 4)."""
        copy, own = self._copies.of(queue), self._terms.own(queue)
        if self._outbox.presence is None or self._outbox.alarm(source, queue, term, copy.fence):
            return None
        if term < copy.fence:
            self._outbox.send(source, words.Superseded(queue, copy.fence))
            return None
        if own == term or copy.undoing:
            return None  # only this node leads in it; or it is said again
        if own:
            self._terms.yields(queue)
        return copy

    def append(self, source: NodeId, step: words.Append) -> None:
        """A step of the leader's."""
        copy = self.follows(source, step.queue, step.term)
        if copy is None:
            return
        disk = self._copies.disk
        if disk.full and disk.overflows(step.queue) and self._copies.gives_up(step.queue):
            return
        has = copy.head if step.linger else copy.flushed
        if copy.whole and has >= step.head:
            told = words.Appended(step.queue, step.term, self._outbox.keeper, has)
            self._outbox.send(source, told)
        else:
            self._append(source, copy, step)

    def _append(self, source: NodeId, copy: Copy, step: words.Append) -> None:
        queue, keeper, early = step.queue, self._outbox.keeper, self._early.get(step.queue, {})
        if copy.whole and copy.head == step.after:
            self._take(source, copy, step)
            while (waiting := early.pop(copy.head, None)) is not None:
                self._take(source, copy, waiting)
        elif not copy.whole or copy.head < step.after:
            if step.after in early or len(early) >= EARLY_STEPS or self._copies.disk.full:
                self._early.pop(queue, None)
                self._outbox.send(source, words.AppendRejected(queue, step.term, keeper, copy.told))
            else:
                self._early.setdefault(queue, early)[step.after] = step

    def _take(self, source: NodeId, copy: Copy, step: words.Append) -> None:
        changes = copy.append(step)
        copy.remember(step, step.head.step)
        if step.term > copy.fence:
            changes += copy.raise_fence(step.term)
        told = words.Appended(step.queue, step.term, self._outbox.keeper, step.head)
        if step.linger and copy.flushed.term == step.term:  # else it would be sure of itself
            self._copies.disk.write(step.queue, changes, words.OwnStep(step.head), step.linger)
            self._outbox.send(source, told)
        else:
            self._copies.disk.write(step.queue, changes, words.SendWhenFlushed(source, told))

    def confirm(self, source: NodeId, ask: words.Confirm) -> None:
        """The leader asks whether it leads still."""
        if self.follows(source, ask.queue, ask.term) is not None:
            told = words.Confirmed(ask.queue, ask.term, self._outbox.keeper, ask.number)
            self._outbox.send(source, told)

    def fence(self, source: NodeId, fence: words.Fence) -> None:
        """Somebody leads in a later term, or is to."""
        queue, keeper = fence.queue, self._outbox.keeper
        if fence.keeper != keeper:
            return  # another disk's copy is meant
        copy = self.follows(source, queue, fence.term)
        if copy is None or self._copies.gives_up(queue):
            return
        if fence.run == self._outbox.stream:
            copy.reach = min(copy.reach, fence.head)
        told: words.Fenced | words.AppendRejected
        told = words.Fenced(queue, fence.term, keeper, copy.head, copy.sure)
        if not copy.whole:
            told = words.AppendRejected(queue, fence.term, keeper, words.NOTHING)
        self._next.pop(queue, None)
        self._records.pop(queue, None)
        self._copies.disk.write(
            queue, copy.raise_fence(fence.term), words.SendWhenFlushed(source, told)
        )

    def undone(self, queue: str, found: Iterable[Found]) -> None:
        """A copy is what is on the disk (rule 4)."""
        copy = self._copies.of(queue)
        if copy.undoing:  # else it was erased meanwhile
            copy.undo(found)
            self.forget(queue)

    def forget(self, queue: str) -> None:
        """What was on its way is for a copy that is none any more."""
        for coming in (self._early, self._next, self._records):
            coming.pop(queue, None)

    def piece(self, source: NodeId, piece: words.SnapshotChunk) -> None:
        """Some of a copy that replaces this one (rule 3)."""
        queue, taking = piece.queue, self._terms.taking(piece.queue, piece.term)
        if taking is not None:
            if node_of(taking.source) != source or taking.piece != (piece.head, piece.number):
                return
            taking.piece = None if piece.last else (piece.head, piece.number + 1)
            taking.tries = 0
            self._write(source, self._copies.of(queue), piece)
            return
        copy = self.follows(source, queue, piece.term)
        if copy is None:
            return
        if copy.whole and copy.head >= piece.head:  # it came before
            if copy.flushed >= piece.head:
                told = words.Appended(queue, piece.term, self._outbox.keeper, copy.flushed)
                self._outbox.send(source, told)
            return
        expected = self._next.get(queue)
        if expected is not None and (piece.term, piece.head) < expected[:2]:
            return
        if expected is None or expected[:2] != (piece.term, piece.head):
            if self._copies.gives_up(queue):
                return
            expected = piece.term, piece.head, 0
        if piece.number == expected[2]:
            self._next[queue] = piece.term, piece.head, piece.number + 1
            self._write(source, copy, piece)
        elif not (piece.number or self._copies.disk.has_stuck(queue)):
            self._copies.disk.write(
                queue, (), words.SendWhenFlushed(source, self._bring(piece, expected[2]))
            )

    def _write(self, source: NodeId, copy: Copy, piece: words.SnapshotChunk) -> None:
        queue, changes = piece.queue, tuple(copy.stored(piece.bodies))
        flush: words.Flush = words.Replaced(source, piece.head, piece.term)
        before = self._records.pop(queue, ())
        records = (*before, *piece.records) if piece.number else piece.records
        if piece.last:
            self._next.pop(queue, None)
            copy.fence = max(copy.fence, piece.term)
            places = [batch.place for batch in with_bodies(records)]
            changes += copy.replace(piece.head, records, places)
        else:
            self._records[queue] = records
            flush = words.SendWhenFlushed(source, self._bring(piece, piece.number + 1))
        self._copies.disk.write(queue, changes, flush)

    def _bring(self, piece: words.SnapshotChunk, number: int) -> words.Bring:
        return words.Bring(piece.queue, piece.term, self._outbox.keeper, piece.head, number)

    def replaced(self, queue: str, done: words.Replaced) -> None:
        """Another's copy is this node's own, and flushed."""
        self._copies.of(queue).flushed = done.head
        taking = self._terms.taking(queue, done.term)
        if taking is not None:
            self._terms.lead(queue, taking)
        else:
            told = words.Appended(queue, done.term, self._outbox.keeper, done.head)
            self._outbox.send(done.target, told)
