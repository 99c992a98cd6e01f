"""A queue of several partitions is one queue to a program: all it could do before, in one order."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.core.errors import (
    BadOption,
    CallerError,
    Empty,
    Full,
    LeaseLost,
    NoSuchQueue,
    QueueDeleted,
    QueueExists,
)
from snowmelt.core.interval import Interval
from timing import in_time, in_vain, until

Queues = snowmelt.Cluster | snowmelt.EmbeddedCluster


@pytest.fixture
def log(queues: Queues, name: str) -> Any:
    return queues.fifo(name, partitions=3)


def bodies(items: Any) -> list[bytes]:
    return [item.body for item in items]


# --- one order ------------------------------------------------------------------------------------


def test_puts_come_out_in_the_order_in_which_they_went_in(log: Any) -> None:
    positions = [log.put(b"%d" % at) for at in range(20)]
    assert positions == list(range(20))
    assert bodies(log.peek(30)) == [b"%d" % at for at in range(20)]
    with log.get_many(7) as items:
        assert bodies(items) == [b"%d" % at for at in range(7)]
        assert items.positions == (Interval(0, 7),)
        assert [bytes(body) for body in items.batch] == bodies(items)
    assert log.get().body == b"7"
    assert log.stats().ready == 12


def test_what_is_put_at_once_lies_together(log: Any) -> None:
    assert log.put_many([b"a", b"b", b"c"]) == (Interval(0, 3),)
    assert log.put_many([b"d", b"e"]) == (Interval(3, 5),)
    assert bodies(log.get_many()) == [b"a", b"b", b"c", b"d", b"e"]


def test_what_goes_back_comes_again_at_its_own_place(log: Any) -> None:
    log.put_many([b"0", b"1"])
    log.put_many([b"2", b"3"])
    log.put_many([b"4", b"5"])
    items = log.get_many(6)
    for item in items:
        if item.body in (b"1", b"4"):
            item.nack(reason="too hot")
    items.ack()
    again = log.get_many(6)
    assert [(one.body, one.failures, one.reason) for one in again] == [
        (b"1", 1, "too hot"),
        (b"4", 1, "too hot"),
    ]
    again.release()
    assert [one.failures for one in log.get_many()] == [1, 1]


def test_one_is_acknowledged_and_the_rest_is_held(log: Any) -> None:
    for at in range(6):
        log.put(b"%d" % at)
    items = log.get_many(6)
    next(iter(items)).ack()
    items.extend()
    assert log.stats().leased == 5
    items.ack()
    assert (log.stats().leased, log.stats().done) == (0, 6)
    with pytest.raises(Empty):
        log.get(timeout=0)


def test_an_acknowledgement_travels_with_the_next_get(log: Any) -> None:
    log.put_many([b"0", b"1"])
    log.put_many([b"2", b"3"])
    items = log.get_many(3)
    items = log.get_many(3, ack=items)
    assert bodies(items) == [b"3"]
    assert log.stats().done == 3
    items.ack()


def test_a_lease_that_ended_is_lost_and_comes_to_others(queues: Queues, name: str) -> None:
    log = queues.fifo(name, partitions=3, lease=0.3)
    for at in range(3):
        log.put(b"%d" % at)
    items = log.get_many(3)
    log.alter(lease=60)
    time.sleep(0.5)
    again = log.get_many(3, timeout=20)
    assert [one.body for one in again][:1] == [b"0"]
    with pytest.raises(LeaseLost):
        items.ack()
    again.ack()


def test_headers_delays_and_times_go_along(log: Any) -> None:
    log.put(b"late", delay=1.5, headers={"kind": "late"})
    log.put(b"now", headers={"kind": "now"})
    first = log.get(timeout=5)
    assert (first.body, first.headers["kind"], first.put_at is not None) == (b"now", "now", True)
    late = log.get(timeout=5)
    assert (late.body, late.headers["kind"], late.position) == (b"late", "late", 0)


def test_large_bodies_come_whole(log: Any) -> None:
    large = [random.Random(at).randbytes(3 << 20) for at in range(6)]
    for one in large:
        log.put(one)
    assert [bytes(body) for body in log.get_many(6, bytes_max=64 << 20).batch] == large


# --- waiting --------------------------------------------------------------------------------------


def test_a_get_waits_for_what_comes_into_any_partition(log: Any) -> None:
    log.put(b"first")
    log.get().ack()
    for at in range(3):
        found: list[bytes] = []
        waits = threading.Thread(target=lambda: found.append(log.get(timeout=10).body))  # noqa: B023
        waits.start()
        time.sleep(0.2)
        log.put(b"%d" % at)
        waits.join(10)
        assert found == [b"%d" % at]


def test_empty_says_so_in_time_and_a_queue_that_is_not_there_is_waited_for(
    queues: Queues, name: str
) -> None:
    log = queues.fifo(name, partitions=3)
    told = in_time(3, lambda: in_vain(Empty, lambda: log.get(timeout=0.5)), least=0.45)
    assert "nothing came into" in str(told)
    with pytest.raises(NoSuchQueue):
        queues.fifo(f"{name}-other").stats()


def test_a_get_does_not_pass_what_its_client_put_before(log: Any) -> None:
    log.put(b"0")
    threads = [threading.Thread(target=log.put, args=(b"%d" % at,)) for at in range(1, 20)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(log.get_many(20, timeout=0)) == 20


# --- bounds ---------------------------------------------------------------------------------------


def test_full_is_said_when_no_partition_has_room(queues: Queues, name: str) -> None:
    log = queues.fifo(name, partitions=3, max_items=6)
    for at in range(6):
        log.put(b"%d" % at, timeout=0)
    with pytest.raises(Full, match="none of the 3 partitions"):
        log.put(b"more", timeout=0)
    in_vain(Full, lambda: log.put(b"more", timeout=0.4))
    assert log.stats().ready == 6


def test_a_put_waits_for_room_in_any_partition(queues: Queues, name: str) -> None:
    log = queues.fifo(name, partitions=3, max_items=3)
    for at in range(3):
        log.put(b"%d" % at)
    waits = threading.Thread(target=log.put, args=(b"3",), kwargs={"timeout": 20})
    waits.start()
    time.sleep(0.3)
    assert waits.is_alive()
    log.get().ack()
    waits.join(10)
    assert not waits.is_alive()
    assert bodies(log.get_many()) == [b"1", b"2", b"3"]


# --- producers ------------------------------------------------------------------------------------


def test_a_number_that_was_used_is_told_its_first_answer(queues: Queues, name: str) -> None:
    log = queues.fifo(name, partitions=4, producer="loader")
    first = [log.put(b"%d" % at, sequence=at) for at in range(5)]
    assert [log.put(b"%d" % at, sequence=at) for at in range(5)] == first
    other = queues.fifo(name, producer="loader")
    assert other.put(b"2", sequence=2) == first[2]
    assert log.stats().ready == 5


# --- priorities -----------------------------------------------------------------------------------


@pytest.mark.parametrize("priorities", [4, int, float])
@pytest.mark.parametrize("largest_first", [False, True])
def test_the_most_urgent_comes_first_of_all_partitions(
    queues: Queues, name: str, priorities: Any, largest_first: bool
) -> None:
    chance = random.Random(7)
    jobs = queues.priority(name, partitions=3, priorities=priorities, largest_first=largest_first)
    numbers = [chance.randrange(4) for _ in range(60)]
    if priorities is float:
        numbers = [one / 8 for one in numbers]  # type: ignore[misc]
    for at in range(0, 60, 5):
        jobs.put_many([(numbers[one], b"%d" % one) for one in range(at, at + 5)])
    order = sorted(range(60), key=lambda at: (-numbers[at] if largest_first else numbers[at], at))
    assert [(one.body, one.priority) for one in jobs.peek(25)] == [
        (b"%d" % at, numbers[at]) for at in order[:25]
    ]
    for rank in (1, 7, 33, 60):
        seen = jobs.select(rank)
        assert (seen.body, seen.priority) == (b"%d" % order[rank - 1], numbers[order[rank - 1]])
    assert jobs.select(61) is None
    assert jobs.quantile(0.5).body == b"%d" % order[29]
    got: list[tuple[bytes, float]] = []
    while len(got) < 60:
        with jobs.get_many(13) as items:
            got += [(one.body, one.priority) for one in items]
    assert got == [(b"%d" % at, numbers[at]) for at in order]


def test_a_loop_hands_out_what_is_more_urgent_before_the_rest(queues: Queues, name: str) -> None:
    jobs = queues.priority(name, partitions=3, priorities=int)
    jobs.put_many([(5, b"%d" % at) for at in range(6)])
    seen: list[bytes] = []
    with jobs.consume(prefetch=6, timeout=0) as loop:
        for item in loop:
            seen.append(item.body)
            item.ack()
            if item.body == b"2":
                jobs.put(b"urgent", priority=1)
                time.sleep(0.3)
    assert seen == [b"0", b"1", b"2", b"urgent", b"3", b"4", b"5"]


# --- loops ----------------------------------------------------------------------------------------


def test_a_loop_over_all_of_it_acknowledges_as_it_goes(log: Any) -> None:
    for at in range(0, 300, 10):
        log.put_many([b"%d" % one for one in range(at, at + 10)])
    seen = []
    with log.consume(timeout=0) as loop:
        for item in loop:
            seen.append(int(item.body))
            item.ack()
    assert seen == list(range(300))
    assert (log.stats().done, log.stats().leased) == (300, 0)


def test_what_a_loop_leaves_goes_back_and_what_was_in_hand_failed(log: Any) -> None:
    for at in range(9):
        log.put(b"%d" % at)

    def work() -> None:
        with log.consume(prefetch=9, timeout=0) as loop:
            for item in loop:
                if item.body == b"4":
                    raise RuntimeError("no")
                item.ack()

    with pytest.raises(RuntimeError):
        work()
    assert [(one.body, one.failures) for one in log.peek(9)] == [
        (b"4", 1),
        (b"5", 0),
        (b"6", 0),
        (b"7", 0),
        (b"8", 0),
    ]


def test_leases_of_a_loop_are_renewed_in_each_partition(queues: Queues, name: str) -> None:
    log = queues.fifo(name, partitions=3, lease=2)
    for at in range(6):
        log.put(b"%d" % at)
    seen = []
    with log.consume(prefetch=6, timeout=0) as loop:
        for item in loop:
            time.sleep(0.5)
            item.ack()
            seen.append((item.body, item.failures))
    assert seen == [(b"%d" % at, 0) for at in range(6)]
    assert log.stats().done == 6


def test_threads_share_it(log: Any) -> None:
    def work(first: int) -> None:
        for at in range(first, first + 25):
            log.put(b"%d" % at)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(0, 200, 25)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    seen: list[int] = []

    def take() -> None:
        while True:
            try:
                item = log.get(timeout=3)
            except Empty:
                return
            seen.append(int(item.body))
            item.ack()

    threads = [threading.Thread(target=take) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(seen) == list(range(200))
    assert log.stats().done == 200


# --- the queue as a whole -------------------------------------------------------------------------


def test_dead_ones_are_shown_brought_back_and_removed(queues: Queues, name: str) -> None:
    log = queues.fifo(name, partitions=3, max_deliveries=1)
    for at in range(4):
        log.put(b"%d" % at)
    log.get_many(4).nack(reason="no good")
    assert log.stats().dead == 4
    assert bodies(log.peek(9, dead=True)) == [b"0", b"1", b"2", b"3"]
    assert log.redrive() == 4
    assert bodies(log.peek(9)) == [b"0", b"1", b"2", b"3"]
    log.get_many(2).nack(reason="no good")
    assert log.purge(dead=True) == 2
    assert log.purge() == 2
    assert log.stats().ready == 0


def test_it_is_paused_and_altered_in_all_partitions(log: Any) -> None:
    for at in range(3):
        log.put(b"%d" % at)
    log.pause()
    assert log.stats().paused
    in_vain(Empty, lambda: log.get(timeout=0.3))
    log.resume()
    log.alter(lease=60, max_items=5)
    settings = log.stats().settings
    assert (settings.lease, settings.items_max) == (60 * 10**9, 5)
    assert len(log.get_many(3)) == 3


def test_stats_say_who_leads_what(log: Any) -> None:
    log.put(b"one")
    told = log.stats()
    assert (len(told.leaders), told.away, all(told.leaders)) == (3, (), True)
    assert (told.settings.partitions, told.ready, told.queue) == (3, 1, log.name)


def test_it_is_taken_as_it_is_and_refused_with_another_number(queues: Queues, name: str) -> None:
    queues.fifo(name, partitions=3).put(b"one")
    assert queues.fifo(name).get().body == b"one"
    assert queues.queue(name).name == name
    for partitions in (1, 4):
        with pytest.raises(QueueExists, match=f"partitions=3, asked {partitions}"):
            queues.fifo(name, partitions=partitions).put(b"two")
    queues.fifo(f"{name[:80]}.plain").put(b"one")
    with pytest.raises(QueueExists, match="partitions=1, asked 3"):
        queues.fifo(f"{name[:80]}.plain", partitions=3).put(b"two")
    with pytest.raises(BadOption, match="partitions is 65; allowed: 1 to 64"):
        queues.fifo(name, partitions=65)
    with pytest.raises(BadOption, match="option is 'partitions'"):
        queues.fifo(name).alter(partitions=4)


def test_a_name_is_listed_once_and_gone_when_it_is_deleted(queues: Queues, name: str) -> None:
    log = queues.fifo(name, partitions=3)
    log.put_many([b"one", b"two"])
    assert queues.queues().count(name) == 1
    assert name in queues.queues(kind="parted")
    assert not any(one.startswith(f"{name}/") for one in queues.queues())
    with pytest.raises(snowmelt.NotEmpty, match="has 2 ready"):
        queues.delete(name, if_empty=True)
    assert queues.delete(name).items == 2
    assert name not in queues.queues()
    with pytest.raises(NoSuchQueue):
        queues.delete(name)
    with pytest.raises(QueueDeleted):
        log.put(b"three")
    queues.fifo(name, partitions=2).put(b"new")
    assert queues.fifo(name).get().body == b"new"
    queues.fifo(name).purge()


def test_whoever_has_the_old_one_has_nothing_of_the_next_of_its_name(
    queues: Queues, name: str
) -> None:
    old = queues.fifo(name, partitions=8)
    old.put(b"old")
    queues.delete(name)
    new = queues.fifo(name, partitions=8)
    for number in range(8):
        new.put(b"new %d" % number)
    for act in (lambda: old.get(timeout=3), lambda: old.put(b"late"), old.stats):
        with pytest.raises(QueueDeleted, match=f"queue {name!r} was deleted"):
            act()
    assert new.stats().ready == 8
    new.purge()


@pytest.mark.parametrize(("first", "then"), [(1, 3), (3, 1)])
def test_a_queue_of_another_number_of_partitions_is_another(
    queues: Queues, name: str, first: int, then: int
) -> None:
    old = queues.fifo(name, partitions=first)
    old.put(b"old")
    queues.delete(name)
    queues.fifo(name, partitions=then).put(b"new")
    for act in (lambda: old.get(timeout=3), lambda: old.put(b"late")):
        with pytest.raises(QueueDeleted):
            act()
    assert queues.fifo(name).get().body == b"new"


def test_a_get_that_waits_hears_at_once_that_its_queue_is_deleted(
    queues: Queues, name: str
) -> None:
    log = queues.fifo(name, partitions=3)
    log.put(b"one")
    log.get().ack()
    with ThreadPoolExecutor(1) as threads:
        waits = threads.submit(log.get, timeout=20)
        until(lambda: log.stats().waiting_gets)
        queues.delete(name)
        with pytest.raises(QueueDeleted):
            waits.result(timeout=10)


def test_an_empty_one_is_deleted_where_that_is_asked_for(queues: Queues, name: str) -> None:
    queues.fifo(name, partitions=3).put(b"one")
    queues.fifo(name).get().ack()
    assert queues.delete(name, if_empty=True).items == 0
    assert name not in queues.queues()


def test_an_interrupted_deletion_is_gone_on_with(queues: Queues, name: str) -> None:
    queues.fifo(name, partitions=3).put_many([b"one", b"two"])
    part = queues.fifo(f"{name}/2")
    assert part.stats().queue == f"{name}/2"
    from snowmelt.client.queue.deleting import delete  # noqa: PLC0415

    run_steps(queues, delete(f"{name}/2", False, False, 5.0))
    queues.delete(name)
    assert name not in queues.queues()


def run_steps(queues: Any, steps: Any) -> Any:
    from snowmelt.client.connection.steps import run  # noqa: PLC0415

    return run(queues._queues, steps)


# --- what each partition has of its own -----------------------------------------------------------


def test_what_is_of_one_partition_is_had_of_each(queues: Queues, name: str) -> None:
    log = queues.fifo(name, partitions=3, producer="loader")
    log.put(b"one", sequence=1)
    log.get().ack()
    for refused in (
        lambda: log.group("readers").advance(snowmelt_mark(), items_max=1, bytes_max=1),
        lambda: log.stage([b"one"]),
        log.survey,
    ):
        with pytest.raises(BadOption, match=r"one of its 3 partitions.*queue\.parts\(\)"):
            refused()
    parts = log.parts()
    assert [one.name for one in parts] == [f"{name}/{at}" for at in range(3)]
    for at, part in enumerate(parts):
        receipts = part.stage([b"%d" % at])
        part.publish(receipts, sequence=7)
        part.publish(receipts, sequence=7)
    assert log.stats().ready == 3
    taken = 0
    for part in parts:
        group = part.group("readers")
        step = group.advance(snowmelt_mark(), items_max=9, bytes_max=1 << 20)
        located = group.locate(snowmelt_mark(), step.end)
        taken += sum(one.stop - one.start for one in located.spans)
    assert taken == 3
    assert [(one.name, one.given) for one in log.groups()] == [("readers", 3)]
    assert log.group("readers").release() == 3
    assert len(log.get_many()) == 3


def snowmelt_mark() -> Any:
    from snowmelt.client.queue.group_steps import BEGINNING  # noqa: PLC0415

    return BEGINNING


def test_a_queue_of_one_partition_is_its_only_one(queues: Queues, name: str) -> None:
    plain = queues.fifo(name)
    plain.put(b"one")
    assert [one.name for one in plain.parts()] == [name]


# --- with await -----------------------------------------------------------------------------------


async def test_it_is_the_same_with_await(tmp_path: Path) -> None:
    import asyncio  # noqa: PLC0415

    async with snowmelt.aio.open(tmp_path / "queues") as cluster:
        log = cluster.fifo("log", partitions=3)
        await asyncio.gather(*[log.put(b"%d" % at) for at in range(50)])
        items = await log.get_many(50, timeout=0)
        assert [int(item.body) for item in items] == list(range(50))
        await items.ack()
        puts = [asyncio.ensure_future(log.put(b"%d" % at)) for at in range(40)]
        await asyncio.sleep(0)
        assert len(await log.get_many(40, timeout=0)) == 40
        await asyncio.gather(*puts)
        jobs = cluster.priority("jobs", partitions=2)
        await jobs.put_many([(2, b"dust"), (-5, b"fire"), (2, b"sweep")])
        seen = []
        async with jobs.consume(timeout=0) as loop:
            async for item in loop:
                seen.append((item.priority, item.body))
                await item.ack()
        assert seen == [(-5, b"fire"), (2, b"dust"), (2, b"sweep")]
        assert [one.name for one in await jobs.parts()] == ["jobs/0", "jobs/1"]
        assert await cluster.queues(kind="parted") == ["jobs", "log"]


async def test_puts_at_once_fill_all_partitions_and_stand_in_their_order(tmp_path: Path) -> None:
    """None waits for room in one while others have some, and none passes one that looks for it."""
    import asyncio  # noqa: PLC0415

    async with snowmelt.aio.open(tmp_path / "queues") as cluster:
        log = cluster.fifo("log", partitions=3, max_items=9)
        began = time.monotonic()
        puts = [asyncio.ensure_future(log.put(b"%d" % at, timeout=20)) for at in range(9)]
        assert await asyncio.gather(*puts) == list(range(9))
        assert time.monotonic() - began < 10
        puts = []
        for at in range(9, 15):  # there is no room for these now
            puts.append(asyncio.ensure_future(log.put(b"%d" % at, timeout=30)))
            await asyncio.sleep(0.03)
        with pytest.raises(Full):
            await log.put(b"x", timeout=0)
        got = []
        for _ in range(15):
            item = await log.get(timeout=10)
            got.append(int(item.body))
            await item.ack(wait=True)
        await asyncio.gather(*puts)
        assert got == list(range(15))


def test_a_folder_is_opened_again_with_its_partitions(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path / "queues") as cluster:
        log = cluster.fifo("log", partitions=3)
        for at in range(9):
            log.put(b"%d" % at)
        log.get().ack()
    with snowmelt.open(tmp_path / "queues") as cluster:
        log = cluster.fifo("log")
        assert log.put(b"9") >= 9
        assert bodies(log.get_many()) == [b"%d" % at for at in range(1, 10)]


def test_more_copies_than_nodes_are_refused_at_once(queues: Queues, name: str) -> None:
    begun = time.monotonic()
    with pytest.raises(CallerError, match="replicas is 3; allowed: at most 1, the nodes present"):
        queues.fifo(name, partitions=4, replicas=3).create(timeout=60)
    assert time.monotonic() - begun < 20
    assert name not in queues.queues()
