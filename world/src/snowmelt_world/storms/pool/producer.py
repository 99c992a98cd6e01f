"""A producer: puts one object after another, or a few small ones in a batch.

Each is written down before the put and after. Some producers are faster than others. When it is to
stop it puts no more but stays in the pool; when it is to leave it does so in order.
"""

import time
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from snowmelt.core.errors import Full
from snowmelt_world.storms.forks import Forks, allowed
from snowmelt_world.storms.pool.bodies import ObjectBodies
from snowmelt_world.storms.pool.journal import PoolJournal, PoolStep
from snowmelt_world.storms.pool.load import SIZE_MIN, PoolLoad, first_id
from snowmelt_world.storms.words import StdinWords

PUT_SECONDS: Final = 5.0
LEAVE_SECONDS: Final = 30.0
BATCH: Final = 5
BATCH_SHARE: Final = 0.1
STOCK_SHARE: Final = 0.1
"""After so many of its puts it writes down what it keeps."""
SPREAD: Final = (0.4, 0.7, 1.0, 1.3, 1.6)
"""How long producers pause, against the mean."""


class PoolProducer:
    """One life."""

    def __init__(
        self, load: PoolLoad, number: int, life: int, pool: Any, journal: PoolJournal
    ) -> None:
        self._load = load
        self._pool = pool
        self._journal = journal
        self._bodies = ObjectBodies(load.settings.size_max)
        self._next = first_id(number, life)
        self._chance = Random(f"{load.setting.seed}/producer/{number}/{life}")
        self._forks = Forks(load.fork_every, self._chance)
        self._pause = load.settings.put_pause * SPREAD[number % len(SPREAD)]

    def run(self, words: StdinWords) -> None:
        self._journal.write(PoolStep.STARTED)
        while not words.stop.is_set():
            time.sleep(self._chance.expovariate(1 / self._pause))
            if self._forks.now_and_then(self._in_child):
                self._journal.write(PoolStep.FORKED)
            if self._chance.random() < BATCH_SHARE:
                self._put_batch()
            else:
                self._put_one()
            if self._chance.random() < STOCK_SHARE:
                stats = self._pool.stats()
                stock = stats.stock, stats.on_loan, stats.stock_bytes
                self._journal.write(PoolStep.STOCK, stock)
        words.leave.wait()
        stats = self._pool.stats()
        self._journal.write(PoolStep.LEFT, (stats.stock, stats.on_loan))
        self._pool.close(timeout=LEAVE_SECONDS)

    def _in_child(self) -> Iterator[str]:
        pool = self._pool
        yield from allowed(
            put=lambda: pool.put(b"a child's"),
            put_many=lambda: pool.put_many([b"a child's"]),
            await_room=pool.await_room,
            get=pool.get,
            stats=pool.stats,
        )
        pool.close()

    def _put_one(self) -> None:
        (id_,) = self._ids(1)
        body = self._bodies.make(id_, self._load.size(self._chance))
        self._journal.write(PoolStep.INTENT, (id_,))
        try:
            self._pool.put(body, timeout=PUT_SECONDS)
        except Full:
            self._journal.write(PoolStep.REFUSED, (id_,))
        else:
            self._journal.write(PoolStep.KEPT, (id_,))

    def _put_batch(self) -> None:
        ids = self._ids(BATCH)
        bodies = [self._bodies.make(id_, SIZE_MIN) for id_ in ids]
        self._journal.write(PoolStep.INTENT, ids)
        try:
            kept = self._pool.put_many(bodies, timeout=PUT_SECONDS)
        except Full:  # some may be in, and nobody counts on which
            kept = 0
        self._journal.write(PoolStep.KEPT, ids[:kept])

    def _ids(self, count: int) -> range:
        first = self._next
        self._next += count
        return range(first, self._next)
