"""Producers that are all alike, and consumers that are, too: the paper's section 4.1.

One number is unknown: the chance q that a probe finds nothing. With it, h and p_b are known; so is
the rate of probes at which a producer is empty so often. Then x requests a tick are served at each
producer, each keeps its consumer busy and under way for 1/mu + (h + 1) r ticks, and `line`
consumers stand in line at each producer. These are all M consumers at one q only:

    x (1/mu + (h + 1) r) + line = M / N

since the left side rises with q.
"""

import numpy as np

from snowmelt_lab.pool.models.chain import EVERYBODY, Array, Chain, Setting, expit, solved
from snowmelt_lab.pool.models.modelled import Consumers, Modelled, Producers, modelled
from snowmelt_lab.pool.models.requests import Requests, hop_times, requests
from snowmelt_lab.pool.models.roots import root
from snowmelt_lab.pool.options import PoolOptions


def solve_equal(options: PoolOptions) -> Modelled:
    """The point at which producers and consumers agree.

    It is found twice: by equation 4, and then with the population that this tells.

    >>> answer = solve_equal(PoolOptions(consumers=200))
    >>> round(answer.throughput, 3), round(answer.wait_mean), answer.converged
    (0.995, 101, True)
    """
    many = _Equal(options, EVERYBODY)
    log_odds = root(many.missing, 0.0)
    equal = _Equal(options, many.population(log_odds))
    return equal.answer(root(equal.missing, log_odds))


class _Equal:
    """The equations, as functions of the logarithm of the odds of q."""

    def __init__(self, options: PoolOptions, population: float) -> None:
        self._options = options
        self._population = np.array([population])
        self._log_rate = float(np.log(options.produce_rate))
        """Where the next search begins: where the last one ended."""

    def missing(self, log_odds: float) -> float:
        """By how many there are too many consumers, at a producer."""
        options, (fared, setting, log_rate) = self._options, self._at(log_odds)
        chain = solved(setting, log_rate)
        served = float(chain.asked[0] / fared.hops[0])
        under_way = 1 / options.consume_rate + float(_on_its_way(options, fared, chain)[0])
        return served * under_way + float(chain.line[0]) - options.consumers / options.producers

    def population(self, log_odds: float) -> float:
        """P: see `docs/research/pool-model.md`."""
        _, setting, log_rate = self._at(log_odds)
        chain = solved(setting, log_rate)
        others = (self._options.producers - 1) * float(chain.spread[0] - chain.line[0])
        return self._options.consumers + max(0.0, others)

    def answer(self, log_odds: float) -> Modelled:
        options, (fared, setting, log_rate) = self._options, self._at(log_odds)
        chain = solved(setting, log_rate)
        wait = _on_its_way(options, fared, chain) + chain.line * fared.hops / chain.asked
        return modelled(
            options,
            Producers(np.array([float(options.producers)]), setting, log_rate),
            Consumers(np.array([float(options.consumers)]), fared, wait),
        )

    def _at(self, log_odds: float) -> tuple[Requests, Setting, Array]:
        options = self._options
        fared = requests(expit(np.array([log_odds])), options.max_hops)
        make, askers = np.array([options.produce_rate]), np.array([float(options.consumers)])
        setting = Setting(make, fared.blocks, askers, self._population, options.buffers)

        def excess(log_rate: float) -> float:
            return float(solved(setting, np.array([log_rate])).log_odds[0]) - log_odds

        self._log_rate = root(excess, self._log_rate)
        return fared, setting, np.array([self._log_rate])


def _on_its_way(options: PoolOptions, fared: Requests, chain: Chain) -> Array:
    """What messages take, from request to object."""
    return fared.hops * hop_times(options, chain.asked) + options.transit
