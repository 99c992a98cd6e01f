"""`snowmelt move`: from queue to queue, in order, each item once, also when it is killed."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import snowmelt
from cli.program import piped
from snowmelt.cli.local import LocalCluster

COUNT = 3_000


def numbers(queue: snowmelt.Fifo | snowmelt.PriorityQueue) -> list[int]:
    """All that is in it, in its order."""
    found: list[int] = []
    while len(found) < queue.stats().put:
        items = queue.get_many(1_000, timeout=10)
        found += [int(item.body) for item in items]
        items.ack()
    return found


def test_items_keep_their_order_their_keys_and_their_headers(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        old = cluster.priority("old", priorities=3)
        old.put(b"later", priority=2, key="a", headers={"from": "shop"})
        old.put(b"sooner", priority=1)
        cluster.priority("new", priorities=5).create()
        cluster.fifo("flat").create()
    ended = piped("move", "old", "new", "--idle", "0", "--data", str(tmp_path))
    assert (ended.returncode, ended.stdout) == (0, b"2 items of old moved to new\n"), ended.stderr
    with snowmelt.open(tmp_path) as cluster:
        new = cluster.priority("new")
        items = list(new.get_many(5))
        assert [(one.body, one.priority, one.key) for one in items] == [
            (b"sooner", 1, None),
            (b"later", 2, b"a"),
        ]
        assert items[1].headers == {"from": "shop"}
        assert cluster.priority("old").stats().done == 2
        for one in items:
            one.release()
    ended = piped("move", "new", "flat", "--idle", "0", "--data", str(tmp_path))
    assert ended.stdout == b"2 items of new moved to flat\n", ended.stderr
    with snowmelt.open(tmp_path) as cluster:
        assert [one.body for one in cluster.fifo("flat").get_many(5)] == [b"sooner", b"later"]


def test_what_is_killed_and_run_again_moves_each_item_once(cluster: LocalCluster) -> None:
    with snowmelt.connect(cluster.url) as client:
        old, new = client.fifo("kill-old", lease=2), client.fifo("kill-new")
        new.create()
        old.put_many([b"%d" % at for at in range(COUNT)])
        words = ["move", "kill-old", "kill-new", "--idle", "4", "--url", cluster.url]
        process = subprocess.Popen([sys.executable, "-m", "snowmelt", *words])
        while not new.stats().put:
            time.sleep(0.001)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        ended = piped(*words)
        assert ended.returncode == 0, ended.stderr
        assert sorted(numbers(new)) == list(range(COUNT))
        assert old.stats().done == COUNT


def test_bad_words_are_refused(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        cluster.fifo("two", partitions=2).create()
        cluster.fifo("one").put(b"x")
    for old, new, code, text in (
        ("one", "one", 2, b"new is 'one'; allowed: another queue than one"),
        ("one", "none", 9, b"none"),
        ("one", "two", 2, b"Have producers put into two, and consumers take from both until one"),
        ("two", "one", 2, b"until two is empty; then delete two"),
    ):
        ended = piped("move", old, new, "--idle", "0", "--data", str(tmp_path))
        assert ended.returncode == code, ended.stderr
        assert text in ended.stderr
    with snowmelt.open(tmp_path) as cluster:
        assert (cluster.fifo("one").stats().ready, cluster.fifo("two").stats().put) == (1, 0)


@pytest.mark.parametrize(("before", "after"), [(1, 4), (4, 1)])
def test_the_way_out_for_partitions_keeps_the_order(
    cluster: LocalCluster, before: int, after: int
) -> None:
    with snowmelt.connect(cluster.url) as client:
        old = client.fifo(f"parts-{before}", partitions=before)
        new = client.fifo(f"parts-{before}-{after}", partitions=after)
        old.put_many([b"%d" % at for at in range(COUNT)])
        new.create()
        ended = piped("move", old.name, new.name, "--idle", "0", "--url", cluster.url)
        assert ended.returncode == 2, ended.stderr
        putting = threading.Thread(
            target=lambda: [new.put(b"%d" % at) for at in range(COUNT, COUNT + 100)]
        )
        putting.start()
        found: list[int] = []
        for queue in (old, new):
            while len(found) < (COUNT if queue is old else COUNT + 100):
                items = queue.get_many(100, timeout=10)
                found += [int(item.body) for item in items]
                items.ack()
        putting.join()
        assert found == list(range(COUNT + 100))
        told = client.delete(old.name, if_empty=True)
        assert told.items == 0


def test_a_fifo_goes_over_to_priorities_in_its_order_under_load(cluster: LocalCluster) -> None:
    with snowmelt.connect(cluster.url) as client:
        old = client.fifo("flat-old")
        urgent = client.priority("urgent-new", priorities=int)
        urgent.create()
        old.put_many([b"%d" % at for at in range(COUNT)])
        words = ["move", "flat-old", "urgent-new", "--idle", "4", "--url", cluster.url]
        process = subprocess.Popen([sys.executable, "-m", "snowmelt", *words])
        for at in range(COUNT, COUNT + 50):
            old.put(b"%d" % at)
        assert process.wait(timeout=60) == 0
        assert numbers(urgent) == list(range(COUNT + 50))
        assert old.stats().done == COUNT + 50


def test_who_uses_the_old_queue_is_named_before_it_is_moved(cluster: LocalCluster) -> None:
    with snowmelt.connect(cluster.url) as client:
        old = client.fifo("used-old")
        client.fifo("used-new").create()
        old.put_many([b"%d" % at for at in range(9)])
        held = old.get()
        old.group("billing").advance(items_max=3)
        words = ["move", "used-old", "used-new", "--idle", "0", "--url", cluster.url]
        ended = piped(*words)
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout == b"5 items of used-old moved to used-new\n"
        said = ended.stderr.decode()
        assert f"(process {os.getpid()} on " in said
        assert "has 1 of used-old: they stay its own" in said
        assert "group billing holds 3 of used-old, which stay there" in said
        held.ack()
        assert numbers(client.fifo("used-new")) == [4, 5, 6, 7, 8]
