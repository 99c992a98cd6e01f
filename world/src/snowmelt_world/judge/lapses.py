"""What a queue's promise does not cover, from when to when, and because of what.

An excuse is an interval of one queue. Each rests on a sentence of docs/explanation:

1. "What `put` returned for is not lost while fewer than `durable_copies` of its copies lose their
   disks." When so many have, whatever was told until then may be undone: items, leases,
   acknowledgements and positions. A disk with a record of the state that can't be read when its
   process begins is as good as lost. A disk counts until all is whole again: until a look round at
   which no item lacked a copy, begun so long after the node was back that all have heard of it.
2. "Damage on one disk loses nothing that another has." What can't be read on so many disks as must
   have a copy may be lost; nothing else may.
3. With `flush` in seconds, killed processes, on all nodes that have it, "may take what was told
   within that time": a queue that was resumed is paused again. A process that stands still flushes
   nothing, so that time does not count. "Positions are not given again": what stood at one says for
   good what it means, and no token may be used for something else. An item whose place was safe on
   other nodes is counted as lost.
4. "All this holds while no disk is put back from an older copy of itself." What was told since that
   copy was taken may be undone; what was told before may not, unless it still lingered then (3).
5. "The coordinator's disk is lost: this cluster can't go on" (docs/explanation/membership.md). From
   then on nothing is judged.
6. "The disks of all copies, lost: the queue waits for one of them." As many as its `replicas` were,
   before all was whole again; then it need not answer any more, and while it does, it is judged.

What was told outside of these intervals is judged, and so is all that happens in them and needs
nothing that was told: bodies, headers, order, bounds.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.names import NodeId
from snowmelt_world.faults import (
    Fault,
    FillingDisk,
    FullDisk,
    LongPause,
    Pause,
    PowerCut,
    SlowDisk,
    SlowNode,
    Stalls,
)
from snowmelt_world.judge.values import FOR_EVER, Terms

NEWS: Final = seconds(19)
"""After so long everybody current has a view with whoever came back."""

Reads = Callable[[], bool]


class Lapse(msgspec.Struct, frozen=True):
    """What was told, or on its way, between these instants may be undone."""

    since: Instant
    until: Instant
    reason: str
    names: bool
    """Whether positions and tokens told then may come to mean something else."""

    def covers(self, called: Instant, returned: Instant) -> bool:
        """Whether a call was on its way at any time of it."""
        return self.since <= returned and called <= self.until


class Hurt(msgspec.Struct):
    at: Instant
    reason: str
    back: Instant | None
    """When its node ran again; None while it does not."""
    damaged: Reads | None = None
    """Of one record: whether it still can't be read."""


