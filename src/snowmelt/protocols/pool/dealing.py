"""Who should know whom, when consumers may know only some of the producers (rule 10).

Theory of operation
-------------------
Each consumer is dealt a hand of producers, again and again, and each time as much of what it holds
stays as can be. So the hands drift towards balance, one card at a time:

1. A hand has `share` producers: as many as the consumer may know, or more, if otherwise the hands
   of all consumers together would not hold every producer.
2. A hand that is short is filled up with the producers that the fewest other consumers know; from
   one that is too large those go that most others know.
3. A full hand changes one producer for another that at least two fewer consumers know. When no
   hand can, all degrees lie within one of each other: of two producers whose degrees differ by two,
   some consumer knows the one and not the other. Each change makes the sum of the squared degrees
   less, so there is an end to it.

Equals are taken by how near their points are to the consumer's, so that not all choose the same.
"""

from collections.abc import Container, Iterable, Sequence
from hashlib import blake2b
from heapq import nsmallest

from snowmelt.core.names import NodeId

Hand = tuple[NodeId, ...]
"""The producers that a consumer may probe, sorted."""


def point(text: str) -> int:
    """A number that looks drawn by chance and is the same in every process."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


class Degrees:
    """How many consumers know each producer, and which producers the fewest know.

    A producer may be absent and yet be known, until those who know it have heard so.
    """

    def __init__(self) -> None:
        self._counts: dict[NodeId, int] = {}
        self._points: dict[NodeId, int] = {}  # of those present
        self._levels: dict[int, dict[NodeId, None]] = {}  # those present, by their count

    def __len__(self) -> int:
        """How many producers are present."""
        return len(self._points)

    def __contains__(self, producer: NodeId) -> bool:
        return producer in self._points

    def count(self, producer: NodeId) -> int:
        """How many consumers know it."""
        return self._counts.get(producer, 0)

    def add(self, producer: NodeId) -> None:
        """A producer came. Takes O(1)."""
        self._points[producer] = point(producer)
        self._rise(producer)

    def remove(self, producer: NodeId) -> None:
        """A producer went. Takes O(1)."""
        self._sink(producer)
        del self._points[producer]

    def know(self, hand: Iterable[NodeId], *, by: int = 1) -> None:
        """One consumer more knows these, or, by -1, one fewer. O(hand)."""
        for producer in hand:
            present = producer in self
            if present:
                self._sink(producer)
            self._counts[producer] = self.count(producer) + by
            if not self._counts[producer]:
                del self._counts[producer]
            if present:
                self._rise(producer)

    def distance(self, producer: NodeId, place: int) -> int:
        """How near a producer's point is to a place."""
        return self._points[producer] ^ place

    def least_known(self, wanted: int, besides: Container[NodeId], near: int) -> list[NodeId]:
        """The producers that the fewest know. O(producers)."""
        found: list[NodeId] = []
        for level in sorted(self._levels):
            if len(found) >= wanted:
                break
            others = (one for one in self._levels[level] if one not in besides)
            missing = wanted - len(found)
            found += nsmallest(missing, others, key=lambda one: self.distance(one, near))
        return found

    def check(self, hands: Iterable[Hand]) -> None:
        """Every count is what the hands say, and every producer present stands at its count."""
        counts: dict[NodeId, int] = {}
        for hand in hands:
            for producer in hand:
                counts[producer] = counts.get(producer, 0) + 1
        assert self._counts == counts, "the degrees are not what the hands say"
        for level, producers in self._levels.items():
            assert producers, f"nobody has degree {level}, and yet it is kept"
            assert all(self.count(one) == level for one in producers)
        assert sum(map(len, self._levels.values())) == len(self._points)

    def _rise(self, producer: NodeId) -> None:
        self._levels.setdefault(self.count(producer), {})[producer] = None

    def _sink(self, producer: NodeId) -> None:
        level = self._levels[self.count(producer)]
        del level[producer]
        if not level:
            del self._levels[self.count(producer)]


def share(fan_out: int, producers: int, consumers: int) -> int:
    """How many producers a consumer must know for that nobody is left unknown.

    >>> share(3, producers=10, consumers=20), share(3, producers=10, consumers=2)
    (3, 5)
    """
    return max(fan_out, -(-producers // consumers))


def deal(
    consumer: NodeId, held: Sequence[NodeId], least: int, most: int, others: Degrees
) -> list[NodeId]:
    """What a consumer should know that holds these; `others` counts the other consumers.

    >>> degrees = Degrees()
    >>> for name in "abc":
    ...     degrees.add(NodeId(name))
    >>> degrees.know([NodeId("a")])
    >>> sorted(deal(NodeId("c-1"), [NodeId("a")], 2, 2, degrees))[0]
    'a'
    >>> sorted(deal(NodeId("c-1"), [], 2, 2, degrees))
    ['b', 'c']
    """
    place = _place(consumer)
    if len(held) > most:
        held = nsmallest(
            most, held, key=lambda one: (others.count(one), others.distance(one, place))
        )
    return [*held, *others.least_known(least - len(held), frozenset(held), place)]


def balance(consumer: NodeId, hand: Sequence[NodeId], others: Degrees) -> list[NodeId]:
    """The hand with one producer changed for a less known one, if there is one that matters.

    >>> degrees = Degrees()
    >>> for name in "ab":
    ...     degrees.add(NodeId(name))
    >>> degrees.know([NodeId("a")])
    >>> balance(NodeId("c-1"), [NodeId("a")], degrees)
    ['b']
    """
    if not hand:
        return []
    place = _place(consumer)
    known = max(hand, key=lambda one: (others.count(one), others.distance(one, place)))
    better = others.least_known(1, frozenset(hand), place)
    if not better or others.count(known) <= others.count(better[0]):
        return list(hand)
    return [one for one in hand if one != known] + better


def _place(consumer: NodeId) -> int:
    """Where a consumer stands among the points; not where it would as a producer."""
    return point(f"consumer/{consumer}")
