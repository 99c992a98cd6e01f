"""Puts numbered items all the time, each batch until it is known to be in the queue."""

import threading
import time
from types import TracebackType
from typing import Self

from benchmarks.spark_chaos_parts.plan import BATCH, FEEDER, SOURCES, Plan, body_of, source_of

import snowmelt
from snowmelt.core.errors import SnowmeltError

PAUSE = 0.2
CALL_SECONDS = 2.0
END_SECONDS = 10.0


class Feeder:
    """A thread that puts; it begins with this context, and must be finished by `finish`."""

    def __init__(self, plan: Plan) -> None:
        self.items = 0
        """How many are in, for certain."""
        self._plan = plan
        self._least: int | None = None
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopped = True
        self._thread.join(END_SECONDS)

    def wait_for_first(self, timeout: float) -> None:
        """Waits until there is something to read."""
        end = time.monotonic() + timeout
        while self.items == 0 and time.monotonic() < end:
            time.sleep(PAUSE)

    def over_at(self, items: int) -> bool:
        """From now on it stops once so many items are in; whether it has, within a few seconds."""
        self._least = items
        self._thread.join(END_SECONDS)
        return not self._thread.is_alive()

    def _run(self) -> None:
        plan = self._plan
        with snowmelt.connect(plan.url) as cluster:
            options = {**plan.kept, "max_items": plan.bound}
            queues = {one: cluster.fifo(one, producer=FEEDER, **options) for one in SOURCES}
            while not self._over():
                bodies = [body_of(item) for item in range(self.items, self.items + BATCH)]
                try:  # the number says which batch it is, however often it is put
                    queue = queues[source_of(plan, self.items)]
                    queue.put_many(bodies, timeout=CALL_SECONDS, sequence=self.items // BATCH)
                except SnowmeltError:
                    time.sleep(PAUSE)
                    continue
                self.items += BATCH
                time.sleep(PAUSE if self._least is None else 0)  # so that the stream waits for it

    def _over(self) -> bool:
        enough = self._least is not None and self.items >= self._least
        return self._stopped or enough
