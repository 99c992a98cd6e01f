"""What an experiment with a priority queue can be asked for; the rest is refused here, by name."""

from enum import Enum
from typing import Final

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt_lab.bounds import within
from snowmelt_lab.machines.skeap.batches import PRIORITIES_MAX

NODES_MAX: Final = 100_000
AT_EASE: Final = 10_000
"""So many operations the machines do within a minute."""
OPERATIONS_EACH_MAX: Final = 64
"""With more a row of runs could be longer than it may (rule 3 of `batches`)."""
SEAP_EACH_MAX: Final = 1_024
"""Its batches are two numbers."""
WAVES_MAX: Final = 1_000
OPERATIONS_MAX: Final = 2_000_000


class Protocol(Enum):
    SKEAP = "skeap"
    SKUEUE = "skueue"
    """Skeap with one priority."""
    SEAP = "seap"
    """Any priority: `--priorities` says nothing."""


class PriorityOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment.

    >>> PriorityOptions(nodes=1)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: --nodes is 1; allowed: 2 to 100000
    >>> PriorityOptions(protocol=Protocol.SKUEUE, priorities=4).rows
    1
    """

    protocol: Protocol = Protocol.SKEAP
    nodes: int = 100
    ops_per_node: int = 1
    """In the time of a wave."""
    waves: int = 5
    priorities: int = 4
    delete_share: float = 0.5
    """How likely an operation is a get."""
    salt: str = "lab"
    seed: int = 1

    def __post_init__(self) -> None:
        within("--nodes", self.nodes, 2, NODES_MAX)
        each = SEAP_EACH_MAX if self.protocol is Protocol.SEAP else OPERATIONS_EACH_MAX
        within("--ops-per-node", self.ops_per_node, 1, each)
        within("--waves", self.waves, 1, WAVES_MAX)
        within("--priorities", self.priorities, 1, PRIORITIES_MAX)
        within("--delete-share", self.delete_share, 0.0, 1.0)
        if self.seed < 0:
            raise BadOption("--seed", self.seed, "0 or more")
        if self.operations > OPERATIONS_MAX:
            allowed = f"{OPERATIONS_MAX // (self.nodes * self.ops_per_node)} or fewer here: "
            allowed += f"{OPERATIONS_MAX} operations at most, of all nodes and waves"
            raise BadOption("--waves", self.waves, allowed)

    @property
    def operations(self) -> int:
        """Of all nodes."""
        return self.nodes * self.ops_per_node * self.waves

    @property
    def rows(self) -> int:
        """How many rows of positions there are; with any priority there is one, in no order."""
        return self.priorities if self.protocol is Protocol.SKEAP else 1

    @property
    def at_ease(self) -> bool:
        """Whether machines would take no minutes."""
        return self.operations <= AT_EASE
