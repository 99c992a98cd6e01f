"""Order, limits and fairness by key, as a program has them: on a node, and in a folder."""

import asyncio
import re
import threading
import time
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.core.errors import BadOption, CallerError, Empty, Full, QueueExists
from snowmelt.protocols.queue.api.partition_names import home_of

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


def test_a_key_lives_in_one_of_several_partitions(queues: Queues, name: str) -> None:
    jobs = queues.fifo(name, in_order_by_key=True, partitions=3)
    keys = [f"t{at}" for at in range(9)]
    jobs.put_many([b"%d" % at for at in range(27)], key=keys * 3, headers={"from": "shop"})
    for at in range(27, 36):
        jobs.put(b"%d" % at, key=keys[at % 9])
    for part in jobs.parts():
        assert part.stats().ready == 4 * part.stats().keys
    assert jobs.stats().keys == 9
    came: list[int] = []
    for turn in range(4):
        items = jobs.get_many(99, timeout=30)
        came += [int(body) for body in bodies(items)]
        assert [item.key.decode() for item in items] == [keys[int(item.body) % 9] for item in items]
        assert sorted(came) == list(range(9 * (turn + 1))), "one of each key, in the keys' order"
        with pytest.raises(Empty):
            jobs.get(timeout=0)
        items.ack()


def test_a_get_waits_for_a_key_of_another_partition(queues: Queues, name: str) -> None:
    jobs = queues.fifo(name, at_once_by_key=1, partitions=2)
    jobs.put_many([b"one", b"two"], key="a")
    first = jobs.get(timeout=30)
    waits: list[bytes] = []
    taker = threading.Thread(target=lambda: waits.append(jobs.get(timeout=30).body))
    taker.start()
    while not jobs.stats().waiting_gets:
        time.sleep(0.01)
    time.sleep(0.2)
    assert waits == []
    first.nack(reason="again")
    taker.join(30)
    assert waits == [b"one"]


def test_threads_put_each_key_where_it_lives(queues: Queues, name: str) -> None:
    jobs = queues.fifo(name, in_order_by_key=True, partitions=3, max_items=300)
    keys = [f"t{at}" for at in range(8)]

    def puts(key: str) -> None:
        for at in range(20):
            jobs.put(b"%d" % at, key=key)

    threads = [threading.Thread(target=puts, args=(key,)) for key in keys]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    came: dict[bytes, list[bytes]] = {}
    for _ in range(160):
        item = jobs.get(timeout=30)
        came.setdefault(item.key, []).append(item.body)
        item.ack()
    assert came == {key.encode(): [b"%d" % at for at in range(20)] for key in keys}


def test_a_named_producers_number_counts_in_each_partition(queues: Queues, name: str) -> None:
    keys = [f"t{at}" for at in range(9)]
    for _ in range(2):
        jobs = queues.fifo(name, partitions=3, in_order_by_key=True, producer="loader")
        jobs.put_many([b""] * 9, key=keys, sequence=7)
    assert jobs.stats().ready == 9


def test_what_lives_elsewhere_is_not_put_into_a_partition(queues: Queues, name: str) -> None:
    jobs = queues.fifo(name, partitions=2, in_order_by_key=True)
    jobs.put(b"", key="a")
    refused = 0
    for part in jobs.parts():
        try:
            part.put(b"", key="a")
        except CallerError as error:
            assert f"key is b'a'; allowed in {part.name!r}" in str(error)  # noqa: PT017
            refused += 1
    assert refused == 1


def test_a_schedule_with_a_key_is_of_the_partition_in_which_that_lives(
    queues: Queues, name: str
) -> None:
    jobs = queues.fifo(name, partitions=2)
    key = next(key for key in "abcdefgh" if home_of(key.encode(), 2) == 1)
    with pytest.raises(CallerError, match=f"those that live there; its is '{name}/1'"):
        jobs.schedule("sweep", b"all", every="1s", key=key)
    jobs.parts()[1].schedule("sweep", b"all", every="1s", key=key)
    assert jobs.get(timeout=30).key == key.encode()
    jobs.parts()[1].unschedule("sweep")


def test_what_has_no_room_in_its_partition_says_what_else_is_in(queues: Queues, name: str) -> None:
    jobs = queues.fifo(name, partitions=2, in_order_by_key=True, max_items=8)
    key, other = (next(k for k in "abcdefgh" if home_of(k.encode(), 2) == at) for at in (0, 1))
    jobs.put_many([b""] * 4, key=key)
    with pytest.raises(Full, match="4 items") as info:
        jobs.put_many([b"", b""], key=[key, other], timeout=0)
    assert "whose keys live in 1 of 2 partitions" in "".join(info.value.__notes__)
    assert jobs.stats().ready == 5


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


