"""Ctrl-C at any instant of a turn, and handlers that take a turn in the middle of another."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ordinary.turns import Turns
from snowmelt.cli.local import LocalNode

INTERRUPTED = """
import os, random, signal, sys, threading, time
import snowmelt
from ordinary.turns import Turns, had_soon, turn
url, name, path, way, wanted = sys.argv[1:5] + [int(sys.argv[5])]
random.seed(11)
turns, came = Turns(path), 0

def annoy():
    while came < wanted:
        time.sleep(random.uniform(0, 0.006))
        os.kill(os.getpid(), signal.SIGINT)

def interrupt(*_):
    global armed, came
    if armed:
        armed, came = False, came + 1
        raise KeyboardInterrupt

def once():
    if way == "counter":
        turns.took(counter.next())
    elif way == "with":
        turn(baton, turns)
    elif way == "acquire":
        held = baton.acquire()
        try:
            held.save(b"%d" % (int(held.value or b"0") + 1))
        finally:
            held.release()
    else:
        baton.acquire()  # and it is dropped

with snowmelt.connect(url) as cluster:
    armed, baton, counter = False, cluster.baton(name), cluster.counter(name)
    turn(baton, turns)
    signal.signal(signal.SIGINT, interrupt)
    annoyance = threading.Thread(target=annoy, daemon=True)
    annoyance.start()
    while came < wanted:
        try:
            armed = True
            once()
            armed = False
        except (KeyboardInterrupt, snowmelt.BatonLost):
            pass  # that it is given up already is said by a `finally` that came too late
    annoyance.join()
    had_soon(cluster, name)
    had_soon(cluster, "counter." + name)
print(came)
"""


@pytest.mark.parametrize("way", ["with", "acquire", "drop", "counter"])
def test_ctrl_c_at_random_instants_leaves_nothing_held(
    node: LocalNode, name: str, way: str, times: int, tmp_path: Path, program: Callable[..., str]
) -> None:
    given = (node.url, name[:80], tmp_path / "turns", way, 250 * times)
    assert int(program(INTERRUPTED, *given, seconds=100 * times)) >= 250 * times
    Turns(tmp_path / "turns").check()


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
