"""What is at hand and could be done without: what was kept of late, leases that ended."""

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

import msgspec

from snowmelt.core.times import Time
from snowmelt.protocols.priority.batches import Shares, union

K = TypeVar("K")
V = TypeVar("V")


class Bulk(msgspec.Struct, frozen=True, array_like=True, gc=False):
    offsets: bytes
    blob: bytes
    headers: bytes = b""
    put_at: Time = 0

    @property
    def weight(self) -> int:
        """In memory, roughly; also of bodies that are empty."""
        return len(self.blob) + len(self.offsets) + len(self.headers)


class Recent(Generic[K, V]):
    """What was kept last, up to a weight of all of it; the oldest make room.

    >>> recent: Recent[int, str] = Recent(2)
    >>> for serial in (1, 2, 3): recent.keep(serial, "done", 1)
    >>> recent.get(1), recent.get(3)
    (None, 'done')
    """

    def __init__(self, weight_max: int) -> None:
        self._kept: dict[K, tuple[V, int]] = {}
        self._weight, self._weight_max = 0, weight_max

    def keep(self, key: K, value: V, weight: int) -> None:
        """In the place of what was kept under this key."""
        if key in self._kept:
            self.drop(key)
        self._kept[key] = value, weight
        self._weight += weight
        while self._weight > self._weight_max:
            self.drop(next(iter(self._kept)))

    def drop(self, key: K) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._weight -= kept[1]

    def get(self, key: K) -> V | None:
        """None when it is not known any more, or was not."""
        kept = self._kept.get(key)
        return None if kept is None else kept[0]

    def each(self, keys: Iterable[K]) -> list[V | None]:
        """What `get` says of each of many."""
        return [None if kept is None else kept[0] for kept in map(self._kept.get, keys)]


class Endings:
    """Under which tokens elements were acknowledged, the last ones of them.

    So an acknowledgement that comes again is told from one that comes too late.
    """

    def __init__(self, most: int = 16_384) -> None:
        self._shares: dict[int, Shares] = {}
        self._most = most

    def add(self, token: int, shares: Shares) -> None:
        """These went under this token."""
        known = self._shares.pop(token, ())
        self._shares[token] = union([*known, *shares]) if known else shares
        if len(self._shares) > self._most:
            del self._shares[next(iter(self._shares))]

    def of(self, token: int) -> Shares:
        return self._shares.get(token, ())

    def __iter__(self) -> Iterator[tuple[int, Shares]]:
        return iter(self._shares.items())
