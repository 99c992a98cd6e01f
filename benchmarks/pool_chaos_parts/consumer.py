"""A consumer: `python -m benchmarks.pool_chaos_parts.consumer PLAN NUMBER LIFE`.

It gets one object, or a few, works on them for a while, and acknowledges them; now and then it
gives them back. All is written down before and after.
"""

import time
from random import Random
from typing import Any, Final

from benchmarks.pool_chaos_parts.bodies import Damaged, id_of
from benchmarks.pool_chaos_parts.journal import Journal, What
from benchmarks.pool_chaos_parts.plan import POOL, Plan, Plant
from benchmarks.pool_chaos_parts.process import Words, arguments

import snowmelt
from snowmelt.core.errors import Empty, LeaseLost, SnowmeltError

GET_SECONDS: Final = 2.0
FEW: Final = 8
FEW_SHARE: Final = 0.2
PLANTED: Final = range(5, 15)
"""At which of the occasions a fault is planted: some of the objects are of producers that live."""


class Consumer:
    """One life."""

    def __init__(self, plan: Plan, number: int, life: int, pool: Any, journal: Journal) -> None:
        self._plan = plan
        self._pool = pool
        self._journal = journal
        self._chance = Random(f"{plan.seed}/consumer/{number}/{life}")
        self._plant = plan.plant if (number, life) == (0, 0) else Plant.NONE
        self._occasions = 0

    def run(self, words: Words) -> None:
        self._journal.write(What.STARTED)
        while not words.stop.is_set():
            most = FEW if self._chance.random() < FEW_SHARE else 1
            self.get(most, GET_SECONDS, work=self._plan.work(self._chance))
        self._pool.close()

    def get(self, most: int, seconds: float, work: float = 0.0) -> bool:
        """Whether something came; what came is done with."""
        self._journal.write(What.ASKED)
        try:
            items = self._pool.get_many(most, timeout=seconds)
        except Empty:
            self._journal.write(What.EMPTY)
            return False
        ids = self._written_down([bytearray(body) for body in items.batch])
        time.sleep(work)
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
        pool = cluster.pool(POOL, **plan.options)
        Consumer(plan, number, life, pool, journal).run(words)


if __name__ == "__main__":
    main()
