"""One program asks by five clients, one call after another: so each answer is known beforehand.

A plain model of each order says it: what was answered to one client is seen by all others, at
whatever node, while nodes are killed, stopped and stand still.
"""

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import snowmelt
from snowmelt.cli.local import LocalCluster, LocalNode
from snowmelt.core.errors import Empty, Full

PATIENCE = 60
ROOM = 30
DEADLY = 4
PRIORITIES: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
    "fifo": ({}, ()),
    "numbered": ({"priorities": 4}, (0, 1, 3)),
    "any": ({}, (-(10**15), 0, 7)),
    "fractions": ({"priorities": float, "largest_first": True}, (0.5, 0.0, -3.5)),
}


class Known(NamedTuple):
    """An item as the model knows it; the least is the next."""

    rank: int
    number: int
    failures: int = 0

    @property
    def body(self) -> bytes:
        return b"%d" % self.number


class Model:
    """One queue: as it must be, and as any of the clients sees it."""

    def __init__(self, order: str, queues: list[Any], chance: random.Random) -> None:
        self._priorities = PRIORITIES[order][1]
        self._keyed = order in ("any", "fractions")
        self._queues = queues
        self._chance = chance
        self._count = 0
        self._ready: list[Known] = []
        self._dead: list[Known] = []
        self._held: dict[bytes, tuple[Any, Known]] = {}

    def step(self) -> None:
        """Asks for something, of anybody."""
        queue = self._chance.choice(self._queues)
        asks: list[Callable[[Any], None]] = [
            *(self._put, self._get, self._get, self._settle, self._settle, self._settle),
            *(self._look, self._redrive, self._full),
        ]
        self._chance.choice(asks)(queue)

    @property
    def _room(self) -> int:
        return ROOM - len(self._ready) - len(self._held)

    def _put(self, queue: Any) -> None:
        size = self._chance.choice((1, 3))
        if size > self._room:
            return
        rank = self._chance.randrange(3) if self._priorities else 0
        some = [Known(rank, self._count + at) for at in range(size)]
        self._count += size
        options = {"priority": self._priorities[rank]} if self._priorities else {}
        queue.put_many([one.body for one in some], timeout=PATIENCE, **options)
        self._ready = sorted([*self._ready, *some])

    def _get(self, queue: Any) -> None:
        size = self._chance.choice((1, 4))
        first, rest = self._ready[:size], self._ready[size:]
        try:
            items = list(queue.get_many(size, timeout=PATIENCE if first else 0))
        except Empty:
            items = []
        assert [(one.body, one.failures) for one in items] == [
            (one.body, one.failures) for one in first
        ]
        self._ready = rest
        for item, known in zip(items, first, strict=True):
            self._held[item.body] = item, known

    def _settle(self, _: Any) -> None:
        if not self._held:
            return
        item, known = self._held.pop(self._chance.choice(sorted(self._held)))
        word = self._chance.choice(("ack", "ack", "release", "nack", "dead"))
        failed = known._replace(failures=known.failures + 1)
        if word == "ack":
            item.ack()
        elif word == "release":
            item.release()
            self._ready = sorted([*self._ready, known])
        elif word == "dead" or failed.failures == DEADLY:
            item.nack(reason="why", dead=word == "dead")
            self._dead.append(failed)
        else:
            item.nack(reason="why")
            self._ready = sorted([*self._ready, failed])

    def _look(self, queue: Any) -> None:
        shown = [one.body for one in queue.peek(5, timeout=PATIENCE)]
        assert shown == [one.body for one in self._ready[:5]]
        dead = queue.peek(100, dead=True, timeout=PATIENCE)
        assert sorted((one.body, one.failures) for one in dead) == sorted(
            (one.body, one.failures) for one in self._dead
        )
        status = queue.stats(timeout=PATIENCE)
        assert (status.ready, status.leased, status.dead) == (
            *(len(self._ready), len(self._held), len(self._dead)),
        )

    def _redrive(self, queue: Any) -> None:
        if self._chance.random() > 0.3:
            return
        in_order = sorted(self._dead, key=lambda one: one.number if self._keyed else one)
        back, self._dead = in_order[: self._room], in_order[self._room :]
        assert queue.redrive(timeout=PATIENCE) == len(back)
        self._ready = sorted([*self._ready, *(one._replace(failures=0) for one in back)])

    def _full(self, queue: Any) -> None:
        options = {"priority": self._priorities[0]} if self._priorities else {}
        with pytest.raises(Full):
            queue.put_many([b"too many"] * (self._room + 1), timeout=0, **options)


def models(clusters: list[Any], name: str, seed: int) -> list[Model]:
    made = []
    for order, (settings, _) in PRIORITIES.items():
        bounds: dict[str, Any] = {"max_items": ROOM, "max_deliveries": DEADLY, "lease": 600}
        here, kind = f"{name}-{order}", "fifo" if order == "fifo" else "priority"
        first = getattr(clusters[0], kind)(here, **bounds, **settings)
        first.put(b"made")
        first.get().ack()
        queues = [getattr(one, kind)(here) for one in clusters]
        made.append(Model(order, queues, random.Random(f"{seed} {order}")))
    return made


@contextlib.contextmanager
def disturbed(nodes: list[LocalNode], seed: int) -> Iterator[None]:
    """One node after the other is killed, or stopped in order, or stands still."""
    over, chance = threading.Event(), random.Random(seed)

    def disturb() -> None:
        while not over.wait(chance.uniform(0.3, 2.0)):
            node, how = chance.choice(nodes), chance.choice(("stand", "kill", "stop"))
            if how == "stand":
                os.kill(node.pid, signal.SIGSTOP)
                time.sleep(chance.choice((0.2, 1.0, 3.0)))
                os.kill(node.pid, signal.SIGCONT)
                continue
            node.kill() if how == "kill" else node.stop()
            time.sleep(chance.random())
            node.start()
            time.sleep(3)  # it follows again before the next one is disturbed

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def everywhere(nodes: list[LocalNode]) -> list[str]:
    """All nodes, of which each client asks another first."""
    turned = [nodes[at:] + nodes[:at] for at in (0, 1, 2, 0, 1)]
    return ["snowmelt://" + ",".join([node.address for node in some]) for some in turned]


def test_a_folder_is_as_its_model(tmp_path: Path) -> None:
    chance = random.Random(1)
    with snowmelt.open(tmp_path) as cluster:
        some = models([cluster], "folder", 1)
        for _ in range(1_500):
            chance.choice(some).step()


def test_three_nodes_are_as_their_model(tmp_path: Path) -> None:
    chance = random.Random(2)
    with LocalCluster(3, tmp_path, 0.5) as nodes, contextlib.ExitStack() as leave:
        nodes.start()
        clusters = [leave.enter_context(snowmelt.connect(url)) for url in everywhere(nodes.nodes)]
        some = models(clusters, "nodes", 2)
        for _ in range(1_000):
            chance.choice(some).step()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_disturbed_nodes_are_as_their_model(tmp_path: Path, seed: int) -> None:
    chance, end = random.Random(seed), time.monotonic() + 60
    with LocalCluster(3, tmp_path, 0.5) as nodes, contextlib.ExitStack() as leave:
        nodes.start()
        clusters = [leave.enter_context(snowmelt.connect(url)) for url in everywhere(nodes.nodes)]
        some = models(clusters, "disturbed", seed)
        leave.enter_context(disturbed(nodes.nodes, seed))
        while time.monotonic() < end:
            chance.choice(some).step()
