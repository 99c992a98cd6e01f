"""Work on several cores: in order, and no wait without an end, whatever a worker does."""

import os
import subprocess
import sys
import time
from multiprocessing import active_children

import pytest

from snowmelt.core.errors import MachineError
from snowmelt_world.crew import spread

LONG = 1000.0  # seconds that no test waits for

STARTER = """
import time
from multiprocessing import active_children
from snowmelt_world.crew import spread
if __name__ == "__main__":
    results = spread(time.sleep, [0, 0, 0.5], 2, 60)
    next(results), next(results)
    print(*(child.pid for child in active_children()), flush=True)
    time.sleep(1000)
"""


@pytest.fixture(autouse=True)
def _nobody_is_left():
    yield
    assert active_children() == []


@pytest.mark.parametrize(("count", "jobs"), [(0, 2), (1, 1), (40, 1), (40, 2), (2, 3)])
def test_results_come_in_the_tasks_order(jobs, count):
    assert list(spread(abs, range(0, -count, -1), jobs, LONG)) == list(range(count))


def test_a_slow_first_task_holds_up_nobody_but_its_result():
    begin = time.monotonic()
    assert list(spread(time.sleep, [1.5, *[0.1] * 12], 2, LONG)) == [None] * 13
    assert time.monotonic() - begin < 20


@pytest.mark.parametrize("large", [1, 5 << 20])
def test_results_of_any_size_come_whole(large):
    assert [len(one) for one in spread(bytes, [large] * 5, 2, LONG)] == [large] * 5


def test_who_leaves_early_waits_for_no_task():
    results = spread(time.sleep, [0.0, LONG, LONG, LONG], 2, LONG)
    next(results)
    begin = time.monotonic()
    results.close()
    assert time.monotonic() - begin < 10


def test_a_task_that_takes_too_long_is_told():
    with pytest.raises(MachineError, match=r"1000.0 took more than 5 s"):
        list(spread(time.sleep, [0.0, LONG], 2, 5.0))


def test_a_result_that_came_in_time_counts_though_nobody_looked():
    results = spread(time.sleep, [0.0, 0.1], 2, 5.0)
    next(results)
    time.sleep(5.5)
    assert list(results) == [None]


def test_a_worker_that_dies_is_told():
    with pytest.raises(MachineError, match=r"a worker died with code 3 at 3"):
        list(spread(os._exit, [3], 2, LONG))


def test_a_worker_that_raises_is_told(capfd):
    with pytest.raises(MachineError, match=r"a worker died with code 1 at a"):
        list(spread(int, ["1", "a"], 2, LONG))
    assert "ValueError" in capfd.readouterr().err


def test_workers_end_when_their_starter_was_killed(tmp_path):
    (tmp_path / "starter.py").write_text(STARTER)
    command = [sys.executable, str(tmp_path / "starter.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as starter:
        workers = [int(word) for word in starter.stdout.readline().split()]
        starter.kill()
    assert len(workers) == 2
    end = time.monotonic() + 20
    while any(map(alive, workers)):
        assert time.monotonic() < end, "workers outlive their starter"
        time.sleep(0.05)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
