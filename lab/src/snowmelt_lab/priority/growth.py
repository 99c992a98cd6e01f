"""What an operation costs against the number of nodes: measured for each size and rate.

Skeap and Skueue in arrays, Seap with the machines.
"""

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Final

import msgspec

from snowmelt_lab.engine import MACHINES_MAX
from snowmelt_lab.fitting import SALTS, sizes_up_to
from snowmelt_lab.priority import arrays, experiment
from snowmelt_lab.priority.options import PriorityOptions, Protocol

RATES: Final = (1, 8, 64)
AT_ONCE: Final = 600_000
"""Operations of one experiment at most: five for each point have to end within minutes."""
MACHINES_AT_ONCE: Final = 40_000
"""The same for machines."""


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One size and rate, in the mean over some overlays; of the greatest what is a greatest."""

    nodes: int
    ops_per_node: int
    rounds_mean: float
    rounds_p99: float
    rounds_waiting_mean: float
    rounds_climbing_mean: float
    rounds_table_mean: float
    tree_height: float
    tree_height_hops: float
    routing_hops_mean: float
    congestion_mean: float
    congestion_max: int
    message_bits_mean: float
    message_bits_max: int
    consistent: bool
    rate: float
    """Operations that a node makes in a round: the paper's Lambda."""
    machines_agree: bool | None
    """Whether the machines gave the very same for the first overlay, if they were asked."""


def points(options: PriorityOptions, rates: Sequence[int], machines: int) -> Iterator[Point]:
    """Each size up to that of the options; the machines are asked up to a size of their own."""
    for nodes, rate in pairs(options, rates):
        one = msgspec.structs.replace(options, nodes=nodes, ops_per_node=rate)
        yield _point(one, machines=nodes <= min(machines, MACHINES_MAX))


def pairs(options: PriorityOptions, rates: Sequence[int]) -> list[tuple[int, int]]:
    """Sizes and rates that are not too many operations."""
    sizes = sizes_up_to(options.nodes)
    every = [(nodes, rate) for nodes in sizes for rate in rates]
    most = MACHINES_AT_ONCE if options.protocol is Protocol.SEAP else AT_ONCE
    return [(n, rate) for n, rate in every if n * rate * options.waves <= most]


def _point(options: PriorityOptions, *, machines: bool) -> Point:
    salts = [f"{options.salt}{number}" for number in range(SALTS)]
    by_machines = options.protocol is Protocol.SEAP
    run = experiment.run if by_machines else arrays.run
    each = [run(msgspec.structs.replace(options, salt=salt)) for salt in salts]
    agree = None
    if machines and not by_machines:
        agree = experiment.run(msgspec.structs.replace(options, salt=salts[0])) == each[0]
    return Point(
        nodes=options.nodes,
        ops_per_node=options.ops_per_node,
        rounds_mean=round(fmean(one.rounds_mean for one in each), 2),
        rounds_p99=round(fmean(one.rounds_p99 for one in each), 1),
        rounds_waiting_mean=round(fmean(one.rounds_waiting_mean for one in each), 2),
        rounds_climbing_mean=round(fmean(one.rounds_climbing_mean for one in each), 2),
        rounds_table_mean=round(fmean(one.rounds_table_mean for one in each), 2),
        tree_height=fmean(one.tree_height for one in each),
        tree_height_hops=fmean(one.tree_height_hops for one in each),
        routing_hops_mean=round(fmean(one.routing_hops_mean for one in each), 2),
        congestion_mean=fmean(one.congestion_max for one in each),
        congestion_max=max(one.congestion_max for one in each),
        message_bits_mean=fmean(one.message_bits_max for one in each),
        message_bits_max=max(one.message_bits_max for one in each),
        consistent=all(one.consistent for one in each),
        rate=round(fmean(options.ops_per_node / (2 * one.tree_height_hops) for one in each), 4),
        machines_agree=agree,
    )
