"""Snowmelt's priority queue beside Redis, beanstalkd and RabbitMQ.

All of them flush before they answer, on servers that are started on free ports of the loopback:

    apt-get install --no-install-recommends redis-server beanstalkd rabbitmq-server

Their clients come with `pip install -e '.[bench]'`. The work is that of `snowmelt bench fifo`, with
four priorities, or with any of 64 bits. `redis-zpopmin` and `redis-pipeline` lose what they hand
out, so only any priorities in batches are held against them. `plain-python` is no queue: it writes
what comes and flushes it, which is what the language allows at most.
"""

from typing import Final

from benchmarks.peers.comparison import DISK, Comparison, Goal, Maker
from benchmarks.peers.fifo.cell import TASKS, Cell
from benchmarks.peers.fifo.work import CHARTED, COLUMNS, NOTES, works

PEERS: Final[dict[str, Maker]] = {
    DISK: ("fifo.disk", "disk", ()),
    "snowmelt-1": ("priority.snowmelt", "priority", (1,)),
    "snowmelt-3": ("priority.snowmelt", "priority", (3,)),
    "snowmelt-any": ("priority.snowmelt", "priority", (1, int)),
    "snowmelt-any-3": ("priority.snowmelt", "priority", (3, int)),
    "redis": ("priority.redis", "sorted_set", (0,)),
    "redis-zpopmin": ("priority.redis_plain", "plain_set", ()),
    "redis-pipeline": ("priority.redis_plain", "pipeline", ()),
    "beanstalkd": ("priority.beanstalkd", "tube", ()),
    "rabbitmq-classic": ("priority.rabbitmq", "classic", ()),
    "rabbitmq-quorum": ("priority.rabbitmq", "quorum", (1,)),
    "redis-3": ("priority.redis", "sorted_set", (2,)),
    "rabbitmq-quorum-3": ("priority.rabbitmq", "quorum", (3,)),
    "plain-python": ("fifo.plain_python", "plain", ()),
}
OURS: Final = ("snowmelt-1", "snowmelt-3", "snowmelt-any", "snowmelt-any-3")
COPIES: Final = ("redis-3", "rabbitmq-quorum-3")
"""The others that have three copies before they answer."""
RIVALS: Final = ("redis", "beanstalkd", "rabbitmq-classic", "rabbitmq-quorum", *COPIES)
MANY: Final = Cell(100, 1_000)
CELLS: Final = [MANY, Cell(100, 1), Cell(100, 1, TASKS, tasks=True)]
SINGLES: Final = tuple(cell.name for cell in CELLS[1:])
COMPARISON: Final = Comparison(
    name="priority",
    about="Snowmelt's priority queue beside Redis, beanstalkd and RabbitMQ",
    peers=PEERS,
    works=works(CELLS),
    ours=OURS,
    columns=COLUMNS,
    charted=CHARTED,
    legend="the disk has it",
    notes=NOTES,
    goals=(
        Goal((MANY.name,), "snowmelt-1", RIVALS, at_least=5),
        Goal((MANY.name,), "snowmelt-3", RIVALS, at_least=5),
        Goal((MANY.name,), "snowmelt-3", COPIES, at_least=5),
        Goal((MANY.name,), "snowmelt-any", RIVALS, at_least=3),
        Goal((MANY.name,), "snowmelt-any", ("redis-zpopmin",), at_least=3),
        Goal((MANY.name,), "snowmelt-any", ("redis-pipeline",), at_least=3),
        Goal((MANY.name, *SINGLES), "snowmelt-any-3", RIVALS),
        Goal(SINGLES, "snowmelt-1", RIVALS, at_least=1),
        Goal(SINGLES, "snowmelt-3", COPIES),
        Goal(SINGLES, "snowmelt-any", RIVALS, at_least=1),
    ),
)
