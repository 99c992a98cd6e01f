"""Several queues asked at once, and rows shared out among them.

What is asked at once goes down one connection a node, and no question waits for the answer to
another: a thousand queues cost little more than the work that they are. The connection belongs to
an event loop in a thread of its own, one for each process.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, TypeAlias, TypeVar, cast, overload

from snowmelt.client.cluster import Cluster as BlockingCluster
from snowmelt.client.cluster_async import Cluster, connect
from snowmelt.client.queue.face import Queue as BlockingQueue
from snowmelt.client.queue.face_async import Queue
from snowmelt.runtime.loops import new_loop
from snowmelt.spark.options import PRIORITY, ConnectionOptions

AT_ONCE: Final = 128
"""So many questions are on their way: enough for a node to answer many in one step."""
HANDLES: Final = 4096
CLOSING_SECONDS: Final = 1.0
T = TypeVar("T")
Q = TypeVar("Q")
Ask: TypeAlias = Callable[[Cluster, Q], Awaitable[T]]


def asked(place: ConnectionOptions, about: Iterable[Q], ask: Ask[Q, T]) -> list[T]:
    """What is answered about each, in their order; raises what the first that fails raises."""
    told = asyncio.run_coroutine_threadsafe(_answers(place, list(about), ask), _loop(os.getpid()))
    try:
        return told.result()
    finally:
        told.cancel()  # nobody waits any more, if it is not done


@overload
def queues_of(cluster: Cluster, kind: str) -> Callable[..., Queue[Any]]: ...


@overload
def queues_of(cluster: BlockingCluster, kind: str) -> Callable[..., BlockingQueue[Any]]: ...


def queues_of(cluster: Cluster | BlockingCluster, kind: str) -> Callable[..., Any]:
    """What gives queues of a kind by their names."""
    return cluster.priority if kind == PRIORITY else cluster.fifo


@lru_cache(maxsize=HANDLES)
def queue_of(cluster: Cluster, name: str, kind: str) -> Queue[Any]:
    """The queue of this name, whose handle is made once: that costs half as much as a question."""
    return queues_of(cluster, kind)(name)


async def _answers(place: ConnectionOptions, about: Sequence[Q], ask: Ask[Q, T]) -> list[T]:
    cluster, answers = _cluster(place.url, place.token, os.getpid()), list[T | None]()
    left = iter(enumerate(about))
    answers += [None] * len(about)

    async def go_on() -> None:
        for at, one in left:
            answers[at] = await ask(cluster, one)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(len(about), AT_ONCE)):
                group.create_task(go_on())
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return cast("list[T]", answers)


def identity_at(place: ConnectionOptions) -> str:
    """Of which cluster those are that answered."""
    return _cluster(place.url, place.token, os.getpid()).identity


@lru_cache(maxsize=1)
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """The loop of this process: one that was forked has its own."""
    loop = new_loop()()
    name = f"snowmelt-spark-{process}"
    threading.Thread(target=loop.run_forever, name=name, daemon=True).start()
    return loop


@lru_cache(maxsize=8)
def _cluster(url: str, token: str | None, process: int) -> Cluster:
    cluster = connect(url, token=token)
    atexit.register(_close, cluster, process)
    return cluster


def _close(cluster: Cluster, process: int) -> None:
    if process == os.getpid():
        with suppress(Exception):  # the process ends, whatever becomes of this
            closing = asyncio.run_coroutine_threadsafe(cluster.close(), _loop(process))
            closing.result(CLOSING_SECONDS)


def shared_out(rows: int, waiting: Mapping[str, int], names: Sequence[str]) -> dict[str, int]:
    """How many rows each queue gives at most: the same of each, and what one lacks the others give.

    Those that lack some are asked first, so that it is known; the others in the order of the names.

    >>> shared_out(10, {"a": 100, "b": 1, "c": 100}, ["a", "b", "c"])
    {'b': 1, 'a': 5, 'c': 4}
    >>> shared_out(2, {"a": 9, "b": 8, "c": 7}, ["c", "a", "b"])
    {'c': 1, 'a': 1, 'b': 0}
    """
    shares: dict[str, int] = {}
    fair = -(-rows // max(1, len(names)))
    names = sorted(names, key=lambda name: min(fair, waiting.get(name, 0)))
    for place, name in enumerate(names):
        share = min(-(-rows // (len(names) - place)), waiting.get(name, 0))
        shares[name] = share
        rows -= share
    return shares
