"""The queue manager: what `snowmelt_lab.pool.queue_manager` does, compiled.

Players are the producers, then the consumers, then as many messages `Made` as can be on their way
at a time: one for each place, since an object stays with its producer until it was told of. What a
consumer is told it sends on at once, so its way to the manager and back and to the producer is two
events: at the manager, and at the producer.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from snowmelt_lab.pool.kernel import counts
from snowmelt_lab.pool.kernel.alike import begin, give, make, send
from snowmelt_lab.pool.kernel.chance import exponential, seeded
from snowmelt_lab.pool.kernel.compiled import compiled
from snowmelt_lab.pool.kernel.counts import moved
from snowmelt_lab.pool.kernel.future import future, set_time
from snowmelt_lab.pool.kernel.line import Line, first, join, line, waiting
from snowmelt_lab.pool.kernel.pace import Pace, pace
from snowmelt_lab.pool.kernel.service import put_off
from snowmelt_lab.pool.options import PoolOptions

KINDS = ("Made", "FindProducer", "ProducerFound", "Take", "ObjectTaken")
MADE, ASK, TOLD, TAKE, TAKEN = range(counts.MESSAGES, counts.MESSAGES + 5)
NOBODY = -1


class Pool(NamedTuple):
    pace: Pace
    buffers: int
    chance: NDArray[Any]
    when: NDArray[Any]
    who: NDArray[Any]
    stock: NDArray[Any]
    """Of each producer: its objects, also those that are promised to somebody."""
    since: NDArray[Any]
    states: NDArray[Any]
    asked: NDArray[Any]
    told: NDArray[Any]
    """Of each consumer: the producer that it was told, and goes to."""
    consumers: Line
    """Those who wait for the manager to know of an object."""
    objects: Line
    """For each object that is nobody's yet, who has it."""
    maker: NDArray[Any]
    """Of each message Made: who sent it."""
    idle: NDArray[Any]
    """Numbers of messages Made that are not on their way; the first of it says how many."""
    busy_until: NDArray[Any]
    """Of each producer and, last, of the manager."""
    dealt_with: NDArray[Any]


def pool(options: PoolOptions) -> Pool:
    """At time 0: everybody makes an object, or asks for one."""
    producers, consumers = options.producers, options.consumers
    places = producers * options.buffers
    players = producers + consumers + places
    when, who = future(players)
    begun = Pool(
        pace=pace(options),
        buffers=options.buffers,
        chance=seeded(options.seed),
        when=when,
        who=who,
        stock=np.zeros(producers, np.int64),
        since=np.zeros(producers),
        states=np.zeros(options.buffers + 1),
        asked=np.zeros(consumers),
        told=np.full(consumers, NOBODY),
        consumers=line(consumers),
        objects=line(places),
        maker=np.zeros(places, np.int64),
        idle=np.array([places, *range(places - 1, -1, -1)]),
        busy_until=np.zeros(producers + 1),
        dealt_with=np.zeros(players, np.bool_),
    )
    begin(begun, ASK, counts.row())
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
    consumer = player - len(pool.stock)
    goes_to_producer = consumer < len(pool.asked) and pool.told[consumer] != NOBODY
    server = pool.told[consumer] if goes_to_producer else len(pool.stock)
    return put_off(pool, server, player, now)


@compiled
def _handle(pool: Pool, player: int, now: float, row: NDArray[Any]) -> None:
    """A message: a consumer at a producer or at the manager, or word of an object."""
    consumer = player - len(pool.stock)
    message = consumer - len(pool.asked)
    if message >= 0:
        pool.idle[0] += 1
        pool.idle[pool.idle[0]] = message
        join(pool.objects, pool.maker[message])
    elif pool.told[consumer] != NOBODY:
        _take(pool, consumer, now, row)
        return
    else:
        row[counts.PROBES] += 1
        row[counts.EMPTY] += waiting(pool.objects) == 0
        row[counts.LINED] += waiting(pool.objects) == 0
        join(pool.consumers, consumer)
    if waiting(pool.objects) > 0 and waiting(pool.consumers) > 0:
        _tell(pool, first(pool.consumers), first(pool.objects), now, row)


@compiled
def _tell(pool: Pool, consumer: int, producer: int, now: float, row: NDArray[Any]) -> None:
    """The consumer is told, and sends on what it is told."""
    pool.told[consumer] = producer
    row[TOLD] += 1
    comes = now + pool.pace.transit * exponential(pool.chance)
    send(pool, len(pool.stock) + consumer, comes, TAKE, row)


@compiled
def _take(pool: Pool, consumer: int, now: float, row: NDArray[Any]) -> None:
    """The producer has one object less; when the consumer asks again is decided right away."""
    producer = pool.told[consumer]
    pool.told[consumer] = NOBODY
    asks = give(pool, consumer, 1, TAKEN, now, row)
    send(pool, len(pool.stock) + consumer, asks, ASK, row)
    if moved(pool.stock, pool.since, pool.states, producer, -1, now) == pool.buffers - 1:
        make(pool, producer, now)


@compiled
def _made(pool: Pool, producer: int, now: float, row: NDArray[Any]) -> None:
    """The producer keeps the object, and tells the manager of it."""
    message = pool.idle[pool.idle[0]]
    pool.idle[0] -= 1
    pool.maker[message] = producer
    send(pool, len(pool.stock) + len(pool.asked) + message, now, MADE, row)
    if moved(pool.stock, pool.since, pool.states, producer, 1, now) < pool.buffers:
        make(pool, producer, now)
    else:
        set_time(pool.when, pool.who, producer, np.inf)
