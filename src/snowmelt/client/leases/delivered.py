"""What a get brought: items under one lease, as they came, with no object made for any of them.

A `LeasedItems` is the part of a lease that the faces share: which positions it holds, what of it is
still open, how long it lasts by this process' clock, and whether it is known to be lost.

Positions here are *places*: a position as its queue has it, with the rank of its priority in the
upper bits, which is 0 in a fifo. So the items of a lease are one set of numbers, whatever queue
they came from.
"""

import struct
import threading
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain, count, pairwise, repeat
from operator import attrgetter
from typing import Final, TypeGuard
from weakref import ref

import msgspec

from snowmelt.client.connection.forking import Origin
from snowmelt.client.leases.token import LeaseToken, secret_of
from snowmelt.client.queue.ranks import Ranks
from snowmelt.core import spans, times
from snowmelt.core.batch import OFFSET_BYTES, Batch
from snowmelt.core.errors import BadOption, LeaseLost
from snowmelt.core.headers import Headers
from snowmelt.core.instant import Duration, Instant, later
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.keys import KEY_BYTES, key_at, unpacked
from snowmelt.core.keys import part as keys_of
from snowmelt.protocols.queue.api.asking import INDEX_MAX
from snowmelt.protocols.queue.api.calls import SECRET_BYTES, ItemRun
from snowmelt.protocols.queue.api.labels import sliced, unpack
from snowmelt.protocols.queue.api.settings import LEASE_LONGEST
from snowmelt.protocols.queue.state.tails import PRIORITY_BITS
from snowmelt.runtime.clock import steady_now

REASON_BYTES: Final = 1000
PLACE_BITS: Final = PRIORITY_BITS
_ONE: Final = struct.Struct("<2i")
_START: Final = attrgetter("start")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ItemSelection(ItemRun, frozen=True):
    """Items with what they have in common: of a priority queue, or some of another run.

    They lie at adjacent places, but for what a get of any priorities brings from many puts.
    """

    kind: Ranks | None = None
    """What its priorities mean; None where they are what they are."""


class LateRefusal(msgspec.Struct, frozen=True):
    """An update of a lease came too late."""

    why: str
    lost: tuple[Interval, ...] | None = None
    """Only these are not held any more; None when it is all of the lease."""

    def of(self, some: tuple[Interval, ...]) -> tuple[Interval, ...]:
        """Which of these it was about."""
        if self.lost is None:
            return some
        held = IntervalSet(some)
        return tuple([one for lost in self.lost for one in held.common(lost)])


def part_bodies(part: ItemRun) -> list[bytes]:
    """The bodies of a part, each as bytes of its own. O(bytes)."""
    if len(part.offsets) == 2 * OFFSET_BYTES:
        first, last = _ONE.unpack(part.offsets)
        return [part.blob if last - first == len(part.blob) else part.blob[first:last]]
    blob = part.blob
    edges = struct.unpack(f"<{len(part.offsets) // OFFSET_BYTES}i", part.offsets)
    return [blob[start:stop] for start, stop in pairwise(edges)]


def portion(part: ItemRun, first: int, stop: int) -> ItemRun:
    """Some of the items of a part, with their own bytes alone. O(bytes)."""
    if not first and stop == part.count:
        return part
    lies, own = part.start + first, b""
    kind = part.kind if type(part) is ItemSelection else None
    keys = keys_of(part.keys, first, stop) if part.keys else b""
    if part.spans:
        own = spans.part(part.spans, first, stop)
        lies, own = spans.edges_of(own)[0], own if len(own) > spans.SPAN_BYTES else b""
    headers = sliced(part.headers, first, stop) if part.headers else b""
    put_at = times.sliced(part.times, first, stop)
    if stop == first + 1:
        start, end = _ONE.unpack_from(part.offsets, first * OFFSET_BYTES)
        edges = _ONE.pack(0, end - start)
        body = part.blob[start:end]
        failures, reason = part.failures, part.reason
        return ItemSelection(lies, edges, body, headers, failures, reason, put_at, keys, kind=kind)
    some = Batch.known(part.offsets, part.blob).slice(first, stop).trimmed()
    return ItemSelection(
        lies,
        bytes(some.offsets),
        bytes(some.blob),
        headers,
        part.failures,
        part.reason,
        put_at,
        keys,
        own,
        kind,
    )


