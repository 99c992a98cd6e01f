"""The throughput experiment with real processes: the plain queue; nodes, once fifo is there."""

from pathlib import Path

import pytest

from snowmelt.cli.local import LocalCluster
from snowmelt.client.cluster import Cluster
from snowmelt.core.errors import BadOption, OutcomeUnknown
from snowmelt_lab.scale.client import Job
from snowmelt_lab.scale.gates import timed
from snowmelt_lab.scale.grid import measured
from snowmelt_lab.scale.plain import PlainQueue, plain_queue


def test_the_plain_queue_keeps_order_and_what_is_not_acknowledged() -> None:
    with plain_queue() as url, PlainQueue(url) as queue:
        for body in (b"one", b"two", b""):
            queue.put(body)
        items = [queue.get(timeout=5) for _ in range(2)]
        items[1].ack()
        with PlainQueue(url) as broken:
            assert broken.get(timeout=5).body == b""
        assert queue.get(timeout=5).body == b""
        assert [item.body for item in items] == [b"one", b"two"]


def test_all_clients_put_and_get_all_and_leave_nothing() -> None:
    with plain_queue() as url:
        times = timed(Job(url=url, operations=20), clients=3)
        assert times.put_seconds > 0
        assert times.get_seconds > 0
        assert times.seconds_per_100 == pytest.approx(100 * times.total_seconds / 120)
        with PlainQueue(url) as queue, pytest.raises(TimeoutError):
            queue.get(timeout=0.2)


def test_a_client_that_fails_ends_the_measurement_with_its_reason() -> None:
    with pytest.raises(OutcomeUnknown, match="a client failed: ConnectionRefusedError"):
        timed(Job(url="plain://127.0.0.1:1", operations=1), clients=2)


def test_a_phase_that_takes_too_long_is_given_up() -> None:
    with plain_queue() as url, pytest.raises(OutcomeUnknown, match="1 of 1 clients were not done"):
        timed(Job(url=url, operations=1_000_000), clients=1, limit=0.1)


def test_clusters_are_started_once_each_and_ended() -> None:
    story: list[str] = []

    class Started:
        def __init__(self, nodes: int) -> None:
            self.nodes, self.queue = nodes, plain_queue()

        def __enter__(self) -> str:
            story.append(f"start {self.nodes}")
            return self.queue.__enter__()

        def __exit__(self, *error: object) -> None:
            story.append(f"end {self.nodes}")
            self.queue.__exit__(*error)

    points = list(measured(Started, [3, 6], [2], Job(url="", operations=2)))
    seen = [(point.nodes, point.clients) for point in points]
    assert seen == [(0, 2), (3, 2), (6, 2)]
    assert story == ["start 3", "end 3", "start 6", "end 6"]


def test_what_can_not_be_measured_is_refused() -> None:
    with pytest.raises(BadOption, match="--clients is 0"):
        timed(Job(url="plain://127.0.0.1:1"), clients=0)
    with pytest.raises(BadOption, match="--nodes is 0"):
        list(measured(lambda _: plain_queue(), [0], [1], Job(url="")))
    with pytest.raises(BadOption, match="--operations is 0"):
        Job(url="", operations=0)
    with pytest.raises(BadOption, match="--body-bytes is -1"):
        Job(url="", body_bytes=-1)


@pytest.mark.skipif(not hasattr(Cluster, "fifo"), reason="the fifo family is not there yet")
def test_real_nodes_serve_the_experiment(tmp_path: Path) -> None:
    with LocalCluster(3, tmp_path, 0.5) as cluster:
        cluster.start()
        times = timed(Job(url=cluster.url, operations=5), clients=2)
    assert times.total_seconds > 0
