"""A queue with one replica, whose node is away: who asks is told for whom it waits, and for good.

One of two keepers is another matter: then the queue goes on (`test_failover.py`).
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import snowmelt
from cli.program import piped
from snowmelt.cli.local import LocalCluster
from snowmelt.core.errors import OutcomeUnknown, Unavailable

CALLS: dict[str, Callable[[Any], Any]] = {
    "get": lambda queue: queue.get(timeout=2),
    "stats": lambda queue: queue.stats(timeout=2),
    "peek": lambda queue: queue.peek(timeout=2),
    "put": lambda queue: queue.put(b"x", timeout=2),
    "purge": lambda queue: queue.purge(timeout=2),
}


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalCluster, str, str]]:
    """A cluster, a queue that waits, and for which of its nodes."""
    with LocalCluster(3, tmp_path_factory.mktemp("lost"), 0.3) as cluster:
        cluster.start()
        cluster.wait_for(["n1", "n2", "n3"], 60)
        with snowmelt.connect(cluster.url) as client:
            for number in range(50):
                queue = client.fifo(f"q{number}", replicas=1)
                queue.put(b"before", timeout=30)
                away = str(queue.stats(timeout=20).leader)
                if away != "n1":  # which decides on views
                    break
        next(node for node in cluster.nodes if node.name == away).kill()
        cluster.wait_for([one.name for one in cluster.nodes if one.name != away], 60)
        yield cluster, queue.name, away


@pytest.mark.parametrize("call", CALLS)
def test_it_says_for_whom_it_waits_and_since_when(
    lost: tuple[LocalCluster, str, str], call: str
) -> None:
    cluster, name, away = lost
    with (
        snowmelt.connect(cluster.url) as client,
        pytest.raises(Unavailable, match=rf"queue '{name}' waits for {away}, away for \d+ s"),
    ):
        CALLS[call](client.fifo(name))


def test_who_forgets_the_node_is_shown_the_queue(lost: tuple[LocalCluster, str, str]) -> None:
    cluster, name, away = lost
    ended = piped("forget", away, "--url", cluster.url)
    told = " ".join(ended.stderr.decode().split())
    assert ended.returncode != 0
    assert f"{name}: queue '{name}' waits for {away}" in told
    assert f"snowmelt forget {away} --yes" in told


def test_of_two_that_are_away_both_are_named(tmp_path: Path) -> None:
    """One that is left may not have all that was told, when a put waits for one more at least."""
    with LocalCluster(3, tmp_path, 0.3) as cluster:
        cluster.start()
        cluster.wait_for(["n1", "n2", "n3"], 60)
        with snowmelt.connect(cluster.url) as client:
            for number in range(50):
                queue = client.fifo(f"q{number}")
                queue.put(b"before", timeout=30)
                if queue.stats(timeout=20).leader != "n1":
                    break
            for node in cluster.nodes[1:]:
                node.kill()
            cluster.wait_for(["n1"], 60)
            whom = r"waits for n\d, away for .* s and n\d, away for .* s: too few of the others"
            with pytest.raises((Unavailable, OutcomeUnknown), match=whom):
                client.fifo(queue.name).stats(timeout=5)
