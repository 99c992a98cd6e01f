"""How many elements lie at each node, against the mean, and what evens them out.

Nodes and keys are drawn anew for each trial. The paper's ring has three points a node, which depend
on each other; others have so many independent ones. A block of positions lies together; a copy lies
with each of the next other nodes.
"""

from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from snowmelt.core.errors import BadOption

TRIALS: Final = 20
POINTS: Final = (1, 3, 16, 64)
BLOCK: Final = 512
"""So many positions lie together, where many go in one message."""
PER_NODE: Final = 1_000
"""So many elements a node."""
NODES_MAX: Final = 10_000

PAPERS: Final = 0
"""In place of a number of independent points: the paper's three."""
EQUAL: Final = -1
"""All nodes have arcs of one length."""


class Fair(msgspec.Struct, frozen=True):
    """Elements at a node, the mean being 1, over all nodes of all trials."""

    points: int
    """`PAPERS`, `EQUAL`, or how many independent ones a node has."""
    block: int
    replicas: int
    least: float
    deviation: float
    p99: float
    most: float
    """In the mean over the trials; the others are over all."""


def rings() -> list[tuple[int, int, int]]:
    """Points, block and replicas of what is compared.

    >>> rings()[0]
    (0, 1, 1)
    """
    blocks = [(PAPERS, block, 1) for block in (1, 16, BLOCK)]
    copies = [(PAPERS, block, 3) for block in (1, BLOCK)]
    points = [(points, 1, 1) for points in POINTS]
    many = [(POINTS[-1], block, copies) for block in (16, BLOCK) for copies in (1, 3)]
    return [*blocks, *copies, *points, *many, (EQUAL, 1, 1)]


def compared(nodes: int, seed: int) -> Iterator[Fair]:
    if not 2 <= nodes <= NODES_MAX:
        raise BadOption("--nodes", nodes, f"2 to {NODES_MAX} with --fairness")
    for points, block, replicas in rings():
        chance = np.random.default_rng([seed, nodes, points + 1, block, replicas])
        trials = [_trial(chance, nodes, points, block, replicas) for _ in range(TRIALS)]
        flat = np.concatenate(trials)
        yield Fair(
            points,
            block,
            replicas,
            round(float(flat.min()), 4),
            round(float(flat.std()), 3),
            round(float(np.quantile(flat, 0.99)), 2),
            round(float(np.mean([trial.max() for trial in trials])), 2),
        )


def _trial(
    chance: np.random.Generator, nodes: int, points: int, block: int, replicas: int
) -> NDArray[np.float64]:
    spots, owners = _ring(chance, nodes, points)
    keys = chance.random(-(-nodes * PER_NODE // block))
    at = (np.searchsorted(spots, keys, side="right") - 1) % len(spots)
    counts = np.zeros(nodes)
    for holders in _holders(owners, min(replicas, nodes)):
        counts += np.bincount(holders[at], minlength=nodes)
    shares: NDArray[np.float64] = counts / counts.mean()
    return shares


def _ring(
    chance: np.random.Generator, nodes: int, points: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    if points == EQUAL:
        return np.arange(nodes) / nodes, np.arange(nodes)
    if points == PAPERS:
        middle = chance.random(nodes)
        spots = np.concatenate([middle / 2, middle, (middle + 1) / 2])
    else:
        spots = chance.random(nodes * points)
    order = np.argsort(spots)
    return spots[order], order % nodes


def _holders(owners: NDArray[np.int64], replicas: int) -> Iterator[NDArray[np.int64]]:
    """Of each arc: its node, then the next other one along the ring, and so on."""
    found = np.full((replicas, len(owners)), -1)
    found[0] = owners
    have = np.ones(len(owners), np.int64)
    step = 1
    while (have < replicas).any():
        ahead = np.roll(owners, -step)
        more = (have < replicas) & ~(found == ahead).any(axis=0)
        found[have[more], np.flatnonzero(more)] = ahead[more]
        have += more
        step += 1
    yield from found
