"""What each process of a turn does. All of them tell time by one clock of the machine.

A waiter is a thread: it asks for the lock, reads the clock when it has it, holds it for a moment,
reads the clock again, gives it up, and asks anew at once. The threads of a process share what their
client library shares. All start together, and nobody asks any more when the time is over; so
everybody has had the lock once more by then, and nobody waits for one who has left.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection
from typing import Final

from benchmarks.peers.baton.cell import CELLS, Cell
from benchmarks.peers.baton.clients import Connect, Hold, LockPeer, Messages
from benchmarks.peers.baton.holds import Held, figures, in_order
from benchmarks.peers.comparison import Figures, Limits, Work
from benchmarks.peers.crew import CONTEXT, READY, Crew

LEAVE_SECONDS: Final = 60.0
START_SECONDS: Final = 60.0
STEADY_SECONDS: Final = 0.7
"""From the first asking to the window."""
END_SECONDS: Final = 30.0
"""How long after the window the last that waits may still wait."""


def works() -> tuple[Work, ...]:
    """A kind of work for each cell."""
    return tuple(Work(cell.name, str(cell), partial(hand_on, cell)) for cell in CELLS)


def hand_on(cell: Cell, peer: LockPeer, lock: str, limits: Limits) -> Figures:
    """One peer's work on one cell."""
    signals = Signals()
    connect = peer.connect(peer.service)
    with Crew(peer) as crew:
        parts = [
            crew.start(want, connect, cell, lock, number, signals)
            for number in range(len(cell.shares))
        ]
        crew.expect(parts, READY, START_SECONDS)
        before = peer.messages(peer.service)
        begin = time.monotonic_ns() + round(STEADY_SECONDS * 1e9)
        end = signals.end.value = begin + round(limits.seconds * 1e9)
        signals.go.set()
        longest = STEADY_SECONDS + limits.seconds + END_SECONDS
        holds = in_order([crew.heard(part, longest) for part in parts])
        after = peer.messages(peer.service)
        signals.leave.set()
        for part in parts:
            crew.heard(part, LEAVE_SECONDS)
        spent = crew.spent(len(holds))
    sent = Messages(*(now - then for now, then in zip(after, before, strict=True)))
    return {**figures(holds, begin, end, cell.waiters, sent), **spent}


class Signals:
    """What the processes of a turn share."""

    def __init__(self) -> None:
        self.go = CONTEXT.Event()
        self.end = CONTEXT.RawValue("q", 0)
        self.leave = CONTEXT.Event()
        """Clients stay until then, so that what their connections counted can be read."""


def want(
    connect: Connect, cell: Cell, lock: str, number: int, signals: Signals, says: Connection
) -> None:
    """Wants the lock in every thread until the end, and says by whom it was held when."""
    waiters = cell.shares[number]
    first = sum(cell.shares[:number])
    client = connect(number=number)
    with ThreadPoolExecutor(waiters) as threads:
        holds = [client.waiter(lock) for _ in range(waiters)]
        says.send(READY)
        signals.go.wait(LEAVE_SECONDS)
        asking = [
            threads.submit(take_turns, hold, first + at, cell.hold, signals.end.value)
            for at, hold in enumerate(holds)
        ]
        says.send([held for one in asking for held in one.result()])
    signals.leave.wait(LEAVE_SECONDS)
    client.close()


def take_turns(hold: Hold, waiter: int, seconds: float, end: int) -> list[Held]:
    """One thread's times with the lock."""
    log: list[Held] = []
    clock = time.monotonic_ns
    while clock() < end:
        with hold():
            granted = clock()
            if seconds:
                time.sleep(seconds)
            given_up = clock()
        log.append(Held(granted, given_up, waiter))
    return log
