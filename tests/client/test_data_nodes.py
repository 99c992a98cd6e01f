"""Five real nodes: bodies lie on data nodes, and are there after one of them was killed."""

from pathlib import Path

import pytest

import snowmelt
from snowmelt.cli.local import LocalCluster

BODY = 100_000


def test_bodies_on_data_nodes_outlive_one_of_them(tmp_path: Path) -> None:
    with LocalCluster(5, tmp_path, 0.5) as nodes:
        nodes.start()
        with snowmelt.connect(nodes.url) as cluster:
            queue = cluster.fifo("q", replicas=2, inline_max=1_000)
            queue.put(b"first", timeout=30)
            queue.get(timeout=30).ack()
            for number in range(20):
                queue.put(b"%d " % number + bytes(BODY), timeout=30)
                queue.put(b"%d" % number, timeout=30)
            status = queue.stats()
            assert (status.ready, status.settings.inline_max) == (40, 1_000)
            victim = next(one for one in nodes.nodes[1:] if one.name != status.leader)
            victim.kill()
            found = [queue.get(timeout=60) for _ in range(40)]
            assert [one.position for one in found] == list(range(1, 41))
            assert [bytes(one.body).split(b" ")[0] for one in found] == [
                b"%d" % (number // 2) for number in range(40)
            ]
            for one in found:
                one.ack()
            assert queue.stats().ready == 0


def test_an_option_that_can_not_be_had_says_so(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path / "q") as cluster:
        queue = cluster.fifo("q", inline_max=0)
        queue.put(b"a" * 10)
        assert queue.get(timeout=5).body == b"a" * 10
        with pytest.raises(snowmelt.BadOption, match="1073741824; allowed: 0 to 4194304"):
            cluster.fifo("r", inline_max=1 << 30)
