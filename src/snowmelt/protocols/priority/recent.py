"""What a shelf has at hand and could do without: bodies that came of late, leases that ended."""

from collections.abc import Iterator
from typing import Any

import msgspec

from snowmelt.core.names import NodeId
from snowmelt.protocols.priority.batches import Shares, union


class Bulk(msgspec.Struct, frozen=True, array_like=True):
    """The bulk record of a lot."""

    offsets: bytes
    blob: bytes
    headers: bytes = b""


class Recent:
    """Bodies that came of late, so that they need not be read again; by lots, up to some bytes."""

    def __init__(self, bytes_max: int = 64 << 20) -> None:
        self._bulks: dict[int, Bulk] = {}
        self._bytes, self._bytes_max = 0, bytes_max

    def keep(self, lot: int, bulk: Bulk) -> None:
        """The oldest make room."""
        self._bulks[lot] = bulk
        self._bytes += _weight(bulk)
        while self._bytes > self._bytes_max:
            self.drop(next(iter(self._bulks)))

    def drop(self, lot: int) -> None:
        """No use any more."""
        bulk = self._bulks.pop(lot, None)
        if bulk is not None:
            self._bytes -= _weight(bulk)

    def get(self, lot: int) -> Bulk | None:
        """Its bodies, if they are at hand."""
        return self._bulks.get(lot)


def _weight(bulk: Bulk) -> int:
    """Also of bodies that are empty."""
    return len(bulk.blob) + len(bulk.offsets) + len(bulk.headers)


class Answers:
    """What a home answered of late, so that it says the same to whoever has not heard it.

    >>> answers, n1 = Answers(pieces_max=2), NodeId("n1")
    >>> for serial in (1, 2, 3): answers.keep(n1, serial, "done", 1)
    >>> answers.get(n1, 1), answers.get(n1, 3)
    (None, 'done')
    """

    def __init__(self, pieces_max: int = 65_536) -> None:
        self._known: dict[tuple[NodeId, int], tuple[Any, int]] = {}
        self._pieces, self._pieces_max = 0, pieces_max

    def keep(self, door: NodeId, serial: int, answer: Any, pieces: int) -> None:
        """The oldest make room."""
        self._pieces += pieces - self._known.pop((door, serial), (None, 0))[1]
        self._known[door, serial] = answer, pieces
        while self._pieces > self._pieces_max:
            self._pieces -= self._known.pop(next(iter(self._known)))[1]

    def get(self, door: NodeId, serial: int) -> Any:
        """What it was answered to this; None when that is not known any more, or was not."""
        known = self._known.get((door, serial))
        return None if known is None else known[0]


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
        """What went under it."""
        return self._shares.get(token, ())

    def __iter__(self) -> Iterator[tuple[int, Shares]]:
        return iter(self._shares.items())
