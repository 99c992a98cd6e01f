"""What each node asks for, and in which round: the same for the machines and the arrays."""

import numpy as np
from numpy.typing import NDArray

from snowmelt.core.keys import KEY_MAX
from snowmelt_lab.priority.options import PriorityOptions, Protocol

GET = -1
"""In place of a priority."""


class Load:
    """One row a node, in the order in which it asks (rule 1 of the package).

    >>> load = Load(PriorityOptions(nodes=3, ops_per_node=2, waves=2), span=10)
    >>> load.rounds.shape, bool((load.rounds >= 1).all()), int(load.rounds.max()) <= 20
    ((3, 4), True, True)
    """

    def __init__(self, options: PriorityOptions, span: int) -> None:
        """With the rounds that a wave takes."""
        chance = np.random.default_rng(options.seed)
        each = options.nodes, options.ops_per_node * options.waves
        drawn = chance.integers(1, options.waves * span, each, endpoint=True)
        self.rounds: NDArray[np.int64] = np.sort(drawn, axis=1)
        most = KEY_MAX if options.protocol is Protocol.SEAP else options.rows
        priorities = chance.integers(0, most, each)
        gets = chance.random(each) < options.delete_share
        self.priorities: NDArray[np.int64] = np.where(gets, GET, priorities)
