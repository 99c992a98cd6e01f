"""Groups that several use at once, and while a node is dead; an `advance` is one call."""

import threading
from pathlib import Path
from typing import Any

import pytest

import snowmelt
from snowmelt.cli.local import LocalCluster, LocalNode
from snowmelt.client.leases.delivered import part_bodies
from snowmelt.client.queue.group_steps import Mark
from wide import wide


@pytest.mark.parametrize("kind", ["priority", "fifo"])
def test_threads_that_share_a_group_are_told_the_same(node: LocalNode, kind: str) -> None:
    with snowmelt.connect(node.url) as cluster:
        queue: Any = getattr(cluster, kind)(f"shared-{kind}")
        queue.put_many([b"%d" % at for at in range(100)])
        group = queue.group("spark")
        told: list[Mark] = []
        at_once = threading.Barrier(8)

        def work() -> None:
            at_once.wait(20)
            told.append(group.advance(items_max=5).end)

        working = [threading.Thread(target=work) for _ in range(8)]
        for one in working:
            one.start()
        for one in working:
            one.join(30)
        assert len(told) == 8
        assert len(set(told)) == 1
        assert (queue.stats().assigned, queue.stats().leased) == (5, 0)
        assert group.release() == 5
        assert queue.stats().ready == 100


@pytest.mark.parametrize("kind", [*wide("priority"), "fifo"])
def test_a_group_goes_on_while_a_node_is_dead(tmp_path: Path, kind: str) -> None:
    with LocalCluster(3, tmp_path, 0.5) as cluster, snowmelt.connect(cluster.url) as client:
        cluster.start()
        jobs: Any = getattr(client, kind)("jobs", replicas=3)
        jobs.put_many([b"one", b"two"])
        group = jobs.group("spark")
        first = group.advance(items_max=1).end
        cluster.nodes[2].kill()
        second = group.advance(first, items_max=1, timeout=20).end
        assert second.count == 2
        [part] = jobs.read(group.locate(first, second, timeout=20).spans).parts
        assert part_bodies(part) == [b"two"]
