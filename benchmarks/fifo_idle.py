"""What idle queues cost: a node with ten thousand of them against one with one, in one run.

    python benchmarks/fifo_idle.py [--queues 10000] [--gets 2000] [--quick] [--json]

Gets: two nodes, each a cluster of its own; one has one queue, the other has all the others as well,
each with one item. From one queue of each items are got one by one, each acknowledged along with
the next; in turn, so that what else the machine does hits both. The ratio is that of the medians.

Ticks: one machine in this process, on a disk in memory, with as many queues, each used once. What
is timed is the handling of the timer that ends one queue's lease, with all the others idle.

It ends with 1 when a tick takes a millisecond or more, or when a get among idle queues reaches less
than 0.9 of the rate of one without them.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

import msgspec

import snowmelt
from snowmelt.cli.local import LocalCluster, end_on_sigterm
from snowmelt.core.instant import Instant, seconds
from snowmelt.core.names import Address, NodeId, OperationId
from snowmelt.core.node import (
    Announced,
    Event,
    Expired,
    Persist,
    Persisted,
    Reply,
    Requested,
    SetTimer,
    Started,
)
from snowmelt.protocols.membership import Member, View
from snowmelt.protocols.queue import QueueNode
from snowmelt.protocols.queue.calls import Get, Open, Put
from snowmelt.protocols.queue.settings import QueueSettings

TICK_BAR = 0.001
GET_BAR = 0.9
TICKS = 50


class Result(msgspec.Struct, frozen=True):
    """The run."""

    queues: int
    gets_per_second_alone: float
    gets_per_second_among: float
    get_ratio: float
    tick_ms_alone: float
    tick_ms_among: float
    tick_ms_worst: float


class Machine:
    """A machine with queues, a disk that answers at once, and a clock that is turned by hand."""

    def __init__(self, queues: int) -> None:
        self._node = QueueNode(NodeId("n1"), Random(1))
        self._now = Instant(0)
        self._timer: SetTimer | None = None
        self._calls = 0
        self._told: Any = None
        me = Member(NodeId("n1"), Address("127.0.0.1", 4410), birth=1, start=1)
        self._give(Started(wall=time.time_ns()))
        self._give(Announced(View(1, 1, me.id, (me,))))
        for number in range(queues):
            self._ask(Open(f"q{number}", QueueSettings(lease=seconds(1), deliveries_max=1_000)))
            self._ask(Put(f"q{number}", "p", 1, bytes(4) + (1).to_bytes(4, "little"), b"x"))
        self._run(until=60)

    def _give(self, event: Event[Any]) -> None:
        events = [event]
        for one in events:
            for effect in self._node.handle(one, self._now):
                match effect:
                    case Persist(ticket):
                        events.append(Persisted(ticket))
                    case SetTimer():
                        self._timer = effect
                    case Reply(_, message):
                        self._told = message

    def _ask(self, body: Any) -> Any:
        self._calls += 1
        self._give(Requested(OperationId(NodeId("c"), self._calls), body))
        return self._told

    def _run(self, until: float) -> list[float]:
        """Lets timers ring for so many seconds; how long each took."""
        end, took = Instant(self._now + seconds(until)), []
        while self._timer is not None and self._timer.at <= end:
            timer, self._timer = self._timer, None
            self._now = max(self._now, timer.at)
            begin = time.perf_counter()
            self._give(Expired(timer.timer))
            took.append(time.perf_counter() - begin)
        self._now = end
        return took

    def ticks(self) -> list[float]:
        """Leases that end, one after another: how long each tick took."""
        took = []
        for _ in range(TICKS):
            assert self._ask(Get("q0", 1, 1 << 20, seconds(0))).token
            took += self._run(until=2)
        return took


def rate(queue: Any, gets: int) -> float:
    """How many gets of one item a second, each with the acknowledgement of the one before."""
    queue.put_many([b"x" * 100] * gets)
    held = None
    begin = time.perf_counter()
    for _ in range(gets):
        held = queue.get_many(1, ack=held)
    took = time.perf_counter() - begin
    held.ack()
    return gets / took


def rates(options: argparse.Namespace, folder: Path) -> tuple[float, float]:
    """The rate at a node with one queue, and at one with many."""
    alone, among = [], []
    with LocalCluster(1, folder / "alone") as first, LocalCluster(1, folder / "among") as second:
        first.start()
        second.start()
        with snowmelt.connect(first.url) as one, snowmelt.connect(second.url) as many:
            for number in range(options.queues - 1):
                many.fifo(f"idle{number}").put(b"x")
            for _ in range(options.rounds):
                alone.append(rate(one.fifo("q"), options.gets))
                among.append(rate(many.fifo("q"), options.gets))
    return statistics.median(alone), statistics.median(among)


def measured(options: argparse.Namespace, folder: Path) -> Result:
    few, many = Machine(1).ticks(), Machine(options.queues).ticks()
    alone, among = rates(options, folder)
    return Result(
        options.queues,
        round(alone, 1),
        round(among, 1),
        round(among / alone, 2),
        round(1000 * statistics.median(few), 4),
        round(1000 * statistics.median(many), 4),
        round(1000 * max(many), 4),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--gets", type=int, default=500, help="at each, in a round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="a fifth of it")
    parser.add_argument("--folder", type=Path, default=None, help="where the disks are made")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.queues, options.gets = options.queues // 5, options.gets // 5
    end_on_sigterm()
    folder = Path(tempfile.mkdtemp(prefix="idle-", dir=options.folder))
    try:
        result = measured(options, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        print(msgspec.json.encode(result).decode())
    else:
        for name in Result.__struct_fields__:
            print(f"{name.replace('_', ' '):24} {getattr(result, name):,}")
    fit = result.tick_ms_among < 1000 * TICK_BAR and result.get_ratio >= GET_BAR
    return 0 if fit else 1


if __name__ == "__main__":
    sys.exit(main())
