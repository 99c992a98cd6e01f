"""Skeap and Seap side by side: the same nodes and load, against the rate of injection."""

from collections.abc import Iterator
from statistics import fmean
from typing import Final

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt_lab.priority import experiment
from snowmelt_lab.priority.options import OPERATIONS_EACH_MAX, PriorityOptions, Protocol

BOTH: Final = (Protocol.SKEAP, Protocol.SEAP)
EACH: Final = (1, 4, 16, OPERATIONS_EACH_MAX, 4 * OPERATIONS_EACH_MAX)
"""Operations of a node in the time of a wave; Skeap's rows of runs end before the last."""
SALTS: Final = 3
AT_ONCE: Final = 120_000
"""Operations of one experiment at most: machines do a thousand a second."""


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """One protocol at one rate, in the mean over some overlays; of the greatest the greatest."""

    protocol: str
    ops_per_node: int
    rate: float
    """Operations that a node makes in a round: the paper's Lambda."""
    rounds_mean: float
    rounds_p99: float
    rounds_waiting_mean: float
    rounds_climbing_mean: float
    rounds_table_mean: float
    congestion_mean: float
    message_bits_mean: float
    message_bits_max: int
    rounds: float
    operations: int
    found_nothing: float
    consistent: bool


def pairs(options: PriorityOptions) -> list[tuple[Protocol, int]]:
    """What is asked, the slow ones last."""
    most = AT_ONCE // (options.nodes * options.waves)
    if most < EACH[1]:
        allowed = f"{AT_ONCE // (EACH[1] * options.waves)} or fewer with --rates"
        raise BadOption("--nodes", options.nodes, allowed)
    every = [(protocol, each) for each in EACH if each <= most for protocol in BOTH]
    return [one for one in every if one[0] is Protocol.SEAP or one[1] <= OPERATIONS_EACH_MAX]


def compared(options: PriorityOptions) -> Iterator[Rate]:
    for protocol, each in pairs(options):
        one = msgspec.structs.replace(options, protocol=protocol, ops_per_node=each)
        yield _rate(one)


def _rate(options: PriorityOptions) -> Rate:
    salts = [f"{options.salt}{number}" for number in range(SALTS)]
    each = [experiment.run(msgspec.structs.replace(options, salt=salt)) for salt in salts]
    return Rate(
        protocol=options.protocol.value,
        ops_per_node=options.ops_per_node,
        rate=round(fmean(options.ops_per_node / (2 * one.tree_height_hops) for one in each), 4),
        rounds_mean=round(fmean(one.rounds_mean for one in each), 1),
        rounds_p99=round(fmean(one.rounds_p99 for one in each), 1),
        rounds_waiting_mean=round(fmean(one.rounds_waiting_mean for one in each), 1),
        rounds_climbing_mean=round(fmean(one.rounds_climbing_mean for one in each), 1),
        rounds_table_mean=round(fmean(one.rounds_table_mean for one in each), 1),
        congestion_mean=round(fmean(one.congestion_max for one in each), 1),
        message_bits_mean=round(fmean(one.message_bits_max for one in each), 1),
        message_bits_max=max(one.message_bits_max for one in each),
        rounds=round(fmean(one.rounds for one in each), 1),
        operations=options.operations,
        found_nothing=round(fmean(one.found_nothing for one in each), 1),
        consistent=all(one.consistent for one in each),
    )
