"""Workers as programs: warm on one signal, ended by two, and what is killed loses nothing."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

import snowmelt
import warm
from snowmelt.cli.local import LocalNode

THREADS = """
import os, signal, sys, snowmelt
signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"told\\n"))  # once the worker has heard it
def handle(item):
    print("begun", item.body.decode(), flush=True)
    sys.stdin.readline()
with snowmelt.connect(sys.argv[1]) as cluster:
    snowmelt.Worker(cluster.fifo(sys.argv[2]), handle).run()
print("ended", flush=True)
"""

TASKS = """
import asyncio, os, signal, sys, snowmelt.aio
signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"told\\n"))
async def handle(item):
    print("begun", item.body.decode(), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
async def work():
    async with snowmelt.aio.connect(sys.argv[1]) as cluster:
        await snowmelt.aio.Worker(cluster.fifo(sys.argv[2]), handle).run()
asyncio.run(work())
print("ended", flush=True)
"""

PROCESSES = """
import os, sys, time, snowmelt
def say(*words):
    os.write(1, (" ".join(words) + "\\n").encode())  # two may speak at once: a line is one write
def handle(item):
    say("begun", item.body.decode(), str(os.getpid()))
    if item.body == b"long":
        time.sleep(60)
    say("done", item.body.decode())
with snowmelt.connect(sys.argv[1]) as cluster:
    snowmelt.Worker(cluster.fifo(sys.argv[2]), handle, processes=2, grace=20).run()
print("ended", flush=True)
"""


@contextmanager
def program(text: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", text, *arguments]
    with warm.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as started:
        try:
            yield started
        finally:
            started.kill()


def heard(started: subprocess.Popen[str]) -> list[str]:
    assert started.stdout is not None
    return started.stdout.readline().split()


@pytest.mark.parametrize("text", [THREADS, TASKS], ids=["threads", "tasks"])
def test_a_signal_ends_it_warmly(node: LocalNode, text: str) -> None:
    name = f"warm-{len(text)}"
    with snowmelt.connect(node.url) as cluster, program(text, node.url, name) as started:
        orders = cluster.fifo(name)
        orders.put_many([b"one", b"two"])
        assert heard(started) == ["begun", "one"]
        started.send_signal(signal.SIGTERM)
        assert heard(started) == ["told"]
        started.stdin.write("go on\n")
        started.stdin.flush()
        assert heard(started) == ["ended"]
        assert started.wait(30) == 0
        assert (orders.stats().ready, orders.stats().leased) == (1, 0)
        with orders.get() as item:
            assert (item.body, item.failures) == (b"two", 0)


def test_a_second_signal_ends_it_at_once(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster, program(THREADS, node.url, "hard") as started:
        orders = cluster.fifo("hard")
        orders.put(b"one")
        assert heard(started) == ["begun", "one"]
        started.send_signal(signal.SIGTERM)
        while started.poll() is None:  # two may count as one
            started.send_signal(signal.SIGTERM)
            time.sleep(0.05)
        assert started.returncode in (128 + signal.SIGTERM, -signal.SIGTERM)
        with orders.get(timeout=5) as item:  # at once, though its lease is of 30 s
            assert (item.body, item.failures) == (b"one", 0)


def test_a_process_that_is_killed_is_replaced_and_its_item_is_offered_again(
    own_node: LocalNode,
) -> None:
    url = own_node.url
    with snowmelt.connect(url) as cluster, program(PROCESSES, url, "crew") as started:
        orders = cluster.fifo("crew", lease=0.5)
        orders.put(b"long")
        begun, body, first = heard(started)
        assert (begun, body) == ("begun", "long")
        own_node.kill()  # whoever takes its place finds nobody, and waits
        os.kill(int(first), signal.SIGKILL)
        while still_there(started.pid) < 3:
            time.sleep(0.05)
        own_node.start()
        begun, body, second = heard(started)
        assert (begun, body) == ("begun", "long")
        assert second != first
        orders.put(b"short", timeout=30)
        told = [heard(started)[:2], heard(started)[:2]]
        assert told == [["begun", "short"], ["done", "short"]]
        os.kill(int(second), signal.SIGKILL)  # and the parent is killed, as by a lack of memory
        started.kill()
        while still_there(started.pid) > 0:
            time.sleep(0.05)
        assert orders.stats().ready + orders.stats().leased == 1


def still_there(group: int) -> int:
    """How many processes of a program are left that work."""
    listed: Any = subprocess.run(
        ["ps", "-o", "stat=", "-g", str(group)], capture_output=True, text=True, check=False
    )
    return sum(not line.startswith("Z") for line in listed.stdout.split())


def test_processes_end_warmly_together(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster, program(PROCESSES, node.url, "both") as started:
        orders = cluster.fifo("both")
        orders.put_many([b"one", b"two", b"three"])
        begun: set[str] = set()
        while len(begun) < 3:  # one that was taken and not begun would go back, as it should
            what, body, *_ = heard(started)
            begun |= {body} if what == "begun" else set()
        started.send_signal(signal.SIGTERM)
        assert started.stdout.readlines()[-1] == "ended\n"
        assert started.wait(30) == 0
        assert (orders.stats().ready, orders.stats().leased) == (0, 0)


def crew_of(started: subprocess.Popen[str]) -> list[int]:
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(started.pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    return [int(line) for line in listed.stdout.split()]


def test_a_process_that_is_told_to_end_by_itself_is_replaced(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster, program(PROCESSES, node.url, "told") as started:
        orders = cluster.fifo("told")
        orders.put(b"one")
        assert heard(started)[:2] == ["begun", "one"]
        assert heard(started)[:2] == ["done", "one"]
        before = crew_of(started)
        for each in before:
            os.kill(each, signal.SIGTERM)
        while len(set(crew_of(started)) - set(before)) < 2:
            time.sleep(0.05)
        orders.put(b"two")
        assert heard(started)[:2] == ["begun", "two"]


def test_a_second_signal_has_processes_give_back_what_they_can(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster, program(PROCESSES, node.url, "twice") as started:
        orders = cluster.fifo("twice")
        orders.put(b"long")
        assert heard(started)[:2] == ["begun", "long"]
        started.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        while started.poll() is None:  # two may count as one
            started.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                started.wait(10)
        with orders.get(timeout=5) as item:  # at once, though its lease is of 30 s
            assert (item.body, item.failures) == (b"long", 0)


@pytest.mark.parametrize("code", [0, 3])
def test_a_handler_that_ends_its_process_ends_the_worker(node: LocalNode, code: int) -> None:
    name = f"exit-{code}"
    text = PROCESSES.replace('say("begun"', f'sys.exit({code}); say("begun"')
    with snowmelt.connect(node.url) as cluster, program(text, node.url, name) as started:
        cluster.fifo(name).put(b"one")
        assert (started.wait(30) != 0) is (code != 0)
