"""The stochastic queue as the paper has it: who waits where, and what happens next to whom.

Exactly one thing happens next to each process. A producer finishes an object, or is held up. A
consumer's request comes to a producer, or stands in line at one: how long it uses an object, and
when its next request comes to whom, is known as soon as a producer replies.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from snowmelt_lab.pool.kernel import access, counts
from snowmelt_lab.pool.kernel.access import Lists, drawn
from snowmelt_lab.pool.kernel.alike import give, make
from snowmelt_lab.pool.kernel.chance import exponential, seeded
from snowmelt_lab.pool.kernel.compiled import compiled
from snowmelt_lab.pool.kernel.counts import moved
from snowmelt_lab.pool.kernel.future import future, set_time
from snowmelt_lab.pool.kernel.pace import Pace, pace
from snowmelt_lab.pool.kernel.service import put_off
from snowmelt_lab.pool.options import PoolOptions

KINDS = ("Request", "ObjectsLent")
REQUEST, FOUND = range(counts.MESSAGES, counts.MESSAGES + 2)
NOBODY = -1


class Pool(NamedTuple):
    """Everything that is so now. Producers are players 0 to N - 1, consumers the next ones."""

    pace: Pace
    buffers: int
    max_hops: int
    access: Lists
    chance: NDArray[Any]
    when: NDArray[Any]
    who: NDArray[Any]
    stock: NDArray[Any]
    """Of each producer: its objects; less than 0 are requests in line."""
    since: NDArray[Any]
    states: NDArray[Any]
    first: NDArray[Any]
    """Of each producer: the consumer who is first in line."""
    last: NDArray[Any]
    behind: NDArray[Any]
    """Of each consumer in line: who is next after it."""
    target: NDArray[Any]
    """Of each consumer: the producer that its request goes to."""
    hop: NDArray[Any]
    asked: NDArray[Any]
    busy_until: NDArray[Any]
    """Of each producer: when it has dealt with all messages that came."""
    dealt_with: NDArray[Any]
    """Of each consumer: whether its request is being dealt with, and not on its way."""


def pool(options: PoolOptions) -> Pool:
    """At time 0: everybody makes an object, or asks for one."""
    producers, consumers = options.producers, options.consumers
    when, who = future(producers + consumers)
    begun = Pool(
        pace=pace(options),
        buffers=options.buffers,
        max_hops=options.max_hops,
        access=access.lists(options),
        chance=seeded(options.seed),
        when=when,
        who=who,
        stock=np.zeros(producers, np.int64),
        since=np.zeros(producers),
        states=np.zeros(options.buffers + consumers + 1),
        first=np.full(producers, NOBODY),
        last=np.full(producers, NOBODY),
        behind=np.full(consumers, NOBODY),
        target=np.zeros(consumers, np.int64),
        hop=np.zeros(consumers, np.int64),
        asked=np.zeros(consumers),
        busy_until=np.zeros(producers),
        dealt_with=np.zeros(consumers, np.bool_),
    )
    _begin(begun)
    return begun


@compiled
def _begin(pool: Pool) -> None:
    for producer in range(len(pool.stock)):
        make(pool, producer, 0.0)
    for consumer in range(len(pool.target)):
        _probe(pool, consumer, 0.0)


@compiled
def advance(pool: Pool, objects: int, row: NDArray[Any]) -> float:
    """Goes on until so many more objects are given away, counts in the row, and says when it is."""
    when, who, producers = pool.when, pool.who, len(pool.stock)
    target = row[counts.OBJECTS] + objects
    now = 0.0
    while row[counts.OBJECTS] < target:
        now, player = when[1], who[1]
        if player < producers:
            _made(pool, player, now, row)
        else:
            _requested(pool, player - producers, now, row)
    return now


@compiled
def _made(pool: Pool, producer: int, now: float, row: NDArray[Any]) -> None:
    stock = moved(pool.stock, pool.since, pool.states, producer, 1, now)
    if stock <= 0:
        consumer = pool.first[producer]
        pool.first[producer] = pool.behind[consumer]
        _give(pool, consumer, now, row)
    if stock < pool.buffers:
        make(pool, producer, now)
    else:
        set_time(pool.when, pool.who, producer, np.inf)


@compiled
def _probe(pool: Pool, consumer: int, at: float) -> None:
    pool.target[consumer] = drawn(pool.access, consumer, pool.chance)
    pool.hop[consumer] += 1
    comes = at + pool.pace.transit * exponential(pool.chance)
    set_time(pool.when, pool.who, len(pool.stock) + consumer, comes)


@compiled
def _requested(pool: Pool, consumer: int, now: float, row: NDArray[Any]) -> None:
    producer = pool.target[consumer]
    done = put_off(pool, producer, consumer, now)
    if done > 0:
        set_time(pool.when, pool.who, len(pool.stock) + consumer, done)
        return
    row[counts.PROBES] += 1
    row[REQUEST] += 1
    stock = pool.stock[producer]
    if stock > 0:
        moved(pool.stock, pool.since, pool.states, producer, -1, now)
        _give(pool, consumer, now, row)
        if stock == pool.buffers:
            make(pool, producer, now)
        return
    row[counts.EMPTY] += 1
    if pool.hop[consumer] < pool.max_hops:
        _probe(pool, consumer, now)
        return
    row[counts.LINED] += 1
    moved(pool.stock, pool.since, pool.states, producer, -1, now)
    if stock == 0:
        pool.first[producer] = consumer
    else:
        pool.behind[pool.last[producer]] = consumer
    pool.last[producer] = consumer
    set_time(pool.when, pool.who, len(pool.stock) + consumer, np.inf)


@compiled
def _give(pool: Pool, consumer: int, now: float, row: NDArray[Any]) -> None:
    """An object goes to the consumer; when it asks again, and whom, is decided right away."""
    asks = give(pool, consumer, pool.hop[consumer], FOUND, now, row)
    pool.hop[consumer] = 0
    _probe(pool, consumer, asks)
