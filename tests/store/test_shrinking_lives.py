"""Nodes are killed while their stores are copied to new files: what was put is there, and once."""

import random
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import snowmelt
from snowmelt.cli.local import LocalCluster, LocalNode
from snowmelt.core.errors import Empty, SnowmeltError
from timing import until

pytestmark = pytest.mark.wide  # most of a minute

PROGRAM = Path(__file__).with_name("shrinking_node.py")
BODY = 20_000
KILLS = 8


class ShrinkingNode(subprocess.Popen[bytes]):
    """Such a node, in place of one as people start it."""

    def __init__(self, command: Sequence[str], **more: Any) -> None:
        at = command.index("-m")
        super().__init__([sys.executable, str(PROGRAM), *command[at + 2 :]], **more)


class Users:
    """One puts, and one takes; they ask again until they know."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.put: list[int] = []
        self.got: dict[int, int] = {}
        self.acked: set[int] = set()
        self.again: list[int] = []
        self.no_more_puts, self.done = threading.Event(), threading.Event()
        self.threads = [threading.Thread(target=one) for one in (self._puts, self._takes)]
        for one in self.threads:
            one.start()

    def _puts(self) -> None:
        with snowmelt.connect(self.url) as cluster:
            queue, number = cluster.fifo("orders", replicas=3, lease=3, producer="shop"), 0
            while not self.no_more_puts.is_set():
                number += 1
                body = b"%d " % number + b"." * BODY
                while True:
                    try:
                        queue.put(body, sequence=number, timeout=5)
                        break
                    except SnowmeltError:
                        continue
                self.put.append(number)

    def _takes(self) -> None:
        with snowmelt.connect(self.url) as cluster:
            queue = cluster.fifo("orders", replicas=3, lease=3)
            while not self.done.is_set():
                try:
                    items = queue.get_many(50, timeout=1)
                except (Empty, SnowmeltError):
                    continue
                numbers = [int(item.body.split()[0]) for item in items]
                self.again += [one for one in numbers if one in self.acked]
                for one in numbers:
                    self.got[one] = self.got.get(one, 0) + 1
                try:
                    items.ack()
                except SnowmeltError:
                    continue
                self.acked |= set(numbers)

    def end(self, thread: threading.Thread) -> None:
        thread.join(60)
        assert not thread.is_alive()


def test_what_is_copied_while_nodes_are_killed_is_lost_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalNode, "popen", ShrinkingNode)
    chance, files = random.Random(7), dict[str, set[int]]()
    with LocalCluster(3, tmp_path, 0.5) as cluster:
        cluster.start()
        names = [node.name for node in cluster.nodes]

        def look() -> None:
            for node in cluster.nodes:
                for file in node.folder.glob("records*"):
                    if ".new" not in file.name:
                        files.setdefault(node.name, set()).add(file.stat().st_ino)

        def copied() -> int:
            look()
            return sum(len(some) - 1 for some in files.values())

        users = Users(cluster.url)
        try:
            for kill in range(1, KILLS + 1):
                time.sleep(chance.uniform(0.5, 2))
                until(lambda: copied() >= kill)  # noqa: B023  # on a slow machine that takes longer
                victim = chance.choice(cluster.nodes)
                victim.kill()
                time.sleep(chance.uniform(0, 0.3))
                victim.start()
                cluster.wait_for(names, 30, look)
        finally:
            users.no_more_puts.set()
            users.end(users.threads[0])
            time.sleep(4)  # so long a lease may last of which nobody was told
            users.done.set()
            users.end(users.threads[1])
        with snowmelt.connect(cluster.url) as client:
            stats = client.fifo("orders").stats()
    assert users.put == list(range(1, len(users.put) + 1))
    assert sorted(users.got) == users.put
    assert users.again == []
    assert (stats.put, stats.ready + stats.leased + stats.dead) == (len(users.put), 0)
