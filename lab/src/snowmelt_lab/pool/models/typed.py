"""Producers of several kinds, all consumers alike: the paper's section 4.2, mended.

Of all probes the part `frac_k` goes to the N_k producers of kind k (equation 10), so with y probes
a tick from each of M consumers one of them gets M y frac_k / N_k; the paper has M for N, counting
the consumers twice. A probe finds nothing with the chance q = sum of frac_k e_k (equation 11), e_k
being the chance at a producer of kind k, and a request waits in line in the mean

    B = q^(h_max - 1) times the sum of frac_k e_k B_k

which is equation 9 with equation 12 divided by q, as it has to be. This is `agreement` with one
kind of consumer.
"""

from dataclasses import dataclass

import numpy as np

from snowmelt.protocols.pool.settings import AccessKind
from snowmelt_lab.pool.models.agreement import Agreement, Sides
from snowmelt_lab.pool.models.chain import LEAST, Array
from snowmelt_lab.pool.models.modelled import Modelled
from snowmelt_lab.pool.options import PoolOptions


@dataclass(frozen=True)
class Kinds:
    counts: Array
    rates: Array
    shares: Array
    """frac_k: the part of all probes that goes to all producers of the kind."""


def kinds_of(options: PoolOptions) -> Kinds:
    """Its groups; adaptive access is taken as access that has found the rates.

    >>> from snowmelt_lab.pool.options import groups_of
    >>> kinds = kinds_of(PoolOptions(producers=4, groups=groups_of("1:9,3:1")))
    >>> kinds.counts.tolist(), kinds.shares.tolist()
    ([1.0, 3.0], [0.25, 0.75])
    """
    counts = [float(group.count) for group in options.groups] or [float(options.producers)]
    unit = sum(group.count * group.rate for group in options.groups)
    whole = options.produce_rate * options.producers
    rates = [whole * group.rate / unit for group in options.groups] or [options.produce_rate]
    each = np.array(counts)
    by_kind = {
        AccessKind.UNIFORM: each,
        AccessKind.ADAPTIVE: each * np.array(rates),
        AccessKind.WEIGHTED: np.array(options.shares or counts),
    }[options.access]
    return Kinds(each, np.array(rates), by_kind / by_kind.sum())


def solve_typed(options: PoolOptions) -> Modelled:
    """The point at which producers and consumers agree.

    >>> from snowmelt_lab.pool.options import groups_of
    >>> answer = solve_typed(PoolOptions(groups=groups_of("50:2,50:1")))
    >>> round(answer.throughput, 2), answer.converged
    (0.89, True)
    """
    kinds = kinds_of(options)
    count = len(kinds.counts)
    consumers = np.array([float(options.consumers)])
    sides = Sides(
        producers=kinds.counts,
        rates=kinds.rates,
        askers=np.repeat(consumers, count),
        consumers=consumers,
        lists=np.arange(count)[None, :],
        parts=np.maximum(kinds.shares, LEAST)[None, :],
    )
    return Agreement(options, sides).solved()
