"""The end of a program: nothing stands still, and what is called too late says so."""

import time
from collections.abc import Callable

import pytest

from snowmelt.cli.local import LocalNode

BEGIN = """
import atexit, os, sys, threading, time
import snowmelt
url, name = sys.argv[1:]
cluster = snowmelt.connect(url)
pool = cluster.pool(name, buffers=1000, lease=2.0, grace=0.5)

def all_of_it():
    pool.put(b"one")
    pool.get().ack()
    with cluster.baton(name) as held:
        held.save(b"one")
    cluster.counter(name).next()
    cluster.multicast(name).publish(b"one")
    jobs = cluster.priority(name, lease=2.0)
    jobs.put(b"one", priority=1)
    jobs.get().ack()
"""
ENDS = {
    "of one that closes nothing": """
held = cluster.baton(name).acquire()
pool.put(b"one")
print("end")
""",
    "with threads in the middle of everything": """
def ever(work):
    def run():
        while True:
            work()
    threading.Thread(target=run, daemon=True).start()

def listen():
    for message in cluster.multicast(name).subscribe():
        pass

def take():
    for one in pool.consume():
        pass

def loop():
    for item in cluster.priority(name, lease=2.0).consume():
        item.ack()

for work in (all_of_it, all_of_it, listen, take, loop, cluster.counter(name).next):
    ever(work)
time.sleep(0.5)
print("end")
""",
    "that does it all once more": """
def end():
    all_of_it()
    cluster.close()
    print("end")

atexit.register(end)
""",
    "which a thread outlives": """
def work():
    threading.main_thread().join()
    all_of_it()
    cluster.close()
    print("end")

threading.Thread(target=work).start()
""",
    "in which the collector calls too late": """
class Owner:
    def __init__(self):
        self.held = cluster.baton(name).acquire()
        self.pool, self.closed = pool, snowmelt.core.errors.Closed

    def __del__(self):
        self.held.release()
        for late in (lambda: self.pool.put(b"one"), self.pool.get, self.pool.close):
            try:
                late()
            except self.closed as error:
                assert "the interpreter shuts down" in str(error)
        print("end")

import snowmelt.core.errors
owner = Owner()
""",
}


@pytest.mark.parametrize("end", ENDS)
def test_a_program_ends_at_once(
    node: LocalNode, name: str, end: str, program: Callable[..., str]
) -> None:
    begin = time.monotonic()
    assert program(BEGIN + ENDS[end], node.url, name[-60:].strip("-")) == "end\n"
    assert time.monotonic() - begin < 8
