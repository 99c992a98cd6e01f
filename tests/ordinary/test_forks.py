"""Forks, however they are made: a child has nothing of its parent's, and harms nothing of it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import snowmelt
import snowmelt.aio
import warm
from client.test_forking import forking_is_meant, in_child, sockets  # noqa: F401
from snowmelt.cli.local import LocalNode


def left(loop: Any) -> None:
    for _ in loop:
        raise KeyError


ENDS: list[Callable[[Any], Any]] = [
    left,
    next,
    lambda loop: loop.close(),
    lambda _: sys.exit(0),
    lambda _: None,
]


@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
def test_however_a_loop_ends_in_a_child_it_goes_on_in_the_parent(
    node: LocalNode, name: str, delivery: str
) -> None:
    with snowmelt.connect(node.url) as cluster:
        maker = cluster.pool(name, buffers=1000, delivery=delivery)
        taker = cluster.pool(name, delivery=delivery)
        came: list[bytes] = []
        maker.put_many([b"%d" % number for number in range(4)])
        loop = taker.consume(prefetch=3, timeout=2)
        came.append(next(loop).body)
        for number, end in enumerate(ENDS, start=1):
            told = in_child(lambda end=end: end(loop), leave=sys.exit)
            assert told.startswith(("Closed: this loop belongs", "None", "SystemExit")), told
            maker.put_many([b"%d" % (4 * number + at) for at in range(4)])
            came.append(next(loop).body)
        while (one := next(loop, None)) is not None:  # a `for` would begin the loop anew
            came.append(one.body)
        assert sorted(came, key=int) == [b"%d" % at for at in range(4 * (len(ENDS) + 1))]
        if delivery == "at_least_once":
            told = maker.stats()
            assert (told.given, told.given_back, told.on_loan) == (len(came), 0, 0)


def test_a_child_keeps_neither_sockets_nor_the_disk(
    node: LocalNode, name: str, tmp_path: Path
) -> None:
    before = sockets()
    with snowmelt.connect(node.url) as cluster:
        pool = cluster.pool(name, spill=tmp_path / "spill", buffers=10)
        taker = cluster.pool(name)
        pool.put_many([b"one", b"two"])
        taker.get(timeout=10).ack()
        mine = sockets() - before
        assert in_child(lambda: sorted(sockets() & mine)) == "[]"
        reading, writing = os.pipe()
        told, telling = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(telling, b"here")
            os.close(writing)
            os.read(reading, 1)  # until the test is over
            os._exit(0)
        try:
            assert os.read(told, 4) == b"here"
            pool.close()
            again = cluster.pool(name, spill=tmp_path / "spill")
            assert [one.body for one in again.consume(timeout=1)] == [b"two"]
        finally:
            for one in (reading, writing, told, telling):
                os.close(one)
            os.waitpid(child, 0)


HOLDING = """
import os, sys, time, snowmelt
cluster = snowmelt.connect(sys.argv[1])
pool = cluster.pool(sys.argv[2])
held = pool.get(timeout=20)
if not os.fork():
    time.sleep(30)
    os._exit(0)
print(held.body, flush=True)
time.sleep(0.2)
os._exit(1)
"""


def test_what_a_dead_consumer_had_comes_again_though_a_child_of_it_lives(
    node: LocalNode, name: str, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(HOLDING)
    with snowmelt.connect(node.url) as cluster, cluster.pool(name, grace=0.5) as pool:
        pool.put(b"precious")
        command = [sys.executable, str(program), node.url, name]
        with warm.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as consumer:
            try:
                assert consumer.stdout is not None
                assert consumer.stdout.readline() == b"b'precious'\n"
                begin = time.monotonic()
                with pool.get(timeout=20) as one:
                    assert one.body == b"precious"
                assert time.monotonic() - begin < 15  # the grace, and not the lease
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(consumer.pid, signal.SIGKILL)


def test_a_folder_and_its_pools_stay_with_the_parent(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        pool = cluster.pool("frames")
        pool.put(b"one")
        orders = cluster.fifo("orders")
        orders.put(b"one")
        spans = orders.survey().spans
        calls = (
            lambda: cluster.pool("frames"),
            lambda: pool.put(b"two"),
            lambda: orders.read(spans),
        )
        for call in calls:
            assert in_child(call).startswith("Closed: this ")
        pool.get().ack()
