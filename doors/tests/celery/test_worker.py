"""Real workers with a pool of processes: what they lose when they, or the node, are killed."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery_workers import children, kill, ran, start, until, worker

from door_senders import FIRST, Sender
from snowmelt.cli.local import LocalCluster, LocalNode
from snowmelt_doors.celery import queues

pytest_plugins = ("door_nodes",)
LONG = 1.5
SENDER = """
from storm_tasks import note

def send(number):
    note.delay(number)
"""


@pytest.fixture
def storm(own_node: LocalNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The tasks, over a node of this test's own."""
    yield from tasks_over(own_node.url, tmp_path, monkeypatch)


@pytest.fixture
def three(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(3, tmp_path / "nodes", 0.5) as cluster:
        cluster.start()
        yield cluster


def tasks_over(url: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("SNOWMELT_URL", url)
    sys.modules.pop("storm_tasks", None)
    import storm_tasks  # noqa: PLC0415

    (folder / "notes").mkdir()
    yield storm_tasks
    storm_tasks.app.backend.close()
    storm_tasks.app.close()
    sys.modules.pop("storm_tasks", None)


def test_nothing_is_lost_when_workers_and_the_node_are_killed(
    storm: Any, own_node: LocalNode, tmp_path: Path
) -> None:
    count, sender = 60, Sender(tmp_path, SENDER)
    sender.start()
    results = [storm.note.delay(number, 0.05) for number in range(count)]
    with worker(own_node.url, tmp_path) as first:
        assert until(lambda: len(ran(tmp_path)) > 5), (tmp_path / "worker.log").read_text()
        kill(first)
    at_kill = len(ran(tmp_path))
    with worker(own_node.url, tmp_path) as second:
        assert until(lambda: len(ran(tmp_path)) > at_kill + 5)
        sender.kill()
        sender.start()
        own_node.kill()
        own_node.start()
        found = [one.get(timeout=60) for one in results]
        assert found == list(range(count))
        assert until(lambda: len(sender.noted("sent")) > 20)
        sender.kill()
        assert until(lambda: sender.noted("sent") <= set(ran(tmp_path)))
        sender.check(set(ran(tmp_path)))
        assert {number for number in ran(tmp_path) if number < FIRST} == set(range(count))
        twice = [number for number, times in ran(tmp_path).items() if len(times) > 1]
        assert len(twice) <= 12  # those that were in hand at a kill
        assert second.poll() is None  # it went on by itself
        assert nothing_left(storm)
        os.kill(second.pid, signal.SIGTERM)
        assert second.wait(60) == 0


def nothing_left(storm: Any) -> bool:
    with storm.app.connection() as connection:
        left = storm.app.amqp.queues["celery"](connection.default_channel)
        return until(lambda: left.queue_declare(passive=True).message_count == 0)


def test_a_task_longer_than_its_lease_runs_once(
    storm: Any, own_node: LocalNode, tmp_path: Path
) -> None:
    """celery#2481, with an eta and a task that are both longer than the lease of a second."""
    with worker(own_node.url, tmp_path), worker(own_node.url, tmp_path, "-n", "other@%h"):
        late = storm.note.apply_async((7, 2.5), countdown=2.5)
        assert late.get(timeout=60) == 7
        time.sleep(1.5)
        assert len(ran(tmp_path)[7]) == 1


@pytest.mark.wide
@pytest.mark.parametrize("what", ["a long task", "an eta"])
def test_without_renewal_a_task_longer_than_its_lease_runs_again(
    storm: Any, own_node: LocalNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A plant: what celery#2481 is, also when an eta is held by the worker, as with Redis."""
    monkeypatch.setattr(queues, "delay_of", lambda _: 0.0)
    plant = {"STORM_PLANT": "no renewal"}
    with (
        worker(own_node.url, tmp_path, **plant),
        worker(own_node.url, tmp_path, "-n", "other@%h", **plant),
    ):
        assert until(lambda: (tmp_path / "worker.log").read_text().count(" ready.") == 2)
        if what == "an eta":
            storm.note.apply_async((7, 0.0), countdown=4)
        else:
            storm.note.apply_async((7, 3.0))
        assert until(lambda: len(ran(tmp_path).get(7, ())) > 1, 30)


@pytest.mark.wide
@pytest.mark.parametrize("planted", [False, True])
def test_an_urgent_task_runs_before_those_that_wait(
    storm: Any, own_node: LocalNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: bool
) -> None:
    """celery#5935, by a worker that has one task in hand and one ahead of it at most."""
    if planted:
        monkeypatch.setattr(queues, "priority_of", lambda _: 0)
    few = "--concurrency", "1", "--prefetch-multiplier", "1"
    with worker(own_node.url, tmp_path, *few):
        for number in range(8):
            storm.note.apply_async((number, 0.5), priority=1)
        assert until(lambda: ran(tmp_path))
        last = storm.note.apply_async((99, 0.0), priority=9)
        assert last.get(timeout=60) == 99
        assert (len(ran(tmp_path)) > 4) == planted


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_in_a_long_storm_of_one_node(
    storm: Any, own_node: LocalNode, tmp_path: Path, seed: int
) -> None:
    def restart(_: random.Random) -> None:
        own_node.kill()
        own_node.start()

    Storm(storm, own_node.url, tmp_path, seed, restart).run(12)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_nothing_is_lost_in_a_long_storm_of_three_nodes(
    three: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill_one(chance: random.Random) -> None:
        one = chance.choice(three.nodes)
        one.kill()
        time.sleep(chance.uniform(0, 4))
        one.start()
        three.wait_for(["n1", "n2", "n3"], 60)

    for storm in tasks_over(three.url, tmp_path, monkeypatch):
        Storm(storm, three.url, tmp_path, 3, kill_one).run(12)


class Storm:
    """Two workers, one of which is killed each time, and nodes; half of the tasks have an eta."""

    def __init__(self, tasks: Any, url: str, folder: Path, seed: int, kill_node: Any) -> None:
        self.tasks = tasks
        self.url = url
        self.folder = folder
        self.chance = random.Random(seed)
        self.kill_node = kill_node
        self.sender = Sender(folder, SENDER)
        self.asked: list[Any] = []
        self.due: dict[int, float] = {}
        self.long: set[int] = set()
        self.in_hand = 0
        """So many tasks were begun, at most, when something was killed."""

    def run(self, rounds: int) -> None:
        workers = [start(self.url, self.folder, "-n", f"w{at}@here") for at in range(2)]
        try:
            for turn in range(rounds):
                self.sender.kill()
                self.sender.start()
                self.publish(40)
                at = self.chance.randrange(2)
                self.kill_some(workers[at], turn % 3)
                if turn % 2:
                    self.kill_node(self.chance)
                    self.in_hand += 4
                if workers[at].poll() is not None:
                    workers[at] = start(self.url, self.folder, "-n", f"w{at}{turn}@here")
            self.sender.kill()
            self.check(rounds)
            for one in workers:
                os.kill(one.pid, signal.SIGTERM)
            assert [one.wait(60) for one in workers] == [0, 0]
        finally:
            self.sender.kill()
            for one in workers:
                kill(one)

    def publish(self, count: int) -> None:
        for _ in range(count):
            number, after = len(self.asked), self.chance.choice((0, 0, 1.5, 4))
            self.due[number] = time.time() + after
            seconds = self.chance.choice((0, 0.05, LONG))
            self.long |= {number} if seconds == LONG else set()
            self.asked.append(self.tasks.note.apply_async((number, seconds), countdown=after))

    def kill_some(self, one: "subprocess.Popen[bytes]", what: int) -> None:
        """One process of a pool, the worker without its pool, or all of it."""
        self.in_hand += 2
        assert until(lambda: self.busy(one)), (self.folder / "worker.log").read_text()[-4000:]
        if what == 0:
            os.kill(self.busy(one)[0], signal.SIGKILL)
        elif what == 1:
            one.kill()
            one.wait(30)
        else:
            kill(one)

    def busy(self, one: "subprocess.Popen[bytes]") -> list[int]:
        """Which of its processes have just begun a long task."""
        pool, late = children(one.pid), time.time() - LONG / 2
        noted = ran(self.folder).items()
        lasts = [times[-1] for number, times in noted if number in self.long and times]
        return [pid for began, pid in lasts if pid in pool and began > late]

    def check(self, rounds: int) -> None:
        numbers = list(range(len(self.asked)))
        for number, one in enumerate(self.asked):
            assert one.get(timeout=90) == number, (self.folder / "worker.log").read_text()[-4000:]
        assert until(lambda: self.sender.noted("sent") <= set(ran(self.folder)))
        times = ran(self.folder)
        self.sender.check(set(times))
        assert sorted(number for number in times if number < FIRST) == numbers
        early = [one for one in numbers if min(times[one])[0] < self.due[one] - 0.05]
        twice = sum(len(one) - 1 for one in times.values())
        print(f"{len(numbers)} tasks, {twice} begun again, {self.in_hand} in hand at kills")
        assert early == []
        assert rounds <= twice <= self.in_hand  # each kill found a task that had just begun
        assert nothing_left(self.tasks)