def _index(part: ItemRun, place: int) -> int:
    """Which of a part's items lies at a place."""
    if part.spans:
        return spans.index_of(part.spans, place)
    return place - part.start


def places_of(part: ItemRun) -> Sequence[int]:
    """Where the items of a part lie, in order."""
    if part.spans:
        return spans.places(part.spans)
    return range(part.start, part.start + part.count)


def _stretches(part: ItemRun) -> tuple[Interval, ...]:
    if part.spans:
        return spans.stretches(part.spans)
    return (Interval(part.start, part.start + part.count),)


def label_of(part: ItemRun, position: int) -> tuple[bytes | None, Headers]:
    """The key and the headers of the item at a position of a part."""
    return unpack(part.headers).of(_index(part, position))


def priority_of(part: ItemRun, place: int) -> int | float:
    """Of the item at a place of a part: it is in the place, or goes with the part."""
    if type(part) is not ItemSelection or part.kind is None:
        return place >> PLACE_BITS
    if part.keys:
        return part.kind.told(key_at(part.keys, _index(part, place)))
    return part.kind.told(place >> PLACE_BITS)


def position_of(place: int) -> int:
    """Where the item at a place stands, among those of its priority."""
    return place & (1 << PLACE_BITS) - 1


def in_order(parts: tuple[ItemRun, ...]) -> tuple[ItemRun, ...]:
    """The same items, the most urgent first: what lies together comes with its keys, in no order.

    >>> from snowmelt.core.keys import packed
    >>> edges = b"".join(at.to_bytes(4, "little") for at in range(3))
    >>> rest = b"ab", b"", 0, "", b""
    >>> parts = [ItemSelection(at, edges, *rest, packed([at, 6]), kind=Ranks("q")) for at in (5, 9)]
    >>> [(one.start, one.blob, priority_of(one, one.start)) for one in in_order(tuple(parts))]
    [(5, b'ab', 5), (10, b'b', 6), (9, b'a', 9)]
    """
    if not _keyed(parts):
        return parts
    owners, places, order = _ordered(parts)
    found: list[ItemRun] = []
    first = 0
    for stop in range(1, len(order) + 1):
        part, place = owners[order[stop - 1]], places[order[stop - 1]]
        after = order[stop] if stop < len(order) else -1
        if after < 0 or places[after] != place + 1 or owners[after] is not part:
            start = _index(part, places[order[first]])
            found.append(portion(part, start, start + stop - first))
            first = stop
    return tuple(found)


def items_of(parts: tuple[ItemRun, ...]) -> Iterator[tuple[ItemRun, bytes, int]]:
    """Each item of several parts in order: the part, the body and the place.

    Threads may share it, as no generator is.
    """
    if not _keyed(parts):
        rows = [zip(repeat(part), part_bodies(part), count(part.start)) for part in parts]
        return rows[0] if len(rows) == 1 else chain.from_iterable(rows)
    owners, places, order = _ordered(parts)
    bodies = [body for part in _by_place(parts) for body in part_bodies(part)]
    return zip(
        map(owners.__getitem__, order),
        map(bodies.__getitem__, order),
        map(places.__getitem__, order),
        strict=True,
    )


def _keyed(parts: tuple[ItemRun, ...]) -> TypeGuard[tuple[ItemSelection, ...]]:
    first = parts[0] if parts else None
    if type(first) is not ItemSelection or not first.keys:
        return False
    return len(parts) > 1 or len(first.keys) > KEY_BYTES


def _by_place(parts: Iterable[ItemSelection]) -> list[ItemSelection]:
    return sorted(parts, key=_START)


