"""What is measured: cells, and in each cell a ladder of programs from the barest to whole queues.

A rung is how its client is made, which `load.py` does in a process of its own on the clients' core.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.fifo.redis_streams import RedisPeer
from benchmarks.fifo.snowmelt_fifo import SharingClient, SnowmeltPeer
from benchmarks.limits_parts.bare import BareServers
from benchmarks.limits_parts.clients import (
    AsyncBare,
    AsyncRedis,
    AsyncSnowmelt,
    BareClient,
    PutClient,
    Waiters,
)

Make = Callable[[], Any]


@dataclass(frozen=True)
class Rung:
    """One program of a ladder."""

    cell: str
    name: str
    make: Make
    items: int = 1
    """Of a call."""
    threads: int = 1
    tasks: int = 0
    """Of one asyncio program, instead of threads."""
    kind: str = "bare"
    """`bare`, `ours` or `peer`."""
    pids: tuple[int, ...] = ()
    """Of its servers."""


@dataclass(frozen=True)
class Bar:
    """What is wanted of a cell: so many times what that rung comes to."""

    cell: str
    of: str
    times: float


ONE, THREADS, TASKS, MANY, THREE = (
    "one client, put after put",
    "16 threads, put after put",
    "64 tasks, each its own put",
    "1,000 a call, call after call",
    "one client, three copies",
)
DISK = "the disk flushes"
FLUSHED = "bare server, a flush for each turn"
CODED = "the same, puts encoded and decoded"
COPIED = "bare servers, three copies, two flushed"
ALWAYS, EVERYSEC = "Redis, flushing always", "Redis, flushing every second"
BARS = (
    Bar(ONE, ALWAYS, 0.9),
    Bar(ONE, DISK, 0.5),
    Bar(THREADS, ALWAYS, 1.5),
    Bar(TASKS, ALWAYS, 3.0),
    Bar(MANY, EVERYSEC, 12.0),
    Bar(THREE, "Snowmelt, one copy", 0.5),
)


class Servers:
    """Everything that must run on the servers' core."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.bare = BareServers(folder)
        self.one = SnowmeltPeer("one", 1, "always")
        self.three = SnowmeltPeer("three", 3, "always")
        self.always = RedisPeer("always", "always")
        self.everysec = RedisPeer("everysec", "everysec")

    def __enter__(self) -> "Servers":
        self.bare.start()
        for peer in (self.one, self.three, self.always, self.everysec):
            own = self._folder / peer.name
            own.mkdir()
            peer.start(own)
        return self

    def pids(self, peer: RedisPeer) -> tuple[int, ...]:
        """Of a Redis."""
        return tuple(one.process.pid for one in peer.servers if one.process is not None)

    def __exit__(self, *_: object) -> None:
        for peer in (self.everysec, self.always, self.three, self.one):
            peer.stop()
        self.bare.stop()


def ladder(run: Servers) -> list[Rung]:
    """All of it, the barest of a cell first."""
    bare, one, three = run.bare, run.one.cluster, run.three.cluster
    assert one is not None
    assert three is not None
    bares = {kind: {"pids": bare.pids(kind)} for kind in ("echo", "flushed", "coded", "copied")}
    echo, flushed = (
        partial(BareClient, bare.port("echo")),
        partial(BareClient, bare.port("flushed")),
    )
    coded = partial(PutClient, bare.port("coded"))
    ours: Any = {"kind": "ours", "pids": tuple(node.pid for node in one.nodes)}
    ours3: Any = {"kind": "ours", "pids": tuple(node.pid for node in three.nodes)}
    always: Any = {"kind": "peer", "pids": run.pids(run.always)}
    everysec: Any = {"kind": "peer", "pids": run.pids(run.everysec)}
    put, redis = run.one.client("limits", 1), run.always.client("limits", 1)
    sharing = partial(SharingClient, one.url, "limits-shared", 1, "always")
    seldom = run.everysec.client("limits", 1_000)
    return [
        Rung(ONE, "bare echo", echo, **bares["echo"]),
        Rung(ONE, FLUSHED, flushed, **bares["flushed"]),
        Rung(ONE, CODED, coded, **bares["coded"]),
        Rung(ONE, "Snowmelt", put, **ours),
        Rung(ONE, ALWAYS, redis, **always),
        Rung(THREADS, "threads that hand each other a lock", Waiters, threads=16),
        Rung(THREADS, "bare echo", echo, threads=16, **bares["echo"]),
        Rung(THREADS, FLUSHED, flushed, threads=16, **bares["flushed"]),
        Rung(THREADS, CODED, coded, threads=16, **bares["coded"]),
        Rung(THREADS, "Snowmelt, a connection each", put, threads=16, **ours),
        Rung(THREADS, "Snowmelt, one client for all", sharing, threads=16, **ours),
        Rung(THREADS, ALWAYS, redis, threads=16, **always),
        Rung(
            TASKS, FLUSHED, partial(AsyncBare, bare.port("flushed")), tasks=64, **bares["flushed"]
        ),
        Rung(TASKS, "Snowmelt", partial(AsyncSnowmelt, one.url), tasks=64, **ours),
        Rung(TASKS, ALWAYS, partial(AsyncRedis, run.always.port), tasks=64, **always),
        Rung(MANY, FLUSHED, flushed, items=1_000, **bares["flushed"]),
        Rung(MANY, CODED, coded, items=1_000, **bares["coded"]),
        Rung(MANY, "Snowmelt", put, items=1_000, **ours),
        Rung(MANY, EVERYSEC, seldom, items=1_000, **everysec),
        Rung(THREE, COPIED, partial(BareClient, bare.port("copied")), **bares["copied"]),
        Rung(THREE, "Snowmelt, one copy", put, **ours),
        Rung(THREE, "Snowmelt", run.three.client("limits", 1), **ours3),
    ]
