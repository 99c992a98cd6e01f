"""A turn: what the client's process does to one peer, and what it saw.

Each turn has a fresh process on the clients' core, so that no client library's threads, caches or
garbage meet another's.
"""

import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection

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


class TurnFailed(Exception):
    """A turn that came to no figures."""


def turn(connect: Connect, cell: Cell, bounds: Bounds) -> Turn:
    """Runs in a process of its own; raises `TurnFailed` when that fails or takes too long."""
    context = multiprocessing.get_context("spawn")
    answers, answer = context.Pipe(duplex=False)
    child = context.Process(target=_work, args=(answer, connect, cell, bounds))
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
        child.join(WAIT_SECONDS)  # it has answered, and deletes its queue
        child.kill()
        child.join()
    if isinstance(found, Turn):
        return found
    raise TurnFailed(found)


def _work(answer: Connection, connect: Connect, cell: Cell, bounds: Bounds) -> None:
    try:
        client = connect()
        answer.send(measure(client, cell, bounds))
        client.close()
    except Exception as error:  # whatever a client library raises is that peer's result
        answer.send(f"{type(error).__name__}: {error}")


def measure(client: Client, cell: Cell, bounds: Bounds) -> Turn:
    """Puts until a bound is reached, then takes as many."""
    bodies = [os.urandom(cell.size) for _ in range(cell.batch)]
    client.put(bodies)  # what a client does once, such as subscribing, is not measured
    taken(client, cell.batch)
    bound = min(bounds.items, bounds.bytes // cell.size) // cell.batch
    puts = timed(lambda: client.put(bodies), max(bound, 1), bounds.seconds)
    takes = timed(lambda: taken(client, cell.batch), len(puts), float("inf"))
    return Turn(phase(puts), phase(takes))


def taken(client: Client, count: int) -> None:
    """Takes just so many, in more than one call when the server gives fewer."""
    while count:
        more = client.take(count)
        if not more:
            raise TurnFailed(f"{count} items that were put did not come")
        count -= more


def timed(call: Callable[[], None], count: int, seconds: float) -> list[float]:
    """How long each call took, of at most so many in so long."""
    begin = last = time.perf_counter()
    times: list[float] = []
    while len(times) < count and last < begin + seconds:
        call()
        now = time.perf_counter()
        times.append(now - last)
        last = now
    return times


def phase(times: list[float]) -> Phase:
    times = sorted(times)
    return Phase(len(times), sum(times), times[len(times) // 2], times[len(times) * 99 // 100])
