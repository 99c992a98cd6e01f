"""A turn: what the client's process does to one peer, and what it saw.

Each turn has a fresh process on the clients' core, so that no client library's threads, caches or
garbage meet another's.
"""

import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from threading import Lock
from typing import Any

from benchmarks.fifo import cores
from benchmarks.fifo.cell import Bounds, Cell
from benchmarks.fifo.peer import WAIT_SECONDS, Client, Connect


@dataclass(frozen=True)
class Phase:
    """The calls of one kind, in seconds."""

    calls: int
    seconds: float
    p50: float
    p99: float


@dataclass(frozen=True)
class Turn:
    """All items that were put were taken; the disk takes nothing."""

    put: Phase
    take: Phase | None


Work = Callable[[Any, Cell, Bounds], Turn]
"""What the client's process does, given how it connects."""


class TurnFailed(Exception):
    """A turn that came to no figures."""


def by_threads(connect: Connect, cell: Cell, bounds: Bounds) -> Turn:
    """A connection and a thread for each lane."""
    clients = [connect() for _ in range(cell.lanes)]
    found = measure(clients, cell, bounds)
    for client in clients:
        client.close()
    return found


def turn(connect: Any, cell: Cell, bounds: Bounds, work: Work = by_threads) -> Turn:
    """Runs in a process of its own; raises `TurnFailed` when that fails or takes too long."""
    context = multiprocessing.get_context("spawn")
    answers, answer = context.Pipe(duplex=False)
    child = context.Process(target=_work, args=(answer, work, connect, cell, bounds))
    with cores.on(cores.CLIENT):
        child.start()
    answer.close()
    try:
        if not answers.poll(bounds.seconds + 4 * WAIT_SECONDS):
            raise TurnFailed("it did not end in time")
        found = answers.recv()
    except EOFError:
        raise TurnFailed("its client died") from None
    finally:
        child.join(WAIT_SECONDS)
        child.kill()
        child.join()
    if isinstance(found, Turn):
        return found
    raise TurnFailed(found)


def _work(answer: Connection, work: Work, connect: Any, cell: Cell, bounds: Bounds) -> None:
    try:
        answer.send(work(connect, cell, bounds))
    except Exception as error:  # whatever a client library raises is that peer's result
        answer.send(f"{type(error).__name__}: {error}")


def measure(clients: list[Client], cell: Cell, bounds: Bounds) -> Turn:
    """Puts until a bound is reached, then takes as many; each client in a thread of its own."""
    bodies = [os.urandom(cell.size) for _ in range(cell.batch)]
    for client in clients:  # what a client does once, such as subscribing, is not measured
        client.put(bodies)
        taken(client, cell.batch)
        client.settle()
    bound = max(min(bounds.items, bounds.bytes // cell.size) // cell.batch // cell.lanes, 1)

    def puts(client: Client) -> list[float]:
        return timed(lambda: client.put(bodies), bound, bounds.seconds)

    put, put_seconds = at_once(puts, clients)
    left = Left(len(put) * cell.batch)

    def takes(client: Client) -> list[float]:
        times = timed(lambda: left.take(client, cell.batch), len(put), float("inf"), left.some)
        begin = time.perf_counter()
        client.settle()
        times[-1:] = [times[-1] + time.perf_counter() - begin] if times else []
        return times

    take, take_seconds = at_once(takes, clients)
    return Turn(phase(put, put_seconds), phase(take, take_seconds))


def at_once(
    act: Callable[[Client], list[float]], clients: list[Client]
) -> tuple[list[float], float]:
    """What all clients do at the same time: the time of each call, and of the whole."""
    begin = time.perf_counter()
    if len(clients) == 1:
        times = [act(clients[0])]
    else:
        with ThreadPoolExecutor(len(clients)) as threads:
            times = list(threads.map(act, clients))
    return [one for lane in times for one in lane], time.perf_counter() - begin


class Left:
    """How many items are still to be taken, by whichever client."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.lock = Lock()

    def some(self) -> bool:
        """Whether there is anything left."""
        return self.count > 0

    def take(self, client: Client, count: int) -> None:
        """Takes its share; the others take the rest."""
        with self.lock:
            count = min(count, self.count)
            self.count -= count
        if count:
            taken(client, count)


def taken(client: Client, count: int) -> None:
    """Takes just so many, in more than one call when the server gives fewer."""
    while count > 0:  # some give more than was asked for: what came late for another call
        more = client.take(count)
        if not more:
            raise TurnFailed(f"{count} items that were put did not come")
        count -= more


def timed(
    call: Callable[[], None],
    count: int,
    seconds: float,
    wanted: Callable[[], bool] = lambda: True,
) -> list[float]:
    """How long each call took, of at most so many in so long, while they are wanted."""
    begin = last = time.perf_counter()
    times: list[float] = []
    while len(times) < count and last < begin + seconds and wanted():
        call()
        now = time.perf_counter()
        times.append(now - last)
        last = now
    return times


def phase(times: list[float], seconds: float) -> Phase:
    times = sorted(times)
    return Phase(len(times), seconds, times[len(times) // 2], times[len(times) * 99 // 100])
