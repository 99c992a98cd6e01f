"""The paper's pseudo-code as events on one list: no machines, no messages, time in floats.

A second program, which shares nothing with those that are tested by it.
"""

from collections import deque
from heapq import heappop, heappush
from random import Random
from statistics import mean
from typing import Any

from snowmelt_lab.pool.options import PoolOptions


class PseudoCode:
    """Runs an experiment; all times are exponential."""

    def __init__(self, options: PoolOptions) -> None:
        self.options = options
        self.chance = Random(options.seed)
        self.stock = [0] * options.producers
        self.line: list[deque[tuple[int, int]]] = [deque() for _ in self.stock]
        self.held_up = [False] * options.producers
        self.asked = [0.0] * options.consumers
        self.waits: list[float] = []
        self.hops: list[int] = []
        self.due: list[tuple[float, int, Any, tuple[int, ...]]] = []
        self.order = 0
        self.now = 0.0

    def after(self, mean_time: float, step: Any, *about: int) -> None:
        self.order += 1
        at = self.now + self.chance.expovariate(1 / mean_time)
        heappush(self.due, (at, self.order, step, about))

    def make(self, producer: int) -> None:
        self.after(1 / self.options.produce_rate, self.made, producer)

    def made(self, producer: int) -> None:
        if self.line[producer]:
            self.after(self.options.transit, self.got, *self.line[producer].popleft())
        else:
            self.stock[producer] += 1
        if self.stock[producer] < self.options.buffers:
            self.make(producer)
        else:
            self.held_up[producer] = True

    def ask(self, consumer: int) -> None:
        self.asked[consumer] = self.now
        self.probe(consumer, 1)

    def probe(self, consumer: int, hop: int) -> None:
        drawn = self.chance.randrange(self.options.producers)
        self.after(self.options.transit, self.requested, drawn, consumer, hop)

    def requested(self, producer: int, consumer: int, hop: int) -> None:
        if self.stock[producer]:
            self.stock[producer] -= 1
            self.after(self.options.transit, self.got, consumer, hop)
            if self.held_up[producer]:
                self.held_up[producer] = False
                self.make(producer)
        elif hop < self.options.max_hops:
            self.probe(consumer, hop + 1)
        else:
            self.line[producer].append((consumer, hop))

    def got(self, consumer: int, hop: int) -> None:
        self.waits.append(self.now - self.asked[consumer])
        self.hops.append(hop)
        self.after(1 / self.options.consume_rate, self.ask, consumer)

    def step(self, objects: int) -> float:
        begin, target = self.now, len(self.waits) + objects
        while len(self.waits) < target:
            self.now, _, step, about = heappop(self.due)
            step(*about)
        return objects / (self.now - begin)

    def run(self) -> tuple[float, float, float]:
        """Throughput, wait, probes."""
        for producer in range(self.options.producers):
            self.make(producer)
        for consumer in range(self.options.consumers):
            self.ask(consumer)
        self.step(self.options.objects // 4)
        self.waits, self.hops = [], []
        throughput = self.step(self.options.objects)
        return throughput, mean(self.waits), mean(self.hops)
