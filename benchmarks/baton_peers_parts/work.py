"""What each process of a turn does. All of them tell time by one clock of the machine.

A waiter is a thread: it asks for the lock, reads the clock when it has it, holds it for a moment,
reads the clock again, gives it up, and asks anew at once. The threads of a process share what their
client library shares. All start together, and nobody asks any more when the time is over; so
everybody has had the lock once more by then, and nobody waits for one who has left.
"""

import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final, NamedTuple

from benchmarks.baton_peers_parts.cell import Cell
from benchmarks.baton_peers_parts.peer import Connect, Hold
from benchmarks.pool_peers_parts.work import READY

LEAVE_SECONDS: Final = 60.0


class Held(NamedTuple):
    """Somebody had the lock."""

    granted: int
    given_up: int
    """When the giving up began, in nanoseconds as the grant is."""
    waiter: int


class Signals:
    """What the processes of a turn share."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.go = context.Event()
        self.end = context.RawValue("q", 0)
        self.leave = context.Event()
        """Clients stay until then, so that what their connections counted can be read."""


@dataclass(frozen=True)
class Part:
    """One process' part in a turn."""

    connect: Connect
    cell: Cell
    lock: str
    number: int
    signals: Signals
    told: Connection


def want(part: Part) -> None:
    """Wants the lock in every thread until the end, and tells who held it when."""
    waiters = part.cell.shares[part.number]
    first = sum(part.cell.shares[: part.number])
    client = part.connect(part.number)
    with ThreadPoolExecutor(waiters) as threads:
        holds = [client.waiter(part.lock) for _ in range(waiters)]
        part.told.send(READY)
        part.signals.go.wait(LEAVE_SECONDS)
        asking = [
            threads.submit(take_turns, hold, first + number, part)
            for number, hold in enumerate(holds)
        ]
        part.told.send([held for one in asking for held in one.result()])
    part.signals.leave.wait(LEAVE_SECONDS)
    client.close()


def take_turns(hold: Hold, waiter: int, part: Part) -> list[Held]:
    """One thread's times with the lock."""
    log: list[Held] = []
    seconds, end = part.cell.hold, part.signals.end.value
    clock = time.monotonic_ns
    while clock() < end:
        with hold():
            granted = clock()
            if seconds:
                time.sleep(seconds)
            given_up = clock()
        log.append(Held(granted, given_up, waiter))
    return log
