"""Where items lie, for clients that fetch them: from the leader, or whoever follows it.

A span is of one block and one term: so whoever has a copy finds its batches, and gives none that
somebody put there in another term. One on data nodes is of one batch, and named by its place.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from snowmelt.core.interval import Interval
from snowmelt.core.pieces import Pieces
from snowmelt.protocols.queue.api.calls import NodeAddress, Span
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.replication.follower_progress import Followers
from snowmelt.protocols.queue.state.batches import KIND, Batches, StoredBatch, Within, parsed
from snowmelt.protocols.queue.state.failures import Failure
from snowmelt.protocols.queue.state.state import QueueState
from snowmelt.protocols.queue.store.copy import Copy
from snowmelt.protocols.queue.streams import gone_for_ever

PLACE_MAX: Final = 2**63
SPREAD_STREAM: Final = "spread/"


class Spans:
    """Of one queue, in one term."""

    def __init__(self, outbox: Outbox, state: QueueState, followers: Followers) -> None:
        self._outbox = outbox
        self.state = state
        self.followers = followers

    def of(self, positions: list[Interval], bytes_max: int) -> tuple[list[Span], int]:
        """The spans of what lives of these, and about how many bytes the items have.

        They end with the one that makes them take more than `bytes_max` to tell.
        """
        near, state, size = self._keepers(), self.state, 0
        spans: list[Span] = []
        for interval in positions:
            for part in state.batches.live.common(interval):
                for name, row in groupby(state.batches.over(part), self._stream):
                    within = list(row)
                    where, first = Interval(within[0][1], within[-1][2]), within[0][0]
                    keepers, away = self.nodes(first) if first.spread else near
                    shift = first.shift if first.spread else 0
                    for piece, times, reason in by_failures(state.failures, where):
                        edges = piece.start, piece.stop, name, piece.start + shift
                        keys = b"" if state.keyed is None else state.keys.row(piece)
                        spans.append(Span(*edges, keepers, times, reason, away, keys))
                        bytes_max -= spans[-1].weight
                        if bytes_max < 0:
                            return spans, size
                    size += sum([one.share(stop - first) for one, first, stop in within])
        return spans, size

    def _stream(self, within: Within) -> str:
        batch, _, _ = within
        if batch.spread:
            return f"{SPREAD_STREAM}{batch.place.start:x}/{batch.term}"
        return f"block/{self.state.batches.block(batch.start):x}/{batch.term}"

    def _keepers(self) -> tuple[tuple[NodeAddress, ...], bool]:
        """Who is here and has a copy, and whether one may come back that is not."""
        home = self.followers.home
        ready = [name for name, one in self.followers.all.items() if one.appended is not None]
        return self.here((home.master, *ready), home.mirrors)

    def nodes(self, batch: StoredBatch) -> tuple[tuple[NodeAddress, ...], bool]:
        """The same of one that lies on data nodes."""
        nodes = self.state.spread.held[batch.place.start].nodes
        return self.here(nodes, nodes)

    def here(
        self, ready: tuple[str, ...], named: tuple[str, ...]
    ) -> tuple[tuple[NodeAddress, ...], bool]:
        """Where those are of these nodes that are here, and whether others may come back."""
        presence = self._outbox.presence
        if presence is None:
            return (), True
        here = [presence.keepers[one] for one in ready if one in presence.keepers]
        away = [one for one in named if one not in presence.keepers]
        back = any(not gone_for_ever((one,), presence) for one in away)
        return tuple([NodeAddress(one.id, one.address) for one in here]), back


def by_failures(failures: Pieces[Failure], where: Interval) -> Iterator[tuple[Interval, int, str]]:
    """Positions by how often they failed, and why."""
    at = where.start
    for part, failure in failures.common(where):
        if at < part.start:
            yield Interval(at, part.start), 0, ""
        yield part, failure.times, failure.reason
        at = part.stop
    if at < where.stop:
        yield Interval(at, where.stop), 0, ""


def spread_batch(key: bytes, span: Span) -> StoredBatch | None:
    """The batch whose bodies have this key, at a span's positions; None where it is no such."""
    start, term, stop = parsed(key)
    shift = span.first - span.start
    if not start <= span.first < stop or start < shift:
        return None
    return StoredBatch(start - shift, stop - shift, 0, term, shift)


def batches_of(copy: Copy, span: Span) -> Iterator[Within]:
    """In which batches a span lies, from its start on, as far as this copy has them."""
    _, block, term = span.stream.split("/")
    place = int(block, 16)
    key = KIND + place.to_bytes(8) if place < PLACE_MAX else b""
    value = copy.records.get(key)
    if value is None or not copy.whole:
        return
    batches = Batches({})
    batches.restore(key, value)
    at = span.start
    for batch, first, stop in batches.over(Interval(span.start, span.stop)):
        if first != at or batch.term != int(term):
            return
        yield batch, first, stop
        at = stop
