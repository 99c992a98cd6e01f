"""How many copies a queue has of which nobody said it: one on one node, three where there are."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import snowmelt
from cli.program import piped
from snowmelt.cli.local import LocalCluster, LocalNode
from snowmelt.core.errors import BadOption, CallerError, QueueExists


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(3, tmp_path_factory.mktemp("three"), 0.5) as cluster:
        cluster.start()
        cluster.wait_for(["n1", "n2", "n3"], 60)
        yield cluster


@pytest.fixture
def client(three: LocalCluster) -> Iterator[snowmelt.Cluster]:
    with snowmelt.connect(three.url) as client:
        yield client


def test_on_three_nodes_a_fifo_has_three_and_a_put_waits_for_two(client: snowmelt.Cluster) -> None:
    orders = client.fifo("plain")
    orders.put(b"one", timeout=30)
    told = orders.stats().settings
    assert (told.replicas, told.durable_copies) == (3, 2)
    assert orders.copies in (2, 3)


def test_the_same_whatever_else_is_said(client: snowmelt.Cluster) -> None:
    client.fifo("lease", lease=60).put(b"one", timeout=30)
    assert client.fifo("lease").stats().settings.replicas == 3


def test_on_three_nodes_a_priority_queue_has_three(client: snowmelt.Cluster) -> None:
    jobs = client.priority("jobs")
    jobs.put(b"one", timeout=30)
    assert jobs.stats().settings.replicas == 3
    assert jobs.copies >= 2, "most of them have flushed"


@pytest.mark.parametrize("kind", ["fifo", "priority"])
def test_a_default_is_no_difference(client: snowmelt.Cluster, kind: str) -> None:
    queue: Any = getattr(client, kind)
    queue(f"one-{kind}", replicas=1, lease=60).put(b"one", timeout=30)
    assert queue(f"one-{kind}", lease=60).stats().ready == 1
    queue(f"one-{kind}", lease=60).put(b"two")
    with pytest.raises(QueueExists, match="replicas=1, asked 3"):
        queue(f"one-{kind}", lease=60, replicas=3).put(b"three")


def test_more_copies_to_wait_for_than_there_are_is_refused(node: LocalNode) -> None:
    text = "durable_copies is 2; allowed: 0 to 1"
    with snowmelt.connect(node.url) as client, pytest.raises(CallerError, match=text):
        client.fifo("too-many", durable_copies=2).put(b"one")


@pytest.mark.parametrize("kind", ["fifo", "priority"])
def test_none_is_no_number_of_copies(node: LocalNode, kind: str) -> None:
    text = "replicas is 0; allowed: 1 to 7"
    with snowmelt.connect(node.url) as client, pytest.raises(BadOption, match=text):
        getattr(client, kind)("none", replicas=0)


def test_on_one_node_it_is_one_and_says_so(node: LocalNode) -> None:
    put = piped("put", "alone", "one", "--url", node.url)
    assert put.stdout == b"1 item put into alone at [0, 1), on one node\n"
    stats = piped("stats", "alone", "--url", node.url).stdout.decode()
    assert "each item is on one disk" in " ".join(stats.split())
    with snowmelt.connect(node.url) as client:
        told = client.fifo("alone").stats().settings
    assert (told.replicas, told.durable_copies) == (1, 1)


def test_in_a_folder_it_is_one(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        orders = cluster.fifo("orders")
        orders.put(b"one")
        assert (orders.copies, orders.stats().settings.durable_copies) == (1, 1)
