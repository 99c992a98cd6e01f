"""A server that does the least a queue must: it answers each frame, and may flush it before.

    python -m benchmarks.limits_parts.bare_server PORT FILE FLUSH CODEC [FOLLOWER ...]

FLUSH is `never`, or `turn`: what came in one turn of the loop is written and flushed in one piece,
and then answered. CODEC is `bytes`, or `put`: each frame is decoded as a put, and a true answer
encoded.
With followers (ports of such servers) a piece goes to all of them, and is answered when one of them
has flushed it as well: three copies, of which two must be safe.
"""

import asyncio
import os
import sys
from collections import deque
from typing import Any

import msgspec
import uvloop

from snowmelt.protocols.queue.calls import Put, PutDone

HEAD = 4
ANSWER = b"\x00" * 40


def framed(body: bytes) -> bytes:
    """A frame: how long it is, and it."""
    return len(body).to_bytes(HEAD) + body


class Cutter:
    """Bytes as they come, to whole frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def cut(self, data: bytes) -> list[bytes]:
        """The frames that are whole by now."""
        buffer, at, found = self._buffer, 0, []
        buffer += data
        while len(buffer) - at >= HEAD:
            stop = at + HEAD + int.from_bytes(buffer[at : at + HEAD])
            if stop > len(buffer):
                break
            found.append(bytes(buffer[at + HEAD : stop]))
            at = stop
        del buffer[:at]
        return found


class Disk:
    """What came in a turn goes to the file in one piece."""

    def __init__(self, path: str, flush: str) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        self._flush = flush == "turn"

    def write(self, frames: list[bytes]) -> None:
        """Written, and flushed if that is wanted."""
        if self._flush:
            os.write(self._file, b"".join(frames))
            os.fdatasync(self._file)


class Follower(asyncio.Protocol):
    """The link to a server that keeps another copy."""

    def __init__(self, heard: "Server") -> None:
        self._heard, self._cutter = heard, Cutter()
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for _ in self._cutter.cut(data):
            self._heard.followed(self)


class Server:
    """One file, and all who are connected."""

    def __init__(self, disk: Disk, codec: str) -> None:
        self.disk, self.codec = disk, codec
        self.followers: list[Follower] = []
        self._waiting: list[tuple[Any, bytes]] = []
        self._pieces: deque[list[tuple[Any, bytes]]] = deque()
        self._acked: dict[Follower, int] = {}
        self._answered = 0
        self._decoder = msgspec.msgpack.Decoder(Put)
        self._encoder = msgspec.msgpack.Encoder()

    def take(self, transport: Any, frame: bytes) -> None:
        """One more in this turn."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._turn)
        self._waiting.append((transport, frame))

    def _turn(self) -> None:
        piece, self._waiting = self._waiting, []
        frames = [frame for _, frame in piece]
        for follower in self.followers:
            follower.transport.write(framed(b"".join(frames)))
        if self.codec == "put":
            for frame in frames:
                self._decoder.decode(frame)
        self.disk.write(frames)
        self._pieces.append(piece)
        if not self.followers:
            self._answer()
        self._answer_followed()

    def followed(self, follower: Follower) -> None:
        """One of the others has the next piece, too."""
        self._acked[follower] = self._acked.get(follower, 0) + 1
        self._answer_followed()

    def _answer_followed(self) -> None:
        while self._pieces and max(self._acked.values(), default=0) > self._answered:
            self._answered += 1
            self._answer()

    def _answer(self) -> None:
        answers: dict[Any, list[bytes]] = {}
        for transport, _ in self._pieces.popleft():
            answer = ANSWER
            if self.codec == "put":
                answer = self._encoder.encode(PutDone(7, 8, copies=1, flushed=True, repeated=False))
            answers.setdefault(transport, []).append(framed(answer))
        for transport, several in answers.items():
            transport.write(b"".join(several))


class Session(asyncio.Protocol):
    """One client."""

    def __init__(self, server: Server) -> None:
        self._server, self._cutter = server, Cutter()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for frame in self._cutter.cut(data):
            self._server.take(self._transport, frame)


async def serve(port: int, path: str, flush: str, codec: str, *followers: str) -> None:
    """Until it is killed."""
    loop = asyncio.get_running_loop()
    server = Server(Disk(path, flush), codec)
    for other in followers:
        _, follower = await loop.create_connection(
            lambda: Follower(server), "127.0.0.1", int(other)
        )
        server.followers.append(follower)
    listener = await loop.create_server(lambda: Session(server), "127.0.0.1", port)
    await listener.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), *sys.argv[2:]))
