"""What each process of a turn does. All of them tell time by one clock of the machine.

How much passes: producers put one call after another, each waiting for room; consumers write down
when an object was got and acknowledged. Who started them opens a window when every consumer has had
something, and closes it; the producers stop then, and the consumers when the last of them has.

How long one takes: the consumer says that it is about to get, the producer waits a moment longer,
writes the time into an object, and puts it; the consumer reads the clock when its get returns.
"""

import os
import time
from functools import partial
from multiprocessing.connection import Connection
from random import Random
from typing import Any, Final

from benchmarks.peers.comparison import Figures, Limits, Work
from benchmarks.peers.crew import CONTEXT, END_SECONDS, READY, Crew
from benchmarks.peers.pool.cell import CELLS, Cell
from benchmarks.peers.pool.clients import Body, Connect, PoolPeer

FIRST: Final = "first"
NEVER: Final = 1 << 62
WAIT: Final = 0.2
HAND_OVER_WAIT: Final = 20.0
PAUSE: Final = (0.0005, 0.0015)
"""Seconds from the consumer's word to the put: long enough for it to be asleep in its get."""
WARM_UP: Final = 200
START_SECONDS: Final = 90.0
FIRST_SECONDS: Final = 30.0
STEADY_SECONDS: Final = 1.5
"""From the first object of the last consumer to the window: until everybody knows everybody."""
HAND_OVERS: Final = (2_000, 500)
"""So many, and with `--quick`."""


def works() -> tuple[Work, ...]:
    """A kind of work for each cell."""
    return tuple(Work(cell.name, str(cell), partial(pass_on, cell), cell.fits) for cell in CELLS)


def pass_on(cell: Cell, peer: PoolPeer, queue: str, limits: Limits) -> Figures:
    """One peer's work on one cell."""
    connect = peer.open(peer.service, queue, cell)
    try:
        if cell.hand_over:
            return latency(peer, connect, cell, HAND_OVERS[limits.quick])
        return rate(peer, connect, cell, limits.seconds)
    finally:
        peer.remove(peer.service, queue)


def rate(peer: PoolPeer, connect: Connect, cell: Cell, seconds: float) -> Figures:
    """Objects a second, while producers and consumers are all at work."""
    signals = Signals(cell)
    with Crew(peer) as crew:
        consumers, producers = (
            [crew.start(act, connect, cell, number, signals) for number in range(cell.pairs)]
            for act in (consume, produce)
        )
        crew.expect(consumers + producers, READY, START_SECONDS)
        signals.go.set()
        crew.expect(consumers, FIRST, FIRST_SECONDS)
        begin = time.monotonic_ns() + round(STEADY_SECONDS * 1e9)
        signals.begin.value = begin
        signals.end.value = begin + round(seconds * 1e9)
        time.sleep(STEADY_SECONDS + seconds)
        for producer in producers:
            crew.heard(producer, END_SECONDS)
        counts = [crew.heard(consumer, END_SECONDS) for consumer in consumers]
        per_second = sum(within for within, _ in counts) / seconds
        spent = crew.spent(sum(every for _, every in counts))
    return {
        "objects_per_second": per_second,
        "mb_per_second": per_second * cell.size / 1e6,
        **spent,
    }


def latency(peer: PoolPeer, connect: Connect, cell: Cell, count: int) -> Figures:
    """Microseconds from just before a put to the return of the get that waited for it."""
    hears, says = CONTEXT.Pipe(duplex=False)
    with Crew(peer) as crew:
        consumer = crew.start(receive, connect, cell, count, says)
        producer = crew.start(hand_over, connect, cell, count, hears)
        crew.expect([consumer, producer], READY, START_SECONDS)
        times = sorted(crew.heard(consumer, END_SECONDS + count * 0.05))
        crew.heard(producer, END_SECONDS)
        spent = crew.spent(WARM_UP + count)
    shares = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99}
    return {
        **{name: times[int(len(times) * share)] / 1000 for name, share in shares.items()},
        **spent,
    }


class Signals:
    """What the processes of a turn share."""

    def __init__(self, cell: Cell) -> None:
        self.go = CONTEXT.Event()
        self.begin = CONTEXT.RawValue("q", NEVER)
        self.end = CONTEXT.RawValue("q", NEVER)
        self.left = CONTEXT.RawArray("b", [1] * cell.pairs)
        """Which producers have not ended yet."""


def produce(connect: Connect, cell: Cell, number: int, signals: Signals, says: Connection) -> None:
    """Puts until the end."""
    bodies = [os.urandom(cell.size) for _ in range(cell.batch)]
    client = connect()
    try:
        says.send(READY)
        signals.go.wait()
        while time.monotonic_ns() < signals.end.value:
            client.put(bodies)
        client.close()
    finally:
        signals.left[number] = 0


def consume(
    connect: Connect, cell: Cell, number: int, signals: Signals, says: Connection
) -> tuple[int, int]:
    """Gets and acknowledges until all producers have ended; objects in the window, and all."""
    del number
    marks: list[tuple[int, int]] = []
    client = connect()
    says.send(READY)
    signals.go.wait()
    while any(signals.left):
        bodies = client.get(cell.batch, WAIT)
        if not bodies:
            continue
        check(bodies, cell)
        client.ack()
        if not marks:
            says.send(FIRST)
        marks.append((time.monotonic_ns(), len(bodies)))
    client.close()
    begin, end = signals.begin.value, signals.end.value
    within = sum(count for at, count in marks if begin < at <= end)
    return within, sum(count for _, count in marks)


def check(bodies: Any, cell: Cell) -> None:
    """They are here as a whole: the first and the last byte of each is touched."""
    for body in bodies:
        if len(body) != cell.size:
            raise ValueError(f"an object of {len(body)} bytes instead of {cell.size}")
        body[0], body[-1]


def hand_over(connect: Connect, cell: Cell, count: int, word: Connection, says: Connection) -> None:
    """Puts an object each time the consumer waits for one."""
    chance = Random(count)
    filler = os.urandom(cell.size - 8)
    client = connect()
    says.send(READY)
    for _ in range(WARM_UP + count):
        if not word.poll(HAND_OVER_WAIT):
            raise TimeoutError("the consumer did not ask for another")
        word.recv_bytes()
        time.sleep(chance.uniform(*PAUSE))
        client.put([time.perf_counter_ns().to_bytes(8) + filler])
    client.close()


def receive(
    connect: Connect, cell: Cell, count: int, word: Connection, says: Connection
) -> list[int]:
    """How many nanoseconds each took."""
    del cell
    times = []
    client = connect()
    says.send(READY)
    for _ in range(WARM_UP + count):
        word.send_bytes(b".")
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
