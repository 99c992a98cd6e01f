"""One turn of a rung, in a process of its own on the clients' core.

Beside the rate it tells what client and servers worked for an item: by processor time, which other
work on the machine changes little. Linux only.
"""

import asyncio
import multiprocessing
import os
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import uvloop
from benchmarks.fifo import cores
from benchmarks.fifo.load import at_once, timed
from benchmarks.limits_parts.rungs import Rung

SIZE = 100
WARM = 50


@dataclass(frozen=True)
class Turn:
    """What a rung came to."""

    rate: float
    """Items a second."""
    client: float
    """Microseconds of the processor an item."""
    servers: float
    """The same, of all its servers."""


class Watch:
    """Measures from when it is made."""

    def __init__(self, pids: tuple[int, ...]) -> None:
        self._pids = pids
        self._begin = time.perf_counter()
        self._client, self._servers = time.process_time(), worked(pids)

    def turn(self, items: int) -> Turn:
        """Until now, so many items."""
        lasted = time.perf_counter() - self._begin
        client, servers = time.process_time() - self._client, worked(self._pids) - self._servers
        return Turn(items / lasted, 1e6 * client / items, 1e6 * servers / items)


def worked(pids: tuple[int, ...]) -> float:
    """Seconds that all threads of these processes have worked."""
    tasks = [one for pid in pids for one in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int((one / "schedstat").read_text().split()[0]) for one in tasks) / 1e9


def turn(rung: Rung, seconds: float) -> Turn:
    """Runs it; raises `RuntimeError` when its client fails."""
    context = multiprocessing.get_context("spawn")
    answers, answer = context.Pipe(duplex=False)
    child = context.Process(target=_work, args=(answer, rung, seconds))
    with cores.on(cores.CLIENT):
        child.start()
    answer.close()
    try:
        found = answers.recv() if answers.poll(10 * seconds + 60) else "it did not end in time"
    except EOFError:
        found = "its client died"
    finally:
        child.join(10)
        child.kill()
        child.join()
    if isinstance(found, Turn):
        return found
    raise RuntimeError(f"{rung.cell}: {rung.name}: {found}")


def _work(answer: Connection, rung: Rung, seconds: float) -> None:
    try:
        if rung.tasks:
            answer.send(uvloop.run(_tasks(rung, seconds)))
        else:
            answer.send(_threads(rung, seconds))
    except Exception as error:  # whatever a client library raises is that rung's result
        answer.send(f"{type(error).__name__}: {error}")
    answer.close()
    os._exit(0)  # some clients have threads that wait for ever


def _threads(rung: Rung, seconds: float) -> Turn:
    bodies = [os.urandom(SIZE) for _ in range(rung.items)]
    clients = [rung.make() for _ in range(rung.threads)]
    for client in clients:
        for _ in range(max(2, WARM // rung.threads)):
            client.put(bodies)
    watch = Watch(rung.pids)
    times, _ = at_once(lambda client: timed(lambda: client.put(bodies), 10**9, seconds), clients)
    found = watch.turn(len(times) * rung.items)
    for client in clients:
        client.close()
    return found


async def _tasks(rung: Rung, seconds: float) -> Turn:
    client = rung.make()
    await client.open()
    body, done = os.urandom(SIZE), 0
    await client.put(body)
    watch, end = Watch(rung.pids), time.perf_counter() + seconds

    async def task() -> None:
        nonlocal done
        while time.perf_counter() < end:
            await client.put(body)
            done += 1

    await asyncio.gather(*(task() for _ in range(rung.tasks)))
    found = watch.turn(done)
    await client.close()
    return found
