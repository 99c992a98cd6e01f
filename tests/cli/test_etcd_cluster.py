"""Real nodes and a real etcd: whichever machine dies, the cluster goes on with all that it had."""

import shutil

import pytest

import snowmelt
from cli.program import snowmelt as ran
from snowmelt.cli.local import LocalCluster
from snowmelt.cli.local_etcd import LocalEtcd
from snowmelt.core.errors import TooLarge, Unavailable

NEEDS_ETCD = pytest.mark.skipif(shutil.which("etcd") is None, reason="no etcd is installed")
ITEMS = 40


@NEEDS_ETCD
def test_items_and_batons_outlive_the_leader_and_its_disk(tmp_path):
    with LocalEtcd(tmp_path / "etcd") as etcd:
        options = ["--coordinator", etcd.url]
        with LocalCluster(3, tmp_path / "nodes", 0.5, options=options) as cluster:
            first = cluster.start()
            with snowmelt.connect(cluster.url) as door:
                orders = door.fifo("orders", replicas=2)
                orders.put_many([str(number).encode() for number in range(ITEMS)], timeout=30)
                numbers = [*door.counter("ids").next(3, timeout=30)]
                with door.baton("index").acquire(timeout=30) as held:
                    held.save(b"segment-17")
                    fence = held.fence
                (leader,) = (one for one in cluster.nodes if one.name == first.coordinator)
                leader.kill()
                shutil.rmtree(leader.folder)
                rest = [one for one in cluster.nodes if one is not leader]
                second = cluster.wait_for([one.name for one in rest], 60)
                assert second.coordinator in [one.name for one in rest]
                got = []
                for _ in range(ITEMS):
                    with orders.get(timeout=60) as item:
                        got.append(int(item.body))
                assert got == list(range(ITEMS))
                with door.baton("index").acquire(timeout=60) as held:
                    assert held.value == b"segment-17"
                    assert held.fence > fence
                    with pytest.raises(TooLarge, match="at most 65536"):
                        held.save(bytes(100_000))
                assert door.counter("ids").next(1, timeout=60).start > max(numbers)


@NEEDS_ETCD
def test_a_node_of_another_cluster_does_not_start_on_the_prefix(tmp_path):
    with LocalEtcd(tmp_path / "etcd") as etcd:
        options = ["--coordinator", etcd.url]
        with LocalCluster(1, tmp_path / "one", 0.5, options=options) as cluster:
            cluster.start()
            more = [*options, "--cluster", "other"]
            with (
                LocalCluster(1, tmp_path / "other", 0.5, options=more) as other,
                pytest.raises(Unavailable, match="belongs to the cluster 'snowmelt'"),
            ):
                other.start()


def test_up_says_where_to_get_an_etcd_when_none_is_installed(tmp_path):
    ended = ran("up", "--coordinator", "etcd", PATH=str(tmp_path))
    assert ended.returncode != 0
    assert "apt-get install etcd-server" in ended.stderr
