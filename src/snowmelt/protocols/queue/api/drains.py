"""What an operator asks of a node that is to be emptied, and what the node answers."""

from typing import Annotated, Final

import msgspec

from snowmelt.core.ahead import MANY, Count
from snowmelt.core.names import NodeName
from snowmelt.protocols.queue.api.partition_names import Name

NAMES_MAX: Final = 100


class Drain(msgspec.Struct, frozen=True, tag="fifo.drain", array_like=True):
    """The node that hears it is to keep no queue from now on; or, undone, as many as before."""

    undo: bool = False


class Drained(msgspec.Struct, frozen=True, tag="fifo.drained", array_like=True):
    """How much a node still keeps while it is emptied."""

    node: NodeName
    drains: bool
    """False once that was undone, or the node has started anew."""
    empty: bool
    """Whether nothing is on its disk that anybody counts on."""
    queues: Count
    """So many queues are on its disk, or are to be led by it."""
    names: Annotated[tuple[Name, ...], MANY]
    """The first hundred of them."""
    alone: Count
    """So many of these have one copy, which is here."""
    items: Count
    """So many items are in them, here."""
    bodies: Count
    """So many bodies of large puts are here, of which others have none yet."""
    stuck: Count
    """So many queues need as many nodes as there are."""
