"""A turn of many calls at once.

The tasks of one process put one item each, again and again, and then take one each, until all are
taken.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable

from benchmarks.fifo.cell import Bounds, Cell
from benchmarks.fifo.load import Turn, TurnFailed, phase
from benchmarks.fifo.peer import WAIT_SECONDS, ConnectTasks, TaskClient


def by_tasks(connect: ConnectTasks, cell: Cell, bounds: Bounds) -> Turn:
    """One process' tasks, one for each lane of the cell."""
    return asyncio.run(_connected(connect, cell, bounds))


async def _connected(connect: ConnectTasks, cell: Cell, bounds: Bounds) -> Turn:
    client = await connect()
    try:
        async with asyncio.timeout(bounds.seconds + 3 * WAIT_SECONDS):
            return await measure(client, cell, bounds)
    except TimeoutError:
        raise TurnFailed("its tasks did not end in time") from None
    finally:
        await client.close()


async def measure(client: TaskClient, cell: Cell, bounds: Bounds) -> Turn:
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
    puts = await at_once(put, cell.lanes, bounds.items, bounds.seconds)
    put_seconds = time.perf_counter() - begin
    begin = time.perf_counter()
    takes = await at_once(client.take, cell.lanes, len(puts), float("inf"))
    for task in range(cell.lanes):
        await client.settle(task)
    return Turn(phase(puts, put_seconds), phase(takes, time.perf_counter() - begin))


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
