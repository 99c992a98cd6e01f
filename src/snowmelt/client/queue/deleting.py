"""A queue is deleted, as steps (`connection.steps`)."""

from snowmelt.client.connection.steps import Steps
from snowmelt.client.connection.waits import Wait, within
from snowmelt.client.leases.steps import ask_anybody
from snowmelt.client.overlay.steps import overlay_queues
from snowmelt.core.errors import BadOption, NoSuchQueue
from snowmelt.protocols.queue.deletes import Delete, Deleted


def delete(name: str, if_empty: bool, lost: bool, timeout: float) -> Steps[Deleted]:
    """Deletes the queue of this name; those on the overlay stay, which is said."""
    return within(_delete(Delete(name, if_empty, lost), timeout), timeout)


def _delete(ask: Delete, timeout: float) -> Steps[Deleted]:
    try:
        told: Deleted = yield from ask_anybody(ask, Wait(timeout))
    except NoSuchQueue:
        if ask.queue in (yield from overlay_queues(timeout)):
            allowed = "a queue with a leader: one on the overlay can't be deleted"
            raise BadOption("queue", ask.queue, allowed) from None
        raise
    return told
