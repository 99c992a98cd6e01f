"""How long nobody can put after the leader is killed: ours, RabbitMQ's and NATS's.

Each has three nodes on the loopback with a copy of each item on all, and flushes before it answers;
ours has its defaults and an etcd of one member. Four threads put one item after the other; one
whose put fails goes to the next node. Then the leader is killed (SIGKILL): the leader of the queue,
of the quorum queue, of the stream; `snowmelt-cluster` kills the leader of the cluster. The gap is
the longest time in which nobody's put was acknowledged. The dead one is started again, and all
three take part again before the next kill, of which each round has one.

    apt-get install --no-install-recommends etcd-server rabbitmq-server nats-server

pika, nats-py and a NATS that can flush each item come with `pip install -e '.[bench]'`.
"""

from typing import Final

from benchmarks.peers.comparison import Comparison, Maker, Work
from benchmarks.peers.failover.putters import kill_the_leader

PEERS: Final[dict[str, Maker]] = {
    "snowmelt-fifo": ("failover.snowmelt", "queue", ("fifo",)),
    "snowmelt-priority": ("failover.snowmelt", "queue", ("priority",)),
    "snowmelt-cluster": ("failover.snowmelt", "queue", ("fifo", True)),
    "rabbitmq": ("failover.rabbitmq", "quorum", ()),
    "nats": ("failover.nats", "stream", (True,)),
    "nats-2min": ("failover.nats", "stream", (False,)),
}
COMPARISON: Final = Comparison(
    name="failover",
    about="How long nobody can put after the leader of three nodes is killed",
    peers=PEERS,
    works=(Work("kill", "the leader is killed", kill_the_leader),),
    ours=("snowmelt-fifo", "snowmelt-priority"),
    columns={"gap s": "gap_s", "longest put s": "longest_put_s"},
    charted={"gap_s": "seconds without any put, median: less is better"},
    legend="what is killed; the disk",
    notes=(
        "Seconds, medians; the longest of the puts that were acknowledged. "
        "x: how many times this row's gap Snowmelt's is."
    ),
    rounds=(10, 1),
)
