"""A consumer: `python -m benchmarks.pool_chaos_parts.consumer PLAN NUMBER LIFE`.

It gets one object, or a few, works on them for a while, and acknowledges them; now and then it
gives them back. When there is little room it asks for much at once now and then. When it forks, the
child must leave alone what is its parent's; it may come into the pool by itself, get an object, and
give it back or end with it. All is written down before and after.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any, Final

from benchmarks.chaos.forks import Forks, allowed
from benchmarks.pool_chaos_parts.bodies import Damaged, id_of
from benchmarks.pool_chaos_parts.journal import Journal, What
from benchmarks.pool_chaos_parts.plan import Plan, Plant
from benchmarks.pool_chaos_parts.process import Words, arguments, joined

import snowmelt
from snowmelt.core.errors import Empty, LeaseLost, SnowmeltError

GET_SECONDS: Final = 2.0
FEW: Final = 8
FEW_SHARE: Final = 0.2
BURST: Final = 12
"""So many gets at a time, when there is little room."""
BURST_SHARE: Final = 0.02
PLANTED: Final = range(5, 15)
"""At which of the occasions a fault is planted: some of the objects are of producers that live."""


class Consumer:
    """One life."""

    def __init__(
        self, plan: Plan, number: int, life: int, cluster: snowmelt.Cluster, journal: Journal
    ) -> None:
        self._plan = plan
        self._cluster = cluster
        self._pool = joined(cluster, plan)
        self._journal = journal
        self._chance = Random(f"{plan.seed}/consumer/{number}/{life}")
        self._forks = Forks(plan.fork_every, self._chance)
        self._plant = plan.plant if (number, life) == (0, 0) else Plant.NONE
        self._occasions = 0

    def run(self, words: Words) -> None:
        self._journal.write(What.STARTED)
        while not words.stop.is_set():
            if self._plan.tight and self._chance.random() < BURST_SHARE:
                self._get_much()
            most = FEW if self._chance.random() < FEW_SHARE else 1
            self.get(most, GET_SECONDS, work=self._plan.work(self._chance))
        self._pool.close()

    def _get_much(self) -> None:
        with ThreadPoolExecutor(BURST) as threads:
            list(threads.map(lambda _: self.get(FEW, GET_SECONDS / 2, forks=False), range(BURST)))

    def get(self, most: int, seconds: float, work: float = 0.0, *, forks: bool = True) -> bool:
        """Whether something came; what came is done with."""
        self._journal.write(What.ASKED)
        try:
            items = self._pool.get_many(most, timeout=seconds)
        except Empty:
            self._journal.write(What.EMPTY)
            return False
        ids = self._written_down([bytearray(body) for body in items.batch])
        time.sleep(work)
        if forks and self._forks.now_and_then(lambda: self._in_child(items)):
            self._journal.write(What.FORKED)
        if self._chance.random() < self._plan.nack:
            self._give_back(items, ids)
        else:
            self._acknowledge(items, ids)
        return True

    def _written_down(self, bodies: list[bytearray]) -> list[int]:
        if self._planted(Plant.DAMAGED):
            bodies[0][-1] ^= 1
        ids, damaged = [], []
        for body in bodies:
            try:
                ids.append(id_of(body))
            except Damaged:
                damaged.append(int.from_bytes(body[:8]))
        self._journal.write(What.GOT, ids)
        if damaged:
            self._journal.write(What.DAMAGED, damaged)
        return ids

    def _in_child(self, items: Any) -> Iterator[str]:
        settle = self._chance.choice((items.ack, items.nack))
        yield from allowed(get=self._pool.get, stats=self._pool.stats, settle=settle)
        self._pool.close()
        own = joined(self._cluster, self._plan)
        try:
            got = own.get(timeout=GET_SECONDS / 2)
        except Empty:
            return
        if self._chance.random() < 1 / 2:
            got.nack()
            own.close()

    def _give_back(self, items: Any, ids: list[int]) -> None:
        self._journal.write(What.ACKED if self._planted(Plant.DOUBLED) else What.BACK, ids)
        items.nack()

    def _acknowledge(self, items: Any, ids: list[int]) -> None:
        hidden = self._planted(Plant.LOST)
        if not hidden:
            self._journal.write(What.ACKING, ids)
        try:
            items.ack()
        except LeaseLost:
            self._journal.write(What.LATE, ids)
        except SnowmeltError:
            self._journal.write(What.UNKNOWN, ids)
        else:
            if not hidden:
                self._journal.write(What.ACKED, ids)

    def _planted(self, plant: Plant) -> bool:
        if self._plant is not plant:
            return False
        self._occasions += 1
        return self._occasions in PLANTED


def main() -> None:
    plan, number, life = arguments()
    words = Words()
    path = plan.folder / f"consumer-{number}-{life}.jsonl"
    with snowmelt.connect(plan.url) as cluster, Journal(path) as journal:
        Consumer(plan, number, life, cluster, journal).run(words)


if __name__ == "__main__":
    main()
