"""Many tasks of one process put one item each, again and again, and then take one each."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection

from benchmarks.peers.comparison import WAIT_SECONDS, Figures, Limits, TurnFailed
from benchmarks.peers.fifo.cell import Cell
from benchmarks.peers.fifo.clients import TaskClient
from benchmarks.peers.fifo.phase import both, phase


def by_tasks(
    connect: Callable[[], Awaitable[TaskClient]], cell: Cell, limits: Limits, says: Connection
) -> tuple[Figures, int]:
    """The figures, and how many items were moved, by a task for each lane of the cell."""
    del says
    return asyncio.run(_connected(connect, cell, limits))


async def _connected(
    connect: Callable[[], Awaitable[TaskClient]], cell: Cell, limits: Limits
) -> tuple[Figures, int]:
    client = await connect()
    try:
        async with asyncio.timeout(limits.seconds + 3 * WAIT_SECONDS):
            return await measure(client, cell, limits)
    except TimeoutError:
        raise TurnFailed("its tasks did not end in time") from None
    finally:
        await client.close()


async def measure(client: TaskClient, cell: Cell, limits: Limits) -> tuple[Figures, int]:
    """Puts until a bound is reached, then takes as many."""
    body = os.urandom(cell.size)

    async def put(task: int) -> None:
        del task
        await client.put(body)

    # What a client does once, such as opening its connections, is not measured.
    await at_once(put, cell.lanes, cell.lanes, WAIT_SECONDS)
    await at_once(client.take, cell.lanes, cell.lanes, WAIT_SECONDS)
    for task in range(cell.lanes):
        await client.settle(task)

    begin = time.perf_counter()
    puts = await at_once(put, cell.lanes, cell.items(quick=limits.quick), limits.seconds)
    put_seconds = time.perf_counter() - begin
    begin = time.perf_counter()
    takes = await at_once(client.take, cell.lanes, len(puts), float("inf"))
    for task in range(cell.lanes):
        await client.settle(task)
    get_seconds = time.perf_counter() - begin
    figures = both(len(puts), 1, put_seconds, get_seconds) | phase("put", puts, put_seconds, 1)
    return figures | phase("get", takes, get_seconds, 1), len(puts)


async def at_once(
    call: Callable[[int], Awaitable[None]], tasks: int, count: int, seconds: float
) -> list[float]:
    """How long each call took, of at most so many in so long, by so many tasks."""
    times: list[float] = []
    left = count
    end = time.perf_counter() + seconds

    async def work(task: int) -> None:
        nonlocal left
        last = time.perf_counter()
        while left and last < end:
            left -= 1
            await call(task)
            now = time.perf_counter()
            times.append(now - last)
            last = now

    async with asyncio.TaskGroup() as group:
        for task in range(tasks):
            group.create_task(work(task))
    return times
