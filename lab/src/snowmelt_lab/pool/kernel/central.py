"""The central buffer: what `snowmelt_lab.pool.central` does, compiled.

Players are the producers, then the consumers, then the promises of places, each of which is with
its producer, on its way to the buffer with an object, or on its way back.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from snowmelt_lab.pool.central import promised_ahead
from snowmelt_lab.pool.kernel import counts
from snowmelt_lab.pool.kernel.alike import begin, give, make, send
from snowmelt_lab.pool.kernel.chance import seeded
from snowmelt_lab.pool.kernel.compiled import compiled
from snowmelt_lab.pool.kernel.counts import moved
from snowmelt_lab.pool.kernel.future import future, set_time
from snowmelt_lab.pool.kernel.line import Line, first, join, line, waiting
from snowmelt_lab.pool.kernel.pace import Pace, pace
from snowmelt_lab.pool.kernel.service import put_off
from snowmelt_lab.pool.options import PoolOptions

KINDS = ("Deposit", "SlotReserved", "FetchObject", "FetchedObject")
AT_HOME, GONE, COMING = range(3)
DEPOSIT, PROMISED, FETCH, FETCHED = range(counts.MESSAGES, counts.MESSAGES + 4)


class Pool(NamedTuple):
    pace: Pace
    buffers: int
    """Promises of one producer: that many deposits of its may be under way."""
    places: int
    chance: NDArray[Any]
    when: NDArray[Any]
    who: NDArray[Any]
    stock: NDArray[Any]
    """Of each producer: its promises that are not with it; held up when none is."""
    since: NDArray[Any]
    states: NDArray[Any]
    asked: NDArray[Any]
    stored: NDArray[Any]
    """In the buffer: objects, and places promised."""
    consumers: Line
    promises: Line
    """Those whose objects have come, and that wait for a place."""
    at: NDArray[Any]
    """Of each promise: where it is."""
    busy_until: NDArray[Any]
    """Of each producer and, last, of the buffer."""
    dealt_with: NDArray[Any]


def pool(options: PoolOptions) -> Pool:
    """At time 0: everybody makes an object, or asks for one."""
    producers, consumers = options.producers, options.consumers
    ahead = promised_ahead(options.buffers)
    players = producers + consumers + ahead * producers
    when, who = future(players)
    begun = Pool(
        pace=pace(options),
        buffers=ahead,
        places=options.buffers * producers,
        chance=seeded(options.seed),
        when=when,
        who=who,
        stock=np.zeros(producers, np.int64),
        since=np.zeros(producers),
        states=np.zeros(ahead + 1),
        asked=np.zeros(consumers),
        stored=np.array([0, ahead * producers]),
        consumers=line(consumers),
        promises=line(ahead * producers),
        at=np.full(ahead * producers, AT_HOME),
        busy_until=np.zeros(producers + 1),
        dealt_with=np.zeros(players, np.bool_),
    )
    begin(begun, FETCH, counts.row())
    return begun


@compiled
def advance(pool: Pool, objects: int, row: NDArray[Any]) -> float:
    """Goes on until so many more objects are given away, counts in the row, and says when it is."""
    target = row[counts.OBJECTS] + objects
    now = 0.0
    while row[counts.OBJECTS] < target:
        now, player = pool.when[1], pool.who[1]
        if player < len(pool.stock):
            _made(pool, player, now, row)
            continue
        done = _put_off(pool, player, now)
        set_time(pool.when, pool.who, player, done if done > 0 else np.inf)
        if done == 0:
            _handle(pool, player, now, row)
    return now


@compiled
def _put_off(pool: Pool, player: int, now: float) -> float:
    producers = len(pool.stock)
    promise = player - producers - len(pool.asked)
    comes_back = promise >= 0 and pool.at[promise] == COMING
    server = promise % producers if comes_back else producers
    return put_off(pool, server, player, now)


@compiled
def _handle(pool: Pool, player: int, now: float, row: NDArray[Any]) -> None:
    """A message: a promise that is back, a deposit, or a consumer that asks."""
    consumer = player - len(pool.stock)
    promise = consumer - len(pool.asked)
    if promise >= 0 and pool.at[promise] == COMING:
        _promised(pool, promise, now)
        return
    if promise >= 0:
        pool.stored[0] += 1
        pool.stored[1] -= 1
        join(pool.promises, promise)
    else:
        row[counts.PROBES] += 1
        row[counts.EMPTY] += pool.stored[0] == 0
        row[counts.LINED] += pool.stored[0] == 0
        join(pool.consumers, consumer)
    while pool.stored[0] > 0 and waiting(pool.consumers) > 0:
        pool.stored[0] -= 1
        _give(pool, first(pool.consumers), now, row)
    while waiting(pool.promises) > 0 and pool.stored[0] + pool.stored[1] < pool.places:
        pool.stored[1] += 1
        _promise(pool, first(pool.promises), now, row)


@compiled
def _give(pool: Pool, consumer: int, now: float, row: NDArray[Any]) -> None:
    """An object goes to the consumer; when it asks again is decided right away."""
    asks = give(pool, consumer, 1, FETCHED, now, row)
    send(pool, len(pool.stock) + consumer, asks, FETCH, row)


@compiled
def _promise(pool: Pool, promise: int, now: float, row: NDArray[Any]) -> None:
    pool.at[promise] = COMING
    send(pool, len(pool.stock) + len(pool.asked) + promise, now, PROMISED, row)


@compiled
def _promised(pool: Pool, promise: int, now: float) -> None:
    producer = promise % len(pool.stock)
    pool.at[promise] = AT_HOME
    if moved(pool.stock, pool.since, pool.states, producer, -1, now) == pool.buffers - 1:
        make(pool, producer, now)


@compiled
def _made(pool: Pool, producer: int, now: float, row: NDArray[Any]) -> None:
    """The object goes to the buffer with one of the promises; which of them is all the same."""
    producers = len(pool.stock)
    promise = producer
    while pool.at[promise] != AT_HOME:
        promise += producers
    pool.at[promise] = GONE
    send(pool, producers + len(pool.asked) + promise, now, DEPOSIT, row)
    if moved(pool.stock, pool.since, pool.states, producer, 1, now) < pool.buffers:
        make(pool, producer, now)
    else:
        set_time(pool.when, pool.who, producer, np.inf)
