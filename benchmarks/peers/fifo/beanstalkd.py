"""beanstalkd with its log: a tube.

The protocol puts, reserves and deletes one job a command, and greenstalk waits for each answer, so
a batch here is a loop. A connection does one thing at a time, so that many tasks have one each.
"""

import asyncio
from collections.abc import Sequence
from itertools import cycle

import greenstalk
from benchmarks.peers import cores
from benchmarks.peers.comparison import WAIT_SECONDS, Peer
from benchmarks.peers.fifo.clients import QueuePeer
from benchmarks.peers.servers.beanstalkd import Beanstalkd

LEASE_SECONDS = 30


def tube(name: str, flush_ms: int) -> Peer:
    promise = f"flushes every {flush_ms} ms" if flush_ms else "flushes before it answers"
    return QueuePeer(
        name=name,
        promise=promise,
        service=Beanstalkd(flush_ms, cores.SERVER),
        above=flush_ms == 0,
        client=BeanstalkdClient,
        tasks=connect_tasks,
    )


class BeanstalkdClient:
    """One connection; a tube ends when its last job does."""

    def __init__(self, port: int, tube: str, batch: int) -> None:
        del batch
        self.base = greenstalk.Client(("127.0.0.1", port), encoding=None, use=tube, watch=tube)

    def put(self, bodies: list[bytes]) -> None:
        for body in bodies:
            self.base.put(body)

    def take(self, count: int) -> int:
        for taken in range(count):
            try:
                self.base.delete(self.base.reserve(timeout=0))
            except greenstalk.TimedOutError:
                return taken
        return count

    def settle(self) -> None:
        """Every call has settled what it took."""

    def close(self) -> None:
        self.base.close()


async def connect_tasks(
    port: int, tube: str, tasks: int, priorities: Sequence[int] = (0,)
) -> "TubeTasks":
    lines = [Line(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(tasks)]
    for line in lines:
        await line.ask(f"use {tube}\r\n".encode())
        await line.ask(f"watch {tube}\r\n".encode())
        await line.ask(b"ignore default\r\n")
    return TubeTasks(lines, priorities)


class Line:
    """One connection, spoken on as the protocol's page has it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, command: bytes) -> list[bytes]:
        """The words of the answer."""
        self.writer.write(command)
        return (await self.reader.readline()).split()


class TubeTasks:
    """A connection for each task; a put takes one that is free."""

    def __init__(self, lines: list[Line], priorities: Sequence[int]) -> None:
        self.lines = lines
        self.next = cycle(priorities)
        self.free: asyncio.LifoQueue[Line] = asyncio.LifoQueue()
        for line in lines:
            self.free.put_nowait(line)

    async def put(self, body: bytes) -> None:
        line = await self.free.get()
        head = f"put {next(self.next)} 0 {LEASE_SECONDS} {len(body)}\r\n".encode()
        answer = await line.ask(head + body + b"\r\n")
        self.free.put_nowait(line)
        expect(answer, b"INSERTED")

    async def take(self, task: int) -> None:
        line = self.lines[task]
        answer = await line.ask(f"reserve-with-timeout {WAIT_SECONDS:.0f}\r\n".encode())
        expect(answer, b"RESERVED")
        await line.reader.readexactly(int(answer[2]) + 2)
        expect(await line.ask(b"delete " + answer[1] + b"\r\n"), b"DELETED")

    async def settle(self, task: int) -> None:
        """Every call has settled what it took."""

    async def close(self) -> None:
        for line in self.lines:
            line.writer.close()


def expect(answer: list[bytes], word: bytes) -> None:
    if answer[:1] != [word]:
        raise RuntimeError(f"beanstalkd said {answer} instead of {word!r}")
