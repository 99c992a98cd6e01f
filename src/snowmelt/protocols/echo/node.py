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


class EchoNode:
    """Answers and remembers.

    >>> from snowmelt.core.names import NodeId
    >>> operation = OperationId(NodeId("c1"), 1)
    >>> EchoNode().handle(Requested(operation, Echo(b"hey")), Instant(0))[0].message
    Echoed(body=b'hey')
    """

    def __init__(self) -> None:
        self._kept: dict[str, int] = {}  # name -> crc32 of its body, known safe
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
                self._kept[request.name] = crc32(request.body)
                return [Reply(one, Remembered(request.name)) for one in operations]
            case PersistFailed(ticket, reason):
                _, operations = self._writing.pop(ticket)
                return [Reply(one, Declined("DiskFull", reason)) for one in operations]
            case Loaded(ticket, (found,)):
                return self._loaded(ticket, found)
            case Started(records):
                self._kept = {one.key.decode(): int.from_bytes(one.value) for one in records}
                return []
            case _:
                return []

    def check(self) -> None:
        """What is being written is not yet called safe."""
        for request, operations in self._writing.values():
            digest = crc32(request.body)
            assert self._kept.get(request.name, digest) == digest, f"{request.name} changes"
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
            return self._write(operation, request)
        if self._kept[name] != crc32(request.body):
            return [Reply(operation, _taken(name))]
        return [self._load(operation, request)]  # a retry: look whether the disk still has it

    def _write(self, operation: OperationId, request: Remember) -> list[Effect[Answered]]:
        self._ticket += 1
        self._writing[self._ticket] = request, [operation]
        digest = crc32(request.body).to_bytes(4)
        name = request.name
        return [
            Persist(self._ticket, (Write(name.encode(), digest), Write(_bulk(name), request.body)))
        ]

    def _load(self, operation: OperationId, request: Recall | Remember) -> Load:
        self._ticket += 1
        self._reading[self._ticket] = operation, request
        return Load(self._ticket, (_bulk(request.name),))

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


def _taken(name: str) -> Declined:
    return Declined("BadOption", f"{name!r} was remembered with another body")
