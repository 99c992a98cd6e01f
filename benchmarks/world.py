"""How many events a second the simulated world handles on one core.

Two nodes of a trivial machine throw messages at each other; every event goes through the heap, the
network's fate, the machine, its check and the trace's digest, as in any life. Beside it, for scale,
a loop that only pushes to and pops from a heap of the same size.
"""

import argparse
import heapq
import json
import statistics
import time

from rich.console import Console
from rich.table import Table

from snowmelt.core.instant import Instant, seconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Effect, Event, Received, Send, Started
from snowmelt.protocols.echo import Echo
from snowmelt_world.world import World


class Thrower:
    """Sends back whatever it gets."""

    def __init__(self, other: NodeId, balls: int) -> None:
        self.other = other
        self.balls = balls

    def handle(self, event: Event[Echo], now: Instant) -> list[Effect[Echo]]:
        del now
        match event:
            case Received(source, message):
                return [Send(source, message)]
            case Started():
                return [Send(self.other, Echo(b"ball")) for _ in range(self.balls)]
            case _:
                return []

    def check(self) -> None:
        pass


def world_rate(events: int, balls: int) -> float:
    world = World(seed=1)
    left, right = NodeId("n1"), NodeId("n2")
    world.add(left, lambda _: Thrower(right, balls))
    world.add(right, lambda _: Thrower(left, 0))
    world.start(left)
    world.start(right)
    begin = time.perf_counter()
    world.run(Instant(seconds(1e9)), steps_max=events)
    return events / (time.perf_counter() - begin)


def heap_rate(events: int, balls: int) -> float:
    heap = [(at, at, None) for at in range(balls)]
    begin = time.perf_counter()
    for step in range(events):
        at, _, _ = heapq.heappop(heap)
        heapq.heappush(heap, (at + balls, step, None))
    return events / (time.perf_counter() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=300_000)
    parser.add_argument("--balls", type=int, default=64, help="messages on their way")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    world, heap = [], []
    for _ in range(options.rounds):
        world.append(world_rate(options.events, options.balls))
        heap.append(heap_rate(options.events, options.balls))
    row = {
        "world_events_per_second": round(statistics.median(world)),
        "bare_heap_per_second": round(statistics.median(heap)),
        "world_to_heap": round(statistics.median(world) / statistics.median(heap), 3),
    }
    if options.json:
        print(json.dumps({"benchmark": "world", **row}))
        return
    table = Table(*row)
    table.add_row(*(f"{value:,}" for value in row.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
