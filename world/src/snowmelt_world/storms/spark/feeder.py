"""Puts numbered items all the time, each batch until it is known to be in the queue."""

import threading
import time
from typing import Final, Self

import snowmelt
from snowmelt.core.errors import SnowmeltError
from snowmelt_world.storms.spark.load import BATCH, FEEDER, SOURCES, StreamLoad, body_of, source_of

PAUSE: Final = 0.2
CALL_SECONDS: Final = 2.0
END_SECONDS: Final = 10.0


class StreamFeeder:
    """A thread that puts; it begins with this context, and ends with it."""

    def __init__(self, load: StreamLoad) -> None:
        self.items = 0
        """How many are in, for certain."""
        self._load = load
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        self._thread.join(END_SECONDS)

    def wait_for_first(self, timeout: float) -> None:
        """Waits until there is something to read."""
        end = time.monotonic() + timeout
        while self.items == 0 and time.monotonic() < end:
            time.sleep(PAUSE)

    def _run(self) -> None:
        load = self._load
        with snowmelt.connect(load.url) as cluster:
            options = {**load.kept, "max_items": load.bound}
            queues = {one: cluster.fifo(one, producer=FEEDER, **options) for one in SOURCES}
            while not self._stopped:
                bodies = [body_of(item) for item in range(self.items, self.items + BATCH)]
                try:  # the number says which batch it is, however often it is put
                    queue = queues[source_of(load, self.items)]
                    queue.put_many(bodies, timeout=CALL_SECONDS, sequence=self.items // BATCH)
                except SnowmeltError:
                    time.sleep(PAUSE)
                    continue
                self.items += BATCH
                time.sleep(PAUSE)  # so that the stream waits for it
