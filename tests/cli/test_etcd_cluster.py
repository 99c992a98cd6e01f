"""Real nodes and a real etcd: whichever machine dies, the cluster goes on with all that it had."""

import contextlib
import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

import snowmelt
from cli.program import snowmelt as ran
from snowmelt.cli.local import LocalCluster, LocalNode, free_port
from snowmelt.cli.local_etcd import LocalEtcd
from snowmelt.core.errors import Empty, StoreDamaged, TooLarge, Unavailable
from snowmelt.protocols.etcd import PutKey, Transact, Transacted
from snowmelt.runtime.etcd import EtcdPlace
from snowmelt.runtime.etcd.client import EtcdConnection

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
@pytest.mark.soak
def test_each_machine_may_go_for_good_one_after_the_other_and_another_takes_its_place(tmp_path):
    """None of the first three is left in the end; programs put all the while."""
    with LocalEtcd(tmp_path / "etcd") as etcd:
        options = ["--coordinator", etcd.url]
        with LocalCluster(3, tmp_path / "nodes", 0.5, options=options) as cluster:
            cluster.start()
            with snowmelt.connect(cluster.url) as door:
                counts = [fence_of_the_baton(door)]
                with ThreadPoolExecutor() as pool, Putting(cluster.url, pool) as putting:
                    for gone in list(cluster.nodes):
                        gone.kill()
                        shutil.rmtree(gone.folder)
                        cluster.nodes.remove(gone)
                        name = f"m{gone.name}"
                        new = LocalNode(name, free_port(), tmp_path / name, options)
                        new.start()
                        cluster.nodes.append(new)
                        cluster.wait_for([one.name for one in cluster.nodes], 60)
                        wait_for_copies(door)
                with snowmelt.connect(cluster.url) as other:
                    counts.append(fence_of_the_baton(other))
                    assert counts[0] < counts[1]
                    for kind in KINDS:
                        assert drained(queue_of(other, kind)) == putting.put[kind]


COPIED_SECONDS = 60.0
KINDS = ("fifo", "levels", "any")


def queue_of(door, kind):
    if kind == "fifo":
        return door.fifo(kind, replicas=2)
    return door.priority(kind, replicas=2, **({"priorities": 4} if kind == "levels" else {}))


def wait_for_copies(door):
    """Until nothing lacks a copy, by what the queues say: as an operator does before the next."""
    end = time.monotonic() + COPIED_SECONDS
    queues = [queue_of(door, kind) for kind in KINDS]
    while short := sum(queue.stats(timeout=30).short_of_copies for queue in queues):
        assert time.monotonic() < end, f"{short} items lack copies for so long"
        time.sleep(0.1)


def fence_of_the_baton(door):
    with door.baton("index").acquire(timeout=60) as held:
        return held.fence


def drained(queue):
    """How many came, each once."""
    got = []
    with contextlib.suppress(Empty):
        while True:
            items = queue.get_many(1000, timeout=5)
            got += [item.body for item in items]
            items.ack()
    assert len(set(got)) == len(got)
    return len(got)


class Putting:
    """Puts one item after the other into a queue of each kind, and counts them."""

    def __init__(self, url, pool):
        self.put = dict.fromkeys(KINDS, 0)
        self._url, self._pool = url, pool
        self._over = False

    def __enter__(self):
        self._ways = [self._pool.submit(self._run, kind) for kind in KINDS]
        end = time.monotonic() + COPIED_SECONDS
        while not all(self.put.values()):
            assert time.monotonic() < end, f"nobody puts: {self.put}"
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self._over = True
        for way in self._ways:
            way.result(120)

    def _run(self, kind):
        with snowmelt.connect(self._url) as door:
            queue = queue_of(door, kind)
            while not self._over:
                body = b"%d" % self.put[kind]
                queue.put(body, timeout=60, **({} if kind == "fifo" else {"priority": 1}))
                self.put[kind] += 1
                time.sleep(0.01)


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


@NEEDS_ETCD
def test_nobody_founds_a_cluster_where_etcd_has_lost_one(tmp_path):
    with LocalEtcd(tmp_path / "etcd") as etcd:
        options = ["--coordinator", etcd.url]
        with LocalCluster(1, tmp_path / "nodes", 0.5, options=options) as cluster:
            identity = cluster.start().identity
        again = ran("found", "--coordinator", etcd.url)
        assert again.returncode == 4
        assert f"has cluster {identity} ('snowmelt')" in again.stderr
        _lose(etcd, tmp_path)
        for folder, why in (("nodes/n1", f"is of cluster {identity}"), ("new", "snowmelt found")):
            words = ["--data", str(tmp_path / folder), "--listen", f"127.0.0.1:{free_port()}"]
            ended = ran("node", "--id", "n1", *words, *options)
            assert ended.returncode == 3
            assert why in ended.stderr


def _lose(etcd, tmp_path):
    etcd.stop()
    shutil.rmtree(tmp_path / "etcd" / "data")
    etcd.start()


