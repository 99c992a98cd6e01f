"""A keeper whose disk was harmed: the item comes from another, and is copied anew."""

import time
from pathlib import Path

import pytest

import snowmelt
from snowmelt.cli.local import LocalCluster, LocalNode
from snowmelt.client.fifo.face import Fifo
from snowmelt.store import Store

BODY = b"a body that is found again in the file " * 40
ITEMS = 50


def test_a_flipped_bit_on_the_master_is_served_from_another_copy(tmp_path: Path) -> None:
    with LocalCluster(3, tmp_path, 0.3) as cluster:
        cluster.start()
        with snowmelt.connect(cluster.url) as connection:
            queue = connection.fifo("orders", replicas=3)
            queue.put_many([BODY + b"%04d" % number for number in range(ITEMS)])
            status = queue.stats()
            victim = next(node for node in cluster.nodes if node.name == status.leader)
            victim.kill()
            flipped = _flip(victim)
            victim.start()
            cluster.wait_for([node.name for node in cluster.nodes], 60.0)

            assert flipped
            bodies = _drained(queue)
            assert bodies == [BODY + b"%04d" % number for number in range(ITEMS)]
            assert queue.stats().lost == 0


@pytest.mark.wide
def test_what_was_harmed_is_copied_anew(tmp_path: Path) -> None:
    with LocalCluster(3, tmp_path, 0.3) as cluster:
        cluster.start()
        with snowmelt.connect(cluster.url) as connection:
            queue = connection.fifo("orders", replicas=2, durable_copies=2)
            for number in range(ITEMS):
                queue.put(BODY + b"%04d" % number)
            for node in cluster.nodes:
                node.kill()
            hurt = [node.name for node in cluster.nodes if _flip(node)]
            for node in cluster.nodes:
                node.start()
            cluster.wait_for([node.name for node in cluster.nodes], 60.0)
            assert len(hurt) == 2
            # Both copies of one item are harmed, and of no other: that one is lost, no other.
            bodies = _drained(queue)
            assert len(bodies) >= ITEMS - 1
            assert queue.stats().lost <= 1
            _wait_until_repaired(queue)


def _flip(node: LocalNode) -> bool:
    """Flips a bit of a body in a node's file; False when it keeps none."""
    Store.open(node.folder).close()  # what is in its log goes to the records
    file = node.folder / "records"
    content = bytearray(file.read_bytes())
    at = content.find(BODY[:60])
    if at < 0:
        return False
    content[at + 50] ^= 4
    file.write_bytes(content)
    return True


def _drained(queue: Fifo) -> list[bytes]:
    bodies: list[bytes] = []
    while True:
        try:
            with queue.get_many(7, timeout=5) as items:
                bodies += [bytes(item.body) for item in items]
        except snowmelt.Empty:
            return bodies


def _wait_until_repaired(queue: Fifo) -> None:
    end = time.monotonic() + 30
    while queue.stats().short_of_copies and time.monotonic() < end:
        time.sleep(0.1)
    assert queue.stats().short_of_copies == 0
