"""One engine for queues: a partition is led by one node, copied by steps, and never a closure.

Under construction beside `protocols/fifo`, whose calls it answers. Its parts:

- `state.py`: the items and who has them, a value that its records tell again;
- `leader.py`: who leads in a term: steps, what is owed when they are safe, who waits;
- `publishing.py`, `staged.py`: puts with a hold, and how they come in together;
- `copy.py`, `sending.py`: a copy on a disk, and on its way to another;
- `takeover.py`: how a term begins;
- `node.py`: the machine: who hears what.

The rules stand at the top of each.
"""

from typing import TYPE_CHECKING

from snowmelt.core.needed import when_needed

if TYPE_CHECKING:
    from snowmelt.protocols.queue.node import QueueNode
    from snowmelt.protocols.queue.words import MESSAGES

__getattr__ = when_needed(__name__, MESSAGES="words", QueueNode="node")

__all__ = ["MESSAGES", "QueueNode"]
