"""Items are put until a bound is reached, and then all are taken, by threads that block."""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from threading import Lock

from benchmarks.peers.comparison import Figures, Limits, TurnFailed
from benchmarks.peers.fifo.cell import Cell
from benchmarks.peers.fifo.clients import Client
from benchmarks.peers.fifo.phase import both, phase

FILL = 1_000


def by_threads(
    connect: Callable[[], Client], cell: Cell, limits: Limits, says: Connection
) -> tuple[Figures, int]:
    """The figures, and how many items were moved: a connection and a thread for each lane."""
    del says
    clients = [connect() for _ in range(cell.lanes)]
    found = measure(clients, cell, limits)
    for client in clients:
        client.close()
    return found


def measure(clients: list[Client], cell: Cell, limits: Limits) -> tuple[Figures, int]:
    """Puts until a bound is reached, then takes as many; each client in a thread of its own."""
    bodies = [os.urandom(cell.size) for _ in range(cell.batch)]
    for _ in range(cell.backlog // FILL):
        clients[0].put([bodies[0]] * FILL)
    for client in clients:  # what a client does once, such as subscribing, is not measured
        client.put(bodies)
        taken(client, cell.batch)
        client.settle()
    bound = max(cell.items(quick=limits.quick) // cell.batch // cell.lanes, 1)

    def puts(client: Client) -> list[float]:
        return timed(lambda: client.put(bodies), bound, limits.seconds)

    put, put_seconds = at_once(puts, clients)
    left = Left(len(put) * cell.batch)

    def takes(client: Client) -> list[float]:
        times = timed(lambda: left.take(client, cell.batch), len(put), float("inf"), left.some)
        begin = time.perf_counter()
        client.settle()
        times[-1:] = [times[-1] + time.perf_counter() - begin] if times else []
        return times

    take, take_seconds = at_once(takes, clients)
    figures = both(len(put), cell.batch, put_seconds, take_seconds)
    figures |= phase("put", put, put_seconds, cell.batch)
    figures |= phase("get", take, take_seconds, cell.batch)
    return figures, cell.backlog + len(put) * cell.batch


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
    """How many items are still to be taken, by any client."""

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
