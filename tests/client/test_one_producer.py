"""One client is one producer of a queue, whatever handles of it are made."""

import asyncio
import gc
import threading
from pathlib import Path

import snowmelt
import snowmelt.aio
from client.test_forking import in_child
from snowmelt.cli.local import LocalNode
from snowmelt.client.fifo.face import Fifo
from snowmelt.client.queue.handle_cache import KNOWN_MOST, HandleCache

HANDLES = 300


def test_a_fresh_handle_for_each_put_is_one_producer(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster:
        for number in range(HANDLES):
            cluster.fifo("fresh").put(b"%d" % number)
        cluster.fifo("fresh", replicas=1).put(b"the same with settings")
        status = cluster.fifo("fresh").stats()
        assert (status.ready, status.producers) == (HANDLES + 1, 1)
        positions = [item.body for item in cluster.fifo("fresh").consume(timeout=0)]
        assert len(positions) == HANDLES + 1  # no put was taken for another's
        gc.collect()
        assert sum(isinstance(one, Fifo) for one in gc.get_objects()) < HANDLES // 2


def test_so_it_is_in_a_folder_and_on_a_loop(tmp_path: Path, node: LocalNode) -> None:
    async def put(cluster: snowmelt.aio.Cluster | snowmelt.aio.EmbeddedCluster) -> tuple[int, int]:
        async with cluster:
            for _ in range(10):
                fresh = [cluster.fifo("looped").put(b"") for _ in range(20)]
                await asyncio.gather(*fresh)
            status = await cluster.fifo("looped").stats()
            return status.ready, status.producers

    assert asyncio.run(put(snowmelt.aio.open(tmp_path / "loop"))) == (200, 1)
    assert asyncio.run(put(snowmelt.aio.connect(node.url))) == (200, 1)
    assert asyncio.run(put(snowmelt.aio.connect(node.url))) == (400, 2)  # another client
    with snowmelt.open(tmp_path / "plain") as cluster:
        for _ in range(50):
            cluster.fifo("plain").put(b"")
        assert cluster.fifo("plain").stats().producers == 1


def test_threads_that_begin_at_once_are_one_producer(node: LocalNode) -> None:
    start = threading.Barrier(8)
    with snowmelt.connect(node.url) as cluster:

        def put() -> None:
            start.wait()
            for _ in range(20):
                cluster.fifo("threads").put(b"")

        threads = [threading.Thread(target=put) for _ in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        status = cluster.fifo("threads").stats()
        assert (status.ready, status.producers) == (160, 1)


def test_a_child_is_a_producer_of_its_own(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster:
        cluster.fifo("forked").put(b"parent's")
        assert in_child(lambda: cluster.fifo("forked").put(b"child's")) == "1"
        cluster.fifo("forked").put(b"parent's")
        status = cluster.fifo("forked").stats()
        assert (status.ready, status.producers) == (3, 2)


def test_a_name_that_is_given_is_shared_by_nobody(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster:
        first = cluster.fifo("named", producer="loader", sequence=1)
        again = cluster.fifo("named", producer="loader", sequence=1)  # as after a restart
        assert first.put(b"one") == again.put(b"one") == 0
        cluster.fifo("named").put(b"two")
        status = cluster.fifo("named").stats()
        assert (status.ready, status.producers) == (2, 2)


def test_what_is_known_has_a_bound() -> None:
    known = HandleCache(3)
    first = known.once("a", object)
    for name in ("b", "c", "a", "d", "e"):
        known.once(name, object)
    assert len(known) == 3
    assert known.once("a", object) is first  # asked for lately
    with snowmelt.connect("snowmelt://127.0.0.1:1") as cluster:
        for number in range(KNOWN_MOST + 100):
            cluster.fifo(f"q{number}")
        assert len(cluster._known) == KNOWN_MOST
