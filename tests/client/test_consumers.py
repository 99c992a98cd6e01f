"""Who uses a queue: which program has what in hand, and whose calls wait."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import snowmelt
import warm
from cli.program import snowmelt as run
from snowmelt.cli.local import LocalNode
from snowmelt.core.errors import NoSuchQueue


def here() -> tuple[int, str]:
    """This process, which may have been forked when this file was loaded."""
    return os.getpid(), socket.gethostname().partition(".")[0][:14]


OTHER = """
import sys, time
import snowmelt
with snowmelt.connect(sys.argv[1]) as cluster:
    held = cluster.fifo(sys.argv[2]).get_many(3)
    print("held", flush=True)
    time.sleep(60)
"""


def until(so: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not so():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("kind", ["fifo", "priority"])
def test_what_this_program_has_in_hand_is_told_until_it_has_it_no_more(
    queues: Any, name: str, kind: str
) -> None:
    orders = getattr(queues, kind)(name)
    orders.put_many([b"x"] * 5)
    assert orders.consumers() == []
    held = orders.get_many(3)
    time.sleep(0.1)
    (one,) = orders.consumers()
    assert (one.pid, one.host) == here()
    assert (one.items, one.gets_waiting, one.puts_waiting) == (3, 0, 0)
    assert 0.1 <= one.held < 20
    held.ack()
    assert orders.consumers() == []


def test_a_lease_that_is_renewed_is_held_since_it_began(queues: Any, name: str) -> None:
    orders = queues.fifo(name, lease=5)
    orders.put(b"x")
    item = orders.get()
    time.sleep(0.3)
    item.extend()
    assert orders.consumers()[0].held >= 0.3


def test_calls_that_wait_are_told(node: LocalNode, name: str) -> None:
    with snowmelt.connect(node.url) as cluster:
        full, empty = cluster.fifo(f"{name}-full", max_items=1), cluster.fifo(f"{name}-empty")
        full.put(b"x")
        empty.create()
        threads = [
            threading.Thread(target=full.put, args=(b"y",)),
            *[threading.Thread(target=lambda: empty.get(timeout=20).ack()) for _ in range(2)],
        ]
        for one in threads:
            one.start()
        until(lambda: sum(one.puts_waiting for one in full.consumers()) == 1)
        until(lambda: sum(one.gets_waiting for one in empty.consumers()) == 2)
        (waiting,) = empty.consumers()  # two connections, and one program
        assert waiting.pid == here()[0]
        empty.put_many([b"1", b"2"])
        full.get().ack()
        for one in threads:
            one.join(20)
        assert empty.consumers() == full.consumers() == []


def test_each_program_is_told_by_its_name_with_most_in_hand_first(
    node: LocalNode, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "ship orders.py"
    file.write_text(OTHER)
    with snowmelt.connect(node.url) as cluster:
        orders = cluster.fifo(name)
        orders.put_many([b"x"] * 4)
        command = [sys.executable, str(file), node.url, name]
        with warm.Popen(command, stdout=subprocess.PIPE, text=True) as other:
            try:
                assert other.stdout is not None
                assert other.stdout.readline() == "held\n"
                item = orders.get()
                first, second = orders.consumers()
                assert (first.program, first.pid, first.items) == ("ship-orders.py", other.pid, 3)
                assert (second.pid, second.items) == (here()[0], 1)
                shown = run("consumers", name, "--url", node.url).stdout.split("\n")
                assert shown[1].split()[:4] == ["ship-orders.py", str(other.pid), here()[1], "3"]
                item.ack()
            finally:
                other.kill()
        assert run("consumers", name, "--json", "--url", node.url).stdout.count('"pid"') <= 1


def test_of_several_partitions_all_are_told(node: LocalNode, name: str) -> None:
    with snowmelt.connect(node.url) as cluster:
        log = cluster.fifo(name, partitions=3)
        for _ in range(6):
            log.put_many([b"x"] * 2)
        held = [log.get_many(4, timeout=5) for _ in range(3)]
        (one,) = log.consumers()
        assert one.items == sum(len(some) for some in held)
        for some in held:
            some.release()


def test_there_is_nobody_and_there_is_no_queue(queues: Any, name: str) -> None:
    with pytest.raises(NoSuchQueue):
        queues.fifo(name).consumers()
