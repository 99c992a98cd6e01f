"""Order, limits and fairness by key, as a program has them: on a node, and in a folder."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.core.errors import BadOption, Empty, QueueExists

Queues = Any  # a cluster of either kind


def bodies(items: Any) -> list[bytes]:
    return [item.body for item in items]


def test_the_next_of_a_key_comes_when_the_last_was_acknowledged(queues: Queues, name: str) -> None:
    jobs = queues.fifo(name, in_order_by_key=True)
    jobs.put(b"one", key="a", headers={"from": "shop"})
    jobs.put(b"two", key="a")
    jobs.put_many([b"three", b"four"], key=[b"b", None])
    items = jobs.get_many(9)
    assert [(item.body, item.key) for item in items] == [
        (b"one", b"a"), (b"three", b"b"), (b"four", None)
    ]  # fmt: skip
    assert next(iter(items)).headers == {"from": "shop"}
    with pytest.raises(Empty):
        jobs.get(timeout=0)
    waits: list[bytes] = []
    taker = threading.Thread(target=lambda: waits.append(jobs.get(timeout=30).body))
    taker.start()
    while not jobs.stats().waiting_gets:
        time.sleep(0.01)
    items.ack()
    taker.join(30)
    assert waits == [b"two"]


def test_limits_are_altered_while_a_get_waits(queues: Queues, name: str) -> None:
    jobs = queues.priority(name, priorities=int, at_once=1)
    jobs.put_many([(5, b"later"), (-5, b"sooner")], key="a")
    first = jobs.get(timeout=5)
    assert first.body == b"sooner"
    got: list[bytes] = []
    taker = threading.Thread(target=lambda: got.append(jobs.get(timeout=30).body))
    taker.start()
    while not jobs.stats().waiting_gets:
        time.sleep(0.01)
    jobs.alter(at_once=0, fair=True)
    taker.join(30)
    assert got == [b"later"]


def test_puts_that_go_together_keep_each_their_own_key(queues: Queues, name: str) -> None:
    jobs = queues.fifo(name, at_once_by_key=1)
    threads = [
        threading.Thread(target=jobs.put, args=(b"%d" % at,), kwargs={"key": key})
        for at, key in enumerate(["a", None, "b"] * 10)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join(30)
    came = [(item.key, int(item.body) % 3) for item in jobs.get_many(99)]
    assert sorted(came, key=str) == [(None, 1)] * 10 + [(b"a", 0), (b"b", 2)]


def test_a_rate_is_kept_and_a_waiting_get_needs_no_word(queues: Queues, name: str) -> None:
    jobs = queues.fifo(name, per_second_by_key=5)
    jobs.put_many([b""] * 12, key="a")
    times = []
    for _ in range(12):
        jobs.get(timeout=30).ack()
        times.append(time.monotonic())
    assert times[10] - times[0] > 1.5, "in no second more than five"
    assert all(later - first > 0.9 for first, later in zip(times, times[5:], strict=False))


def test_many_items_of_one_delay_none_of_the_others(queues: Queues, name: str) -> None:
    jobs = queues.fifo(name, fair=True)
    jobs.put_many([b"loud"] * 300, key="loud")
    others = [f"t{who}" for who in range(9)]
    jobs.put_many([b"%d" % turn for turn in range(3) for _ in others], key=others * 3)
    came: list[bytes] = []
    while sum(body != b"loud" for body in came) < 27:
        item = jobs.get(timeout=5)
        came.append(item.body)
        item.ack()
    for at, body in enumerate(came):
        if body != b"loud":  # the loud one has one turn, as each of the nine
            assert at <= 1.2 * (10 * (int(body) + 1) - 1)


def test_a_quiet_tenant_does_not_wait_for_a_loud_one(queues: Queues, name: str) -> None:
    jobs = queues.fifo(name, fair=True)
    jobs.put_many([b"loud"] * 1000, key="loud")
    jobs.put_many([b"quiet"] * 5, key="quiet")
    assert bodies(jobs.get() for _ in range(4)) == [b"loud", b"quiet"] * 2


@pytest.mark.parametrize("key", ["", b"x" * 257, 7])
def test_what_is_no_key_is_refused(queues: Queues, name: str, key: Any) -> None:
    with pytest.raises(BadOption, match="allowed: text or bytes, of 1 to 256 bytes"):
        queues.fifo(name).put(b"", key=key)
    with pytest.raises(BadOption, match="allowed: text or bytes, of 1 to 256 bytes"):
        queues.fifo(name).put_many([b""], key=[key])


def test_keys_are_as_many_as_bodies(queues: Queues, name: str) -> None:
    with pytest.raises(BadOption, match="one for all bodies, or as many as bodies"):
        queues.fifo(name).put_many([b"", b""], key=["a"])


def test_settings_that_can_not_be_are_refused(queues: Queues, name: str) -> None:
    with pytest.raises(BadOption, match="partitions is 2; allowed: 1 in a queue with at_once"):
        queues.fifo(name, partitions=2, at_once=3).create()
    with pytest.raises(BadOption, match="fair is 1; allowed: True or False"):
        queues.fifo(name, fair=1).create()
    jobs = queues.fifo(name, fair=True)
    jobs.create()
    with pytest.raises(QueueExists, match=f"alter {name} --in-order-by-key --no-fair"):
        queues.fifo(name, in_order_by_key=True).create()


def test_a_folder_knows_what_is_in_order_when_it_is_opened_again(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        jobs = cluster.fifo("jobs", in_order_by_key=True)
        jobs.put_many([b"1", b"2", b"3"], key=["a", "a", "b"])
        jobs.get().nack(delay=60, reason="later")
    with snowmelt.open(tmp_path) as cluster:
        assert bodies(cluster.fifo("jobs").get_many(9, timeout=5)) == [b"3"]


def test_with_await(tmp_path: Path) -> None:
    async def main() -> list[bytes]:
        async with snowmelt.aio.open(tmp_path) as cluster:
            jobs = cluster.fifo("jobs", in_order_by_key=True)
            await asyncio.gather(*[jobs.put(b"%d" % at, key="a") for at in range(5)])
            order: list[bytes] = []

            async def work() -> None:
                while len(order) < 5:
                    try:
                        async with await jobs.get(timeout=1) as item:
                            order.append(item.body)
                    except Empty:
                        return

            await asyncio.gather(*[work() for _ in range(3)])
            return order

    assert asyncio.run(main()) == [b"%d" % at for at in range(5)]


def test_a_schedule_puts_with_its_key(queues: Queues, name: str) -> None:
    jobs = queues.fifo(name, in_order_by_key=True)
    jobs.schedule("sweep", b"all", every="1s", key="tenant-7", headers={"from": "shop"})
    item = jobs.get(timeout=30)
    assert (item.body, item.key) == (b"all", b"tenant-7")
    assert item.headers["schedule"] == "sweep"
    assert item.headers["from"] == "shop"
    jobs.unschedule("sweep")
    jobs.put(b"later", key="tenant-7")
    jobs.put(b"other", key="tenant-8")
    assert jobs.get(timeout=5).body == b"other", "the key is held up by the schedule's item"
    assert jobs.stats().keys == 2
    with pytest.raises(BadOption, match="key"):
        jobs.schedule("sweep", b"all", every="1s", key="")
