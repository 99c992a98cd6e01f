"""Who takes part in an experiment: real machines, and the messages that tell how they fare."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from snowmelt.core.instant import Duration, Instant, seconds
from snowmelt.core.names import Address, NodeId, OperationId
from snowmelt.core.node import Announced, Effect, Event, Reply, Requested
from snowmelt.protocols.pool import messages
from snowmelt.protocols.pool.calls import DescribePeer, PeerStatistics, PoolMembers
from snowmelt.protocols.pool.introductions import Acquaintance
from snowmelt.protocols.pool.peer import PoolPeer
from snowmelt.protocols.pool.settings import (
    LEASE_LONGEST,
    Access,
    AccessKind,
    Delivery,
    PoolSettings,
)
from snowmelt_lab.pool import central, queue_manager
from snowmelt_lab.pool.options import Algorithm, PoolOptions

BROKER: Final = NodeId("broker")
NEWS_EVERY: Final = seconds(1)
"""How often the cluster's nodes tell each process of the others' rates."""

Handle = Callable[[Event[Any], Instant], list[Effect[Any]]]


class Process:
    """One process: its machine, and how the world keeps its program and its timers."""

    __slots__ = (
        "asked_at",
        "calls",
        "check",
        "due",
        "handle",
        "mean",
        "name",
        "queued",
        "role",
        "stock",
    )

    def __init__(self, name: NodeId, machine: Any, role: str, mean: float = 0.0) -> None:
        self.name = name
        self.role = role
        self.handle: Handle = machine.handle
        self.check: Callable[[], None] = machine.check
        self.mean = mean
        """Nanoseconds that its program takes for an object, on average."""
        self.calls = 0
        self.asked_at = Instant(0)
        """When its program made the call that is not answered yet."""
        self.stock = 0
        """Of a producer: its objects; less than 0 are requests in its line."""
        self.due: dict[Any, Instant] = {}
        """Its timers."""
        self.queued: dict[Any, Instant] = {}
        """When the world looks after each of them next."""

    def call(self, body: Any) -> Requested[Any]:
        self.calls += 1
        return Requested(OperationId(self.name, self.calls), body)


@dataclass(frozen=True)
class Cast:
    producers: list[Process]
    consumers: list[Process]
    brokers: list[Process]
    probe: type
    """What asks for an object, and finds one or does not."""
    takes: type | None
    """What takes an object from its producer, or waits for one there; passed on it does neither."""
    settling: frozenset[type]
    """What is said of an object after it has come, and of attempts that are over."""
    news: Callable[[Instant], list[tuple[Process, Announced]]]
    """What the consumers are told every `NEWS_EVERY`."""


def cast(options: PoolOptions) -> Cast:
    match options.algorithm:
        case Algorithm.STOCHASTIC:
            return _stochastic(options)
        case Algorithm.CENTRAL:
            return _central(options)
        case Algorithm.MANAGER:
            return _managed(options)


def hands(producers: int, consumers: int, fan_out: int, chance: Random) -> list[list[int]]:
    """Which producers each consumer knows: dealt from a shuffled pack, again and again.

    So each is known by as many consumers as any other, or by one more, and no two consumers need
    know the same.

    >>> dealt = hands(6, 4, 3, Random(1))
    >>> sorted(sum(dealt, [])) == sorted([*range(6)] * 2), [len(set(hand)) for hand in dealt]
    (True, [3, 3, 3, 3])
    """
    pack: list[int] = []
    dealt = []
    for _ in range(consumers):
        hand: list[int] = []
        kept: list[int] = []
        while len(hand) < fan_out:
            if not pack:
                pack = chance.sample(range(producers), producers)
            card = pack.pop()
            (kept if card in hand else hand).append(card)
        pack += kept
        dealt.append(hand)
    return dealt


def _stochastic(options: PoolOptions) -> Cast:
    chance = Random(f"{options.seed}/cast")
    names = [f"p{number}" for number in range(options.producers)]
    weighted = options.access is AccessKind.WEIGHTED
    weights = dict(zip(names, options.weights, strict=True)) if weighted else {}
    settings = PoolSettings(
        buffers=options.buffers,
        max_hops=options.max_hops,
        wait=Duration(0),
        lease=LEASE_LONGEST,
        grace=LEASE_LONGEST,
        delivery=Delivery.AT_MOST_ONCE,
        access=Access(options.access, weights, revisit=True),
        fan_out=options.fan_out,
    ).checked()

    def peer(name: str, producer: str = "") -> PoolPeer:
        own = Random(f"{options.seed}/{name}")
        return PoolPeer(NodeId(f"c-{name}"), "lab", settings, own, producer=producer)

    producers = [Process(NodeId(f"c-{name}"), peer(name, name), "producer") for name in names]
    consumers = [
        Process(NodeId(f"c-c{number}"), peer(f"c{number}"), "consumer")
        for number in range(options.consumers)
    ]
    ids = [one.name for one in producers]
    fan_out = options.fan_out or options.producers
    known = [
        tuple(ids[one] for one in hand)
        for hand in hands(options.producers, options.consumers, fan_out, chance)
    ]

    def news(now: Instant) -> list[tuple[Process, Announced]]:
        adaptive = options.access is AccessKind.ADAPTIVE
        if now and not adaptive:
            return []
        all_of_them = tuple(
            Acquaintance(one.name, name, Address("lab", 1), _rate(one, now) if adaptive else 0.0)
            for one, name in zip(producers, names, strict=True)
        )
        return [
            (one, Announced(PoolMembers(all_of_them, some)))
            for one, some in zip(consumers, known, strict=True)
        ]

    settling = frozenset(messages.MESSAGES) - {messages.Request, messages.ObjectsLent}
    return Cast(producers, consumers, [], messages.Request, messages.Request, settling, news)


def _rate(producer: Process, now: Instant) -> float:
    """What it says of itself in its introductions."""
    for effect in producer.handle(producer.call(DescribePeer()), now):
        if isinstance(effect, Reply) and isinstance(effect.message, PeerStatistics):
            return effect.message.rate
    return 0.0


def _central(options: PoolOptions) -> Cast:
    ahead = central.promised_ahead(options.buffers)
    places = options.buffers * options.producers
    buffer = central.CentralBuffer(places, ahead * options.producers)
    return _brokered(
        options,
        buffer,
        lambda: central.CentralProducer(BROKER, ahead),
        lambda: central.CentralConsumer(BROKER),
        central.FetchObject,
        None,
    )


def _managed(options: PoolOptions) -> Cast:
    return _brokered(
        options,
        queue_manager.QueueManager(),
        lambda: queue_manager.ManagedProducer(BROKER, options.buffers),
        lambda: queue_manager.ManagedConsumer(BROKER),
        queue_manager.FindProducer,
        queue_manager.Take,
    )


def _brokered(
    options: PoolOptions,
    broker: Any,
    producer: Callable[[], Any],
    consumer: Callable[[], Any],
    probe: type,
    takes: type | None,
) -> Cast:
    producers = [
        Process(NodeId(f"p{number}"), producer(), "producer") for number in range(options.producers)
    ]
    consumers = [
        Process(NodeId(f"c{number}"), consumer(), "consumer") for number in range(options.consumers)
    ]
    brokers = [Process(BROKER, broker, "broker")]
    return Cast(producers, consumers, brokers, probe, takes, frozenset(), lambda _: [])
