"""Batons, counters and topics of a folder: as a cluster has them, within one process."""

import asyncio
import itertools
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.core.interval import Interval


def test_one_holder_at_a_time_and_the_value_goes_along(tmp_path: Path) -> None:
    inside: list[int] = []

    with snowmelt.open(tmp_path) as cluster:

        def work() -> None:
            for _ in range(20):
                with cluster.baton("index") as held:
                    inside.append(1)
                    assert len(inside) == 1
                    held.value = b"%d" % (int(held.value or b"0") + 1)
                    inside.pop()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with cluster.baton("index") as held:
            assert held.value == b"80"
            with pytest.raises(snowmelt.NotGranted):
                cluster.baton("index").acquire(timeout=0.05)
        (status,) = cluster.baton("index").status()
        assert status.node == "embedded"


def test_a_deleted_baton_has_no_value_and_a_deleted_counter_begins_at_0(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        with cluster.baton("index") as held:
            held.save(b"mine")
        assert cluster.counter("ids").next(5) == Interval(0, 5)
        cluster.baton("index").delete()
        cluster.counter("ids").delete()
        with cluster.baton("index") as held:
            assert held.value == b""
            with pytest.raises(snowmelt.NotGranted):
                cluster.baton("index").delete(timeout=0.05)
        assert cluster.counter("ids").next(2) == Interval(0, 2)
    with snowmelt.open(tmp_path) as cluster, cluster.baton("index") as held:
        assert held.value == b""


def test_whoever_opens_the_folder_next_finds_what_was_left(tmp_path: Path) -> None:
    fences: list[int] = []
    taken: list[Interval] = []
    for number in range(3):
        with snowmelt.open(tmp_path) as cluster:
            with cluster.baton("index") as held:
                assert held.value == (b"%d" % number if number else b"")
                held.value = b"%d" % (number + 1)
                fences.append(held.fence)
            taken.append(cluster.counter("ids").next(10))
            held = cluster.baton("kept").acquire()  # and never given up
            held.save(b"%d" % number)
    assert fences == sorted(set(fences))
    assert all(one.stop <= other.start for one, other in itertools.pairwise(taken))
    with snowmelt.open(tmp_path) as cluster, cluster.baton("kept") as held:
        assert held.value == b"2"


DYING = """
import os, sys, snowmelt
cluster = snowmelt.open(sys.argv[1])
with cluster.baton("index") as held:
    held.save(b"saved")
    print(held.fence, cluster.counter("ids").next(5).stop, flush=True)
    os._exit(1)
"""


def test_what_was_saved_and_counted_outlives_a_process_that_dies(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-c", DYING, str(tmp_path)], capture_output=True, text=True, check=False
    )
    fence, stop = map(int, told.stdout.split())
    with snowmelt.open(tmp_path) as cluster:
        with cluster.baton("index") as held:
            assert held.value == b"saved"
            assert held.fence > fence
        assert cluster.counter("ids").next().start >= stop


def test_all_who_listen_hear_the_same(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        news = cluster.multicast("news")
        first, second = news.subscribe(timeout=1), news.subscribe(timeout=1)
        news.publish(b"one")
        news.publish_many([b"two", b"three"])
        heard = [message.body for message in first]
        assert heard == [b"one", b"two", b"three"]
        assert [message.body for message in second] == heard
        assert (first.missed, second.missed) == (0, 0)


def test_a_wish_that_is_broken_off_holds_nobody_up(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        held = cluster.baton("index").acquire()
        waits = threading.Event()

        def broken_off() -> None:
            def interrupted(*_: object) -> None:
                waits.set()
                raise KeyboardInterrupt

            callers = cluster._callers
            lent = callers.lend()
            lent.call = interrupted
            callers.take_back(lent)
            with pytest.raises(KeyboardInterrupt):
                cluster.baton("index").acquire()

        broken_off()
        assert waits.is_set()
        held.release()
        with cluster.baton("index", timeout=1) as again:
            assert again.fence > held.fence


def test_the_same_with_await(tmp_path: Path) -> None:
    async def first() -> None:
        async with snowmelt.aio.open(tmp_path) as cluster:

            async def work() -> None:
                for _ in range(10):
                    async with cluster.baton("index") as held:
                        held.value = b"%d" % (int(held.value or b"0") + 1)

            await asyncio.gather(*[work() for _ in range(4)])
            assert await cluster.counter("ids").next(3) == Interval(0, 3)
            news = cluster.multicast("news")
            listening = await news.subscribe(timeout=1)
            await news.publish(b"one")
            assert [message.body async for message in listening] == [b"one"]

    async def then() -> None:
        async with snowmelt.aio.open(tmp_path) as cluster:
            async with cluster.baton("index") as held:
                assert held.value == b"40"
            assert (await cluster.counter("ids").next()).start >= 3

    asyncio.run(first())
    asyncio.run(then())


def test_whoever_only_queues_wakes_for_no_baton(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        cluster.fifo("orders").put(b"one")
        assert cluster._machine._batons is None
        with cluster.baton("index"):
            assert cluster._machine._batons is not None


def test_a_child_has_no_part_in_them(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        held = cluster.baton("index").acquire()
        child = os.fork()
        if not child:
            try:
                held.release()
            except snowmelt.BatonLost:
                try:
                    cluster.baton("index").acquire()
                except snowmelt.Closed:
                    os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        held.release()
