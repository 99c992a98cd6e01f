"""The life of the one engine's queues: the fifo's users and judges, over another machine."""

from snowmelt.sim.families.fifo import FifoLife


class QueueLife(FifoLife):
    """As a fifo's, without groups and staging yet."""

    name = "queue"
    groups_share = 0.0
