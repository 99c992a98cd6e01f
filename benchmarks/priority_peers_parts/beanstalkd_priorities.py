"""beanstalkd with its log: a tube, each job with its priority.

The protocol puts, reserves and deletes one job a command, and greenstalk waits for each answer, so
a batch here is a loop. A connection does one thing at a time, so that many tasks have one each.
"""

import asyncio
from functools import partial

import greenstalk
from benchmarks.fifo.beanstalkd import BeanstalkdClient, BeanstalkdPeer
from benchmarks.fifo.peer import WAIT_SECONDS, Connect
from benchmarks.priority_peers_parts.peer import ConnectTasks, urgencies

LEASE_SECONDS = 30


class PrioritiesPeer(BeanstalkdPeer):
    """The server that flushes its log before it answers."""

    def client(self, queue: str, batch: int) -> Connect:
        del batch
        return partial(PrioritiesClient, self.port, queue)

    def tasks(self, queue: str, tasks: int) -> ConnectTasks:
        return partial(connect_tasks, self.port, queue, tasks)


class PrioritiesClient(BeanstalkdClient):
    """One connection."""

    def __init__(self, port: int, tube: str) -> None:
        super().__init__(port, tube)
        self.next = urgencies()

    def put(self, bodies: list[bytes]) -> None:
        for body in bodies:
            self.base.put(body, priority=next(self.next), ttr=LEASE_SECONDS)

    def take(self, count: int) -> int:
        for taken in range(count):
            try:
                job = self.base.reserve(timeout=0)
            except greenstalk.TimedOutError:
                return taken
            self.base.delete(job)
        return count


async def connect_tasks(port: int, tube: str, tasks: int) -> "PrioritiesTasks":
    lines = [Line(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(tasks)]
    for line in lines:
        await line.ask(f"use {tube}\r\n".encode())
        await line.ask(f"watch {tube}\r\n".encode())
        await line.ask(b"ignore default\r\n")
    return PrioritiesTasks(lines)


class Line:
    """One connection, spoken on as the protocol's page has it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, command: bytes) -> list[bytes]:
        """The words of the answer."""
        self.writer.write(command)
        return (await self.reader.readline()).split()


class PrioritiesTasks:
    """A connection for each task; a put takes one that is free."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines = lines
        self.free: asyncio.LifoQueue[Line] = asyncio.LifoQueue()
        for line in lines:
            self.free.put_nowait(line)

    async def put(self, body: bytes, priority: int) -> None:
        line = await self.free.get()
        head = f"put {priority} 0 {LEASE_SECONDS} {len(body)}\r\n".encode()
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
