"""Real nodes, and programs that take steps; all of them are killed: nothing is lost or doubled."""

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import snowmelt
from client.killing import kill_leader
from client.step_process import SOURCES, TARGETS
from snowmelt.cli.local import LocalCluster
from snowmelt.core.errors import Empty, SnowmeltError

PROGRAM = Path(__file__).with_name("step_process.py")
FEED = 4
"""So many items come in for each kill, in each source."""


class Steppers:
    """The programs."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.all = [self._start(how) for how in ("one", "one", "both", "both")]

    def _start(self, how: str) -> tuple[str, subprocess.Popen[bytes]]:
        words = [sys.executable, str(PROGRAM), self._url, how]
        return how, subprocess.Popen(words, env={"PYTHONPATH": ":".join(sys.path)})

    def kill(self, chance: random.Random) -> None:
        """One of them, and another comes in its place."""
        at = chance.randrange(len(self.all))
        how, process = self.all[at]
        process.kill()
        process.wait()
        self.all[at] = self._start(how)

    def end(self) -> None:
        for _, process in self.all:
            process.kill()
            process.wait()


def taken(queue: snowmelt.Fifo) -> Counter[bytes]:
    """All that is there, each once for each position."""
    found: dict[int, bytes] = {}
    while True:
        try:
            items = queue.get_many(100, timeout=1)
        except Empty:
            if not queue.stats(timeout=60).leased:
                return Counter(found.values())
            continue
        found.update({item.position: bytes(item.body) for item in items})
        items.ack()


@pytest.mark.parametrize(
    "kills", [4, pytest.param(100, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])]
)
def test_each_item_comes_out_once_whatever_is_killed(nodes: LocalCluster, kills: int) -> None:
    chance, put = random.Random(kills), Counter[bytes]()
    with snowmelt.connect(nodes.url) as client:
        queues = {
            name: client.fifo(name, replicas=3, lease=3, max_deliveries=1000, producer="feed")
            for name in (*SOURCES, *TARGETS)
        }
        for queue in queues.values():
            queue.create(timeout=60)
        steppers = Steppers(nodes.url)
        try:
            for kill in range(kills):
                for name in SOURCES:
                    bodies = [b"%s-%d-%d" % (name.encode(), kill, at) for at in range(FEED)]
                    put.update(bodies)
                    queues[name].put_many(bodies, sequence=kill, timeout=60)
                time.sleep(chance.random())
                if chance.random() < 0.5:
                    steppers.kill(chance)
                else:
                    kill_leader(nodes, queues[chance.choice(list(queues))])
            end = time.monotonic() + 120
            while time.monotonic() < end and not all(
                is_done(queues[name], FEED * kills) for name in SOURCES
            ):
                time.sleep(0.3)
        finally:
            steppers.end()
        time.sleep(1)
        for name in SOURCES:
            assert is_done(queues[name], FEED * kills), queues[name].stats()
        for name in TARGETS:
            assert taken(queues[name]) == put


def is_done(queue: snowmelt.Fifo, count: int) -> bool:
    try:
        return queue.stats(timeout=5).done == count
    except SnowmeltError:
        return False
