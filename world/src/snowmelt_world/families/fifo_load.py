"""How much is asked in a fifo life, by its theme (`sim.themes`), and how small its limits are.

What happens at a limit happens only to those who reach it, and a put loses its body only if it
waits for longer than its node takes to restart.
"""

from random import Random

import msgspec

from snowmelt.core.instant import Duration, milliseconds, seconds
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.limits import LIMITS, QueueLimits


class Load(msgspec.Struct, kw_only=True):
    theme: str
    limits: QueueLimits = LIMITS
    queues: int = 1
    producers: int = 3
    consumers: int = 3
    batches: int = 16
    """The most that one producer puts."""
    items: int = 30
    """The most in one batch."""
    body: int = 40
    """The longest filling of a body."""
    patience: Duration = seconds(4)
    """The longest wait for room."""
    waits: float = 0.4
    """How many puts wait for room."""
    sparse: bool = False
    """Whether producers number their puts at random, in some regions."""
    work: Duration = milliseconds(400)
    """How long a consumer works, mostly."""
    late: float = 0.05
    """How many leases have their bodies fetched only after a while, or never in time."""
    extends: float = 0.06
    """For how many leases more time is asked."""
    reason: int = 9
    """How long the reason of a failure may be."""
    looks: int = 6
    """How often a queue is looked at, by whoever does only that."""


def load_of(chance: Random, theme: str) -> Load:
    load = Load(
        theme=theme,
        queues=chance.choice((1, 1, 2, 3)),
        producers=chance.randint(2, 4),
        consumers=chance.randint(2, 4),
        reason=chance.choice((9, 9, 900)),
    )
    load.limits = _limits(chance)
    match theme:
        case "bounded":
            load.queues = 1
            load.producers, load.consumers = chance.randint(4, 9), chance.randint(1, 2)
            load.batches, load.items = 8, chance.choice((1, 1, 3))
            load.patience, load.waits = seconds(40), 0.9
            load.work = chance.choice((milliseconds(400), seconds(3)))
        case "bursts":
            load.queues, load.batches, load.items = 1, 4, 16
            load.consumers, load.work, load.waits = load.consumers + 1, milliseconds(50), 0.7
        case "late readers":
            load.queues, load.late = 1, 0.4
            load.items, load.batches = chance.choice((60, 300)), 8
            load.looks = 20
        case "backlog":
            load.queues, load.late, load.looks = 1, 0.6, 40
            load.items, load.batches, load.work = 100, 16, seconds(3)
        case "sparse numbers":
            load.sparse, load.batches, load.items = True, 24, 5
        case "short leases":
            load.work = chance.choice((milliseconds(100), milliseconds(600)))
            load.looks = 20
        case "lingering" | "power":
            load.batches = 24
        case "stalls":
            load.batches, load.extends = 24, 0.5
        case "wide":
            load.queues, load.producers = chance.randint(4, 10), chance.randint(4, 10)
            load.consumers, load.batches, load.looks = load.queues, 6, 2
        case _:
            load.patience = chance.choice((seconds(4), seconds(4), seconds(20)))
    load.consumers = max(load.consumers, load.queues)
    load.producers = max(load.producers, load.queues)
    return load


def _limits(chance: Random) -> QueueLimits:
    """In most lives some limits are so small that they are met."""
    if chance.random() < 0.3:
        return LIMITS
    limits = QueueLimits(
        recent_bytes=chance.choice((0, 3_000, LIMITS.recent_bytes)),
        fetch_bytes=chance.choice((100, 1_000, LIMITS.fetch_bytes)),
        way_bytes=chance.choice((50, 1_000, LIMITS.way_bytes)),
        lease_runs=chance.choice((2, LIMITS.lease_runs)),
        group_pieces=chance.choice((2, LIMITS.group_pieces)),
        surveyed=chance.choice((5, LIMITS.surveyed)),
        producer_gaps=chance.choice((3, 8)) if chance.random() < 0.5 else LIMITS.producer_gaps,
        producer_recent=chance.choice((2, LIMITS.producer_recent)),
    )
    scattered = limits.lease_runs < LIMITS.lease_runs
    few = msgspec.structs.replace(limits, block_batches=2, few_blocks=0, spare_bytes=0)
    return few if scattered else limits


def settings_of(chance: Random, load: Load, nodes: int, losses: int) -> QueueSettings:
    """Draws a queue's settings, so that mostly its promise covers the life.

    Whose only keeper's disk is lost for ever is lost for ever, and that is no fault to find: with
    `losses` disks that may be lost or hurt, more copies are needed, if there are so many nodes.
    """
    covered = chance.random() < 0.9
    least = min(nodes, 1 + losses, 4) if covered else 1
    fewest = 2 if load.theme in ("bounded", "late readers", "backlog") else 1
    replicas = max(least, min(nodes, chance.choice((fewest, 2, 3, 3))))
    if load.theme in ("bounded", "late readers", "backlog"):
        replicas = max(least, min(3, nodes - 1, replicas), 1)
    needed = max(replicas // 2 + 1, least)
    durable = chance.choice((needed, needed, replicas, chance.randint(least, replicas)))
    lease = Duration(chance.randrange(seconds(2), seconds(6)))
    linger = chance.choice((Duration(0), Duration(0), Duration(0), milliseconds(50)))
    items_max = chance.choice((0, 0, 0, chance.randint(20, 60)))
    bytes_max = chance.choice((0, 0, 0, chance.randint(400, 2_000)))
    match load.theme:
        case "bounded":
            items_max, bytes_max = chance.randint(1, 6), 0
            if chance.random() < 0.2:
                items_max, bytes_max = 0, chance.randint(50, 200)
        case "bursts":  # every node keeps every body, so that puts may be early
            replicas, needed, linger = max(2, nodes), max(nodes // 2 + 1, least), Duration(0)
            durable, items_max, bytes_max = needed, chance.randint(8, 20), 0
        case "short leases" | "stalls":
            lease = Duration(chance.randrange(milliseconds(100), milliseconds(1_000)))
        case "lingering":
            choices = (milliseconds(50), milliseconds(500), seconds(3), seconds(10))
            linger = chance.choice(choices)
        case "few copies":
            replicas, linger = chance.randint(2, min(nodes, 4)), Duration(0)
            needed, durable = replicas + 1, 1
        case "late readers" | "sparse numbers" | "backlog":
            items_max, bytes_max = 0, 0
            lease = Duration(chance.randrange(milliseconds(500), seconds(3)))
    return QueueSettings(
        replicas=replicas,
        durable_copies=chance.choice((0, durable)) if needed <= replicas // 2 + 1 else durable,
        linger=linger,
        lease=lease,
        deliveries_max=chance.choice((1_000, 1_000, 1_000, chance.randint(2, 3))),
        items_max=items_max,
        bytes_max=bytes_max,
    )
