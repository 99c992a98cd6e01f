"""Ctrl-C at any instant of a turn, and handlers that take a turn in the middle of another."""

from collections.abc import Callable
from pathlib import Path

from ordinary.turns import Turns
from snowmelt.cli.local import LocalNode

HANDLING = """
import os, signal, sys, threading, time
import snowmelt
from ordinary.turns import Turns, turn
url, name, path, wanted = sys.argv[1:4] + [int(sys.argv[4])]
turns, handled, over = Turns(path), 0, False

with snowmelt.connect(url) as cluster:
    counter, other, baton = (
        cluster.counter(name), cluster.counter(name + ".handler"), cluster.baton(name)
    )

    def handle(*_):
        global handled
        other.next()
        turn(cluster.baton(name + ".handler"), handlers)
        handled += 1
        signal.setitimer(signal.ITIMER_REAL, 0.007)

    handlers = Turns(path + ".handlers")
    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    while handled < wanted:
        turns.took(counter.next())
        turn(baton, turns)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
handlers.check()
print(handled)
"""


def test_a_handler_takes_turns_in_the_middle_of_a_turn(
    node: LocalNode, name: str, times: int, tmp_path: Path, program: Callable[..., str]
) -> None:
    program(HANDLING, node.url, name[:80], tmp_path / "turns", 60 * times, seconds=100 * times)
    Turns(tmp_path / "turns").check()


CLOSING = """
import os, signal, sys, threading, time
import snowmelt
url, name = sys.argv[1:]
cluster = snowmelt.connect(url)

def end(*_):
    cluster.close()
    print("closed", flush=True)
    os._exit(0)

signal.signal(signal.SIGTERM, end)
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
while True:
    with cluster.baton(name) as held:
        held.save(b"x")
"""


def test_a_handler_of_sigterm_may_close_the_cluster(
    node: LocalNode, name: str, program: Callable[..., str]
) -> None:
    assert program(CLOSING, node.url, name) == "closed\n"
