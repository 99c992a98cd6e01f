"""A turn: fresh processes for one peer and one cell, and what they measured."""

import multiprocessing
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Final

from benchmarks.pool_peers_parts.cell import Cell
from benchmarks.pool_peers_parts.peer import Connect
from benchmarks.pool_peers_parts.work import (
    FIRST,
    READY,
    Failed,
    HandOver,
    Part,
    Signals,
    consume,
    hand_over,
    produce,
    receive,
    run,
)

START_SECONDS: Final = 90.0
FIRST_SECONDS: Final = 30.0
END_SECONDS: Final = 60.0
STEADY_SECONDS: Final = 1.5

Figures = Mapping[str, float]
"""What a turn measured; the first of them is what peers are compared by."""

CONTEXT: Final = multiprocessing.get_context("spawn")


class TurnFailed(Exception):
    """A turn that came to no figures."""


@dataclass(frozen=True)
class Bounds:
    """How long or how often a turn measures."""

    seconds: float
    hand_overs: int
    steady: float = STEADY_SECONDS
    """From the first object of the last consumer to the window: until everybody knows everybody."""


def turn(connect: Connect, cell: Cell, bounds: Bounds) -> Figures:
    """One peer's work on one cell; raises `TurnFailed`."""
    if cell.hand_over:
        return latency(connect, cell, bounds.hand_overs)
    return rate(connect, cell, bounds)


def rate(connect: Connect, cell: Cell, bounds: Bounds) -> Figures:
    """Objects a second, while producers and consumers are all at work."""
    signals = Signals(cell)
    with processes() as crew:
        consumers = [
            crew.start(run, consume, Part, connect, cell, number, signals)
            for number in range(cell.pairs)
        ]
        producers = [
            crew.start(run, produce, Part, connect, cell, number, signals)
            for number in range(cell.pairs)
        ]
        expect(consumers + producers, READY, START_SECONDS)
        signals.go.set()
        expect(consumers, FIRST, FIRST_SECONDS)
        begin = time.monotonic_ns() + round(bounds.steady * 1e9)
        signals.begin.value = begin
        signals.end.value = begin + round(bounds.seconds * 1e9)
        time.sleep(bounds.steady + bounds.seconds)
        for producer in producers:
            heard(producer, END_SECONDS)
        count = sum(heard(consumer, END_SECONDS) for consumer in consumers)
    per_second = count / bounds.seconds
    return {"objects_per_second": per_second, "mb_per_second": per_second * cell.size / 1e6}


def latency(connect: Connect, cell: Cell, count: int) -> Figures:
    """Microseconds from just before a put to the return of the get that waited for it."""
    hears, says = CONTEXT.Pipe(duplex=False)
    with processes() as crew:
        consumer = crew.start(run, receive, HandOver, connect, cell, count, says)
        producer = crew.start(run, hand_over, HandOver, connect, cell, count, hears)
        expect([consumer, producer], READY, START_SECONDS)
        times = sorted(heard(consumer, END_SECONDS + count * 0.05))
        heard(producer, END_SECONDS)
    shares = {"p50_us": 0.5, "p95_us": 0.95, "p99_us": 0.99}
    return {name: times[int(len(times) * share)] / 1000 for name, share in shares.items()}


class Crew:
    """The processes of one turn."""

    def __init__(self) -> None:
        self.all: list[BaseProcess] = []

    def start(self, target: Any, act: Any, kind: Any, *values: Any) -> Connection:
        """Starts one; returns what it is heard by."""
        hears, told = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=target, args=(act, kind(*values, told)))
        process.start()
        told.close()  # so that its death is heard
        self.all.append(process)
        return hears


@contextmanager
def processes() -> Iterator[Crew]:
    """Processes that have all ended afterwards, by force if they must."""
    crew = Crew()
    try:
        yield crew
        for process in crew.all:
            process.join(END_SECONDS)
    finally:
        for process in crew.all:
            process.kill()
            process.join()


def expect(sources: list[Connection], word: str, seconds: float) -> None:
    """Each says that word."""
    end = time.monotonic() + seconds
    for source in sources:
        said = heard(source, max(0.0, end - time.monotonic()))
        if said != word:
            raise TurnFailed(f"a process said {said!r} instead of {word!r}")


def heard(source: Connection, seconds: float) -> Any:
    """What a process says next."""
    if not source.poll(seconds):
        raise TurnFailed("a process did not come so far in time")
    try:
        said = source.recv()
    except EOFError:
        raise TurnFailed("a process died") from None
    if isinstance(said, Failed):
        raise TurnFailed(said.why)
    return said
