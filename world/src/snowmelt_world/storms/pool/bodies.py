"""What is put: an id, a filling that depends on it, and a checksum of both."""

from random import Random
from typing import Final
from zlib import crc32

HEAD: Final = 8
SUM: Final = 4
STEP: Final = 4099


class DamagedBody(Exception):
    """A body that nobody has made so."""


class ObjectBodies:
    """Makes bodies of up to so many bytes.

    >>> body = ObjectBodies(size_max=1000).make(7, 100)
    >>> len(body), id_of(body)
    (100, 7)
    """

    def __init__(self, size_max: int) -> None:
        self._filling = memoryview(Random(1).randbytes(size_max + STEP))

    def make(self, id_: int, size: int) -> bytes:
        """The body of an object."""
        head = id_.to_bytes(HEAD)
        first = id_ % STEP
        filling = self._filling[first : first + size - HEAD - SUM]
        return b"".join((head, filling, crc32(filling, crc32(head)).to_bytes(SUM)))


def id_of(body: bytes | bytearray | memoryview) -> int:
    """Which object it is; raises `DamagedBody`."""
    view = memoryview(body)
    id_ = int.from_bytes(view[:HEAD])
    if len(view) <= HEAD + SUM or crc32(view[:-SUM]) != int.from_bytes(view[-SUM:]):
        raise DamagedBody(f"{len(view)} bytes that begin as those of {id_}")
    return id_
