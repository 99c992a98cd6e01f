"""A queue that is being read from the records of a journal, a piece after the other.

A record that does not read is passed over, and said so: another copy may have it. Leases begin
their time when all is read.
"""

from snowmelt.core.instant import Instant
from snowmelt.protocols.fifo.limits import Limits
from snowmelt.protocols.fifo.messages import Pairs
from snowmelt.protocols.fifo.queue import Queue
from snowmelt.protocols.fifo.records import Shared, restore
from snowmelt.protocols.fifo.settings import QueueSettings


class Restoring:
    def __init__(self, name: str, settings: QueueSettings, limits: Limits) -> None:
        self.sound = True
        """Whether everything could be read until now."""
        self.problem = ""
        """Why not, of the last that could not."""
        self._queue = Queue(name, settings, limits)
        self._shared: Shared = {}

    def take(self, pairs: Pairs, now: Instant) -> None:
        for pair in pairs:
            try:
                restore(self._queue, (pair,), now, self._shared)
            except ValueError as error:
                self.sound, self.problem = False, str(error)

    def done(self, now: Instant) -> Queue:
        queue = self._queue
        queue.changed.clear()  # what was read is written
        queue.restored()
        for lease in queue.leases:
            queue.leases.extend(lease, now)
        return queue
