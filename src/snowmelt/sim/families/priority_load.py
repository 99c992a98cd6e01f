"""How much is asked in a life of priority queues, by its theme, and how small its limits are."""

from random import Random

import msgspec
from msgspec.structs import replace

from snowmelt.core.instant import Duration, milliseconds, seconds
from snowmelt.core.keys import KEY_MAX, KEY_MIN
from snowmelt.protocols.priority.limits import LIMITS, Limits
from snowmelt.protocols.priority.settings import ANY, QueueSettings


class Load(msgspec.Struct, kw_only=True):
    theme: str
    limits: Limits = LIMITS
    queues: int = 1
    producers: int = 3
    consumers: int = 3
    puts: int = 14
    """The most that one producer asks."""
    items: int = 12
    """The most in one put."""
    patience: Duration = seconds(4)
    """The longest wait, of a get for elements and of a put for room."""
    work: Duration = milliseconds(400)
    """How long a consumer works, mostly."""
    again: float = 0.05
    """How often a call that was answered is made again under its number."""
    leaves: int = 0
    """How often some node leaves in order, and comes back."""
    purges: bool = False
    late: float = 0.08
    """How often a consumer comes with its acknowledgement when its lease may be over."""
    light: bool = False
    """Whether some gets can carry no more than a few elements."""
    narrow: bool = False
    """Whether homes read so little at once that any get may give some back by itself."""
    idle: Duration = seconds(5)
    """By then all consumers have begun."""
    newcomers: float = 0.15
    """How often a node begins at any time, not at once."""
    away: Duration = seconds(15)
    """For how long at most a node that left in order is away."""


def load_of(chance: Random, theme: str) -> Load:
    load = Load(
        theme=theme,
        limits=_limits(chance),
        queues=chance.choice((1, 1, 2)),
        producers=chance.randint(1, 4),
        consumers=chance.randint(1, 4),
        items=chance.choice((1, 4, 12, 40)),
        leaves=chance.choice((0, 0, 1, 3)),
        purges=chance.random() < 0.15,
    )
    match theme:
        case "bounded":
            load.queues, load.items = 1, chance.choice((1, 1, 3))
            load.producers, load.consumers = chance.randint(2, 5), chance.randint(1, 2)
            load.patience = seconds(10)
        case "short leases":
            load.work = chance.choice((milliseconds(100), milliseconds(600)))
        case "leaving":
            load.leaves = 5
        case "late":
            load.producers, load.consumers = chance.randint(2, 4), chance.randint(3, 4)
            load.items, load.puts, load.late = 12, 30, 0.5
        case "backlog":
            load.producers, load.consumers = chance.randint(2, 4), chance.randint(1, 2)
            load.puts, load.work, load.idle = 40, seconds(2), seconds(20)
            load.leaves, load.light = chance.randint(0, 3), True
        case "much gone":
            load.work, load.idle = milliseconds(100), seconds(1)
            load.producers, load.consumers, load.puts = 3, 4, 40
            load.limits = replace(load.limits, gone=8, gone_size=2, large=chance.choice((2, 6)))
        case "alone":
            load.producers, load.consumers = chance.randint(2, 4), chance.randint(2, 4)
            load.puts = 40
        case "alone at times":
            load.producers, load.consumers = chance.randint(2, 4), chance.randint(2, 4)
            load.puts = 40
            load.leaves, load.newcomers, load.away = chance.choice((4, 8)), 0.5, seconds(40)
        case "slow copies" | "power":
            load.producers, load.puts = chance.randint(3, 4), 60
        case _:
            pass
    load.consumers = max(load.consumers, load.queues)
    load.producers = max(load.producers, load.queues)
    return load


def _limits(chance: Random) -> Limits:
    """In most lives blocks are small, so that elements lie on many nodes; trees of both forms."""
    block = chance.choice((1, 2, 4, 16, LIMITS.block))
    return Limits(
        block=block,
        deal={1: 0, 2: 4, 4: 0, 16: 16}.get(block, LIMITS.deal),
        arity=chance.choice((2, 3, LIMITS.arity)),
        flat=chance.random() < 0.5,
        stash=chance.choice((3, LIMITS.stash)),
    )


def settings_of(chance: Random, load: Load, queue: str, nodes: int, losses: int) -> QueueSettings:
    """Draws a queue's settings, so that mostly its promise covers the life.

    Whose only keeper's disk is lost is lost, and that is no fault to find: with `losses` disks that
    may be lost or hurt more copies are needed, if there are so many nodes.
    """
    covered = chance.random() < 0.9
    spare = 2 if load.theme == "backlog" else 1
    least = min(nodes, spare + losses) if covered else 1
    lease = Duration(chance.randrange(seconds(2), seconds(6)))
    items_max = chance.choice((0, 0, 0, chance.randint(20, 60)))
    match load.theme:
        case "bounded":
            items_max = chance.randint(1, 6)
        case "short leases":
            lease = Duration(chance.randrange(milliseconds(200), milliseconds(1_500)))
        case "late":
            lease, items_max = Duration(chance.randrange(milliseconds(500), seconds(2))), 0
        case _:
            pass
    priorities, largest_first = chance.choice((1, 2, 4, 4, 7)), chance.random() < 0.25
    replicas = max(least, min(nodes, chance.choice((1, 2, 2, 3))))
    if load.theme == "slow copies":
        replicas = 2  # and no more, so that each of them counts
    if load.theme == "alone at times" and chance.random() < 0.75:
        replicas = nodes  # else what lies with who is away is excused
    return QueueSettings(
        queue=queue,
        priorities=priorities,
        largest_first=largest_first,
        replicas=min(7, replicas),
        lease=lease,
        deliveries_max=chance.choice((1_000, 1_000, 1_000, chance.randint(2, 3))),
        items_max=items_max,
    )


def any_priorities(chance: Random, load: Load, settings: QueueSettings) -> QueueSettings:
    """The same with any priorities, and phases that come to their limits."""
    least, sample = chance.choice((0, 0, 1, 3, LIMITS.least)), chance.choice((8, 8, LIMITS.sample))
    few = 1 if sample < LIMITS.sample else LIMITS.few  # few leases of a life have many stretches
    load.limits = replace(load.limits, least=least, sample=sample, few=few)
    dice = Random(settings.lease)  # its own, so that lives drawn before stay as they are
    if dice.random() < 0.3:
        read, recent = dice.choice(((60, 200), (120, 0), (30, 60)))
        load.limits, load.narrow = replace(load.limits, read=read, recent=recent), True
    return replace(settings, priorities=ANY)


def priority_of(chance: Random, settings: QueueSettings) -> int:
    """Of some elements of a put: a few that come often, and all that there may be."""
    if not settings.keyed:
        return chance.randrange(settings.priorities)
    ends = chance.choice((KEY_MIN, KEY_MIN + 1, KEY_MAX))
    return chance.choice((chance.randrange(3), chance.randrange(KEY_MIN, KEY_MAX), ends))
