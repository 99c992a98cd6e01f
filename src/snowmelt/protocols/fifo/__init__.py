"""First in, first out, kept on several nodes, leased to consumers: Blizzard, made durable.

The theory of operation is written at the end of this docstring's work; see docs/fifo.md.
"""

from snowmelt.protocols.fifo.messages import MESSAGES
from snowmelt.protocols.fifo.node import FifoNode

__all__ = ["MESSAGES", "FifoNode"]
