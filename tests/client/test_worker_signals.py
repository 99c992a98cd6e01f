"""Workers and signals in programs that have handlers, children and several workers of their own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

import snowmelt
import warm
from snowmelt.cli.local import LocalNode

HEAD = """
import asyncio, multiprocessing, os, signal, sys, threading, time
import snowmelt, snowmelt.aio, uvloop
url, *names = sys.argv[1:]
context = multiprocessing.get_context("fork")
def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
def children():
    one = context.Process(target=time.sleep, args=(60,))
    one.start()
    one.terminate()
    one.join()
    with context.Pool(3) as pool:
        pool.map(abs, range(3))
    pool.join()
    say("children", one.exitcode)
def handle(item):
    children()
async def ahandle(item):
    children()
"""

THREADS = (
    HEAD
    + """
with snowmelt.connect(url) as cluster:
    snowmelt.Worker(cluster.fifo(names[0]), handle).run()
say("ended")
"""
)
PROCESSES = THREADS.replace("handle)", "handle, processes=1)")
TASKS = (
    HEAD
    + """
async def work():
    async with snowmelt.aio.connect(url) as cluster:
        await snowmelt.aio.Worker(cluster.fifo(names[0]), ahandle).run()
asyncio.run(work())
say("ended")
"""
)
UVLOOP = TASKS.replace("asyncio.run(", "uvloop.run(")

SEVERAL_TASKS = (
    HEAD
    + """
async def quiet(item):
    say("begun")
async def work():
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, say, "the program")
    async with snowmelt.aio.connect(url) as cluster:
        workers = [snowmelt.aio.Worker(cluster.fifo(name), quiet) for name in names]
        await asyncio.gather(*[each.run() for each in workers])
        say("ended")
        await snowmelt.aio.Worker(cluster.fifo("none"), quiet).run(timeout=0.1)
        run = asyncio.create_task(snowmelt.aio.Worker(cluster.fifo("none"), quiet).run())
        await asyncio.sleep(0.1)
        run.cancel()
        await asyncio.wait([run])
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.sleep(0.1)
asyncio.run(work())
"""
)
SEVERAL_UVLOOP = SEVERAL_TASKS.replace("asyncio.run(", "uvloop.run(")
SEVERAL_THREADS = (
    HEAD
    + """
signal.signal(signal.SIGTERM, lambda *_: say("the program"))
def quiet(item):
    say("begun")
with snowmelt.connect(url) as cluster:
    workers = [snowmelt.Worker(cluster.fifo(name), quiet) for name in names]
    other = threading.Thread(target=workers[1].run)
    other.start()
    workers[0].run()
    other.join()
    say("ended")
    snowmelt.Worker(cluster.fifo("none"), quiet).run(timeout=0.1)
os.kill(os.getpid(), signal.SIGTERM)
"""
)
QUIET = (
    HEAD
    + """
async def quiet(item):
    say("begun")
async def work():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with snowmelt.aio.connect(url) as cluster:
        worker = snowmelt.aio.Worker(cluster.fifo(names[0]), quiet, signals=False)
        run = asyncio.create_task(worker.run())
        await stop.wait()
        say("goes on", run.done())
        worker.stop()
        await run
