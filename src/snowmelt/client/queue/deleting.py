"""A queue is deleted, as steps (`connection.steps`).

One of several partitions is deleted partition by partition, and the first of them last: so after an
interrupt it can be deleted again. Whoever opens it meanwhile has those made anew that are gone, and
they are deleted, too. Where nothing may be in it, all are asked first. If something comes into one
meanwhile, those that are gone by then are made anew, with nothing in them.
"""

import msgspec

from snowmelt.client.connection.steps import Steps
from snowmelt.client.connection.waits import Wait, within
from snowmelt.client.fifo.steps import FifoSteps, queue_names
from snowmelt.client.leases.steps import ask_anybody
from snowmelt.client.queue.options import ProducerSequence
from snowmelt.core.errors import BadOption, NoSuchQueue, NotEmpty, QueueExists, Unavailable
from snowmelt.core.names import queue_name
from snowmelt.protocols.queue.api.calls import Open
from snowmelt.protocols.queue.api.deletes import COUNTS, Delete, Deleted, counted
from snowmelt.protocols.queue.api.partition_names import part_names
from snowmelt.protocols.queue.api.settings import PARTITIONS_MAX, QueueSettings


def delete(
    name: str, if_empty: bool, lost: bool, timeout: float, moved_to: str | None = None
) -> Steps[Deleted]:
    """Deletes the queue of this name."""
    if moved_to is None:
        return within(_delete(Delete(name, if_empty, lost), timeout), timeout)
    if lost:
        raise BadOption("lost", lost, "no, where moved_to says that all went into another queue")
    if queue_name(moved_to) == name:
        raise BadOption("moved_to", moved_to, f"another queue than {name}")
    return within(_delete(Delete(name, if_empty=True, moved_to=moved_to), timeout), timeout)


def _delete(ask: Delete, timeout: float) -> Steps[Deleted]:
    try:
        told: Deleted = yield from ask_anybody(ask, Wait(timeout))
    except NoSuchQueue:
        if ask.queue in (yield from queue_names(timeout)).parted:
            return (yield from _delete_parts(ask, timeout))
        raise
    return told


def _delete_parts(ask: Delete, timeout: float) -> Steps[Deleted]:
    wait = Wait(timeout)
    settings: QueueSettings | None = None
    if ask.if_empty:
        status = yield from FifoSteps(ask.queue, None, ProducerSequence()).stats(wait.left)
        settings = status.settings
        if status.away:
            raise Unavailable(f"partitions {status.away} of {ask.queue} can't be asked just now")
        if there := counted(status).text:
            raise NotEmpty(f"{ask.queue!r} has {there}; if_empty deletes only an empty queue")
    gone: list[Deleted] = []
    left = names = part_names(ask.queue, PARTITIONS_MAX)
    while left:
        *before, name = left
        each = msgspec.structs.replace(ask, queue=name)
        try:
            gone.append((yield from ask_anybody(each, wait)))
        except NoSuchQueue:
            pass
        except QueueExists:  # another was made again
            before = names
        except NotEmpty:  # something came into it
            if settings is not None and gone:
                yield from ask_anybody(Open(ask.queue, settings), wait)
            raise
        left = before
    if not gone:
        raise NoSuchQueue(f"there is no queue {ask.queue!r}")
    counts = {name: sum([getattr(one, name) for one in gone]) for name in COUNTS}
    return Deleted(counted=all(one.counted for one in gone), **counts)
