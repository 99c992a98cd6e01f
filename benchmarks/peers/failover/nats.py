"""NATS JetStream: a stream of three replicas, whose leader is killed."""

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, Final

import nats
from benchmarks.peers.comparison import Missing, Peer
from benchmarks.peers.failover.putters import BACK_SECONDS, Put
from benchmarks.peers.servers.nats import Nats
from nats.js.api import RetentionPolicy, StorageType, StreamConfig

PUT_SECONDS: Final = 1.0


def stream(name: str, always: bool) -> Peer:
    flushes = "flushes before it answers" if always else "flushes every 2 minutes"
    return Peer(
        name=name,
        promise=f"the stream's leader; {flushes}",
        service=JetStreamThree(nodes=3, always=always),
        above=always,
    )


class JetStreamThree(Nats):
    """Three servers with one stream."""

    def start(self, folder: Path) -> None:
        super().start(folder)
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
        said = _ran(self._said())
        return int(said.cluster.leader.removeprefix("n"))

    def kill(self, node: int) -> None:
        self.servers[node].kill()

    def back(self, node: int) -> None:
        self.servers[node].start()
        self._whole()

    def _whole(self) -> None:
        end = time.monotonic() + BACK_SECONDS
        while time.monotonic() < end:
            with contextlib.suppress(Exception):
                said = _ran(self._said())
                others = said.cluster.replicas or []
                well = [one for one in others if one.current and not one.offline]
                if said.cluster.leader and len(well) == 2:
                    return
            time.sleep(0.3)
        raise TimeoutError("not all three replicas of the stream are current")

    async def _link(self, at: int) -> Any:
        ports = [*self.ports[at:], *self.ports[:at]]
        return await nats.connect(
            [f"nats://127.0.0.1:{port}" for port in ports],
            dont_randomize=True,
            allow_reconnect=False,  # a putter goes to the next node by itself
            connect_timeout=1,
            error_cb=_expected,
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

    async def _said(self) -> Any:
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


async def _expected(_: Exception) -> None:
    """A connection that ends is expected here."""


def _ran(what: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(what)