class Lapses:
    def __init__(self, terms: Terms, lapsed: Callable[[Lapse], None]) -> None:
        self.lapses: list[Lapse] = []
        self.lost_bodies: Lapse | None = None
        """Items put within it may be lost."""
        self.copies_vanish = False
        """Whether a disk lacks what nobody knows that it lacks."""
        self._terms = terms
        self._lapsed = lapsed
        self._hurt: dict[NodeId, Hurt] = {}
        self._bodies: dict[bytes, dict[NodeId, Hurt]] = {}
        self._died: dict[NodeId, Instant] = {}
        self._lacks: dict[NodeId, Instant] = {}
        """Those that died while flushes lingered, since all was whole: they may lack bodies (3)."""

    def cover(self, called: Instant, returned: Instant) -> Lapse | None:
        """The lapse that what was told then fell into, if any; of two, the one that takes more."""
        found = (lapse for lapse in self.lapses if lapse.covers(called, returned))
        return max(found, key=lambda lapse: lapse.names, default=None)

    @property
    def losing(self) -> tuple[Lapse, ...]:
        """Items put within these may be lost."""
        return (*self.lapses, *(() if self.lost_bodies is None else (self.lost_bodies,)))

    @property
    def may_lose(self) -> bool:
        """Whether any item may be lost; the end judges which."""
        return bool(self.losing)

    @property
    def any_hurt(self) -> bool:
        return bool(self._hurt or self._bodies or self.copies_vanish)

    @property
    def not_back(self) -> bool:
        """Whether a disk was lost since all was whole."""
        return any(hurt.damaged is None for hurt in self._hurt.values())

    @property
    def gone(self) -> bool:
        """Whether nobody may be left who keeps the queue (6)."""
        lost = sum(hurt.damaged is None for hurt in self._hurt.values())
        return lost >= self._terms.replicas

    def fewer(self, replicas: int) -> None:
        """There may be no more copies than these from now on."""
        least = min(replicas, self._terms.replicas)
        self._terms = msgspec.structs.replace(self._terms, replicas=least)

    # --- disks (1, 2) -----------------------------------------------------------------------------

    def hurt(
        self,
        node: NodeId,
        at: Instant,
        reason: str,
        damaged: Reads | None = None,
    ) -> None:
        """A node lost its disk, or a record of the state."""
        self._hurt[node] = Hurt(at, reason, at if damaged else None, damaged)
        self._weigh(at, reason)

    def set_back(self, at: Instant, taken: Instant) -> None:
        """A node has what it had then (4)."""
        self._add(Lapse(taken, at, "older disk", names=True))
        self.copies_vanish = True

    def back(self, node: NodeId, at: Instant) -> None:
        hurt = self._hurt.get(node)
        if hurt is not None and hurt.back is None:
            hurt.back = at

    def whole(self, called: Instant) -> None:
        """Asked at that moment, the queue said that no item lacks a copy."""
        for node, hurt in list(self._hurt.items()):
            known = hurt.back is not None and later(hurt.back, NEWS) <= called
            if known and not _stays(hurt):
                del self._hurt[node]
        self._lacks = {node: at for node, at in self._lacks.items() if later(at, NEWS) > called}

    def hurt_body(self, node: NodeId, at: Instant, record: bytes, damaged: Reads) -> None:
        self._bodies.setdefault(record, {})[node] = Hurt(at, "damaged", at, damaged)
        self._weigh(at, "record damaged")

    def _weigh(self, at: Instant, reason: str) -> None:
        needed = self._terms.copies_needed
        for node, hurt in list(self._hurt.items()):
            if hurt.damaged is not None and not _stays(hurt):
                del self._hurt[node]
        if len(self._hurt) >= needed:
            self._add(Lapse(Instant(0), at, reason, names=True))
        for hurts in self._bodies.values():
            there = {node for node, one in hurts.items() if _stays(one)}
            if hurts and len(there.union(self._hurt, self._lacks)) >= needed:
                self._lose(at, reason)

    def _add(self, lapse: Lapse) -> None:
        self.lapses.append(lapse)
        if lapse.names and (not lapse.since or self.lost_bodies is None):
            self.lost_bodies = Lapse(lapse.since, lapse.until, lapse.reason, names=False)
        self._lapsed(lapse)

    def _lose(self, until: Instant, reason: str) -> None:
        self.lost_bodies = Lapse(Instant(0), until, reason, names=False)

    # --- flushes that linger (3) ------------------------------------------------------------------

    def died(self, node: NodeId, at: Instant, lingering: Duration) -> None:
        """A process ended; what lingered for so long at most is gone."""
        if not self._terms.linger:
            return
        self._died[node] = self._lacks[node] = at
        together = [one for one in self._died.values() if later(one, lingering) >= at]
        # With those whose disks are hurt, so many may be without it.
        hurt = [one for one in self._hurt if one not in self._died]
        if len(together) + len(hurt) >= self._terms.copies_needed:
            since = Instant(max(0, min(together) - lingering))
            # The bound above all positions may be in a record that can't be read by now (1).
            damaged = sum(_stays(one) for one in self._hurt.values())
            names = damaged >= self._terms.copies_needed
            self._add(Lapse(since, at, "killed while lingering", names=names))

    # --- the whole cluster (5) --------------------------------------------------------------------

    def ends(self, at: Instant) -> None:
        """The cluster can't go on."""
        del at  # what was told before it is as lost as what comes
        self._add(Lapse(Instant(0), FOR_EVER, "coordinator's disk lost", names=True))


def lingering(faults: Sequence[Fault], node: NodeId, at: Instant, linger: Duration) -> Duration:
    """How long before its end a process may have told something that is not on its disk (3).

    For as long as it may linger, and two flushes, however slow; the time that it stands still does
    not count. With a disk that is full, for as long as that. A disk that fails adds nothing: what
    it had taken until then is on it, and the process ends with the first flush that it fails.
    """
    begun = [fault for fault in faults if fault.at <= at]
    time = linger + linger // 20 + milliseconds(300)
    # What is slow first: what a full disk held up is slow to be flushed afterwards, too.
    for until, extra in _slowness(begun, node):
        if at - time - 3 * extra <= until:
            time += 3 * extra
    for still in reversed(list(_stillness(begun, node, at))):
        if at - time <= still.stop:
            time += still.size
    for fault in begun:
        match fault:
            case FullDisk() | FillingDisk() if fault.node == node and at - time <= fault.until:
                time = max(time, at - fault.at + linger)
            case _:
                pass
    return Duration(time)


def _slowness(faults: Sequence[Fault], node: NodeId) -> Iterator[tuple[Instant, Duration]]:
    """Until when each flush of a node took so much longer."""
    for fault in faults:
        match fault:
            case SlowDisk() | SlowNode() if fault.node == node:
                yield fault.until, fault.extra
            case PowerCut() if node in fault.nodes:
                yield fault.fails, fault.extra
            case _:
                pass


def _stillness(faults: Sequence[Fault], node: NodeId, at: Instant) -> IntervalSet:
    """When a process stood still, until this moment."""
    still = IntervalSet()
    for fault in faults:
        match fault:
            case Pause() | LongPause() if fault.node == node:
                still.add(Interval(fault.at, min(fault.until, at)))
            case Stalls() if node in fault.nodes:
                for begun in fault.times:
                    if begun < at:
                        until = min(later(begun, fault.length), fault.until, at)
                        still.add(Interval(begun, until))
            case _:
                pass
    return still


def _stays(hurt: Hurt) -> bool:
    return hurt.damaged is not None and hurt.damaged()
