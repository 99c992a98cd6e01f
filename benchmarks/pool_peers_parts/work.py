"""What each process of a turn does. All of them tell time by one clock of the machine.

How much passes: producers put one call after another, each waiting for room; consumers write down
when an object was got and acknowledged. Who started them opens a window when every consumer has had
something, and closes it; the producers stop then, and the consumers when the last of them has.

How long one takes: the consumer says that it is about to get, the producer waits a moment longer,
writes the time into an object, and puts it; the consumer reads the clock when its get returns.
"""

import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from random import Random
from typing import Any, Final

from benchmarks.pool_peers_parts.cell import Cell
from benchmarks.pool_peers_parts.peer import Body, Connect

READY: Final = "ready"
FIRST: Final = "first"
NEVER: Final = 1 << 62
WAIT: Final = 0.2
HAND_OVER_WAIT: Final = 20.0
PAUSE: Final = (0.0005, 0.0015)
"""Seconds from the consumer's word to the put: long enough for it to be asleep in its get."""
WARM_UP: Final = 200


class Signals:
    """What the processes of a turn share."""

    def __init__(self, cell: Cell) -> None:
        context = multiprocessing.get_context("spawn")
        self.go = context.Event()
        self.begin = context.RawValue("q", NEVER)
        self.end = context.RawValue("q", NEVER)
        self.left = context.RawArray("b", [1] * cell.pairs)
        """Which producers have not ended yet."""


@dataclass(frozen=True)
class Part:
    """One process' part in a turn."""

    connect: Connect
    cell: Cell
    number: int
    signals: Signals
    told: Connection


@dataclass(frozen=True)
class Failed:
    """It came to nothing, since the queue's client raised something."""

    why: str


Act = Callable[[Part], Any]


def run(act: Act, part: Part) -> None:
    """Does one part in this process; the last that is told is what came of it."""
    try:
        part.told.send(act(part))
    except Exception as error:  # whatever a client library raises is that peer's result
        part.told.send(Failed(f"{type(error).__name__}: {error}"))


def produce(part: Part) -> None:
    """Puts until the end."""
    cell, signals = part.cell, part.signals
    bodies = [os.urandom(cell.size) for _ in range(cell.batch)]
    client = part.connect()
    try:
        part.told.send(READY)
        signals.go.wait()
        while time.monotonic_ns() < signals.end.value:
            client.put(bodies)
        client.close()
    finally:
        signals.left[part.number] = 0


def consume(part: Part) -> int:
    """Gets and acknowledges until all producers have ended; how many objects in the window."""
    cell, signals = part.cell, part.signals
    marks: list[tuple[int, int]] = []
    client = part.connect()
    part.told.send(READY)
    signals.go.wait()
    while any(signals.left):
        bodies = client.get(cell.batch, WAIT)
        if not bodies:
            continue
        check(bodies, cell)
        client.ack()
        if not marks:
            part.told.send(FIRST)
        marks.append((time.monotonic_ns(), len(bodies)))
    client.close()
    begin, end = signals.begin.value, signals.end.value
    return sum(count for at, count in marks if begin < at <= end)


def check(bodies: Any, cell: Cell) -> None:
    """They are here as a whole: the first and the last byte of each is touched."""
    for body in bodies:
        if len(body) != cell.size:
            raise ValueError(f"an object of {len(body)} bytes instead of {cell.size}")
        body[0], body[-1]


@dataclass(frozen=True)
class HandOver:
    """A part in a turn that measures how long one object takes, with a pipe to the other."""

    connect: Connect
    cell: Cell
    count: int
    word: Connection
    told: Connection


def hand_over(part: HandOver) -> None:
    """Puts an object each time the consumer waits for one."""
    chance = Random(part.count)
    filler = os.urandom(part.cell.size - 8)
    client = part.connect()
    part.told.send(READY)
    for _ in range(WARM_UP + part.count):
        if not part.word.poll(HAND_OVER_WAIT):
            raise TimeoutError("the consumer did not ask for another")
        part.word.recv_bytes()
        time.sleep(chance.uniform(*PAUSE))
        client.put([time.perf_counter_ns().to_bytes(8) + filler])
    client.close()


def receive(part: HandOver) -> list[int]:
    """How many nanoseconds each took."""
    times = []
    client = part.connect()
    part.told.send(READY)
    for _ in range(WARM_UP + part.count):
        part.word.send_bytes(b".")
        body = got(client.get(1, HAND_OVER_WAIT))
        here = time.perf_counter_ns()
        times.append(here - int.from_bytes(body[:8]))
        client.ack()
    client.close()
    return times[WARM_UP:]


def got(bodies: Any) -> Body:
    """The one that came."""
    if not bodies:
        raise TimeoutError("an object that was put did not come")
    body: Body = bodies[0]
    return body
