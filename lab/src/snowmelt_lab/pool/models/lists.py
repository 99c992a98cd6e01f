"""Each consumer with its own list of producers: the paper's section 4.3, mended.

Consumer i probes producer j with the chance P_ij. `agreement` has the equations; here every
producer and every consumer is a kind of its own.

A producer that few consumers know misses who stands in its line: its population is how many know
it, which is equation 3. Only so far as lists overlap do others make up for that, as they do where
everybody knows everybody.
"""

from random import Random

import numpy as np
from numpy.typing import NDArray

from snowmelt.core.errors import BadOption
from snowmelt.protocols.pool.settings import AccessKind
from snowmelt_lab.pool.cast import hands
from snowmelt_lab.pool.models.agreement import Agreement, Sides
from snowmelt_lab.pool.models.chain import LEAST, Array
from snowmelt_lab.pool.models.modelled import Modelled
from snowmelt_lab.pool.options import PoolOptions


def solve_lists(options: PoolOptions) -> Modelled:
    """The point at which every producer and every consumer agree; lists are dealt by the seed.

    >>> answer = solve_lists(PoolOptions(producers=10, consumers=10, fan_out=4))
    >>> round(answer.throughput, 3), answer.converged
    (0.094, True)
    """
    lists, parts = dealt(options)
    many = np.ones(options.producers)
    askers = np.bincount(lists.ravel(), minlength=options.producers).astype(np.float64)
    overlap = (options.fan_out - 1) / max(1, options.producers - 1)
    rates, each = np.array(options.rates), np.ones(options.consumers)
    sides = Sides(many, rates, askers, each, lists, parts, overlap)
    return Agreement(options, sides).solved()


def dealt(options: PoolOptions) -> tuple[NDArray[np.int64], Array]:
    """Each consumer's producers, as the machines' experiment deals them, and P of each."""
    chance = Random(f"{options.seed}/cast")
    lists = np.array(hands(options.producers, options.consumers, options.fan_out, chance))
    weights = {
        AccessKind.UNIFORM: [1.0] * options.producers,
        AccessKind.ADAPTIVE: options.rates,
        AccessKind.WEIGHTED: options.weights if options.shares else [],
    }[options.access]
    parts = np.array(weights)[lists]
    whole = parts.sum(axis=1, keepdims=True)
    if np.any(whole <= 0):
        allowed = "more, so that each consumer knows a producer with a share above 0"
        raise BadOption("--fan-out", options.fan_out, allowed)
    return lists, np.maximum(parts / whole, LEAST)
