"""beanstalkd with its log: a tube.

The protocol puts, reserves and deletes one job a command, and greenstalk waits for each answer, so
a batch here is a loop. A connection does one thing at a time, so that many tasks have one each.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import cycle
from pathlib import Path

import greenstalk
from benchmarks.fifo.peer import EVERY, WAIT_SECONDS, Connect, ConnectTasks
from benchmarks.fifo.server import Server, program, said_by

from snowmelt.cli.local import free_port

JOB_BYTES_MAX = 8 << 20
LEASE_SECONDS = 30


class BeanstalkdPeer:
    """One server that flushes its log at most once in some milliseconds; with 0, always."""

    def __init__(self, name: str, flush_ms: int) -> None:
        self.name = name
        self.promise = f"flushes every {flush_ms} ms" if flush_ms else "flushes before it answers"
        self.flushes_first = flush_ms == 0
        self.ways = EVERY
        self.version = ""
        self.flush_ms = flush_ms
        self.port = free_port()
        self.server: Server | None = None

    def start(self, folder: Path) -> None:
        beanstalkd = program("beanstalkd", "beanstalkd")
        self.version = said_by(beanstalkd, "-v")
        (folder / "log").mkdir()
        command = [beanstalkd, "-l", "127.0.0.1", "-p", str(self.port), "-b", str(folder / "log")]
        command += ["-f", str(self.flush_ms), "-z", str(JOB_BYTES_MAX)]
        self.server = Server(command, folder, self.port)
        self.server.start()

    def client(self, queue: str, batch: int) -> Connect:
        del batch
        return partial(BeanstalkdClient, self.port, queue)

    def tasks(self, queue: str, tasks: int) -> ConnectTasks:
        return partial(connect_tasks, self.port, queue, [0], tasks)

    def stop(self) -> None:
        if self.server:
            self.server.stop()


class BeanstalkdClient:
    """One connection; a tube ends when its last job does."""

    def __init__(self, port: int, tube: str) -> None:
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


async def connect_tasks(port: int, tube: str, priorities: Sequence[int], tasks: int) -> "TubeTasks":
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