@NEEDS_ETCD
@pytest.mark.soak
def test_a_cluster_that_etcd_has_lost_is_founded_anew_from_its_nodes_folders(tmp_path):
    with LocalEtcd(tmp_path / "etcd") as etcd:
        options = ["--coordinator", etcd.url]
        with LocalCluster(3, tmp_path / "nodes", 0.5, options=options) as cluster:
            view = cluster.start()
            with snowmelt.connect(cluster.url) as door:
                door.fifo("orders", replicas=2).put_many([b"%d" % n for n in range(9)], timeout=30)
                for node in cluster.nodes:
                    node.kill()
                _lose(etcd, tmp_path)
                _found_anew(cluster.nodes, view.coordinator, etcd.url)
                assert cluster.start().identity == view.identity
                got = door.fifo("orders").get_many(20, timeout=30)  # the client of before goes on
                assert [item.body for item in got] == [b"%d" % n for n in range(9)]


def _found_anew(nodes, leader, url):
    (first,) = (node for node in nodes if node.name == leader)
    first.folder.rename(first.folder.with_suffix(".old"))
    members = [node for node in nodes if node is not first]
    folders = [word for node in members for word in ("--from", str(node.folder))]
    assert ran("rescue", "--data", str(first.folder), *folders, "--yes").returncode == 0
    join = ["--join", first.address]
    on_disk = [
        LocalNode(one.name, one.port, one.folder, [] if one is first else join) for one in nodes
    ]
    with contextlib.ExitStack() as stack:
        for node in on_disk:
            node.start()
            stack.callback(node.kill)
        end = time.monotonic() + COPIED_SECONDS
        while not all(_sees(node, len(nodes)) for node in on_disk):
            assert time.monotonic() < end
            time.sleep(0.1)
    moved = ran("migrate", "--data", str(first.folder), "--coordinator", url, "--yes")
    assert moved.returncode == 0, moved.stderr


def _sees(node, count):
    status = node.status()
    return status is not None and status.view is not None and len(status.view.members) == count


def test_up_says_where_to_get_an_etcd_when_none_is_installed(tmp_path):
    ended = ran("up", "--coordinator", "etcd", PATH=str(tmp_path))
    assert ended.returncode != 0
    assert "apt-get install etcd-server" in ended.stderr


STRANGE = (b"\xc1", b"garbage", b"\x05", b"\x81\xa1x" + b"\x91" * 5_000, b"\xff" * 40)


@NEEDS_ETCD
@pytest.mark.parametrize("seed", range(2))
def test_garbage_under_the_prefix_stops_a_queue_and_no_node(tmp_path, seed):
    chance = Random(seed)
    with LocalEtcd(tmp_path / "etcd") as etcd:
        options = ["--coordinator", etcd.url]
        with LocalCluster(3, tmp_path / "nodes", 0.5, options=options) as cluster:
            first = cluster.start()
            with snowmelt.connect(cluster.url) as door:
                for name in ("orders", "other", "parted"):
                    partitions = 3 if name == "parted" else 1
                    door.fifo(name, replicas=2, partitions=partitions).put(b"one", timeout=30)
                with door.baton("index").acquire(timeout=30) as held:
                    held.save(b"segment-17")
            for key in (b"~home/orders", b"~home/parted/1", b"~home/\xff\xfe", b"~home//floor",
                        b"~home//first", b"~baton/index", b"~baton//fences", b"~home/no name",
                        b"cluster", b"leader"):  # fmt: skip
                written(etcd, key, chance.choice(STRANGE))
            (leader,) = (one for one in cluster.nodes if one.name == first.coordinator)
            leader.kill()
            rest = [one.name for one in cluster.nodes if one is not leader]
            assert cluster.wait_for(rest, 60).coordinator in rest
            leader.start()
            cluster.wait_for([one.name for one in cluster.nodes], 60)
            for node in cluster.nodes:  # until then whoever led a queue may lead it on
                node.kill()
            for node in cluster.nodes:
                node.start()
            cluster.wait_for([one.name for one in cluster.nodes], 60)
            with snowmelt.connect(cluster.url) as door:
                other = door.fifo("other")
                other.put(b"two", timeout=30)
                assert [other.get(timeout=30).body for _ in range(2)] == [b"one", b"two"]
                for name in ("orders", "parted"):
                    with pytest.raises(StoreDamaged, match=f"snowmelt delete {name} --lost"):
                        door.fifo(name, replicas=2).put(b"two", timeout=30)
                door.fifo("new", replicas=2).put(b"new", timeout=30)
            shown = ran("queues", "--json", "--url", cluster.url)
            lines = {one["queue"]: one for one in json.loads(shown.stdout)["queues"]}
            assert lines.keys() == {"orders", "other", "parted", "new"}
            assert "~home/orders" in lines["orders"]["waits"]
            for name in ("orders", "parted"):
                ended = ran("delete", name, "--lost", "--yes", "--url", cluster.url)
                assert ended.returncode == 0, ended.stderr
            with snowmelt.connect(cluster.url) as door:
                door.fifo("orders", replicas=2).put(b"anew", timeout=30)
                assert door.fifo("orders").get(timeout=30).body == b"anew"
            assert not any("Traceback" in one.log.read_text() for one in cluster.nodes)


def written(etcd, key, value):
    """Somebody else puts this under the prefix."""
    place = EtcdPlace.read(etcd.url)
    key = (place.prefix.encode() + key).decode(errors="surrogateescape")
    line = EtcdConnection(EtcdPlace(endpoints=place.endpoints, prefix=""))
    try:
        answer = line.carry(Transact(1, (), (PutKey(key, value),)))
    finally:
        line.close()
    assert isinstance(answer, Transacted)
