"""The echo machine; its rules are numbered in the package's docstring."""

from typing import assert_never
from zlib import crc32

from snowmelt.core.instant import Instant
from snowmelt.core.names import OperationId
from snowmelt.core.node import (
    Effect,
    Event,
    Load,
    Loaded,
    Persist,
    Persisted,
    PersistFailed,
    Reply,
    Requested,
    Started,
)
from snowmelt.core.record import BULK, Damaged, Found, Missing, Record, Write
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.echo.messages import (
    Echo,
    Echoed,
    Recall,
    Recalled,
    Remember,
    Remembered,
    Request,
    Response,
)

Answered = Response | Declined
NAME_BYTES_MAX = 200
NAMES_MAX = 1_000
BODIES_MAX = 64 << 20
"""Bytes of all bodies together: nothing here is ever erased, so it must not fill a disk."""
_SIZE_BITS = 32


class EchoNode:
    """Answers and remembers.

    >>> from snowmelt.core.names import NodeId
    >>> operation = OperationId(NodeId("c1"), 1)
    >>> EchoNode().handle(Requested(operation, Echo(b"hey")), Instant(0))[0].message
    Echoed(body=b'hey')
    """

    def __init__(self) -> None:
        self._kept: dict[str, int] = {}  # name -> crc32 and size of its body, known safe
        self._size = 0  # of all bodies, with those that are being written
        self._ticket = 0
        self._writing: dict[int, tuple[Remember, list[OperationId]]] = {}
        self._reading: dict[int, tuple[OperationId, Recall | Remember]] = {}

    def handle(self, event: Event[Request], now: Instant) -> list[Effect[Answered]]:
        del now  # nothing here depends on time
        if type(event) is Requested and type(event.message) is Echo:  # a match costs twice as much
            return [Reply(event.operation, Echoed(event.message.body))]
        match event:
            case Requested(operation, Remember() as request):
                return self._remember(operation, request)
            case Requested(operation, Recall() as request):
                return [self._load(operation, request)]
            case Persisted(ticket):
                request, operations = self._writing.pop(ticket)
                if request.name in self._kept:  # the disk had lost it, and it came again
                    self._size -= len(request.body)
                self._kept[request.name] = _digest(request.body)
                return [Reply(one, Remembered(request.name)) for one in operations]
            case PersistFailed(ticket, reason):
                request, operations = self._writing.pop(ticket)
                self._size -= len(request.body)
                return [Reply(one, Declined("DiskFull", reason)) for one in operations]
            case Loaded(ticket, (found,)):
                return self._loaded(ticket, found)
            case Started(records):
                self._kept = {
                    one.key.decode(): int.from_bytes(one.value.ljust(8, b"\0")) for one in records
                }
                self._size = sum(one & ((1 << _SIZE_BITS) - 1) for one in self._kept.values())
                return []
            case _:
                return []

    def check(self) -> None:
        """What is being written is not yet called safe."""
        for request, operations in self._writing.values():
            digest = crc32(request.body)
            kept = self._kept.get(request.name, digest << _SIZE_BITS)
            assert kept >> _SIZE_BITS == digest, f"{request.name} changes"
            assert operations

    def _remember(self, operation: OperationId, request: Remember) -> list[Effect[Answered]]:
        name = request.name
        if not 0 < len(name.encode()) <= NAME_BYTES_MAX:
            text = f"a name has 1 to {NAME_BYTES_MAX} bytes, not {len(name.encode())}"
            return [Reply(operation, Declined("BadOption", text))]
        for other, operations in self._writing.values():
            if other == request:  # a retry that overtook the flush
                operations.append(operation)
                return []
            if other.name == name:
                return [Reply(operation, _taken(name))]
        if name not in self._kept:
            if len(self._kept) + len(self._writing) >= NAMES_MAX or (
                self._size + len(request.body) > BODIES_MAX
            ):
                text = f"{len(self._kept)} bodies in {self._size} bytes are remembered for good"
                text += f"; allowed are {NAMES_MAX} in {BODIES_MAX}"
                return [Reply(operation, Declined("Full", text))]
            return self._write(operation, request)
        if self._kept[name] >> _SIZE_BITS != crc32(request.body):
            return [Reply(operation, _taken(name))]
        return [self._load(operation, request)]  # a retry: look whether the disk still has it

    def _write(self, operation: OperationId, request: Remember) -> list[Effect[Answered]]:
        self._ticket += 1
        self._writing[self._ticket] = request, [operation]
        self._size += len(request.body)
        digest = _digest(request.body).to_bytes(8)
        name = request.name
        return [
            Persist(self._ticket, (Write(name.encode(), digest), Write(_bulk(name), request.body)))
        ]

    def _load(self, operation: OperationId, request: Recall | Remember) -> Load:
        self._ticket += 1
        self._reading[self._ticket] = operation, request
        return Load(self._ticket, (_bulk(request.name),), operation.client)

    def _loaded(self, ticket: int, found: Found) -> list[Effect[Answered]]:
        operation, request = self._reading.pop(ticket)
        match request:
            case Remember(name, body) if found == Record(_bulk(name), body):
                return [Reply(operation, Remembered(name))]
            case Remember():  # the disk lost the body; the retry brings it back
                return self._write(operation, request)
            case Recall(name):
                return [Reply(operation, self._recalled(name, found))]
            case _:
                assert_never(request)

    def _recalled(self, name: str, found: Found) -> Recalled:
        match found:
            case Record(_, body):
                return Recalled(name, body)
            case Missing():
                # A name without its body: the disk lost what it had flushed.
                return Recalled(name, None, damaged=name in self._kept)
            case Damaged():
                return Recalled(name, None, damaged=True)
            case _:
                assert_never(found)


def _bulk(name: str) -> bytes:
    return BULK + name.encode()


def _digest(body: bytes) -> int:
    """Of a body: its checksum, and its size in the lower bits."""
    return crc32(body) << _SIZE_BITS | len(body)


def _taken(name: str) -> Declined:
    return Declined("BadOption", f"{name!r} was remembered with another body")
