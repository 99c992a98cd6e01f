"""Three nodes, three partitions, and one node that is killed: nothing is lost, and order stays."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import snowmelt
from snowmelt.cli.local import LocalCluster
from snowmelt.core.errors import Empty, SnowmeltError
from wide import wide


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(3, tmp_path, 0.5) as cluster:
        cluster.start()
        yield cluster


def not_led_by_the_coordinator(
    cluster: snowmelt.Cluster, part: int, replicas: int
) -> tuple[Any, str]:
    """A queue of three partitions, one of which another than the first node leads; and who."""
    for number in range(20):
        log = cluster.fifo(f"log{number}", partitions=3, replicas=replicas)
        log.put(b"-1")
        name = log.stats().leaders[part]
        if name != "n1":
            return log, name
    raise AssertionError("twenty queues are led alike")


@pytest.mark.parametrize("part", [0, *wide(1)])
def test_a_leader_is_killed_under_load(nodes: LocalCluster, part: int) -> None:
    """Of the anchor, and of another partition: one puts, one gets, and each has its order."""
    url = ",".join(node.address for node in nodes.nodes)
    with snowmelt.connect(f"snowmelt://{url}") as cluster:
        log, name = not_led_by_the_coordinator(cluster, part, 3)
        put: list[tuple[int, int]] = []
        stop = threading.Event()

        def load() -> None:
            number = 0
            while not stop.is_set():
                try:
                    put.append((number, log.put(b"%d" % number, timeout=30)))
                except SnowmeltError as error:  # pragma: no cover - told by the assertion below
                    put.append((number, -1))
                    raise error from None
                number += 1

        producer = threading.Thread(target=load)
        producer.start()
        got: list[tuple[int, int]] = []
        began, killed = time.monotonic(), False
        while time.monotonic() - began < 4:
            try:
                items = log.get_many(50, timeout=5)
            except Empty:
                continue
            got += [(int(item.body), item.position) for item in items]
            items.ack()
            if not killed and time.monotonic() - began > 1:
                next(node for node in nodes.nodes if node.name == name).kill()
                killed = True
        stop.set()
        producer.join()
        while True:
            try:
                items = log.get_many(1000, timeout=1)
            except Empty:
                break
            got += [(int(item.body), item.position) for item in items]
            items.ack()
        assert killed
        assert [position for _, position in got] == sorted(position for _, position in got)
        assert dict(put) == {number: at for number, at in got if number >= 0}
        assert [number for number, _ in got] == list(range(-1, len(put)))
        assert len(put) > 50


def test_what_only_a_node_has_that_is_away_is_left_out_and_said(nodes: LocalCluster) -> None:
    url = ",".join(node.address for node in nodes.nodes)
    with snowmelt.connect(f"snowmelt://{url}") as cluster:
        log, name = not_led_by_the_coordinator(cluster, 2, 1)
        log.get().ack()
        for at in range(9):
            log.put(b"%d" % at)
        away = next(node for node in nodes.nodes if node.name == name)
        hidden = {one.body for one in log.parts()[2].peek(9)}
        away.kill()
        wait_until_away(cluster)
        for at in range(9, 15):
            log.put(b"%d" % at, timeout=20)
        got: list[bytes] = []

        def take() -> None:
            items = log.get_many(3, timeout=3)
            got.extend(item.body for item in items)
            items.ack()

        while len(got) < 12:
            take()
        with pytest.raises(Empty, match="what partition 2 holds waits for nodes that are away"):
            take()
        assert len(hidden) == 3
        assert got == [b"%d" % at for at in range(15) if b"%d" % at not in hidden]
        told = log.stats()
        assert (told.away, told.leaders[2], told.ready) == ((2,), "", 0)
        away.start()
        items = log.get_many(9, timeout=30)
        assert {item.body for item in items} == hidden
        items.ack()


def wait_until_away(cluster: snowmelt.Cluster) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        view = cluster.status().view
        if view is not None and len(view.members) == 2:
            return
        time.sleep(0.1)