asyncio.run(work())
"""
)


@contextmanager
def program(text: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", text, *arguments]
    with warm.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as started:
        try:
            yield started
        finally:
            started.kill()


def heard(started: subprocess.Popen[str]) -> str:
    assert started.stdout is not None
    return started.stdout.readline().strip()


def rest(started: subprocess.Popen[str]) -> list[str]:
    assert started.stdout is not None
    return started.stdout.read().split("\n")[:-1]


@pytest.mark.parametrize(
    "text", [THREADS, PROCESSES, TASKS, UVLOOP], ids=["threads", "processes", "tasks", "uvloop"]
)
def test_a_handlers_children_are_ended_and_nothing_else(node: LocalNode, text: str) -> None:
    name = f"children-{len(text)}"
    with snowmelt.connect(node.url) as cluster, program(text, node.url, name) as started:
        orders = cluster.fifo(name)
        orders.put_many([b"one", b"two"])
        for _ in range(2):
            assert heard(started) == f"children {-signal.SIGTERM}"
        started.send_signal(signal.SIGTERM)
        assert rest(started) == ["ended"]  # which also waits for all who have its output open
        assert started.wait(30) == 0
        assert (orders.stats().ready, orders.stats().leased) == (0, 0)


@pytest.mark.parametrize(
    "text",
    [SEVERAL_TASKS, SEVERAL_UVLOOP, SEVERAL_THREADS],
    ids=["tasks", "uvloop", "threads"],
)
def test_one_signal_stops_all_workers_and_the_program_hears_it_too_then_and_later(
    node: LocalNode, text: str
) -> None:
    names = [f"several-{len(text)}-{one}" for one in range(2)]
    with snowmelt.connect(node.url) as cluster, program(text, node.url, *names) as started:
        for name in names:
            cluster.fifo(name).put(b"one")
        assert [heard(started) for _ in names] == ["begun", "begun"]
        started.send_signal(signal.SIGTERM)
        assert rest(started) == ["the program", "ended", "the program"]
        assert started.wait(30) == 0


def test_without_signals_it_is_the_program_that_stops_it(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster, program(QUIET, node.url, "quiet") as started:
        cluster.fifo("quiet").put(b"one")
        assert heard(started) == "begun"
        started.send_signal(signal.SIGTERM)
        assert rest(started) == ["goes on False"]
        assert started.wait(30) == 0


ENDS = """
def handle(item):
    say("begun")
async def ahandle(item):
    say("begun")
"""


@pytest.mark.parametrize("queues", [1, 2])
@pytest.mark.parametrize(
    ("text", "options"),
    [(THREADS, "threads=2"), (THREADS, "threads=2, processes=1"), (TASKS, "tasks=2")],
)
def test_a_signal_that_came_while_it_stood_still_ends_it_once_it_goes_on(
    node: LocalNode, text: str, options: str, queues: int
) -> None:
    """As after Ctrl-Z and `kill`: then any of its threads may take the signal."""
    names = [f"still-{len(text + options)}-{queues}-{one}" for one in range(queues)]
    text = text.replace(HEAD, HEAD + ENDS).replace("handle).run", f"handle, {options}).run")
    if queues > 1:
        text = text.replace("cluster.fifo(names[0])", "[cluster.fifo(one) for one in names]")
    with snowmelt.connect(node.url) as cluster, program(text, node.url, *names) as started:
        for name in names:
            cluster.fifo(name).put(b"one")
        assert [heard(started) for _ in names] == ["begun"] * len(names)
        os.kill(started.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, started.pid, os.WSTOPPED)
        os.kill(started.pid, signal.SIGTERM)
        os.kill(started.pid, signal.SIGCONT)
        assert rest(started) == ["ended"]
        assert started.wait(30) == 0


SLOW = """
signal.signal(signal.SIGTERM, lambda *_: say("told"))  # once the worker has heard it
def handle(item):
    say("begun")
    time.sleep(60)
async def ahandle(item):
    say("begun")
    await asyncio.sleep(60)
"""


@pytest.mark.parametrize(("signals", "grace", "within"), [(1, 0.5, 1.5), (2, 30, 2.0)])
def test_workers_beside_a_silent_node_end_in_time(
    own_node: LocalNode, signals: int, grace: float, within: float
) -> None:
    with snowmelt.connect(own_node.url) as cluster, ExitStack() as stack:
        programs = []
        for number, text in enumerate((THREADS, PROCESSES, TASKS)):
            cluster.fifo(f"orders-{number}").put_many([b"one"] * 9)
            slow = text.replace(HEAD, HEAD + SLOW)
            slow = slow.replace("handle)", f"handle, prefetch=9, grace={grace})")
            slow = slow.replace("processes=1)", f"processes=1, prefetch=9, grace={grace})")
            programs.append(stack.enter_context(program(slow, own_node.url, f"orders-{number}")))
        assert [heard(one) for one in programs] == ["begun"] * 3
        os.kill(own_node.pid, signal.SIGSTOP)
        try:
            for one in programs:
                began = time.monotonic()
                for _ in range(signals):
                    one.send_signal(signal.SIGTERM)
                    assert heard(one) == "told"  # two at once would count as one
                one.wait(30)
                took = time.monotonic() - began
                assert took < within + 12, f"{took:.1f} s, on a busy machine"
                assert (one.returncode != 0) is (signals > 1)
        finally:
            os.kill(own_node.pid, signal.SIGCONT)
