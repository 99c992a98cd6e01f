"""The models refined: what all buffers hold together wanders, and the wait with it.

The paper takes producers as independent. But when consumers are a little ahead of them for a while,
all producers run low at once, and the wait grows faster than it falls when they run high.

X is what all producers have in stock, less what all have in line. It changes slowly, one at a time:
up at the rate U at which objects are made, down at the rate D at which requests begin. Producers
find their balance far sooner; so at each X they are taken to be as in a pool whose balance is
there, and such pools are those whose consumers are faster or slower. Of these a model tells X, U,
and how many consumers stand in line; D is then what the others, with their real pace, bring about.
So X is a chain of births and deaths, and everything is a mean over it.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from snowmelt_lab.pool.models.chain import Array
from snowmelt_lab.pool.models.modelled import Modelled
from snowmelt_lab.pool.options import RATE_LEAST, RATE_MOST, PoolOptions

FIRST: Final = 7
PACES: Final = 60
"""So many pools are solved, first and in the end."""
WIDEST: Final = 30.0
"""The fastest consumers are so many times as fast as the real ones, the slowest as much slower."""

Solve = Callable[[PoolOptions], Modelled]


@dataclass(frozen=True)
class _Pool:
    """A pool in its balance, seen from the real consumers."""

    answer: Modelled
    pace: float
    """Of the consumers that bring it about."""
    stock: float
    """X."""
    asks: float
    """D: what the real consumers would ask for."""


def refined(options: PoolOptions, solve: Solve) -> Modelled:
    """What `solve` says, with the wandering.

    >>> from snowmelt_lab.pool.models.typed import solve_typed
    >>> options = PoolOptions(producers=30, consumers=30, max_hops=5)  # simulated: 4.98
    >>> round(solve_typed(options).wait_mean, 1), round(refined(options, solve_typed).wait_mean, 1)
    (3.8, 5.2)
    """
    pools = _pools(options, solve)
    return _mean(options, pools, _weights(pools))


def _pools(options: PoolOptions, solve: Solve) -> list[_Pool]:
    """From full to empty, in steps that are as even as can be."""
    paces = np.geomspace(1 / WIDEST, WIDEST, FIRST) * options.consume_rate
    pools = [_pool(options, solve, pace) for pace in np.clip(paces, RATE_LEAST, RATE_MOST).tolist()]
    while len(pools) < PACES:
        gaps = -np.diff([pool.stock for pool in pools])
        widest = int(np.argmax(gaps))
        between = float(np.sqrt(pools[widest].pace * pools[widest + 1].pace))
        pools.insert(widest + 1, _pool(options, solve, between))
    return sorted(pools, key=lambda pool: pool.stock)


def _pool(options: PoolOptions, solve: Solve, pace: float) -> _Pool:
    answer = solve(msgspec.structs.replace(options, consume_rate=pace))
    states = {int(state): share for state, share in answer.states.items()}
    whole = sum(states.values()) / options.producers
    stock = sum(state * share for state, share in states.items()) / whole
    line = sum(max(0, -state) * share for state, share in states.items()) / whole
    on_its_way = max(0.0, answer.wait_mean - line / answer.throughput)
    asks = max(0.0, options.consumers - line) / (1 / options.consume_rate + on_its_way)
    return _Pool(answer, pace, stock, asks)


def _weights(pools: list[_Pool]) -> Array:
    """How much of the time the pool is like each of these."""
    known = np.array([pool.stock for pool in pools])
    stocks = np.arange(np.ceil(known[0]), np.floor(known[-1]) + 1)
    if len(stocks) == 0:
        stocks = known[:1]
    made = np.interp(stocks, known, [pool.answer.throughput for pool in pools])
    asked = np.interp(stocks, known, [pool.asks for pool in pools])
    logs = np.concatenate([[0.0], np.cumsum(np.log(made[:-1]) - np.log(asked[1:]))])
    time = np.exp(logs - logs.max())
    # each stock counts for the two pools between which it lies
    above = np.clip(np.searchsorted(known, stocks), 1, len(known) - 1)
    part = (stocks - known[above - 1]) / np.maximum(known[above] - known[above - 1], 1e-12)
    weights = np.bincount(above, time * part, minlength=len(known))
    weights += np.bincount(above - 1, time * (1 - part), minlength=len(known))
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def _mean(options: PoolOptions, pools: list[_Pool], weights: Array) -> Modelled:
    answers = [pool.answer for pool in pools]
    served = weights * np.array([pool.asks for pool in pools])
    used = float(served.sum())
    hops = served @ np.array([one.hops_mean for one in answers])
    probes = served * np.array([one.hops_mean for one in answers])
    states: defaultdict[str, float] = defaultdict(float)
    for weight, answer in zip(weights, answers, strict=True):
        for state, share in answer.states.items():
            states[state] += float(weight) * share
    return Modelled(
        throughput=used,
        wait_mean=options.consumers / used - 1 / options.consume_rate,
        hops_mean=float(hops) / used,
        producer_blocked=1 - used / (options.producers * options.produce_rate),
        consumer_busy=used / (options.consumers * options.consume_rate),
        probe_empty=float(probes @ np.array([one.probe_empty for one in answers]) / probes.sum()),
        request_blocked=float(served @ np.array([one.request_blocked for one in answers])) / used,
        messages_per_object=float(hops) / used + 1,
        states=dict(sorted(states.items(), key=lambda item: int(item[0]))),
        converged=all(one.converged for one in answers),
    )
