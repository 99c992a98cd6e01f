"""Signals: Ctrl-C at any instant, handlers that call what they interrupt, and those that end it."""

from collections.abc import Callable

from ordinary.kinds import Kind
from snowmelt.cli.local import LocalNode

CALLING = """
import signal, sys, time
from snowmelt.core.errors import Empty
from ordinary.kinds import Account, of, opened, rest

url, name, kind, seconds = sys.argv[1:4] + [float(sys.argv[4])]
account, calls, depth = Account(), 0, 0

def call(*_):
    global calls, depth
    if depth:
        return
    depth += 1
    calls += 1
    body = account.putting(-calls)
    queue.put(body)
    account.kept.add(body)
    if calls % 3 == 0:
        item = queue.get_one()
        account.came(bytes(item.body))
        item.ack()
        account.done[bytes(item.body)] += 1
    depth -= 1

with opened(of(kind), url, name) as queue:
    signal.signal(signal.SIGALRM, call)
    signal.setitimer(signal.ITIMER_REAL, 0.003, 0.003)
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        number += 1
        body = account.putting(number)
        queue.put(body)
        account.kept.add(body)
        item = queue.get_one()
        account.came(bytes(item.body))
        item.ack()
        account.done[bytes(item.body)] += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    account.check(rest(queue))
print(calls, number)
"""


def test_a_handler_may_call_what_it_interrupts(
    where: tuple[type[Kind], str], name: str, times: int, program: Callable[..., str]
) -> None:
    kind, url = where
    seconds = 1.5 * times
    told = program(CALLING, url, name, kind.__name__, seconds, seconds=60 + 10 * seconds)
    assert int(told.split()[0]) > 5


WAITING = """
import os, signal, sys, threading, time
import snowmelt
from snowmelt.core.errors import Empty

url, name, act = sys.argv[1:4]

def handle(*_):
    if act == "close":
        pool.close()
        raise SystemExit(0)
    if act == "get":
        other.put_many([b"one", b"one"])  # the one beneath has asked first
        with pool.get(timeout=5) as one:
            print(one.body, flush=True)
        raise SystemExit(0)
    os._exit(1)

with snowmelt.connect(url) as cluster:
    other = cluster.pool(name)
    pool = cluster.pool(name)
    signal.signal(signal.SIGTERM, handle)
    def end():
        while not pool.stats().requests:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
    threading.Thread(target=end).start()
    begin = time.monotonic()
    try:
        pool.get(timeout=60)
    except SystemExit:
        print("ended", time.monotonic() - begin < 30, flush=True)
    if act == "get":
        other.get().ack()  # what came for the one beneath, who was interrupted
"""


def test_a_handler_may_close_the_pool_that_it_interrupts(
    node: LocalNode, name: str, program: Callable[..., str]
) -> None:
    assert program(WAITING, node.url, name, "close") == "ended True\n"


def test_a_handler_may_get_while_the_thread_beneath_it_waits_for_its_own(
    node: LocalNode, name: str, program: Callable[..., str]
) -> None:
    assert program(WAITING, node.url, name, "get") == "b'one'\nended True\n"
