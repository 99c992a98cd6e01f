"""A fifo over several nodes, some of which die: the client finds its way, nothing is lost."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from itertools import count

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import LocalCluster, LocalNode
from snowmelt.core.interval import Interval

WHOLE = {"replicas": 3, "durable_copies": 2}


NUMBERS = count()
"""Of queues that tests make, one after the other in one cluster."""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(3, tmp_path_factory.mktemp("nodes"), 0.3) as cluster:
        yield cluster


@pytest.fixture
def three(nodes: LocalCluster) -> LocalCluster:
    """Three that a test may kill."""
    nodes.start()
    return nodes


def master_of(cluster: LocalCluster, queue: str) -> LocalNode:
    with snowmelt.connect(cluster.url) as client:
        name = client.fifo(queue).stats(timeout=20).leader
    return next(node for node in cluster.nodes if node.name == name)


def queue_elsewhere(cluster: LocalCluster, client: snowmelt.Cluster) -> tuple[str, LocalNode]:
    """A queue whose master does not decide on views, which the founder does."""
    for _ in range(50):
        queue = f"q{next(NUMBERS)}"
        client.fifo(queue, **WHOLE).put(b"first")
        master = master_of(cluster, queue)
        if master.name != "n1":
            return queue, master
    raise AssertionError("all queues are with n1")


def test_every_node_takes_puts_and_all_comes_out_in_one_order(three: LocalCluster) -> None:
    for node in three.nodes:
        with snowmelt.connect(node.url) as client:
            orders = client.fifo("orders", **WHOLE)
            [where] = orders.put_many([node.name.encode()] * 100)
            assert where.size == 100
    with snowmelt.connect(three.nodes[2].url) as client:
        with client.fifo("orders").get_many() as items:
            assert items.positions == (Interval(0, 300),)
            assert len({bytes(body) for body in items.batch}) == 3
        assert client.fifo("orders").stats().done == 300


@pytest.mark.parametrize("victim", ["master", "other"])
def test_a_node_dies_and_puts_and_gets_go_on(three: LocalCluster, victim: str) -> None:
    with snowmelt.connect(three.url) as client:
        queue, master = queue_elsewhere(three, client)
        orders = client.fifo(queue)
        others = [node for node in three.nodes if node.name not in (master.name, "n1")]
        told = {0}
        for at in range(200):
            if at == 50:
                (master if victim == "master" else others[0]).kill()
            told.add(orders.put(b"%d" % at, timeout=40))
        assert len(told) == 201
        came = []
        for item in orders.consume(timeout=3):
            came.append(item.body)
            item.ack()
        assert came == [b"first", *(b"%d" % at for at in range(200))]


def test_a_loop_lives_through_the_death_of_the_master(three: LocalCluster) -> None:
    with snowmelt.connect(three.url) as client, snowmelt.connect(three.url) as other:
        queue, master = queue_elsewhere(three, client)
        came: list[bytes] = []

        def work() -> None:
            for item in client.fifo(queue).consume(prefetch=50, timeout=15):
                came.append(item.body)
                item.ack()
                if item.body == b"last":
                    return

        working = threading.Thread(target=work)
        working.start()
        orders = other.fifo(queue)
        for at in range(20):
            orders.put_many([b"%d.%d" % (at, one) for one in range(100)], timeout=40)
            if at == 10:
                master.kill()
        orders.put(b"last", timeout=40)
        working.join(60)
        assert not working.is_alive()
        wanted = [b"%d.%d" % (at, one) for at in range(20) for one in range(100)]
        once = list(dict.fromkeys(came))
        assert once == [b"first", *wanted, b"last"]


def test_the_async_client_finds_the_new_master_too(three: LocalCluster) -> None:
    with snowmelt.connect(three.url) as client:
        queue, master = queue_elsewhere(three, client)

    async def main() -> None:
        async with snowmelt.aio.connect(three.url) as cluster:
            orders = cluster.fifo(queue)
            await orders.put(b"one")
            master.kill()
            places = await asyncio.gather(*(orders.put(b"x", timeout=40) for _ in range(50)))
            assert len(set(places)) == 50
            assert len(await orders.get_many(timeout=20)) > 0

    asyncio.run(asyncio.wait_for(main(), 90))


def test_what_was_refused_never_comes(three: LocalCluster) -> None:
    """Who hears nothing for half a second asks another node as well: both wait for room."""
    refused: list[bytes] = []

    def put(body: bytes) -> None:
        with snowmelt.connect(three.url) as mine:
            try:
                mine.fifo("refused").put(body, timeout=0.9)
            except snowmelt.Full:
                refused.append(body)

    with snowmelt.connect(three.url) as client:
        orders = client.fifo("refused", **WHOLE, max_items=1)
        orders.put(b"first")
        threads = [threading.Thread(target=put, args=(b"%d" % at,)) for at in range(6)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(30)
        came = drained(orders)
    assert len(refused) == 6
    assert came == [b"first"]


def drained(orders: snowmelt.Fifo) -> list[bytes]:
    """What comes until there is nothing for a second."""
    came: list[bytes] = []
    with contextlib.suppress(snowmelt.Empty):
        while True:
            with orders.get(timeout=1.0) as item:
                came.append(item.body)
    return came


def test_a_restarted_cluster_has_what_was_put(three: LocalCluster) -> None:
    with snowmelt.connect(three.url) as client:
        orders = client.fifo("restarted", **WHOLE)
        orders.put_many([b"%d" % at for at in range(1000)])
        for node in three.nodes:
            node.kill()
        begin = time.monotonic()
        for node in three.nodes:
            node.start()
        three.wait_for([node.name for node in three.nodes], 60)
        with orders.get_many(timeout=40) as items:
            assert len(items) == 1000
        assert time.monotonic() - begin < 60


def test_what_many_tasks_put_together_is_there_once_though_the_master_dies(
    three: LocalCluster,
) -> None:
    with snowmelt.connect(three.url) as client:
        queue, master = queue_elsewhere(three, client)

    async def main() -> None:
        async with snowmelt.aio.connect(three.url) as cluster:
            orders = cluster.fifo(queue, **WHOLE)
            killed = asyncio.Event()

            async def work(task: int) -> list[tuple[int, bytes]]:
                named = [b"%d-%d" % (task, at) for at in range(6)]
                done = []
                for body in named:
                    done.append((await orders.put(body, timeout=60), body))
                    if len(done) == 2 and not killed.is_set():
                        killed.set()
                        await asyncio.to_thread(master.kill)
                return done

            puts = [one for each in await asyncio.gather(*map(work, range(64))) for one in each]
            items = await orders.get_many(1000, timeout=30)
            assert [item.body for item in items] == [b"first", *(body for _, body in sorted(puts))]

    asyncio.run(main())
