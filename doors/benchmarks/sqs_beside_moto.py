"""How many messages go through the SQS door, beside moto's server, in one run.

    python doors/benchmarks/sqs_beside_moto.py [--rounds 3] [--messages 160]

The clients are boto3, each in a process of its own. So many messages are sent, then all of them are
received and deleted, again and again for some seconds: no server has a longer queue than another
for being quicker. A long queue makes moto slow, so this one is short. The servers take turns. A
last kind of work has sixteen connections without an SDK, since boto3 costs more processor time than
what it asks for. The door is asked over a node, whose queue is
on a disk and flushed before an answer, and over a folder; moto keeps messages in its memory.
Printed are messages a second, the median of the rounds, and the processor time of all processes of
that server, microseconds a message.
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
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import boto3
from botocore.config import Config

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
CLIENTS_MAX = 4
SECONDS = 3.0
NAMES = count()

Asked = dict[str, Any]


def sent(size: int) -> tuple[str, Asked]:
    """The request that sends one message, or several."""
    if size == 1:
        return "SendMessage", {"MessageBody": BODY}
    entries = [{"Id": str(at), "MessageBody": BODY} for at in range(size)]
    return "SendMessageBatch", {"Entries": entries}


def deleted(some: list[Asked]) -> tuple[str, Asked]:
    """The request that deletes what was received."""
    handles = [one["ReceiptHandle"] for one in some]
    if len(some) == 1:
        return "DeleteMessage", {"ReceiptHandle": handles[0]}
    entries = [{"Id": str(at), "ReceiptHandle": one} for at, one in enumerate(handles)]
    return "DeleteMessageBatch", {"Entries": entries}


# --- clients of boto3, each in a process ----------------------------------------------------------


@cache
def client(port: int) -> Any:
    """Of this process."""
    return boto3.client(
        "sqs",
        region_name="us-east-1",
        endpoint_url=f"http://127.0.0.1:{port}",
        aws_access_key_id="key",
        aws_secret_access_key="secret",  # noqa: S106 - nobody checks it
        config=Config(retries={"max_attempts": 0}),
    )


def ready(port: int) -> int:
    """Has a client made; in which process."""
    client(port).list_queues(QueueNamePrefix="none")
    time.sleep(0.2)
    return os.getpid()


def send(port: int, url: str, size: int, messages: int) -> None:
    """Sends so many, some a call."""
    own, (action, asked) = client(port), sent(size)
    call = own.send_message if action == "SendMessage" else own.send_message_batch
    for _ in range(0, messages, size):
        assert not call(QueueUrl=url, **asked).get("Failed")


def take(port: int, url: str, size: int, messages: int) -> None:
    """Receives and deletes so many; one of several clients may find too few."""
    own, left = client(port), messages
    while left > 0:
        told = own.receive_message(QueueUrl=url, MaxNumberOfMessages=min(size, left))
        some = told.get("Messages", [])
        if not some:
            return
        action, asked = deleted(some)
        call = own.delete_message if action == "DeleteMessage" else own.delete_message_batch
        assert not call(QueueUrl=url, **asked).get("Failed")
        left -= len(some)


# --- connections without an SDK -------------------------------------------------------------------


class Connection:
    """One request after another; a server may close it after each."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, action: str, said: Asked) -> Asked:
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
        found: Asked = json.loads(told) if told else {}
        return found

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


async def send_plainly(one: Connection, url: str, size: int, messages: int) -> None:
    """As `send`."""
    action, asked = sent(size)
    for _ in range(0, messages, size):
        assert not (await one.ask(action, {"QueueUrl": url} | asked)).get("Failed")


async def take_plainly(one: Connection, url: str, size: int, messages: int) -> None:
    """As `take`."""
    left = messages
    while left > 0:
        asked = {"QueueUrl": url, "MaxNumberOfMessages": min(size, left)}
        some = (await one.ask("ReceiveMessage", asked)).get("Messages", [])
        if not some:
            return
        action, which = deleted(some)
        assert not (await one.ask(action, {"QueueUrl": url} | which)).get("Failed")
        left -= len(some)