def test_a_key_of_weight_three_has_three_items_for_one_of_the_others(
    queues: Queues, name: str
) -> None:
    jobs = queues.fifo(name, fair=True, weights={"gold": 3})
    jobs.put_many([b""] * 60, key=["gold", "plain", "other"] * 20)

    def came(count: int) -> dict[bytes, int]:
        items = [jobs.get(timeout=5) for _ in range(count)]
        for one in items:
            one.ack()
        return Counter([one.key for one in items])

    assert came(10) == {b"gold": 6, b"plain": 2, b"other": 2}
    jobs.alter(weights={b"gold": 1, "other": 2})
    assert jobs.stats().settings.weights == ((b"other", 2),)
    assert came(8) == {b"gold": 2, b"plain": 2, b"other": 4}


@pytest.mark.parametrize(
    ("weights", "why"),
    [
        ({"a": 0}, "the weight of b'a' is 0; allowed: 1 to 1000"),
        ({"a": 1.5}, "the weight of b'a' is 1.5; allowed: 1 to 1000"),
        ({"": 2}, "text or bytes, of 1 to 256 bytes"),
        ([("a", 2)], "a mapping of keys to whole numbers"),
        ({f"t{at}": 2 for at in range(101)}, "weights is '101 keys'; allowed: at most 100"),
    ],
)
def test_weights_that_can_not_be_are_refused(
    queues: Queues, name: str, weights: Any, why: str
) -> None:
    with pytest.raises(BadOption, match=why):
        queues.fifo(name, fair=True, weights=weights).create()


def test_weights_are_for_fair_queues_and_go_to_sleep_with_that(queues: Queues, name: str) -> None:
    refused = re.escape("weights is {'a': 2}; allowed: only with fair=True")
    with pytest.raises(BadOption, match=refused):
        queues.fifo(name, weights={"a": 2}).create()
    jobs = queues.fifo(name)
    jobs.create()
    with pytest.raises(CallerError, match=refused):
        jobs.alter(weights={"a": 2})
    jobs.alter(weights={"a": 2}, fair=True)
    jobs.alter(fair=False)
    jobs.alter(fair=True)
    assert jobs.stats().settings.weights == ((b"a", 2),)
    with pytest.raises(QueueExists, match=f"alter {name} --weight a=1 --weight 'b c=3'"):
        queues.fifo(name, fair=True, weights={"b c": 3}).create()


@pytest.mark.parametrize("key", ["", b"x" * 257, 7])
def test_what_is_no_key_is_refused(queues: Queues, name: str, key: Any) -> None:
    with pytest.raises(BadOption, match="allowed: text or bytes, of 1 to 256 bytes"):
        queues.fifo(name).put(b"", key=key)
    with pytest.raises(BadOption, match="allowed: text or bytes, of 1 to 256 bytes"):
        queues.fifo(name).put_many([b""], key=[key])


def test_keys_are_as_many_as_bodies(queues: Queues, name: str) -> None:
    with pytest.raises(BadOption, match="one for all bodies, or as many as bodies"):
        queues.fifo(name).put_many([b"", b""], key=["a"])
    with pytest.raises(BadOption, match="one for all bodies, or as many as bodies"):
        queues.fifo(name).put_many([b"", b""], key=["a", "b", "c"])
    with pytest.raises(BadOption, match="2 keys"):
        queues.fifo(name).put(b"", key=["a", "b"])


class OddBytes(bytes):
    pass


class Odd(StrEnum):
    TEXT = "text"


def test_keys_may_be_of_classes_of_their_own(queues: Queues, name: str) -> None:
    jobs = queues.fifo(name, in_order_by_key=True)
    jobs.put(b"", key=OddBytes(b"bytes"))
    jobs.put_many([b"", b""], key=[OddBytes(b"other"), Odd.TEXT])
    assert [one.key for one in jobs.get_many(9)] == [b"bytes", b"other", b"text"]


def test_settings_that_can_not_be_are_refused(queues: Queues, name: str) -> None:
    with pytest.raises(BadOption, match="partitions is 2; allowed: 1 in a queue with fair"):
        queues.fifo(name, partitions=2, fair=True).create()
    with pytest.raises(BadOption, match="at_once is 1; allowed: 2 or more, since each partition"):
        queues.fifo(name, partitions=2, at_once=1).create()
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
        jobs.alter(fair=True, weights={"a": 2})
    with snowmelt.open(tmp_path) as cluster:
        assert bodies(cluster.fifo("jobs").get_many(9, timeout=5)) == [b"3"]
        assert cluster.fifo("jobs").stats().settings.weights == ((b"a", 2),)


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
