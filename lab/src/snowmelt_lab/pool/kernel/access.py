"""Whom each consumer may probe, as arrays: a list for each, or one for all of them.

To draw from a list takes one number. It falls evenly on one of the list's places, and each place
keeps its producer with some chance and names another one otherwise (Walker's alias method).
"""

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from snowmelt.core.errors import BadOption
from snowmelt.protocols.pool.settings import AccessKind
from snowmelt_lab.pool.cast import hands
from snowmelt_lab.pool.kernel.chance import fraction
from snowmelt_lab.pool.kernel.compiled import compiled
from snowmelt_lab.pool.options import PoolOptions


class Lists(NamedTuple):
    """All lists, one after the other."""

    begin: NDArray[Any]
    """Of each consumer: where its list begins."""
    size: NDArray[Any]
    """Of each consumer: how long it is."""
    keeps: NDArray[Any]
    """Of each place: with which chance it names its own producer."""
    own: NDArray[Any]
    other: NDArray[Any]


def lists(options: PoolOptions) -> Lists:
    """What the options ask for; the hands are those that the machines are dealt."""
    weights = _weights(options)
    if not options.fan_out:
        return joined([(range(options.producers), weights)], options.consumers)
    chance = Random(f"{options.seed}/cast")
    dealt = hands(options.producers, options.consumers, options.fan_out, chance)
    own = [[weights[one] for one in hand] for hand in dealt]
    return joined(list(zip(dealt, own, strict=True)), options.consumers)


def _weights(options: PoolOptions) -> list[float]:
    match options.access:
        case AccessKind.UNIFORM:
            return [1.0] * options.producers
        case AccessKind.WEIGHTED:
            return options.weights
        case AccessKind.ADAPTIVE:
            allowed = "uniform, or shares; with --engine machine adaptive too"
            raise BadOption("--access", options.access.value, allowed)


def joined(each: Sequence[tuple[Sequence[int], list[float]]], consumers: int) -> Lists:
    """Lists of producers and their weights: one for each consumer, or a single one for all.

    >>> of_two = joined([([3, 5], [1.0, 3.0])], consumers=2)
    >>> of_two.own.tolist(), of_two.other.tolist(), of_two.keeps.tolist()
    ([3, 5], [5, 5], [0.5, 1.0])
    >>> of_two.begin.tolist(), of_two.size.tolist()
    ([0, 0], [2, 2])
    """
    sizes = np.array([len(producers) for producers, _ in each], np.int64)
    begins = np.cumsum(sizes) - sizes
    tables = [_aliases(weights) for _, weights in each]
    producers = [np.array(one, np.int64) for one, _ in each]
    spread = np.zeros(consumers, np.int64) if len(each) == 1 else np.arange(consumers)
    return Lists(
        begin=begins[spread],
        size=sizes[spread],
        keeps=np.concatenate([keeps for keeps, _ in tables]),
        own=np.concatenate(producers),
        other=np.concatenate(
            [some[others] for some, (_, others) in zip(producers, tables, strict=True)]
        ),
    )


def _aliases(weights: list[float]) -> tuple[NDArray[Any], NDArray[Any]]:
    """For each place the chance that it keeps its own, and whom it names otherwise."""
    whole = sum(weights)
    if not whole > 0:
        allowed = "shares, or a fan-out, that leave each consumer somebody to probe"
        raise BadOption("--access", "0 for all that a consumer knows", allowed)
    left = [weight * len(weights) / whole for weight in weights]
    keeps, others = np.ones(len(left)), np.arange(len(left))
    small = [place for place, weight in enumerate(left) if weight < 1]
    large = [place for place, weight in enumerate(left) if weight >= 1]
    while small and large:
        poor, rich = small.pop(), large[-1]
        keeps[poor], others[poor] = left[poor], rich
        left[rich] -= 1 - left[poor]
        if left[rich] < 1:
            small.append(large.pop())
    return keeps, others


@compiled
def drawn(access: Lists, consumer: int, state: NDArray[Any]) -> int:
    at = fraction(state) * access.size[consumer]
    place = int(at)
    rest = at - place
    place += access.begin[consumer]
    named: int = access.own[place] if rest < access.keeps[place] else access.other[place]
    return named
