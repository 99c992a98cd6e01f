"""A real node in this process, and a stranger with a socket who may send it anything."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self

import msgspec

from greetings import speaker, whole
from snowmelt.core.errors import MessageError
from snowmelt.core.instant import milliseconds
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.calling import Answer, Call
from snowmelt.protocols.echo import Echo, Echoed
from snowmelt.protocols.membership import MembershipSettings
from snowmelt.runtime.credentials import channel_of
from snowmelt.runtime.folders import found_on_disk
from snowmelt.runtime.server import NodeConfig, Server
from snowmelt.runtime.statistics import ConnectionStatistics
from snowmelt.wire.codec import MessageDecoder, encode
from snowmelt.wire.framing import FrameReader, Kind, framed
from snowmelt.wire.greeting import Goodbye, Role, heard
from snowmelt.wire.sides import Dialling

ANYWHERE = Address("127.0.0.1", 0)
QUICK = MembershipSettings(interval=milliseconds(200), grace=milliseconds(100))
PATIENCE = 20.0


@asynccontextmanager
async def serving(folder: Path, name: str = "n1", **config: Any) -> AsyncIterator["Serving"]:
    """A node that listens on a free port until the test ends."""
    config.setdefault("listen", ANYWHERE)
    config.setdefault("settings", QUICK)
    if not (config.get("join") or config.get("etcd") or (folder / name).exists()):
        found_on_disk(folder / name, NodeId(name))
    server = Server(NodeConfig(id=NodeId(name), data=folder / name, **config))
    address = await server.start()
    try:
        yield Serving(server, address)
    finally:
        await server.stop(depart=False)


class Serving:
    """A node, where it is, and what it counts."""

    def __init__(self, server: Server, address: Address) -> None:
        self.server = server
        self.address = address

    @property
    def closed(self) -> dict[str, int]:
        return self.server.statistics().closed

    def connection(self, peer: str) -> ConnectionStatistics:
        """What it counts of one; nothing yet while that has not shown who it is."""
        found = [one for one in self.server.statistics().connections if one.peer == whole(peer)]
        return (
            found[0] if found else ConnectionStatistics(whole(peer), "", True, 0, 0, 0, 0, 0, 0, 0)
        )


class Stranger:
    """One raw connection. All its waits end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader()
        self._came: list[tuple[Kind, bytes]] = []

    @classmethod
    async def dial(
        cls, address: Address, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
    ) -> Self:
        """From a host: all of 127.0.0.0/8 is here, and each of these is another one to a node."""
        name = "" if tls else None
        dial = asyncio.open_connection(
            address.host,
            address.port,
            ssl=tls,
            server_hostname=name,
            limit=1 << 16,
            local_addr=(host, 0),
        )
        return cls(*await asyncio.wait_for(dial, PATIENCE))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.transport.abort()
        with suppress(OSError):
            await self._writer.wait_closed()

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    def say(self, *messages: Any) -> None:
        self.send(b"".join(framed(Kind.MESSAGE, encode(one)) for one in messages))

    def end(self) -> None:
        self._writer.write_eof()

    async def frame(self) -> tuple[Kind, bytes]:
        while not self._came:
            data = await asyncio.wait_for(self._reader.read(1 << 20), PATIENCE)
            if not data:
                raise EOFError
            self._came = self._frames.feed(data)
        return self._came.pop(0)

    async def greet(self, name: str = "c-stranger", role: Role = Role.CLIENT, **more: str) -> Self:
        side = Dialling(speaker(name, role, **more), channel=self._channel)
        self.send(side.first)
        kind, payload = await self.frame()
        assert kind is Kind.WELCOME, (kind, payload)
        self.send(side.hear(kind, payload)[0])
        return self

    def _channel(self) -> bytes:
        return channel_of(self._writer.get_extra_info("ssl_object"))

    async def answer(self) -> Answer[Any]:
        kind, payload = await self.frame()
        assert kind is Kind.MESSAGE, (kind, payload)
        return MessageDecoder.for_clients().decode(payload)

    async def goodbye(self) -> Goodbye:
        """Reads until the node has said why it goes, and has gone."""
        while True:
            kind, payload = await self.frame()
            if kind is Kind.GOODBYE:
                break
        try:
            await self.frame()
        except (EOFError, ConnectionResetError):
            return heard(payload, Goodbye)
        raise AssertionError("the connection goes on after the goodbye")

    async def gone(self) -> None:
        """Reads until the connection is no more, said or not."""
        try:
            while True:
                await self.frame()
        except (EOFError, OSError):
            return

    async def is_served(self, body: bytes = b"still there?") -> None:
        self.say(Call(1, Echo(body)))
        assert await self.answer() == Answer(1, Echoed(body))


def reads(request: Any) -> bool:
    """Whether it is a call at all: what is beyond the bounds of its type is none."""
    try:
        MessageDecoder.for_callers().decode(encode(Call(1, request)))
    except (MessageError, OverflowError):
        return False
    return True


async def cut_off(address: Address, request: Any) -> None:
    """Whoever says what does not read is told so, and is connected no more."""
    async with await Stranger.dial(address) as other:
        await other.greet("c-absurd")
        other.say(Call(1, request))
        assert (await other.goodbye()).error == "MessageError"


async def until(done: Callable[[], Any]) -> None:
    """Waits for what no event tells, and not for ever."""
    async with asyncio.timeout(PATIENCE):
        while not done():
            await asyncio.sleep(0.01)


def packed(value: Any) -> bytes:
    return framed(Kind.MESSAGE, msgspec.msgpack.encode(value))
