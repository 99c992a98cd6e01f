"""`dramatiq` as a command: its processes stopped and killed, and a node that restarts."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import dramatiq
import pytest

from door_senders import FIRST, Sender
from snowmelt.cli.local import LocalNode
from snowmelt_doors.dramatiq import SnowmeltBroker

pytest_plugins = ("door_nodes",)
PROGRAM = """
import os, time
import dramatiq
from snowmelt_doors.dramatiq import SnowmeltBroker
dramatiq.set_broker(SnowmeltBroker(os.environ["URL"]))
dramatiq.get_broker().cluster.ping()  # it is open before the processes are made
done = os.open(os.environ["DONE"], os.O_APPEND | os.O_CREAT | os.O_WRONLY)

@dramatiq.actor(max_retries=0)
def work(number, seconds):
    time.sleep(seconds)
    os.write(done, b"%d %d\\n" % (number, os.getpid()))
"""

SENDER = """
import os, dramatiq
from snowmelt_doors.dramatiq import SnowmeltBroker
broker = SnowmeltBroker(os.environ["URL"])
broker.declare_queue("default")

def send(number):
    broker.enqueue(dramatiq.Message("default", "work", (number, 0), {}, {}))
"""

Start = Callable[[], "subprocess.Popen[bytes]"]


@pytest.fixture
def start(own_node: LocalNode, tmp_path: Path) -> Iterator[Start]:
    (tmp_path / "shop.py").write_text(PROGRAM)
    env = os.environ | {"URL": own_node.url, "DONE": str(tmp_path / "done")}
    begun: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dramatiq", "shop", "-p", "2", "-t", "2"]
        log = (tmp_path / "log").open("ab")
        one = subprocess.Popen(
            command, cwd=tmp_path, env=env, stdout=log, stderr=log, start_new_session=True
        )
        log.close()
        begun.append(one)
        return one

    yield start
    for one in begun:
        if one.poll() is None:
            os.killpg(one.pid, signal.SIGKILL)
            one.wait()


@pytest.fixture
def broker(own_node: LocalNode) -> Iterator[SnowmeltBroker]:
    one = SnowmeltBroker(own_node.url)
    one.declare_queue("default")
    one.cluster.fifo("dramatiq.default", lease=2).create()
    yield one
    one.close()


def send(broker: SnowmeltBroker, number: int, seconds: float, delay: int | None = None) -> None:
    message = dramatiq.Message("default", "work", (number, seconds), {}, {})
    broker.enqueue(message, delay=delay)


def done(tmp_path: Path) -> list[tuple[int, int]]:
    path = tmp_path / "done"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(number), int(pid)) for number, pid in map(str.split, lines)]


def wait_for(broker: SnowmeltBroker, tmp_path: Path, numbers: set[int]) -> None:
    end = time.monotonic() + 60
    while not numbers <= {number for number, _ in done(tmp_path)}:
        assert time.monotonic() < end, (tmp_path / "log").read_text()[-4000:]
        time.sleep(0.05)
    broker.join("default", timeout=20_000)


def test_processes_share_a_queue_and_sigterm_gives_back_the_rest(
    start: Start, broker: SnowmeltBroker, tmp_path: Path
) -> None:
    count = 400  # far more than are done before both have begun, and the signal was heard
    for number in range(count):
        send(broker, number, 0.2)
    one = start()
    end = time.monotonic() + 60
    while len({pid for _, pid in done(tmp_path)}) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    one.terminate()
    assert one.wait(20) in (0, -signal.SIGTERM)  # Dramatiq listens to signals after its workers run
    status, ended = broker.queue_of("default").stats(), done(tmp_path)
    assert len({pid for _, pid in ended}) == 2
    assert (status.leased, status.failed, status.dead) == (0, 0, 0)
    assert status.ready == count - len(ended) > 0
    assert max(Counter(number for number, _ in ended).values()) == 1


def test_nothing_is_lost_though_workers_and_the_node_are_killed(
    start: Start, broker: SnowmeltBroker, own_node: LocalNode, tmp_path: Path
) -> None:
    storm(start, broker, own_node, tmp_path, 1)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_nothing_is_lost_in_a_long_storm(
    start: Start, broker: SnowmeltBroker, own_node: LocalNode, tmp_path: Path
) -> None:
    storm(start, broker, own_node, tmp_path, 12)


def storm(
    start: Start, broker: SnowmeltBroker, own_node: LocalNode, tmp_path: Path, rounds: int
) -> None:
    """Each round kills the workers, a program that sends, and each second one the node."""
    chance, number, one = random.Random(rounds), 0, start()
    sender = Sender(tmp_path, SENDER, URL=own_node.url)
    for turn in range(rounds):
        sender.start()
        for _ in range(60):
            send(broker, number, chance.choice((0, 0, 0.2)), chance.choice((None, None, 300)))
            number += 1
        time.sleep(chance.uniform(1.5, 2.5))
        os.killpg(one.pid, signal.SIGKILL)
        one.wait()
        if turn % 2 == 0:
            own_node.kill()
            own_node.start()
        one = start()
        sender.kill()
    wait_for(broker, tmp_path, set(range(number)) | sender.noted("sent"))
    one.terminate()
    assert one.wait(20) in (0, -signal.SIGTERM)  # Dramatiq listens to signals after its workers run
    times = Counter(number for number, _ in done(tmp_path))
    sender.check(set(times))
    assert {one for one in times if one < FIRST} == set(range(number))
    again = sum(times.values()) - len(times)
    assert again <= 8 * rounds + 60, "more was done twice than was in hand or told in a moment"
