"""One queue as its master sees it: positions, where they lie, who holds them. It does no I/O.

Every admitted item that is not settled is *alive*, and is in exactly one of these states:

    pending     admitted, but the journal is not yet safe
    ready       waits to be handed out, at its own position
    aside       waits as well, but nobody who is here has it (`aside.py`)
    delayed     becomes ready at a moment
    leased      handed out under a token, until the lease ends
    assigned    a group's, until the group says that it is done with it
    dead        failed too often; waits for `redrive`

All of it is kept by the interval. What must survive is in records (`journal.py`); a change marks
the keys of the records it touches, and the journal asks for their new values when it writes. A
pending item is written like a ready one: the step that makes it safe makes it ready.

What is ready is given in the order of positions, and nothing from the first one on that fewer may
have than must (`early.py`, rule 7).
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final

import msgspec

from snowmelt.core.errors import LEASE_ENDED
from snowmelt.core.failures import failed
from snowmelt.core.instant import Instant
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.names import OperationId
from snowmelt.core.pieces import Pieces
from snowmelt.protocols.fifo.aside import Aside
from snowmelt.protocols.fifo.doubts import Doubts
from snowmelt.protocols.fifo.extents import Lane, Run, Runs
from snowmelt.protocols.fifo.groups import Groups
from snowmelt.protocols.fifo.leases import Lease, Leases
from snowmelt.protocols.fifo.limits import LIMITS, Limits
from snowmelt.protocols.fifo.messages import Extent
from snowmelt.protocols.fifo.producers import Producers
from snowmelt.protocols.fifo.publications import Publications
from snowmelt.protocols.fifo.settings import QueueSettings
from snowmelt.protocols.fifo.staged import Staged
from snowmelt.protocols.fifo.streams import Presence, Stream, living


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """How often an item was delivered in vain, and why the last time."""

    times: int
    reason: str


_NONE: Final = Failure(0, "")


class Lost(msgspec.Struct, frozen=True):
    """Nobody needs this part of a stream any more; these keep it."""

    extent: Extent
    keepers: tuple[str, ...]


Dropped = Callable[[list[Lost]], None]
"""Who sees to it that these are erased."""


class Queue:
    """The whole state of one queue.

    >>> queue = Queue("orders", QueueSettings())
    >>> where = queue.admit("n1/1/1", 0, 3, 300, ("n1/1",))
    >>> queue.show(where)
    >>> lease = queue.lease(OperationId("c-1", 1), 2, 1 << 20, Instant(0))
    >>> lease.left, queue.ready
    (IntervalSet([0, 2)), IntervalSet([2, 3)))
    >>> queue.settle(lease, [Interval(0, 2)]), queue.alive
    ([], IntervalSet([2, 3)))
    """

    def __init__(self, name: str, settings: QueueSettings, limits: Limits = LIMITS) -> None:
        self.name = name
        self.settings = settings
        self._limits = limits
        self.tail = 0
        self.bound = 0  # positions below this may have been told (`journal.py`, rule 5)
        self.doubts = Doubts()
        self.paused = False
        self.done = 0
        self.lost = 0
        self.bytes = 0
        self.runs = Runs(limits)
        self.alive = IntervalSet()
        self.ready = IntervalSet()
        self.aside = Aside(self.ready)
        self.dead = IntervalSet()
        self.streams: dict[str, Stream] = {}
        self.changed: dict[bytes, None] = {}
        self.producers = Producers(self.changed, self.doubts, limits)
        self.failures: Pieces[Failure] = Pieces(self.changed, b"y")
        self.delays: Pieces[int] = Pieces(self.changed, b"z")
        self.leases = Leases(settings.lease, self.changed, limits)
        self.groups = Groups(self.changed)
        self.staged = Staged(self.changed)
        self.publications = Publications(self.changed)
        self._dues: list[tuple[int, int, int]] = []
        # What it takes to tell where something lies, with names of a usual length.
        self._span_bytes = 160 + 112 * settings.replicas

    # --- items in ---------------------------------------------------------------------------------

    def fits(self, items: int, size: int) -> bool:
        """Whether the bounds leave room for so many items and bytes now."""
        settings = self.settings
        held = self.alive.total - self.dead.total
        items_fit = not settings.items_max or held + items <= settings.items_max
        bytes_fit = not settings.bytes_max or self.bytes + size <= settings.bytes_max
        return items_fit and bytes_fit

    def admit(
        self, stream: str, first: int, count: int, size: int, keepers: tuple[str, ...]
    ) -> Interval:
        """Gives positions to stored items; they stay pending until `show`."""
        interval = Interval(self.tail, self.tail + count)
        put = Lane(stream, first, count, size, keepers)
        # With a bound in bytes a strip is one put, so that its bytes are known when it goes.
        run = self.runs.add(self.tail, put, merge=not self.settings.bytes_max)
        self.tail += count
        self.bytes += size
        self.alive.add(interval)
        self._touch_run(run)
        self.changed[b"s"] = None
        return interval

    def show(self, interval: Interval) -> None:
        """The journal is safe: what is still alive of this becomes ready."""
        for part in self.alive.common(interval):
            self.ready.add(part)

    def delay(self, interval: Interval, due: int) -> None:
        """These are not to be handed out before a moment of the wall clock."""
        self.delays.put(interval, due)
        heappush(self._dues, (due, interval.start, interval.stop))
        if len(self._dues) > 4 * self.delays.count + 64:  # most are gone, and not heard of again
            self._dues = [(due, part.start, part.stop) for part, due in self.delays]
            heapify(self._dues)

    def cancel(self, interval: Interval) -> None:
        """The items were never stored after all: their positions stay empty, and lie nowhere.

        At the end of its lane they leave it: the same part of the stream may be admitted anew.
        """
        run = self.runs.holding(interval.start)
        self.bytes -= self.runs.void(run, interval)
        self._touch_run(run)
        if run.count == 0:
            self.runs.remove(run)
        self._withdrawn(interval)
        if run.count and not self.alive.common(run.interval):
            self.gone(run.interval)

    # --- items out --------------------------------------------------------------------------------

    def lease(
        self,
        operation: OperationId,
        items_max: int,
        bytes_max: int,
        now: Instant | None,
        *,
        ahead: bool = False,
    ) -> Lease | None:
        """Takes the first ready items that can be had, or None when there are none.

        The lease's time begins now; with None when it is told, and until then it can't be over.
        """
        if not gives(self):
            return None
        taken = self.take(items_max, bytes_max, passing=self.aside.begun)
        return self.leases.grant(operation, taken, now, ahead=ahead) if taken.total else None

    def take(
        self,
        items_max: int,
        bytes_max: int,
        below: int = 0,
        pieces_max: int = 0,
        *,
        passing: bool = False,
    ) -> IntervalSet:
        """Removes the first ready items, for whoever is to have them.

        With `passing` it passes over what can't be had.
        """
        taken, room, below = IntervalSet(), self._limits.spans_bytes, _given_below(self, below)
        strips = min(self._limits.lease_runs, room // self._span_bytes)
        while items_max > 0 and bytes_max > 0 and strips > 0 and room > 0 and self.ready.total:
            head = self.ready.first
            start, stop = head.start, head.stop
            if below < stop:
                stop = max(start, below)
            if start == stop or 0 < pieces_max <= taken.pieces:
                break
            run, least = self.runs.holding(start), 0 if taken.total else 1
            if passing:
                found = self.aside.first(run)
                if found.start == found.stop:
                    continue
                stop = min(stop, found.stop)
            head = Interval(start, min(stop, start + items_max, run.stop))
            part, room = _tellable(self.failures, head, room, least, self._span_bytes)
            count, size, used = run.fitting(part, items_max, bytes_max, strips, least)
            if count == 0:
                break
            part = Interval(start, start + count)
            self.ready.remove(part)
            taken.add(part)
            items_max -= count
            room -= used * self._span_bytes
            strips = min(strips - used, room // self._span_bytes)
            bytes_max -= size
        self.changed[b"s"] = None
        return taken

    def settle(self, lease: Lease, done: list[Interval]) -> list[Lost]:
        lost: list[Lost] = []
        for interval in done:
            for part in lease.left.common(interval):
                lease.left.remove(part)
                self.done += part.stop - part.start
                lost += self.gone(part)
        self.leases.shrunk(lease)
        return lost

    def give_back(
        self, lease: Lease, back: list[Interval], due: int, reason: str, *, dead: bool = False
    ) -> None:
        """These go back to their own positions; with a reason, as a delivery that failed.

        Those that are `dead` are so at once: as if they had failed as often as they may.
        """
        least = self.settings.deliveries_max if dead else 0
        parts = [part for interval in back for part in lease.left.common(interval)]
        for part in reversed(parts):  # from the end, where nothing behind them has to be moved
            lease.left.remove(part)
            lease.kept = False
        for part in parts:
            self._return(part, due, reason, least, ahead=lease.ahead)
        self.leases.shrunk(lease)

    def lapse(self, lease: Lease) -> None:
        """Nobody was heard of under it in its time."""
        self.give_back(lease, list(lease.left), 0, LEASE_ENDED)

    def give_up(self, interval: Interval, *, told: bool = True) -> list[Lost]:
        """No copy of these can be read any more; what was told to nobody is not lost to anybody."""
        if told:
            self.lost += sum(part.size for part in self.alive.common(interval))
        return self._withdrawn(interval)

    # --- time -------------------------------------------------------------------------------------

    def expire(self, now: Instant, wall: int) -> list[Lease]:
        """Ends the leases whose time is over, and makes ready what was delayed until now."""
        ended = self.leases.over(now)
        for lease in ended:
            self.lapse(lease)
        while self._dues and self._dues[0][0] <= wall:
            due, start, stop = heappop(self._dues)
            for part, its_due in self.delays.common(Interval(start, stop)):
                if its_due == due:
                    self.delays.clear(part)
                    self.ready.add(part)
        return ended

    def next_due(self) -> int | None:
        """When a delayed item becomes ready next, by the wall clock."""
        return self._dues[0][0] if self._dues else None

    # --- the queue as a whole ---------------------------------------------------------------------

    def purge(self, *, dead: bool) -> tuple[int, list[Lost]]:
        waiting = [*self.aside.waiting, *(part for part, _ in self.delays)]
        parts = list(self.dead) if dead else waiting
        lost: list[Lost] = []
        for part in reversed(parts):  # nothing lies behind what goes, and so nothing is moved
            lost += self.gone(part)
        count = sum(part.size for part in parts)
        self.done += count
        return count, lost

    def redrive(self, count: int) -> int:
        """Brings the first dead items back to their positions, as if they had never failed."""
        taken = self.dead.take(count)
        for part in reversed(taken):  # from the end, where nothing behind them has to be moved
            self.failures.clear(part)
        for part in taken:
            self.ready.add(part)
        return sum(part.size for part in taken)

    def pause(self, *, paused: bool) -> None:
        self.paused = paused
        self.changed[b"s"] = None

    def rehouse(self, run: Run, lane: Lane, keepers: tuple[str, ...]) -> None:
        self.runs.rehouse(run, lane, keepers)
        for part in self.aside.items.common(run.interval):
            for strip in run.strips(part):
                if strip.lane is lane:
                    self.aside.look_again(Interval(strip.start, strip.stop))
        self._touch_run(run)

    def check(self) -> None:
        """Asserts that no item is in two states, and that each lies in a run."""
        states = [self.ready, self.aside.items, self.dead]
        states += [IntervalSet(part for part, _ in self.delays)]
        states += [lease.left for lease in self.leases]
        for _, group in self.groups:  # which counts what was lost as well
            living = (part for piece in group.held for part in self.alive.common(piece))
            states.append(IntervalSet(living))
        seen = IntervalSet()
        for state in states:
            for part in state:
                assert not seen.common(part), f"{part} is in two states"
                assert self.alive.covers(part), f"{part} is in a state but not alive"
                seen.add(part)
        lying = IntervalSet(run.interval for run in self.runs)
        assert all(lying.covers(part) for part in self.alive), "alive, but nowhere"
        self.runs.check(self.alive)
        assert self.alive.total == 0 or next(reversed(list(self.alive))).stop <= self.tail

    # --- parts of the above -----------------------------------------------------------------------

    def restored(self) -> None:
        """After the records were read: what nobody holds waits. Any of them may be missing."""
        self.tail = max(self.tail, self.producers.tail)
        self._dues = [(due, part.start, part.stop) for part, due in self.delays]
        heapify(self._dues)
        for _, group in self.groups:
            for part in group.held:
                self.ready.remove(part)
        for lease in self.leases:
            left = IntervalSet(part for held in lease.left for part in self.ready.common(held))
            for part in left:
                self.ready.remove(part)
            self.leases.next_token = max(self.leases.next_token, lease.token + 1)
            if left != lease.left or left.total == 0:
                lease.left = left
                self.leases.shrunk(lease)

    def _wait(self, part: Interval, due: int) -> None:
        if due:
            self.delay(part, due)
        else:
            self.ready.add(part)

    def _withdrawn(self, interval: Interval) -> list[Lost]:
        """Nobody can have these any more, whoever holds them."""
        for lease in self.leases:
            if lease.left.common(interval):
                lease.left.remove(interval)
                self.leases.shrunk(lease)
        return self.gone(interval)

    def _return(
        self, interval: Interval, due: int, reason: str, least: int, *, ahead: bool
    ) -> None:
        if not reason:
            self._wait(interval, due)
            return
        for part, failure in failed_again(self.failures, interval, reason, least, ahead=ahead):
            self.failures.put(part, failure)
            if failure.times >= self.settings.deliveries_max:
                self.dead.add(part)
            else:
                self._wait(part, due)

    def gone(self, interval: Interval) -> list[Lost]:
        """These positions are settled: forgets them, and finds what their keepers may drop."""
        lost: list[Lost] = []
        self.ready.remove(interval)
        self.aside.items.remove(interval)
        self.dead.remove(interval)
        self.delays.clear(interval)
        self.failures.clear(interval)
        over = self.runs.over(interval)
        living = [self.alive.common(run.part(interval)) for run in over]
        self.alive.remove(interval)
        for run, lived in zip(over, living, strict=True):
            first = self.alive.first_in(run.interval)
            if first is None:
                lost += _dropped(run, run.count)
                self.bytes -= run.held
                self.runs.remove(run)
            else:
                self.bytes -= self.runs.gone(run, lived, self.alive)
                if _worth_dropping(run, first - run.start - run.dropped, self._limits):
                    lost += _dropped(run, first - run.start)
            self._touch_run(run)
        self.changed[b"s"] = None
        return lost

    def _touch_run(self, run: Run) -> None:
        self.changed[_run_key(run.start)] = None


def failed_again(
    failures: Pieces[Failure], where: Interval, reason: str, least: int, *, ahead: bool
) -> list[tuple[Interval, Failure]]:
    """How often each of these has failed now; so often at least."""
    known = failures.common(where)
    fresh = IntervalSet([where])
    for part, _ in known:
        fresh.remove(part)
    result: list[tuple[Interval, Failure]] = []
    for part, was in [*((part, _NONE) for part in fresh), *known]:
        times, why = failed(was.times, was.reason, reason, ahead=ahead)
        result.append((part, Failure(max(least, times), why)))
    return result


def gives(queue: Queue, below: int = 0) -> bool:
    """Whether something may be given now; something that lies below a position, if one is named."""
    if queue.paused or queue.ready.total == 0:
        return False
    return queue.ready.first.start < _given_below(queue, below)


def withholds(queue: Queue) -> bool:
    """Whether something is ready, may have been told as put, and may not be given yet."""
    if queue.paused or queue.doubts.unsure.total == 0 or gives(queue):
        return False
    held = Interval(_given_below(queue, 0), queue.tail)
    return not all(queue.doubts.is_untold(part) for part in queue.ready.within(held))


def found(queue: Queue, interval: Interval) -> None:
    """As many have these as must: they may be given, and nothing waits behind them."""
    queue.doubts.enough(interval)
    queue.aside.look_again(interval)


def _given_below(queue: Queue, below: int) -> int:
    """Nothing is given from the first on that fewer may have than must; or none from `below` on."""
    for part in queue.doubts.unsure if queue.doubts.unsure.total else ():
        first = queue.ready.first_in(part)
        if first is not None:
            return min(first, below or first)
    return below or queue.tail


def living_bytes(queue: Queue) -> int:
    """How many bytes the living items have; of a put settled in part, its share. O(runs)."""
    total = 0
    for run in queue.runs:
        parts = queue.alive.common(run.interval)
        if sum(part.size for part in parts) == run.count:
            total += run.bytes
        else:
            total += sum(strip.bytes for part in parts for strip in run.strips(part))
    return total


def keepers_of(queue: Queue, interval: Interval) -> list[tuple[str, ...]]:
    """Who keeps what still lives of this, of each of its parts."""
    return [
        strip.lane.keepers
        for run in queue.runs.over(interval)
        for part in queue.alive.common(interval.common(run.interval))
        for strip in run.strips(part)
    ]


def copies(queue: Queue, interval: Interval, presence: Presence) -> int:
    """On how many disks what still lives of this is, of its parts the least; 0 for nothing."""
    return min((living(one, presence) for one in keepers_of(queue, interval)), default=0)


def _dropped(run: Run, items: int) -> list[Lost]:
    """So many items at the front of a run are settled: what its keepers may drop now."""
    before, run.dropped = run.reach(run.dropped), items
    return [
        Lost(Extent(lane.stream, lane.first + begin, lane.first + stop), lane.keepers)
        for lane, begin, stop in zip(run.lanes, before, run.reach(items), strict=True)
        if begin < stop
    ]


def _tellable(
    failures: Pieces[Failure], head: Interval, room: int, least: int, span_bytes: int
) -> tuple[Interval, int]:
    """Of how many it can be told in so many bytes why they failed; and what is left of them."""
    for where, failure in failures.common(head):
        each = span_bytes + len(failure.reason.encode())
        if each * where.size > room:
            count = where.start - head.start + room // each
            return head.split(max(least, count))[0], 0
        room -= each * where.size
    return head, room


def _worth_dropping(run: Run, items: int, limits: Limits) -> bool:
    size = items * (run.bytes // run.count)
    return items >= limits.drop_items or size >= limits.drop_bytes


def _run_key(start: int) -> bytes:
    return b"x" + start.to_bytes(8)
