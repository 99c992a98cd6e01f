"""Children of a program that holds batons and counts: each number once, one holder at a time."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ordinary.turns import Turns
from snowmelt.cli.local import LocalNode

COUNTING = """
import multiprocessing, os, sys, threading, warnings
from concurrent.futures import ProcessPoolExecutor
import snowmelt
from ordinary.turns import Turns, turn
warnings.simplefilter("ignore")

CLUSTER = BATON = COUNTER = None

def opened(url, name):
    global CLUSTER, BATON, COUNTER
    CLUSTER = snowmelt.connect(url)
    BATON, COUNTER = CLUSTER.baton(name, timeout=50), CLUSTER.counter(name, timeout=50)

def work(url, name, path, count):
    if CLUSTER is None:  # in a process that was not forked
        opened(url, name)
    turns = Turns(path)
    for _ in range(count):
        turns.took(COUNTER.next(3))
        turn(BATON, turns)

def main(url, name, path, way, count):
    opened(url, name)
    work(url, name, path, 2)
    given = (url, name, path, int(count))
    beside = threading.Thread(target=work, args=given)
    beside.start()  # calls are under way when the children begin
    if way == "executor":
        with ProcessPoolExecutor(3) as pool:
            list(pool.map(work, *zip(*[given] * 6)))
    elif way == "os.fork":
        children = []
        for at in range(3):
            child = os.fork()
            if child == 0:
                try:
                    work(*given)
                finally:
                    os._exit(0) if at else sys.exit(0)
            children.append(child)
        for child in children:
            assert os.waitpid(child, 0)[1] == 0
    else:
        context = multiprocessing.get_context(way)
        children = [context.Process(target=work, args=given) for _ in range(3)]
        for child in children:
            child.start()
        for child in children:
            child.join()
            assert child.exitcode == 0
    beside.join()

if __name__ == "__main__":
    main(*sys.argv[1:])
"""


@pytest.mark.parametrize("way", ["os.fork", "fork", "spawn", "forkserver", "executor"])
def test_children_and_parents_count_and_take_turns(
    node: LocalNode,
    name: str,
    way: str,
    times: int,
    tmp_path: Path,
    program: Callable[..., str],
) -> None:
    file = tmp_path / "turns"
    program(COUNTING, node.url, name[:80], file, way, 5 * times, seconds=60 + 30 * times)
    turns = Turns(file)
    turns.check()
    children = 6 if way == "executor" else 3
    assert len(turns.numbers) == 3 * (2 + 5 * times * (children + 1))


LEAVING = """
import os, sys, time, warnings
import snowmelt
from ordinary.turns import Turns
warnings.simplefilter("ignore")
url, name, path, leave = sys.argv[1:]
turns = Turns(path)
with snowmelt.connect(url) as cluster:
    baton = cluster.baton(name)
    with baton as held, turns.within(held):
        child = os.fork()
        if child == 0:
            if leave == "exit":
                sys.exit(0)
            if leave == "raise":
                raise KeyError
        else:
            assert os.waitpid(child, 0)
            with snowmelt.connect(url) as other:
                try:
                    with other.baton(name, timeout=0.3) as second, turns.within(second):
                        print("two hold it")
                except snowmelt.NotGranted:
                    print("one holds it")
            time.sleep(1.2)  # a renewal
            held.check()
    if child:
        turns.passed(held.fence)
"""


@pytest.mark.parametrize("leave", ["exit", "raise", "return"])
def test_a_child_that_leaves_a_with_leaves_its_parents_baton_alone(
    node: LocalNode, name: str, leave: str, tmp_path: Path, program: Callable[..., str]
) -> None:
    told = program(LEAVING, node.url, name, tmp_path / "turns", leave)
    assert told.split("\n")[-2] == "one holds it"
    Turns(tmp_path / "turns").check()
