"""What the docs of queues promise, tried for each order, in a folder and at two nodes of three."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

import snowmelt
from snowmelt.cli.local import LocalCluster
from snowmelt.core.errors import (
    BadOption,
    Empty,
    Full,
    LeaseLost,
    NoSuchQueue,
    QueueExists,
)


class Order(NamedTuple):
    """An order, and three of its priorities, the most urgent first."""

    settings: dict[str, Any]
    priorities: tuple[Any, Any, Any] | None


ORDERS = {
    "fifo": Order({}, None),
    "numbered": Order({"priorities": 4}, (0, 1, 3)),
    "any": Order({}, (-(2**63), 0, 10**15)),
    "fractions": Order({"priorities": float, "largest_first": True}, (2.5, 0.0, -0.5)),
}


class Two:
    """One queue of an order, as the clients of two nodes have it."""

    def __init__(self, order: Order, clusters: tuple[Any, Any], name: str) -> None:
        self.order, self.clusters, self.name = order, clusters, name

    def made(self, **settings: Any) -> tuple[Any, Any]:
        """The first makes it with its first put; the second takes it as it is."""
        one, other = self.clusters
        if self.order.priorities is None:
            return one.fifo(self.name, **settings), other.fifo(self.name)
        return one.priority(self.name, **self.order.settings, **settings), other.priority(self.name)

    def put(self, queue: Any, *bodies: bytes, rank: int = 1, **options: Any) -> None:
        if self.order.priorities is not None:
            options["priority"] = self.order.priorities[rank]
        queue.put_many(bodies, **options)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Any, Any]]]:
    with ExitStack() as leave:
        folder = leave.enter_context(snowmelt.open(tmp_path_factory.mktemp("folder")))
        nodes = leave.enter_context(LocalCluster(3, tmp_path_factory.mktemp("nodes"), 0.5))
        nodes.start()
        one, other, _ = [leave.enter_context(snowmelt.connect(node.url)) for node in nodes.nodes]
        yield {"folder": (folder, folder), "nodes": (one, other)}


@pytest.fixture(params=["folder", "nodes"])
def clusters(request: pytest.FixtureRequest, places: Any) -> tuple[Any, Any]:
    return places[request.param]


@pytest.fixture(params=ORDERS)
def two(request: pytest.FixtureRequest, clusters: tuple[Any, Any], name: str) -> Two:
    return Two(ORDERS[request.param], clusters, name)


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "after some"])
def test_a_dead_letter_tells_how_often_it_failed(two: Two, at_once: bool) -> None:
    one, other = two.made(max_deliveries=3)
    two.put(one, b"bad", b"good")
    times = 1 if at_once else 3
    for _ in range(times):
        other.get(timeout=5).nack(reason="no", dead=at_once)
    [dead] = other.peek(dead=True)
    assert (dead.body, dead.failures, dead.reason) == (b"bad", times, "no")
    assert one.redrive() == 1
    again = one.get(timeout=5)
    assert (again.body, again.failures) == (b"bad", 0)


def test_what_never_fits_is_refused_at_once_and_named(two: Two) -> None:
    one, other = two.made(max_items=3, max_bytes=20)
    two.put(one, b"a")
    with pytest.raises(Full, match="4 items in 4 bytes never fit into queue") as refused:
        two.put(other, *[b"x"] * 4, timeout=600)
    assert str(refused.value).endswith("its bounds are 3 items and 20 bytes")
    with pytest.raises(Full, match="1 items in 21 bytes never fit into queue"):
        two.put(other, bytes(21), timeout=600)
    with pytest.raises(Full, match="holds 1 items in 1 bytes; its bounds are 3 items and 20 bytes"):
        two.put(other, *[b"x"] * 3, timeout=0)
    two.put(other, b"x", b"x", timeout=0)
    assert one.stats().ready == 3


def test_a_queue_with_priorities_is_taken_for_no_fifo(clusters: tuple[Any, Any], name: str) -> None:
    one, other = clusters
    one.priority(name, priorities=2).put(b"a", priority=1)
    for taken in (other.fifo(name), other.fifo(name, lease=7)):
        for ask in (
            taken.get, taken.peek, taken.stats, taken.purge, taken.redrive, taken.pause,
            taken.resume, taken.groups, taken.survey, taken.group("g").advance,
        ):  # fmt: skip
            with pytest.raises(QueueExists):
                ask()
        with pytest.raises(QueueExists):
            taken.put(b"x")
    assert one.priority(name).get(timeout=0).body == b"a"


def test_to_look_at_a_queue_makes_none(two: Two) -> None:
    for queue in two.made():
        for ask in (queue.stats, queue.peek, queue.purge, queue.redrive, queue.pause, queue.groups):
            with pytest.raises(NoSuchQueue):
                ask()
        with pytest.raises(NoSuchQueue):
            queue.group("g").advance()
    with pytest.raises(Empty, match="the first put makes it"):
        two.made()[1].get(timeout=0)


@pytest.mark.parametrize("wrong", [True, "3", 2**63, 0.5])
def test_a_priority_that_there_is_not_is_told_which_there_are(
    clusters: tuple[Any, Any], name: str, wrong: Any
) -> None:
    jobs = clusters[0].priority(name, priorities=4)
    with pytest.raises(BadOption) as refused:
        jobs.put(b"x", priority=wrong)
    assert "or a float" not in str(refused.value)


def at_once(*calls: Callable[[], Any]) -> list[BaseException | None]:
    """Each in a thread of its own; what it failed with."""
    together, ended = threading.Barrier(len(calls)), [None] * len(calls)

    def one(at: int) -> None:
        together.wait()
        try:
            calls[at]()
        except Exception as error:
            ended[at] = error  # type: ignore[call-overload]

    threads = [threading.Thread(target=one, args=(at,)) for at in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return list(ended)


def test_what_goes_together_is_refused_each_for_itself(two: Two) -> None:
    one, other = two.made(max_items=5, max_bytes=1000)
    two.put(one, b"made")
    one.get(timeout=5).ack()
    options = {} if two.order.priorities is None else {"priority": two.order.priorities[0]}
    large = at_once(
        lambda: one.put(bytes(1001), timeout=0, **options),
        *[lambda: one.put(b"small", timeout=0, **options)] * 4,
    )
    assert [type(error) for error in large] == [Full, *[type(None)] * 4]
    assert "1 items in 1001 bytes never fit" in str(large[0])
    refused = at_once(*[lambda: one.put(b"more", timeout=0, **options)] * 16)
    assert sum(error is None for error in refused) == 1
    assert all("holds 5 items" in str(error) for error in refused if error is not None)
    assert other.stats().ready == 5


@pytest.mark.parametrize("how", ["acknowledged", "dead", "purged"])
def test_room_wakes_who_waits_for_it(two: Two, how: str) -> None:
    one, other = two.made(max_items=1)
    two.put(one, b"first")
    waits = threading.Thread(target=lambda: two.put(other, b"second", timeout=60))
    waits.start()
    while not one.stats().waiting_puts:
        pass
    if how == "purged":
        assert one.purge() == 1
    else:
        item = one.get(timeout=5)
        item.ack() if how == "acknowledged" else item.nack(dead=True)
    waits.join(30)
    assert not waits.is_alive()
    assert other.get(timeout=5).body == b"second"


def test_who_comes_too_late_hears_of_it_while_the_item_is_there(two: Two) -> None:
    one, other = two.made(lease=0.2)
    two.put(one, b"slow")
    late = one.get(timeout=5)
    held = other.get(timeout=30)
    assert (held.body, held.failures) == (b"slow", 1)
    for settle in (late.ack, late.nack, late.release, late.extend):
        with pytest.raises(LeaseLost):
            settle()


def test_zeros_are_equal_whatever_their_signs(clusters: tuple[Any, Any], name: str) -> None:
    one, other = clusters
    jobs = one.priority(name, priorities=float)
    for body, priority in ((b"a", 0.0), (b"b", -0.0), (b"c", 0), (b"d", -0.0)):
        jobs.put(body, priority=priority)
    assert [item.body for item in other.priority(name).get_many(9)] == [b"a", b"b", b"c", b"d"]
