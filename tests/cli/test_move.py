"""`snowmelt move`: from queue to queue, in order, each item once, also when it is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

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
    for new, code, text in (
        ("one", 2, b"new is 'one'; allowed: another queue than one"),
        ("none", 9, b"none"),
        ("two", 2, b"one partition"),
    ):
        ended = piped("move", "one", new, "--idle", "0", "--data", str(tmp_path))
        assert ended.returncode == code, ended.stderr
        assert text in ended.stderr
