"""All records of a queue at once; a node writes them as they change, and reads them in pieces."""

from snowmelt.core.instant import Instant
from snowmelt.protocols.fifo.limits import LIMITS, Limits
from snowmelt.protocols.fifo.messages import Pairs
from snowmelt.protocols.fifo.queue import Queue
from snowmelt.protocols.fifo.records import other_keys, record, restore
from snowmelt.protocols.fifo.settings import QueueSettings


def records(queue: Queue) -> Pairs:
    """Every record of a queue, in the order in which `restored` can take them."""
    keys = other_keys(queue)
    keys += [b"x" + run.start.to_bytes(8) for run in queue.runs]
    keys += [b"y" + span.start.to_bytes(8) for span, _ in queue.failures]
    keys += [b"z" + span.start.to_bytes(8) for span, _ in queue.delays]
    return tuple((key, record(queue, key)) for key in sorted(keys))


def restored(
    name: str,
    settings: QueueSettings,
    pairs: Pairs,
    now: Instant,
    limits: Limits = LIMITS,
) -> Queue:
    """A queue from its records; raises `ValueError` when they don't read."""
    queue = Queue(name, settings, limits)
    restore(queue, tuple(sorted(pairs)), now, {})
    queue.restored()
    return queue
