"""Topics over real nodes, one of which dies: everybody hears the same in one order."""

import asyncio
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import LocalCluster, LocalNode
from snowmelt.core.errors import BadOption, TooLarge, Unreachable
from snowmelt.protocols.multicast.calls import BODY_BYTES_MAX


@pytest.fixture
def three(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(3, tmp_path, 0.3) as cluster:
        cluster.start()
        yield cluster


class Ear(threading.Thread):
    """Listens at one node first, until the last message."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.bodies: list[bytes] = []
        self._cluster = snowmelt.connect(url)
        self.subscription = self._cluster.multicast("prices").subscribe(timeout=40)

    def run(self) -> None:
        with self._cluster, self.subscription:
            positions = []
            for message in self.subscription:
                positions.append(message.position)
                self.bodies.append(message.body)
                if message.body == b"last":
                    break
            assert all(one < other for one, other in pairwise(positions))


def first_at(node: LocalNode, cluster: LocalCluster) -> str:
    """The cluster's URL, this node named first."""
    places = [one.url.removeprefix("snowmelt://") for one in cluster.nodes if one is not node]
    return ",".join([node.url, *places])


def test_all_hear_the_same_though_a_node_dies(three: LocalCluster) -> None:
    ears = [Ear(first_at(node, three)) for node in three.nodes for _ in range(2)]
    for ear in ears:
        ear.start()
    published: list[bytes] = []

    def work(name: int, node: LocalNode) -> None:
        with snowmelt.connect(first_at(node, three)) as cluster:
            topic = cluster.multicast("prices")
            for at in range(60):
                body = b"%d.%d" % (name, at)
                topic.publish(body, timeout=40)
                published.append(body)

    crowd = [threading.Thread(target=work, args=one) for one in enumerate(three.nodes)]
    for one in crowd:
        one.start()
    while len(published) < 60:
        time.sleep(0.01)
    three.nodes[2].kill()
    for one in crowd:
        one.join(60)
        assert not one.is_alive()
    assert len(published) == 180
    with snowmelt.connect(three.nodes[0].url) as cluster:
        cluster.multicast("prices").publish(b"last", timeout=30)
    for ear in ears:
        ear.join(60)
        assert not ear.is_alive()
    stayed, moved = ears[:4], ears[4:]
    for ear in stayed:
        assert ear.bodies == stayed[0].bodies
        assert sorted(set(ear.bodies)) == sorted({*published, b"last"})
    for ear in moved:
        places = {body: at for at, body in enumerate(stayed[0].bodies)}
        assert [places[one] for one in ear.bodies] == sorted(places[one] for one in ear.bodies)
        if len(ear.bodies) < len(stayed[0].bodies):
            assert ear.subscription.missed


def test_many_at_once_come_in_the_order_given(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster:
        topic = cluster.multicast("many")
        subscription = topic.subscribe(timeout=5)
        bodies = [b"%d" % at for at in range(5_000)]
        positions = topic.publish_many(bodies)
        assert len(set(positions)) == 5_000
        assert positions == sorted(positions)
        heard = [next(subscription) for _ in bodies]
        assert [one.body for one in heard] == bodies
        assert [one.position for one in heard] == positions
        assert subscription.missed == 0


def test_who_was_too_slow_is_told_that_it_missed_something(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster:
        topic = cluster.multicast("fast")
        topic.publish(b"first")
        subscription = topic.subscribe(timeout=5)
        topic.publish_many([bytes(1 << 20)] * 24)
        assert len(list(zip(range(3), subscription, strict=False))) == 3
        assert subscription.missed == 1


def test_a_subscription_begins_when_it_is_made_and_ends_when_nothing_comes(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster:
        topic = cluster.multicast("now")
        topic.publish(b"before")
        with topic.subscribe(timeout=1) as subscription:
            topic.publish(b"after")
            assert [one.body for one in subscription] == [b"after"]
        subscription = topic.subscribe(timeout=30)
        subscription.close()
        assert list(subscription) == []


def test_a_loop_over_a_closed_cluster_ends(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster:
        subscription = cluster.multicast("closed").subscribe(timeout=0.3)
    with pytest.raises(Unreachable, match="closed"):
        next(subscription)


def test_what_is_no_good_is_refused(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster:
        with pytest.raises(BadOption, match="topic is 'a/b'"):
            cluster.multicast("a/b")
        topic = cluster.multicast("refused")
        with pytest.raises(TooLarge, match="publish where"):
            topic.publish(bytes(BODY_BYTES_MAX + 1))
        with pytest.raises(TypeError, match="several bodies"):
            topic.publish_many(b"one")
        with pytest.raises(TypeError, match="encode"):
            topic.publish("text")  # type: ignore[arg-type]
        with pytest.raises(BadOption, match="timeout"):
            topic.subscribe(timeout=float("nan"))


def test_nobody_there_is_told_in_time() -> None:
    with snowmelt.connect("snowmelt://127.0.0.1:1") as cluster:
        begin = time.monotonic()
        with pytest.raises(Unreachable):
            cluster.multicast("a").publish(b"x", timeout=0.5)
        assert time.monotonic() - begin < 4


def test_the_async_face_hears_what_the_blocking_one_says(node: LocalNode) -> None:
    async def main() -> None:
        async with snowmelt.aio.connect(node.url) as cluster:
            topic = cluster.multicast("both")
            async with await topic.subscribe(timeout=5) as subscription:
                await topic.publish(b"one")
                with snowmelt.connect(node.url) as other:
                    other.multicast("both").publish(b"two")
                await asyncio.gather(*(topic.publish(b"more") for _ in range(50)))
                await topic.publish_many([b"three", b"four"])
                heard = [(await anext(subscription)).body for _ in range(54)]
                assert heard == [b"one", b"two", *[b"more"] * 50, b"three", b"four"]
                assert subscription.missed == 0
            assert [one async for one in subscription] == []

    asyncio.run(asyncio.wait_for(main(), 60))