Plain = Callable[[Connection, str, int, int], Awaitable[None]]


async def plainly(work: Plain, port: int, url: str, many: int, size: int, each: int) -> None:
    """So many connections at once, each with its messages."""
    some = [Connection(port) for _ in range(many)]
    await asyncio.gather(*[work(one, url, size, each) for one in some])
    for one in some:
        one.close()


# --- measured -------------------------------------------------------------------------------------


class Work(NamedTuple):
    """One kind of client."""

    word: str
    clients: int
    plain: bool
    size: int


WORKS = (
    Work("boto3, one client, one a call", 1, False, 1),
    Work("boto3, one client, ten a call", 1, False, 10),
    Work("boto3, four clients, one a call", CLIENTS_MAX, False, 1),
    Work("boto3, four clients, ten a call", CLIENTS_MAX, False, 10),
    Work("16 connections without an SDK, one a call", 16, True, 1),
    Work("16 connections without an SDK, ten a call", 16, True, 10),
)


class Spent(NamedTuple):
    """What some work took."""

    rate: float
    """Messages a second."""
    cost: float
    """Microseconds of the servers' processor a message."""


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


def measured(
    port: int, programs: list[subprocess.Popen[bytes]], messages: int
) -> Iterator[tuple[str, Spent]]:
    """Each kind of work, for some seconds; nothing may be left of a queue."""
    with ProcessPoolExecutor(CLIENTS_MAX, get_context("spawn")) as pool:
        assert len(set(pool.map(ready, [port] * CLIENTS_MAX))) == CLIENTS_MAX

        def timed(work: Work, url: str, *, sends: bool) -> tuple[float, float]:
            each = messages // work.clients
            before, began = spent(programs), time.monotonic()
            if work.plain:
                plain = send_plainly if sends else take_plainly
                asyncio.run(plainly(plain, port, url, work.clients, work.size, each))
            else:
                by_sdk = send if sends else take
                some = [
                    pool.submit(by_sdk, port, url, work.size, each) for _ in range(work.clients)
                ]
                for one in some:
                    one.result()
            return time.monotonic() - began, spent(programs) - before

        for work in WORKS:
            url = client(port).create_queue(QueueName=f"speed-{next(NAMES)}")["QueueUrl"]
            until, took, used, done = time.monotonic() + SECONDS, [0.0, 0.0], [0.0, 0.0], 0
            while not done or time.monotonic() < until:
                for at in (0, 1):
                    one = timed(work, url, sends=at == 0)
                    took[at], used[at] = took[at] + one[0], used[at] + one[1]
                done += messages
            told = client(port).get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
            assert told["Attributes"]["ApproximateNumberOfMessages"] == "0", told
            for at, word in enumerate(("send", "receive and delete")):
                yield f"{work.word}: {word}", Spent(done / took[at], used[at] / done * 1e6)


def main() -> None:
    """Prints a row for each kind of work."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=160, help="in a queue at a time")
    options = parser.parse_args()
    suites.prepare(suites.MOTO)
    server = suites.MOTO.folder / "env" / "bin" / "python"
    named = f"moto[server]=={suites.MOTO.version}"
    subprocess.run([server, "-m", "pip", "install", "-q", named, suites.BOTO], check=True)
    found: dict[tuple[str, str], list[Spent]] = {}
    for number in range(options.rounds):
        for kind in SERVERS[number % 3 :] + SERVERS[: number % 3]:
            with tempfile.TemporaryDirectory() as folder, served(kind, Path(folder)) as running:
                for name, one in measured(*running, options.messages):
                    found.setdefault((name, kind), []).append(one)
                    print(f"{kind}: {name}: {one.rate:.0f} a second, {one.cost:.0f} us", flush=True)
    print("\n| | " + " | ".join(SERVERS) + " |\n|---|" + "---|" * len(SERVERS))
    for name in dict.fromkeys(name for name, _ in found):
        cells = [
            f"{median(one.rate for one in some):.0f} ({median(one.cost for one in some):.0f} us)"
            for some in (found[name, kind] for kind in SERVERS)
        ]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
