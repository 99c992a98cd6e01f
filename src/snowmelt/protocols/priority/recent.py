"""What a shelf has at hand and could do without: bodies that came of late, leases that ended."""

from collections.abc import Iterator

import msgspec

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