def _ordered(parts: tuple[ItemSelection, ...]) -> tuple[list[ItemSelection], list[int], list[int]]:
    """Of each item by place its part and its place; and which is first, which next."""
    several = _by_place(parts)
    owners = list(chain.from_iterable([repeat(part, part.count) for part in several]))
    places = list(chain.from_iterable(map(places_of, several)))
    keys = list(chain.from_iterable([unpacked(part.keys) for part in several]))
    order: Iterable[int] = range(len(keys))
    if len(several) > 1 and any(part.spans for part in several):  # theirs lie between each other
        order = sorted(order, key=places.__getitem__)
    return owners, places, sorted(order, key=keys.__getitem__)


def put_at_of(part: ItemRun, place: int) -> datetime | None:
    """When the item at a place of a part was put; None where that is not known.

    >>> from snowmelt.protocols.queue.api.calls import ItemRun
    >>> part = ItemRun(7, bytes(8), b"", times=times.whole(1, 1_700_000_000_123_456_789))
    >>> str(put_at_of(part, 7)), put_at_of(ItemRun(7, bytes(8), b""), 7)
    ('2023-11-14 22:13:20.123456+00:00', None)
    """
    time = times.at(part.times, _index(part, place))
    return _EPOCH + timedelta(microseconds=time // 1000) if time else None


def joined(parts: tuple[ItemRun, ...]) -> Batch:
    """The bodies of all parts as one batch; nothing is copied when there is one part. O(bytes).

    >>> from snowmelt.protocols.queue.api.calls import ItemRun
    >>> one = Batch.of([b"a", b"b"])
    >>> part = ItemRun(5, bytes(one.offsets), bytes(one.blob))
    >>> [bytes(body) for body in joined((part, part))]
    [b'a', b'b', b'a', b'b']
    """
    if _keyed(parts):
        return Batch.of([body for _, body, _ in items_of(parts)])
    return as_they_lie(parts)


def as_they_lie(parts: Sequence[ItemRun]) -> Batch:
    """The same, in the order of the parts."""
    if len(parts) == 1:
        return Batch(parts[0].offsets, parts[0].blob)
    edges, blobs, base = [0], [], 0
    for part in parts:
        if (
            len(part.offsets) == 2 * OFFSET_BYTES
        ):  # one item; a queue put into one by one is all such
            first, last = _ONE.unpack(part.offsets)
            base += last - first
            edges.append(base)
        else:
            own = array("i", part.offsets)
            first, last = own[0], own[-1]
            shift = base - first
            edges += [edge + shift for edge in own[1:]]
            base += last - first
        blobs.append(part.blob if last - first == len(part.blob) else part.blob[first:last])
    return Batch(struct.pack(f"<{len(edges)}i", *edges), b"".join(blobs))


def told_interval(where: Interval) -> Interval:
    """As a person sees it: within its priority.

    >>> told_interval(Interval((2 << PLACE_BITS) + 7, (2 << PLACE_BITS) + 9))
    Interval(start=7, stop=9)
    """
    start = position_of(where.start)
    return Interval(start, start + where.size)


def runs(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """The same positions in as few intervals as can be.

    >>> runs([Interval(3, 5), Interval(0, 3)])
    (Interval(start=0, stop=5),)
    """
    return tuple(IntervalSet(intervals))


def by_lease(
    hands: Iterable[tuple["LeasedItems", Interval]],
) -> dict["LeasedItems", list[Interval]]:
    """What of each lease these are."""
    found: dict[LeasedItems, list[Interval]] = {}
    for delivered, where in hands:
        found.setdefault(delivered, []).append(where)
    return found


def shortened(reason: str) -> str:
    r"""A reason as a node takes it: at most so many bytes, and letters that UTF-8 has, all whole.

    >>> shortened("no file caf\udce9")  # as the system names one that is in another encoding
    'no file caf\\udce9'
    """
    return reason.encode(errors="backslashreplace")[:REASON_BYTES].decode(errors="ignore")


def positions_of(parts: tuple[ItemRun, ...]) -> tuple[Interval, ...]:
    """Where parts lie, one after another; neighbours become one."""
    if len(parts) == 1:
        return _stretches(parts[0])
    found: list[Interval] = []
    start = stop = parts[0].start
    for one in chain.from_iterable(map(_stretches, parts)):
        if one.start != stop:
            found.append(Interval(start, stop))
            start = one.start
        stop = one.stop
    return (*found, Interval(start, stop))


def _in_turn(parts: tuple[ItemSelection, ...]) -> tuple[Interval, ...]:
    """Where items lie, one behind the other as they are in order."""
    _, places, order = _ordered(parts)
    found: list[Interval] = []
    start = stop = places[order[0]]
    for at in order:
        if places[at] != stop:
            found.append(Interval(start, stop))
            start = places[at]
        stop = places[at] + 1
    return (*found, Interval(start, stop))


class LeaseShare(msgspec.Struct, eq=False):
    """What one caller holds of a lease that several have: its own time, and none of the bodies."""

    of: "ref[LeasedItems]"
    left: IntervalSet
    ends: Instant


class LeasedItems:
    """Items under one lease; where several callers share it, those of one of them."""

    __slots__ = (
        "__weakref__",
        "_lock",
        "_origin",
        "_returned",
        "_share",
        "_shares",
        "ends",
        "gone",
        "lease",
        "left",
        "lost",
        "parts",
        "token",
    )

    def __init__(
        self, token: int, parts: tuple[ItemRun, ...], lease: Duration, ends: Instant
    ) -> None:
        self._origin = Origin()
        self._returned: tuple[Interval, ...] = ()
        self._lock = threading.Lock()  # a consumer and who renews its leases are two threads
        self._share: LeaseShare | None = None
        self._shares: list[LeaseShare] = []
        """All of the lease, this one's among them; who shares it has the same list, and lock."""
        self.token = token
        self.parts = parts
        self.lease = lease
        self.ends = ends
        self.lost = ""  # why the lease is not held any more
        self.gone: tuple[Interval, ...] = ()
        """What was refused of it: it is with others by now, though the rest may be held."""
        self.left = IntervalSet(positions_of(parts))
        """What is neither acknowledged nor given back."""

    def __len__(self) -> int:
        return sum([part.count for part in self.parts])

    @property
    def positions(self) -> tuple[Interval, ...]:
        """Where its items lie, in their order. O(items) where priorities have no number."""
        return _in_turn(self.parts) if _keyed(self.parts) else positions_of(self.parts)

    def open_in(self, where: Interval | None) -> tuple[Interval, ...]:
        """What of some positions, or of all, is still to be settled."""
        with self._lock:
            return tuple(self.left) if where is None else tuple(self.left.common(where))

    def settled(self, intervals: Collection[Interval]) -> None:
        with self._lock:
            self.left.remove_all(intervals)

    def refused(self, refused: LateRefusal) -> None:
        with self._lock:
            before = self.left.total
            gone = [one for lost in refused.lost or () for one in self.left.common(lost)]
            self.left.remove_all(gone)
            self.gone = *self.gone, *gone
            if before and (refused.lost is None or not self.left.total):
                self.lost = refused.why

    def returned(self, intervals: tuple[Interval, ...]) -> None:
        """The loop that these came in has ended, and they go back."""
        self._returned = intervals

    def check_process(self) -> None:
        """Raises `LeaseLost` in a child of the process that leased."""
        if self._origin.left:
            raise LeaseLost(
                f"lease {self.token} is held by the process that this one was forked from: "
                "acknowledge there, or get items in this one"
            )

    def check_own(self, where: Interval | None = None) -> None:
        """Raises `LeaseLost` there too, and when these went back with the loop they came in."""
        self.check_process()
        for one in self._returned:
            if where is None or one.common(where).size:
                raise LeaseLost(
                    f"position {one.start if where is None else where.start} went back when the "
                    "loop that it came in ended; acknowledge what was got before the loop is left"
                )

    @property
    def loss(self) -> str:
        """Why it, or some of it, is known not to be held any more; empty while all is."""
        if self.lost or not self.gone:
            return self.lost
        count = sum(one.size for one in self.gone)
        return f"{count} of {len(self)} items of lease {self.token} are not held any more"

    def check_kept(self, where: Interval | None) -> None:
        """Raises `LeaseLost` when some of these were refused before."""
        for one in self.gone:
            if where is None or one.common(where).size:
                position = position_of(one.start)
                raise LeaseLost(
                    f"position {position} of lease {self.token} is not held any more: it was "
                    "refused before"
                )

    @property
    def positions_told(self) -> tuple[Interval, ...]:
        """Its positions as a person sees them: each priority counts for itself."""
        return tuple([told_interval(one) for one in self.positions])

    @property
    def renewal(self) -> Instant:
        """When a third of it is over."""
        return Instant(self.ends - self.lease + self.lease // 3)

    def extended(self, now: Instant) -> None:
        """It lasts a whole lease from now."""
        self.ends = later(now, self.lease)
        if self._share is not None:
            self._share.ends = self.ends

    def divided(self, hands: Sequence[tuple[ItemRun, ...]]) -> "list[LeasedItems | None]":
        """In parts, each one caller's; None for who has nothing."""
        found = [
            LeasedItems(self.token, hand, self.lease, self.ends) if hand else None for hand in hands
        ]
        mates = [one for one in found if one is not None]
        shares = [LeaseShare(ref(one), one.left, one.ends) for one in mates]
        for one, share in zip(mates, shares, strict=True):
            one.shares(share, shares, self._lock)
        return found

    def shares(self, own: LeaseShare, shares: list[LeaseShare], lock: threading.Lock) -> None:
        """It is one of several parts of a lease; called before any other caller has it."""
        self._share, self._shares, self._lock = own, shares, lock

    def overdue(self, now: Instant) -> tuple[list[LeaseShare], tuple[Interval, ...]]:
        """Who of the same lease did not extend it and is over time, and what they hold."""
        with self._lock:
            late = [one for one in self._shares if one is not self._share and one.ends <= now]
            return late, runs([interval for one in late for interval in one.left])

    def passed_on(self, shares: Sequence[LeaseShare]) -> None:
        with self._lock:
            self._shares[:] = [one for one in self._shares if one not in shares]
            for one in shares:
                holder = one.of()
                if holder is not None and one.left.total:
                    holder.lost = f"lease {self.token} ran out before it was extended"

    def check_held(self, now: Instant) -> None:
        """Raises `LeaseLost` when it is known to be over."""
        if not self.lost and now >= self.ends:
            self.lost = f"lease {self.token} ran out before it was extended"
        if self.lost:
            raise LeaseLost(self.lost)


def held_elsewhere(token: int, place: int, secret: bytes = b"") -> LeasedItems:
    """One item under a lease of which only these are known; its nodes know whether it is held.

    >>> held_elsewhere(7, 5).left
    IntervalSet([5, 6))
    >>> held_elsewhere(7, -1)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: position is -1; allowed: 0 to 4611686018427387904
    """
    for option, value in (("token", token), ("position", place)):
        if type(value) not in (int, LeaseToken) or not 0 <= value <= INDEX_MAX:
            raise BadOption(option, value, f"0 to {INDEX_MAX}")
    if type(secret) is not bytes or len(secret) > SECRET_BYTES:
        raise BadOption("secret", secret, f"bytes, at most {SECRET_BYTES}")
    part = ItemSelection(place, bytes(2 * OFFSET_BYTES), b"", b"", 0, "")
    token = LeaseToken.of(token, secret or secret_of(token))
    return LeasedItems(token, (part,), LEASE_LONGEST, later(steady_now(), LEASE_LONGEST))
