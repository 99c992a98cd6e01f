"""What an experiment with Skeap or Skueue can be asked for; the rest is refused here, by name."""

from enum import Enum
from typing import Final

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt.lab.bounds import within
from snowmelt.protocols.priority.batches import PRIORITIES_MAX

NODES_MAX: Final = 100_000
AT_EASE: Final = 10_000
"""So many operations the machines do within a minute."""
OPERATIONS_EACH_MAX: Final = 64
"""With more a row of runs could be longer than it may (rule 4 of `batches`)."""
WAVES_MAX: Final = 1_000
OPERATIONS_MAX: Final = 2_000_000


class Protocol(Enum):
    """Which queue."""

    SKEAP = "skeap"
    SKUEUE = "skueue"
    """Skeap with one priority."""


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
        within("--ops-per-node", self.ops_per_node, 1, OPERATIONS_EACH_MAX)
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
        """How many priorities there are."""
        return 1 if self.protocol is Protocol.SKUEUE else self.priorities

    @property
    def at_ease(self) -> bool:
        """Whether machines would take no minutes."""
        return self.operations <= AT_EASE
