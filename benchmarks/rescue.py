"""A coordinator's disk is lost, with a million items in ten queues; all that was promised is there.

    python benchmarks/rescue.py [--items 1000000] [--queues 10] [--nodes 3] [--json]

Real nodes, queues with two and three replicas in turn, all filled, and a tenth of each got and
acknowledged. Then all nodes are killed, the coordinator's folder is deleted, `snowmelt rescue` is
run on the others, all are started again (the coordinator with what rescue has made), and all
queues are emptied. Each item that was put must come, in its order, but those acknowledged before,
which must not; no token of a lease may be one that was seen before.

It ends with 1 when anything is missing, doubled or out of order.
"""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

import msgspec

import snowmelt
from snowmelt.cli.local import LocalCluster, end_on_sigterm
from snowmelt.client.cluster import Cluster
from snowmelt.runtime.rescue import Rescue

BATCH = 1000


class Result(msgspec.Struct, frozen=True):
    """The run; seconds by the clock."""

    queues: int
    put: int
    acknowledged_before: int
    came_after: int
    wrong_order: int
    tokens_repeated: int
    put_seconds: float
    rescue_seconds: float
    back_seconds: float
    """From the first node's start to the first item of every queue."""
    get_seconds: float

    @property
    def good(self) -> bool:
        """Whether nothing is missing, doubled, out of order, or said twice."""
        whole = self.acknowledged_before + self.came_after == self.put
        return whole and not self.wrong_order and not self.tokens_repeated


def _body(number: int) -> bytes:
    return b"%010d" % number + bytes(90)


def _fill(door: Cluster, names: list[str], each: int) -> int:
    """Fills the queues; returns the greatest token of the leases on a tenth that is done with."""
    token = 0
    for at, name in enumerate(names):
        queue = door.fifo(name, replicas=2 + at % 2)
        for first in range(0, each, BATCH):
            many = [_body(number) for number in range(first, min(each, first + BATCH))]
            queue.put_many(many, timeout=120)
        done = 0
        while done < each // 10:
            with queue.get_many(min(BATCH, each // 10 - done), timeout=60) as items:
                token = max(token, items.token)
                done += len(items)
    return token


def _empty(door: Cluster, name: str, after: int, each: int, token: int) -> tuple[int, int, int]:
    """Gets all there is; returns how many came, how many out of order, how many tokens were old."""
    queue = door.fifo(name)
    came, wrong, old, expected = 0, 0, 0, after
    while came < each - after:
        with queue.get_many(BATCH, timeout=60) as items:
            old += items.token <= token
            for item in items:
                wrong += int(item.body[:10]) != expected
                expected = int(item.body[:10]) + 1
            came += len(items)
    return came, wrong, old + queue.stats(timeout=60).ready


def measured(items: int, queues: int, nodes: int) -> Result:
    """One life of a cluster, its rescue, and its second life."""
    folder = Path(tempfile.mkdtemp(prefix="snowmelt-rescue-"))
    names, each = [f"queue-{at}" for at in range(queues)], items // queues
    try:
        with LocalCluster(nodes, folder, heartbeat=1.0) as cluster:
            cluster.start()
            with snowmelt.connect(cluster.url) as door:
                begin = time.monotonic()
                token = _fill(door, names, each)
                filled = time.monotonic()
                for node in cluster.nodes:
                    node.kill()
            first, *rest = cluster.nodes
            shutil.rmtree(first.folder)
            at = time.monotonic()
            with Rescue(first.folder, [one.folder for one in rest], ()) as rescue:
                rescue.carry_out(rescue.plan())
            rescued = time.monotonic()
            cluster.start()
            with snowmelt.connect(cluster.url) as door:
                for name in names:
                    door.fifo(name).peek(timeout=120)
                back = time.monotonic()
                found = [_empty(door, name, each // 10, each, token) for name in names]
            return Result(
                queues,
                each * queues,
                each // 10 * queues,
                sum(came for came, _, _ in found),
                sum(wrong for _, wrong, _ in found),
                sum(old for _, _, old in found),
                round(filled - begin, 1),
                round(rescued - at, 2),
                round(back - rescued, 1),
                round(time.monotonic() - back, 1),
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Runs it, and says what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--queues", type=int, default=10)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    end_on_sigterm()
    result = measured(given.items, given.queues, given.nodes)
    if given.json:
        print(msgspec.json.encode(result).decode())
    else:
        for name, value in msgspec.structs.asdict(result).items():
            print(f"{name.replace('_', ' '):22} {value:>12,}")
        print("nothing is lost" if result.good else "NOT GOOD")
    sys.exit(0 if result.good else 1)


if __name__ == "__main__":
    main()
