"""A node's requests a second beside a bare uvloop echo with the same frames, measured in one run.

Three servers, each a process of its own, take the same frames from the same load generator:

- `bytes`: the bare echo: writes back whatever comes, in whatever pieces; no frame is looked at.
  The ceiling of the event loop and of the client.
- `frames`: cuts the stream into frames and writes them back. The least that anything which answers
  requests must do.
- `node`: `snowmelt node`, which also decodes, runs its machines, and encodes an answer.

The client keeps a fixed number of requests in flight on one connection, and does what a client
must: each request has its own number, each answer is decoded and matched to its request. The
servers take turns within each round, so that noise hits them alike; the figure is the median of the
rounds' ratios. The client has one core and the servers another: left to the system, both ends share
a core in some runs and not in others, and the rates differ twofold.
"""

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from snowmelt.cli.local import LocalNode, free_ports
from snowmelt.client.connection.session import new_name
from snowmelt.protocols.calling import Call
from snowmelt.protocols.echo import Echo
from snowmelt.wire.codec import Codec, encode
from snowmelt.wire.framing import FrameReader, Kind, framed
from snowmelt.wire.greeting import Hello, Role, said

SERVERS = ("bytes", "frames", "node")


class BareBytes(asyncio.Protocol):
    """Echoes bytes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class BareFrames(asyncio.Protocol):
    """Echoes frames, all that came together in one write."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.reader = FrameReader()

    def data_received(self, data: bytes) -> None:
        frames = [framed(kind, payload) for kind, payload in self.reader.feed(data)]
        self.transport.write(b"".join(frames))


async def serve_bare(kind: str, port: int) -> None:
    protocol = BareBytes if kind == "bytes" else BareFrames
    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", port)
    await server.serve_forever()


class Load(asyncio.Protocol):
    """A client at its work: numbers each request, and reads each answer by its number."""

    def __init__(self, size: int, greeting: bytes | None, decoder: Codec) -> None:
        self.body = bytes(size)
        self.greeting = greeting
        self.decode = decoder.decode
        self.reader = FrameReader()
        self.number = 0
        self.answered = 0
        self.running = True
        self.waiting: set[int] = set()
        self.ready = asyncio.get_running_loop().create_future()
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        if self.greeting is None:
            self.ready.set_result(None)
        else:
            transport.write(self.greeting)

    def ask(self, count: int) -> None:
        frames = []
        for number in range(self.number, self.number + count):
            self.waiting.add(number)
            frames.append(framed(Kind.MESSAGE, encode(Call(number, Echo(self.body)))))
        self.number += count
        self.transport.write(b"".join(frames))

    def data_received(self, data: bytes) -> None:
        frames = self.reader.feed(data)
        if not self.ready.done():
            self.ready.set_result(None)
            return
        for _, payload in frames:
            self.waiting.remove(self.decode(payload).number)
        self.answered += len(frames)
        if self.running:
            self.ask(len(frames))
        elif not self.waiting:
            self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set_result(error)


async def measure(port: int, size: int, flight: int, seconds: float, kind: str) -> float:
    """Requests a second; every request is answered before the connection ends."""
    hello = said(Kind.HELLO, Hello("snowmelt", new_name(), Role.CLIENT))
    greeting, decoder = (
        (hello, Codec.for_clients()) if kind == "node" else (None, Codec.for_nodes())
    )
    loop = asyncio.get_running_loop()
    _, load = await loop.create_connection(lambda: Load(size, greeting, decoder), "127.0.0.1", port)
    async with asyncio.timeout(10):
        await load.ready
    load.ask(flight)
    await asyncio.sleep(0.2)
    before, begin = load.answered, time.perf_counter()
    await asyncio.sleep(seconds)
    rate = (load.answered - before) / (time.perf_counter() - begin)
    load.running = False
    async with asyncio.timeout(10):
        error = await load.lost
    if error or load.waiting:
        raise SystemExit(f"{len(load.waiting)} requests were not answered: {error}")
    return rate


def compare(sizes: list[int], flights: list[int], rounds: int, seconds: float) -> list[dict]:
    """Starts the servers, lets them take turns, and returns a row for each case."""
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="snowmelt-bench-") as folder:
        ports = dict(zip(SERVERS, free_ports(len(SERVERS)), strict=True))
        bare = [
            subprocess.Popen([sys.executable, __file__, "--serve", kind, str(ports[kind])])
            for kind in SERVERS[:2]
        ]
        node = LocalNode("n1", ports["node"], Path(folder) / "n1", ["--log", "warning"])
        node.found()
        node.start()
        try:
            for port in ports.values():
                wait_for(port)
            if len(cores) > 1:
                os.sched_setaffinity(0, cores[:1])
                for pid in (node.pid, *(process.pid for process in bare)):
                    pin(pid, cores[1])
            return [
                case(ports, size, flight, rounds, seconds) for size in sizes for flight in flights
            ]
        finally:
            node.stop()
            for process in bare:
                process.terminate()
                process.wait()


def pin(pid: int, core: int) -> None:
    """Keeps all threads of a process on one core."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core})


def case(ports: dict[str, int], size: int, flight: int, rounds: int, seconds: float) -> dict:
    rates: dict[str, list[float]] = {kind: [] for kind in SERVERS}
    for _ in range(rounds):
        for kind in SERVERS:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                rate = runner.run(measure(ports[kind], size, flight, seconds, kind))
            rates[kind].append(rate)
    row = {"size": size, "in_flight": flight}
    row |= {f"{kind}_per_second": round(statistics.median(rates[kind])) for kind in SERVERS}
    for kind in SERVERS[:2]:
        ratios = [node / bare for node, bare in zip(rates["node"], rates[kind], strict=True)]
        row[f"node_to_{kind}"] = round(statistics.median(ratios), 3)
    return row


def wait_for(port: int) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit(f"nobody listens on port {port}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--in-flight", type=int, nargs="+", default=[1, 64])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", nargs=2, metavar=("KIND", "PORT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve_bare(options.serve[0], int(options.serve[1])))
        return
    rows = compare(options.size, options.in_flight, options.rounds, options.seconds)
    if options.json:
        print(json.dumps({"benchmark": "loopback", "rows": rows}))
        return
    table = Table("size", "in flight", "bytes/s", "frames/s", "node/s", "node:bytes", "node:frames")
    for row in rows:
        table.add_row(
            *(f"{value:,}" if isinstance(value, int) else str(value) for value in row.values())
        )
    Console().print(table)


if __name__ == "__main__":
    main()
