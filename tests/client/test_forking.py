"""What a child has of what its parent had when it forked: new, or refused; and nothing is lost."""

import asyncio
import contextlib
import gc
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import LocalNode
from snowmelt.client.connection.bound import LoopBinding
from snowmelt.client.connection.forking import watch
from snowmelt.client.fifo.face import Fifo
from snowmelt.core.errors import (
    BadOption,
    BatonLost,
    Closed,
    Empty,
    LeaseLost,
    Unreachable,
)


@pytest.fixture(autouse=True)
def forking_is_meant() -> Iterator[None]:
    with warnings.catch_warnings():  # other tests have left threads behind; none of them matters
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def in_child(work: Callable[[], Any], leave: Callable[[int], Any] = os._exit) -> str:
    """What came of some work in a child: what it returned, or the error's name and text."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            told = repr(work())
        except BaseException as error:
            told = f"{type(error).__name__}: {error}"
        os.write(writing, told.encode())
        gc.collect()
        try:
            leave(0)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as told_by_child:
        told = told_by_child.read().decode()
    os.waitpid(child, 0)
    return told


def bodies(orders: Fifo) -> list[bytes]:
    found: list[bytes] = []
    with orders.consume(timeout=0) as loop:
        for item in loop:
            found.append(item.body)
            item.ack()
    return found


def test_what_parent_and_child_put_is_all_there(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster:
        orders = cluster.fifo("forked-puts")
        orders.put(b"before")

        def put() -> int:
            return len([orders.put(b"child %d" % at) for at in range(5)])

        assert in_child(put) == "5"
        for at in range(5):
            orders.put(b"parent %d" % at)
        assert in_child(put, leave=sys.exit) == "5"
        there = bodies(orders)
    assert len(there) == 16
    assert len(set(there)) == 11


_SHARED: list[Fifo] = []


def _put_one(number: int) -> int:
    return int(_SHARED[0].put(b"%d" % number))


def test_the_workers_of_a_pool_of_processes_put_what_they_say(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster:
        orders = cluster.fifo("forked-pool")
        orders.put(b"0")
        _SHARED[:] = [orders]
        with multiprocessing.get_context("fork").Pool(2) as pool:
            told = pool.map(_put_one, range(1, 11), chunksize=1)
        assert len(set(told)) == 10
        assert sorted(map(int, bodies(orders))) == list(range(11))


def test_a_name_that_counts_has_one_who_counts(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster:
        counting = cluster.fifo("forked-names", producer="loader", sequence=1)
        given = cluster.fifo("forked-names", producer="other")
        counting.put(b"one")
        assert "BadOption: sequence is None; allowed: a number" in in_child(
            lambda: counting.put(b"two")
        )
        assert in_child(lambda: given.put(b"three", sequence=7)) == "1"
        assert given.put(b"three", sequence=7) == 1, "the same number is the same put"
        counting.put(b"two")
        assert bodies(counting) == [b"one", b"three", b"two"]
        with pytest.raises(BadOption):
            given.put(b"four")


@pytest.mark.parametrize("leave", [os._exit, sys.exit])
def test_a_child_settles_nothing_of_its_parents(
    node: LocalNode, leave: Callable[[int], Any]
) -> None:
    with snowmelt.connect(node.url) as cluster:
        orders = cluster.fifo(f"forked-leases-{leave.__name__}", lease=600)  # forks may be slow
        orders.put_many([b"one", b"two", b"three"])
        item = orders.get()
        loop = orders.consume(prefetch=2)
        gathered = next(loop)
        refusal = "LeaseLost: lease"
        for ask in (item.ack, item.nack, item.release, item.extend, gathered.ack, gathered.nack):
            assert in_child(ask, leave).startswith(refusal)
        assert "get items in this one" in in_child(item.ack, leave)
        assert in_child(lambda: next(loop), leave).startswith("Closed: this loop belongs")
        assert in_child(loop.close, leave) == "None"

        def within() -> None:
            with item:
                pass

        assert in_child(within, leave).startswith(refusal)
        assert in_child(cluster.close, leave) == "None"
        status = orders.stats()
        assert (status.ready, status.leased, status.done) == (0, 3, 0)
        item.ack()
        gathered.ack()
        next(loop).ack()
        loop.close()
        assert orders.stats().done == 3


def test_a_child_that_is_made_within_a_loop_leaves_it_to_its_parent(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster:
        orders = cluster.fifo("forked-within")
        orders.put_many([b"%d" % at for at in range(4)])
        for item in orders.consume(prefetch=4, timeout=0):
            if item.position == 1:

                def left() -> None:
                    for _ in orders.consume(timeout=0):
                        raise KeyError

                assert in_child(left) == "None"
            assert in_child(item.ack).startswith("LeaseLost")
            item.ack()
        assert orders.stats().done == 4


def test_a_child_gets_and_acknowledges_by_itself(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster:
        orders = cluster.fifo("forked-gets")
        orders.put_many([b"one", b"two"])
        held = orders.get()

        def work() -> bytes:
            with orders.get(timeout=5) as item:
                return item.body

        assert in_child(work) == "b'two'"
        held.ack()
        with pytest.raises(Empty):
            orders.get(timeout=0)


def test_a_baton_stays_with_the_parent(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster:
        with cluster.baton("forked-baton") as held:
            held.value = b"mine"
            refusal = "BatonLost: baton 'forked-baton' is held by the process"
            for ask in (held.check, held.release, lambda: held.save(b"x")):
                assert in_child(ask).startswith(refusal)
            assert in_child(lambda: (held.lost, held.seconds_left)) == "(True, 0.0)"
            assert in_child(lambda: held.wait_lost(5), leave=sys.exit) == "True"
            assert in_child(cluster.close, leave=sys.exit) == "None"
            time.sleep(1.2)  # a renewal
            held.check()
        assert in_child(lambda: _taken(cluster)) == "b'mine'"
        with pytest.raises(BatonLost):
            held.check()


def _taken(cluster: snowmelt.Cluster) -> bytes:
    with cluster.baton("forked-baton", timeout=5) as held:
        return held.value


def test_a_counter_counts_on_in_the_child(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster:
        counter = cluster.counter("forked-counter")
        first = counter.next()
        assert "Interval" in in_child(counter.next)
        assert counter.next().start > first.stop


def test_groups_and_subscriptions_are_their_makers(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster:
        orders = cluster.fifo("forked-groups")
        orders.put(b"one")
        group = orders.group("loaders")
        end = group.advance().end
        topic = cluster.multicast("forked-topic")
        with topic.subscribe(timeout=5) as heard:
            topic.publish(b"first")
            assert in_child(lambda: group.advance(end)).startswith("Closed: this group of forked")
            assert in_child(lambda: next(heard)).startswith("Closed: this subscription to forked")
            assert in_child(lambda: topic.publish(b"second").number >= 0) == "True"
            assert [next(heard).body, next(heard).body] == [b"first", b"second"]
        assert group.advance(end).end.count == 1
        receipts = orders.stage([b"two"])
        assert in_child(lambda: orders.publish(receipts)[0].size) == "1"


def sockets() -> set[str]:
    found = set[str]()
    for one in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that of the listing itself
            found.add(str(one.readlink()))
    return {one for one in found if one.startswith("socket:")}


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="no /proc to look into")
def test_a_child_has_none_of_its_parents_connections_so_nodes_see_when_that_ends(
    node: LocalNode,
) -> None:
    before = sockets()
    with snowmelt.connect(node.url) as cluster, cluster.baton("forked-sockets"):
        cluster.ping()
        cluster.fifo("forked-sockets").put(b"one")
        mine = sockets() - before
        assert mine  # one for the calls, and one for the thread that renews, once it has
        assert in_child(lambda: sorted(sockets() & mine)) == "[]"

    async def main() -> str:
        async with snowmelt.aio.connect(node.url) as one:
            await one.ping()
            (mine,) = sockets() - before - loops
            return in_child(lambda: sorted(sockets() & {mine}))

    with asyncio.Runner() as runner:
        runner.get_loop()
        loops = sockets()
        assert runner.run(main()) == "[]"


def test_a_pool_is_refused_in_a_child(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster, cluster.pool("forked-frames") as pool:
        pool.put(b"one")
        assert in_child(lambda: pool.put(b"two")).startswith("Closed: this part in a pool")
        with pool.get(timeout=5) as frame:
            assert in_child(frame.ack).startswith("LeaseLost: loan")


def test_a_folder_stays_with_the_parent_and_is_free_when_that_closes_it(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        orders = cluster.fifo("orders")
        orders.put(b"one")
        item = orders.get()
        refusal = "Closed: this open folder belongs to the process"
        for leave in (os._exit, sys.exit):
            assert in_child(lambda: orders.put(b"two"), leave).startswith(refusal)
            assert in_child(cluster.queues, leave).startswith(refusal)
            assert in_child(item.ack, leave).startswith("LeaseLost")
            assert in_child(cluster.close, leave) == "None"
        orders.put(b"three")
        item.ack()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.read(reading, 1)  # until the test is over
            os._exit(0)
    with snowmelt.open(tmp_path, timeout=1) as cluster:
        assert bodies(cluster.fifo("orders")) == [b"three"]
    os.close(writing)
    os.waitpid(child, 0)


def test_a_folder_that_was_closed_before_disturbs_no_child(node: LocalNode, tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as closed:
        closed.fifo("orders").put(b"one")
    # Another file has the number now that the folder's lock had.
    with (tmp_path / "another").open("wb") as others, snowmelt.connect(node.url) as cluster:
        orders = cluster.fifo("forked-closed")
        orders.put(b"before")
        assert (
            in_child(lambda: (os.fstat(others.fileno()).st_size, orders.put(b"child"))) == "(0, 1)"
        )
        assert orders.put(b"parent") == 2
        assert len(bodies(orders)) == 3
    closed.close()


class Stubborn:
    def forked(self) -> None:
        raise OSError("it can't be put in order")


def test_what_fails_in_a_child_keeps_nothing_from_the_others(node: LocalNode) -> None:
    stubborn = [Stubborn() for _ in range(20)]
    for one in stubborn:
        watch(one)
    with snowmelt.connect(node.url) as cluster:
        orders = cluster.fifo("forked-stubborn")
        orders.put(b"before")
        assert in_child(lambda: orders.put(b"child")) == "1"
        assert orders.put(b"parent") == 2
        assert len(bodies(orders)) == 3


def test_an_event_loops_cluster_is_refused_in_a_child(node: LocalNode) -> None:
    async def main() -> None:
        async with snowmelt.aio.connect(node.url) as cluster:
            orders = cluster.fifo("forked-async")
            await orders.put(b"one")
            item = await orders.get()
            held = await cluster.baton("forked-async").acquire()
            for call in (lambda: orders.put(b"two"), item.ack, orders.stats, held.release):
                told = in_child(lambda call=call: asyncio.Runner().run(_awaited(call)))
                assert told.startswith(("Closed: this cluster", "LeaseLost: lease", "BatonLost"))
            assert in_child(held.check).startswith("BatonLost")
            await item.ack()
            with contextlib.suppress(BatonLost):  # forks may take longer than its lease
                await held.release()
            assert (await orders.stats()).done == 1

    asyncio.run(asyncio.wait_for(main(), 60))


async def _awaited(call: Callable[[], Any]) -> Any:
    return await call()


def test_what_is_refused_says_what_to_do() -> None:
    bound = LoopBinding()
    told = in_child(bound.check)
    assert told == (
        "Closed: this cluster belongs to the process that this one was forked from; "
        "connect anew in this one"
    )
    assert issubclass(Closed, Unreachable)
    assert issubclass(LeaseLost, snowmelt.CallerError)
