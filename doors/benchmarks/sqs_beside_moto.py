"""How many messages go through the SQS door, beside moto's server, in one run.

    python doors/benchmarks/sqs_beside_moto.py [--seconds 3] [--rounds 2]

Each of them serves the same requests of JSON over the same sockets, made without an SDK: one costs
more than what is measured here. The door is asked over a node, whose queue is on a disk, and over a
folder; moto keeps messages in its memory. Told are messages a second, the best round of each, and
the processor time of all processes of that server, microseconds a message.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "suites"))
import sqs as suites

BODY = "x" * 100
TICKS = os.sysconf("SC_CLK_TCK")
HEAD = (
    "POST / HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Type: application/x-amz-json-1.0\r\n"
    "X-Amz-Target: AmazonSQS.{action}\r\nX-Amz-Date: 20260101T000000Z\r\n"
    "Authorization: AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/sqs/aws4_request, "
    "SignedHeaders=host;x-amz-date, Signature={zeros}\r\nContent-Length: {length}\r\n\r\n"
)
SERVERS = ("moto", "door over a node", "door over a folder")


class Connection:
    """One request after another; a server may close it after each."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, action: str, **said: Any) -> dict[str, Any]:
        """What is answered; raises for an error."""
        body = json.dumps(said).encode()
        words = {"port": self._port, "action": action, "zeros": "0" * 64, "length": len(body)}
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(HEAD.format(**words).encode() + body)
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        heads = dict(line.split(": ", 1) for line in lines if line)
        told = await reader.readexactly(int(heads.get("content-length", 0)))
        if heads.get("connection") == "close":
            self.close()
        if first.split()[1] != "200":
            raise RuntimeError(f"{action}: {told.decode()[:300]}")
        found: dict[str, Any] = json.loads(told) if told else {}
        return found

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


async def send(one: Connection, url: str, size: int) -> int:
    """One message, or ten at once."""
    if size == 1:
        await one.ask("SendMessage", QueueUrl=url, MessageBody=BODY)
    else:
        entries = [{"Id": str(at), "MessageBody": BODY} for at in range(size)]
        await one.ask("SendMessageBatch", QueueUrl=url, Entries=entries)
    return size


async def take(one: Connection, url: str, size: int) -> int:
    """Received, and deleted."""
    told = await one.ask("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=size)
    some = told.get("Messages", [])
    if size == 1 and some:
        await one.ask("DeleteMessage", QueueUrl=url, ReceiptHandle=some[0]["ReceiptHandle"])
    elif some:
        entries = [
            {"Id": str(at), "ReceiptHandle": each["ReceiptHandle"]} for at, each in enumerate(some)
        ]
        await one.ask("DeleteMessageBatch", QueueUrl=url, Entries=entries)
    return len(some)


Work = Callable[[Connection, str, int], Awaitable[int]]


@asynccontextmanager
async def connected(port: int, many: int) -> AsyncIterator[list[Connection]]:
    some = [Connection(port) for _ in range(many)]
    try:
        yield some
    finally:
        for one in some:
            one.close()


async def rate(work: Work, port: int, url: str, many: int, size: int, seconds: float) -> int:
    """How many messages in so many seconds."""
    until = time.monotonic() + seconds

    async def go(one: Connection) -> int:
        done = 0
        while time.monotonic() < until:
            done += await work(one, url, size)
        return done

    async with connected(port, many) as some:
        return sum(await asyncio.gather(*[go(one) for one in some]))


async def fill(port: int, url: str, messages: int) -> None:
    async with connected(port, 8) as some:
        for _ in range(0, messages, 80):
            await asyncio.gather(*[send(one, url, 10) for one in some])


NAMES = count()


async def made(port: int) -> str:
    """A new queue; its URL."""
    async with connected(port, 1) as [one]:
        told = await one.ask("CreateQueue", QueueName=f"speed-{next(NAMES)}")
        url: str = told["QueueUrl"]
        return url


def spent(programs: list[subprocess.Popen[bytes]]) -> float:
    """Seconds of processor of all of them."""
    rows = [
        Path(f"/proc/{one.pid}/stat").read_text().rpartition(")")[2].split() for one in programs
    ]
    return sum(int(row[11]) + int(row[12]) for row in rows) / TICKS


@contextmanager
def served(kind: str, folder: Path) -> Iterator[tuple[int, list[subprocess.Popen[bytes]]]]:
    """Where it is, and its processes."""
    program, port = [sys.executable, "-m", "snowmelt"], suites.free()
    door = [*program, "sqs", "--listen", f"127.0.0.1:{port}"]
    if kind == "moto":
        python = suites.MOTO.folder / "env" / "bin" / "python"
        commands = [[str(python), "-m", "moto.server", "-p", str(port)]]
    elif kind == "door over a folder":
        commands = [[*door, "--data", str(folder / "folder")]]
    else:
        node, data = suites.free(), ["--data", str(folder / "node"), "--id", "n1"]
        subprocess.run([*program, "found", *data], check=True, stdout=subprocess.DEVNULL)
        commands = [
            [*program, "node", *data, "--listen", f"127.0.0.1:{node}"],
            [*door, "--url", f"snowmelt://127.0.0.1:{node}"],
        ]
    quiet = subprocess.DEVNULL
    programs = [subprocess.Popen(one, stdout=quiet, stderr=quiet) for one in commands]
    try:
        suites.wait_for(port)
        yield port, programs
    finally:
        for one in reversed(programs):
            one.send_signal(signal.SIGTERM)
        for one in programs:
            one.wait(30)


def main() -> None:
    """Prints a row for each kind of work."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    suites.prepare(suites.MOTO)
    server = suites.MOTO.folder / "env" / "bin" / "python"
    named = f"moto[server]=={suites.MOTO.version}"
    subprocess.run([server, "-m", "pip", "install", "-q", named, suites.BOTO], check=True)
    best: dict[tuple[str, str], tuple[float, float]] = {}
    for _ in range(options.rounds):
        for kind in SERVERS:
            with tempfile.TemporaryDirectory() as folder, served(kind, Path(folder)) as running:
                for name, rates in measured(*running, options.seconds):
                    best[name, kind] = max(best.get((name, kind), (0.0, 0.0)), rates)
                    print(f"{kind}: {name}: {rates[0]:.0f} a second, {rates[1]:.0f} us", flush=True)
    print("\n| | " + " | ".join(SERVERS) + " |\n|---|" + "---|" * len(SERVERS))
    for name in dict.fromkeys(name for name, _ in best):
        cells = [f"{best[name, kind][0]:.0f} ({best[name, kind][1]:.0f} us)" for kind in SERVERS]
        print(f"| {name} | " + " | ".join(cells) + " |")


def measured(
    port: int, programs: list[subprocess.Popen[bytes]], seconds: float
) -> Iterator[tuple[str, tuple[float, float]]]:
    """Messages a second, and microseconds of processor a message."""
    for size in (1, 10):
        for many in (1, 16):
            url = asyncio.run(made(port))
            for work, word in ((send, "send"), (take, "receive and delete")):
                if work is take:
                    asyncio.run(fill(port, url, 400 * size))
                before, began = spent(programs), time.monotonic()
                done = asyncio.run(rate(work, port, url, many, size, seconds))
                used, took = spent(programs) - before, time.monotonic() - began
                name = f"{word}, {size} a call, {many} connections"
                yield name, (done / took, used / max(1, done) * 1e6)


if __name__ == "__main__":
    main()
