"""Settings are altered while programs have the queue open: on a node, and in a folder."""

import threading
import time
from typing import Any

import pytest

import snowmelt
from snowmelt.core.errors import CallerError, Full, NoSuchQueue, QueueExists

Queues = Any  # a cluster of either kind


def test_what_a_shells_put_made_a_program_has_as_it_wants_it(queues: Queues, name: str) -> None:
    queues.fifo(name).put(b"seed")
    wanted = queues.fifo(name, lease=10, replicas=1)
    with pytest.raises(QueueExists, match=f"lease=30, asked 10; .*snowmelt alter {name} --lease 1"):
        wanted.put(b"one")
    queues.fifo(name).alter(lease=10)
    wanted.put(b"one")
    assert [item.body for item in wanted.get_many()] == [b"seed", b"one"]


def test_a_handle_goes_on_when_another_alters_what_it_was_opened_with(
    queues: Queues, name: str
) -> None:
    orders = queues.fifo(name, max_items=1)
    orders.put(b"one")
    with pytest.raises(Full):
        orders.put(b"two", timeout=0)
    queues.fifo(name).alter(max_items=2, max_deliveries=3)
    orders.put(b"two", timeout=0)
    orders._steps._grant = None  # as after any failure: it asks who leads anew
    assert len(orders.get_many()) == 2
    settings = orders.stats().settings
    assert (settings.items_max, settings.deliveries_max) == (2, 3)


def test_a_put_that_waits_comes_in(queues: Queues, name: str) -> None:
    orders = queues.fifo(name, max_items=1)
    orders.put(b"one")
    waits = threading.Thread(target=orders.put, args=(b"two",), kwargs={"timeout": 60})
    waits.start()
    while not orders.stats().waiting_puts:
        time.sleep(0.01)
    orders.alter(max_items=0)
    waits.join(30)
    assert not waits.is_alive()
    assert orders.stats().ready == 2


def test_a_consumer_keeps_what_it_has_while_leases_get_shorter(queues: Queues, name: str) -> None:
    """Its own word of how long they last would have it extend them far too late."""
    orders = queues.fifo(name, lease=60)
    orders.put_many([b"old", b"new"])
    done: list[bytes] = []
    with orders.consume(prefetch=1, timeout=0) as loop:
        for item in loop:
            if item.body == b"old":
                queues.fifo(name).alter(lease=2)
            else:
                time.sleep(3)
            item.ack()
            done.append(item.body)
    assert done == [b"old", b"new"]
    status = orders.stats()
    assert (status.done, status.ready, status.leased) == (2, 0, 0)


def test_an_item_in_hand_is_held_for_as_long_as_it_was_given(queues: Queues, name: str) -> None:
    orders = queues.fifo(name, lease=60)
    orders.put(b"one")
    item = orders.get()
    orders.alter(lease=0.1)
    time.sleep(0.5)
    assert queues.fifo(name).stats().leased == 1
    item.ack()


def test_a_queue_with_priorities_is_altered_too(queues: Queues, name: str) -> None:
    jobs = queues.priority(name, priorities=float)
    jobs.put(b"one", priority=0.5)
    jobs.alter(max_items=1)
    with pytest.raises(Full):
        jobs.put(b"two", priority=0.1, timeout=0)
    assert jobs.get().body == b"one"


@pytest.mark.parametrize(
    ("some", "text"),
    [
        ({"lease": 0}, "lease is 0; allowed: 0.1 to 43200 seconds"),
        ({"priorities": 3}, "option is 'priorities'; allowed: replicas, .*make another of a new"),
        ({}, "option is 'nothing'; allowed: replicas"),
        ({"replicas": 2}, "replicas is 2; allowed: at most 1, the nodes present"),
        ({"durable_copies": 2}, "durable_copies is 2; allowed: 0 to 1"),
    ],
)
def test_what_can_not_be_had_says_so(
    queues: Queues, name: str, some: dict[str, Any], text: str
) -> None:
    orders = queues.fifo(name)
    orders.put(b"one")
    with pytest.raises(CallerError, match=text):
        orders.alter(**some)


def test_no_queue_is_made_by_altering_it(queues: Queues, name: str) -> None:
    with pytest.raises(NoSuchQueue, match=f"there is no queue '{name}'"):
        queues.fifo(name).alter(lease=10)


def test_it_is_so_after_the_folder_was_closed(tmp_path: Any) -> None:
    with snowmelt.open(tmp_path / "q") as cluster:
        orders = cluster.fifo("orders")
        orders.put(b"one")
        orders.alter(max_items=5)
    with snowmelt.open(tmp_path / "q") as cluster:
        assert cluster.fifo("orders", max_items=5).get().body == b"one"
