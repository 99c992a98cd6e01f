"""A consumer: gets one object or a few, works on them, and acknowledges them.

Now and then it gives them back. When there is little room it asks for much at once now and then.
When it forks, the child must leave alone what is its parent's; it may come into the pool by itself,
get an object, and give it back or end with it. All is written down before and after.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any, Final

import snowmelt
from snowmelt.core.errors import Empty, LeaseLost, SnowmeltError
from snowmelt_world.storms.forks import Forks, allowed
from snowmelt_world.storms.pool.bodies import DamagedBody, id_of
from snowmelt_world.storms.pool.journal import PoolJournal, PoolStep
from snowmelt_world.storms.pool.load import DAMAGED, DOUBLED, LOST, PoolLoad
from snowmelt_world.storms.words import StdinWords

GET_SECONDS: Final = 2.0
FEW: Final = 8
FEW_SHARE: Final = 0.2
BURST: Final = 12
"""So many gets at a time, when there is little room."""
BURST_SHARE: Final = 0.02
PLANTED: Final = range(5, 15)
"""At which of the occasions a fault is planted: some of the objects are of producers that live."""


class PoolConsumer:
    """One life."""

    def __init__(
        self,
        load: PoolLoad,
        number: int,
        life: int,
        cluster: snowmelt.Cluster,
        journal: PoolJournal,
    ) -> None:
        self._load = load
        self._cluster = cluster
        self._pool = load.joined(cluster)
        self._journal = journal
        self._chance = Random(f"{load.setting.seed}/consumer/{number}/{life}")
        self._forks = Forks(load.fork_every, self._chance)
        self._plant = load.setting.plant if (number, life) == (0, 0) else ""
        self._occasions = 0

    def run(self, words: StdinWords) -> None:
        self._journal.write(PoolStep.STARTED)
        while not words.stop.is_set():
            if self._load.tight and self._chance.random() < BURST_SHARE:
                self._get_much()
            most = FEW if self._chance.random() < FEW_SHARE else 1
            self.get(most, GET_SECONDS, work=self._load.work(self._chance))
        self._pool.close()

    def _get_much(self) -> None:
        with ThreadPoolExecutor(BURST) as threads:
            list(threads.map(lambda _: self.get(FEW, GET_SECONDS / 2, forks=False), range(BURST)))

    def get(self, most: int, seconds: float, work: float = 0.0, *, forks: bool = True) -> bool:
        """Whether something came; what came is done with."""
        self._journal.write(PoolStep.ASKED)
        try:
            items = self._pool.get_many(most, timeout=seconds)
        except Empty:
            self._journal.write(PoolStep.EMPTY)
            return False
        ids = self._written_down([bytearray(body) for body in items.batch])
        time.sleep(work)
        if forks and self._forks.now_and_then(lambda: self._in_child(items)):
            self._journal.write(PoolStep.FORKED)
        if self._chance.random() < self._load.settings.nack:
            self._give_back(items, ids)
        else:
            self._acknowledge(items, ids)
        return True

    def _written_down(self, bodies: list[bytearray]) -> list[int]:
        if self._planted(DAMAGED):
            bodies[0][-1] ^= 1
        ids, damaged = [], []
        for body in bodies:
            try:
                ids.append(id_of(body))
            except DamagedBody:
                damaged.append(int.from_bytes(body[:8]))
        self._journal.write(PoolStep.GOT, ids)
        if damaged:
            self._journal.write(PoolStep.DAMAGED, damaged)
        return ids

    def _in_child(self, items: Any) -> Iterator[str]:
        settle = self._chance.choice((items.ack, items.nack))
        yield from allowed(get=self._pool.get, stats=self._pool.stats, settle=settle)
        self._pool.close()
        own = self._load.joined(self._cluster)
        try:
            got = own.get(timeout=GET_SECONDS / 2)
        except Empty:
            return
        if self._chance.random() < 1 / 2:
            got.nack()
            own.close()

    def _give_back(self, items: Any, ids: list[int]) -> None:
        self._journal.write(PoolStep.ACKED if self._planted(DOUBLED) else PoolStep.BACK, ids)
        items.nack()

    def _acknowledge(self, items: Any, ids: list[int]) -> None:
        hidden = self._planted(LOST)
        if not hidden:
            self._journal.write(PoolStep.ACKING, ids)
        try:
            items.ack()
        except LeaseLost:
            self._journal.write(PoolStep.LATE, ids)
        except SnowmeltError:
            self._journal.write(PoolStep.UNKNOWN, ids)
        else:
            if not hidden:
                self._journal.write(PoolStep.ACKED, ids)

    def _planted(self, plant: str) -> bool:
        if self._plant != plant:
            return False
        self._occasions += 1
        return self._occasions in PLANTED
