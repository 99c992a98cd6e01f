"""Real processes, one of which is killed: its connections tell it, long before its silence would.

Heartbeats come every five seconds here, so by silence alone a node is missed after forty.
"""

import os
import time
from pathlib import Path

import snowmelt
from snowmelt.cli.local import LocalCluster
from snowmelt.core.errors import Empty
from timing import in_vain, until

HEARTBEAT = 5.0
SOON = 25.0
"""So slow may this machine be; by silence it would be more."""


def test_a_killed_master_is_missed_at_once_and_its_fifo_goes_on_at_a_mirror(tmp_path: Path) -> None:
    with LocalCluster(3, tmp_path, HEARTBEAT) as cluster:
        cluster.start()
        cluster.wait_for(["n1", "n2", "n3"], 60)
        with snowmelt.connect(cluster.url) as client:
            go_on(cluster, client)


def followed(orders: snowmelt.Fifo) -> bool:
    told = orders.stats(timeout=20)
    return len(told.followers) == 2 and not told.followers_behind


def go_on(cluster: LocalCluster, client: snowmelt.Cluster) -> None:
    for number in range(50):
        orders = client.fifo(f"q{number}", replicas=3, durable_copies=2)
        orders.create()
        until(lambda: followed(orders))  # noqa: B023  # so that a follower has all that comes
        orders.put(b"before")
        name = orders.stats(timeout=20).leader
        if name != "n1":  # which decides on views
            break
    master = next(node for node in cluster.nodes if node.name == name)
    begun = time.monotonic()
    master.kill()
    orders.put(b"after", timeout=60)
    with orders.get_many(10, timeout=60) as items:
        assert [bytes(body) for body in items.batch] == [b"before", b"after"]
    life = orders.trace(0, timeout=20)
    kinds = [one.kind.value for one in life.entries]
    assert (life.unknown, kinds) == ("", ["put", "leased", "acknowledged"])
    put, leased, _ = life.entries
    assert (put.term < leased.term, leased.pid) == (True, os.getpid())
    assert put.after == put.before
    in_vain(Empty, lambda: orders.get(timeout=0.5))  # told by two who vouch for it
    status = cluster.nodes[0].status()
    assert status is not None
    assert status.view is not None
    assert name not in [one.id for one in status.view.members]
    assert time.monotonic() - begun < SOON
