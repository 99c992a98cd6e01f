"""A producer: `python -m benchmarks.pool_chaos_parts.producer PLAN NUMBER LIFE`.

It puts one object after another, or a few small ones in a batch, each written down before the put
and after. Some producers are faster than others. When it is to stop it puts no more but stays in
the pool; when it is to leave it does so in order.
"""

import time
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from benchmarks.chaos.forks import Forks, allowed
from benchmarks.pool_chaos_parts.bodies import Bodies
from benchmarks.pool_chaos_parts.journal import Journal, What
from benchmarks.pool_chaos_parts.plan import SIZE_MIN, Plan, first_id
from benchmarks.pool_chaos_parts.process import Words, arguments, joined

import snowmelt
from snowmelt.core.errors import Full

PUT_SECONDS: Final = 5.0
LEAVE_SECONDS: Final = 30.0
BATCH: Final = 5
BATCH_SHARE: Final = 0.1
SPREAD: Final = (0.4, 0.7, 1.0, 1.3, 1.6)
"""How long producers pause, against the mean."""


class Producer:
    """One life."""

    def __init__(self, plan: Plan, number: int, life: int, pool: Any, journal: Journal) -> None:
        self._plan = plan
        self._pool = pool
        self._journal = journal
        self._bodies = Bodies(plan.size_max)
        self._next = first_id(number, life)
        self._chance = Random(f"{plan.seed}/producer/{number}/{life}")
        self._forks = Forks(plan.fork_every, self._chance)
        self._pause = plan.put_pause * SPREAD[number % len(SPREAD)]

    def run(self, words: Words) -> None:
        self._journal.write(What.STARTED)
        while not words.stop.is_set():
            time.sleep(self._chance.expovariate(1 / self._pause))
            if self._forks.now_and_then(self._in_child):
                self._journal.write(What.FORKED)
            if self._chance.random() < BATCH_SHARE:
                self._put_batch()
            else:
                self._put_one()
        words.leave.wait()
        stats = self._pool.stats()
        self._journal.write(What.LEFT, (stats.stock, stats.on_loan))
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
        body = self._bodies.make(id_, self._plan.size(self._chance))
        self._journal.write(What.INTENT, (id_,))
        try:
            self._pool.put(body, timeout=PUT_SECONDS)
        except Full:
            self._journal.write(What.REFUSED, (id_,))
        else:
            self._journal.write(What.KEPT, (id_,))

    def _put_batch(self) -> None:
        ids = self._ids(BATCH)
        bodies = [self._bodies.make(id_, SIZE_MIN) for id_ in ids]
        self._journal.write(What.INTENT, ids)
        try:
            kept = self._pool.put_many(bodies, timeout=PUT_SECONDS)
        except Full:  # some may be in, and nobody counts on which
            kept = 0
        self._journal.write(What.KEPT, ids[:kept])

    def _ids(self, count: int) -> range:
        first = self._next
        self._next += count
        return range(first, self._next)


def main() -> None:
    plan, number, life = arguments()
    words = Words()
    path = plan.folder / f"producer-{number}-{life}.jsonl"
    with snowmelt.connect(plan.url) as cluster, Journal(path) as journal:
        name = f"producer-{number}"
        pool = joined(cluster, plan, producer=name)
        Producer(plan, number, life, pool, journal).run(words)


if __name__ == "__main__":
    main()
