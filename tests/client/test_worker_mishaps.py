"""A worker whose handlers do what they ought not to do, or are cancelled."""

import asyncio
import logging
import os
import re
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import snowmelt
import snowmelt.aio
from snowmelt import Retry, Worker
from snowmelt.cli.local import LocalNode

AT_ONCE = Retry(first=0)
SOON = 0.05


class Untold(Exception):
    def __str__(self) -> str:
        raise RuntimeError("it has no words")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (FileNotFoundError("no file caf\udce9"), "FileNotFoundError: no file caf\\udce9 ("),
        (Untold(), "Untold: what it says raised RuntimeError ("),
        (ValueError("é" * 2_000), "ValueError: éé"),
    ],
    ids=["no-utf-8", "no-words", "too-many-words"],
)
def test_whatever_a_handler_raises_it_is_an_item_that_failed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, error: Exception, reason: str
) -> None:
    caplog.set_level(logging.CRITICAL, "snowmelt")  # what is no UTF-8 can't be reported

    def handle(item: Any) -> None:
        if item.body == b"bad":
            raise error

    with snowmelt.open(tmp_path) as cluster:
        for orders in (cluster.fifo("orders"), cluster.priority("jobs")):
            orders.put_many([b"bad", b"good"])
            Worker(orders, handle, retry=Retry(first=0, times=1)).run(timeout=SOON)
            (dead,) = orders.peek(dead=True)
            assert dead.reason.startswith(reason)
            assert orders.stats().ready == 0
            orders.put(b"bad")
            with pytest.raises(type(error)), orders.get() as item:
                raise error
            with orders.get() as item:
                assert item.reason


def test_what_is_leased_ahead_of_any_priorities_comes_in_their_order(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        jobs = cluster.priority("jobs", codec="json")
        for _ in range(3):  # so that each call has something of each priority
            jobs.put_many([(number, number) for number in range(4)])
        done: list[int] = []
        Worker(jobs, lambda item: done.append(item.value), prefetch=12).run(timeout=SOON)
        assert done == sorted(done)
        assert len(done) == 12


def test_a_handler_that_stops_its_worker_is_the_last(tmp_path: Path) -> None:
    done: list[int] = []

    def handle(item: Any) -> None:
        done.append(item.value)
        if len(done) == 3:
            worker.stop()

    with snowmelt.open(tmp_path) as cluster:
        jobs = cluster.priority("jobs", codec="json")
        for _ in range(3):
            jobs.put_many([(number, number) for number in range(4)])
        worker = Worker(jobs, handle, prefetch=12)
        worker.run()
        assert done == [0, 0, 0]
        assert (jobs.stats().ready, jobs.stats().leased) == (9, 0)
        left = [item.value for item in jobs.get_many()]
        assert left == [1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_a_child_that_a_handler_forgot_to_end_works_on_nothing(node: LocalNode) -> None:
    children: list[int] = []

    def handle(_: Any) -> None:
        child = os.fork()
        if child:
            children.append(child)
            os.waitpid(child, 0)

    with snowmelt.connect(node.url) as cluster:
        orders = cluster.fifo("forgotten")
        orders.put_many([b"one", b"two"])
        ended = threading.Thread(target=lambda: Worker(orders, handle).run(timeout=SOON))
        ended.start()
        ended.join(30)
        assert not ended.is_alive(), "it waits for a child that never ends"
        assert len(children) == 2
        assert (orders.stats().ready, orders.stats().leased) == (0, 0)


async def test_many_tasks_that_wait_for_items_stop_at_once(tmp_path: Path) -> None:
    async def handle(_: Any) -> None: ...

    async with snowmelt.aio.open(tmp_path) as cluster:
        orders = cluster.fifo("orders", replicas=1)
        run = asyncio.create_task(snowmelt.aio.Worker(orders, handle, tasks=100).run())
        await asyncio.sleep(0.2)
        async with asyncio.timeout(5):
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
        async with asyncio.timeout(5), snowmelt.aio.Worker(orders, handle, tasks=100):
            await asyncio.sleep(0.2)


async def test_a_handler_that_does_not_end_when_it_is_cancelled_is_the_last_of_its_worker(
    tmp_path: Path,
) -> None:
    begun = asyncio.Event()

    async def handle(_: Any) -> None:
        begun.set()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)

    async with snowmelt.aio.open(tmp_path) as cluster:
        orders = cluster.fifo("orders")
        await orders.put_many([b"one", b"two"])
        run = asyncio.create_task(snowmelt.aio.Worker(orders, handle).run())
        await begun.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        left = [each.get_name() for each in asyncio.all_tasks()]
        assert not [name for name in left if name.startswith("snowmelt-worker")]
        status = await orders.stats()
        assert (status.ready, status.done) == (1, 1)  # it has returned, and so it is done


async def test_a_worker_that_is_cancelled_twice_gives_back_what_it_has(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def handle(_: Any) -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.5)  # it cleans up, for longer than whoever cancels it waits

    async with snowmelt.aio.open(tmp_path) as cluster:
        orders = cluster.fifo("orders")
        await orders.put(b"one")
        run = asyncio.create_task(snowmelt.aio.Worker(orders, handle).run())
        await begun.wait()
        for _ in range(2):
            run.cancel()
            await asyncio.sleep(0.1)
        with pytest.raises(asyncio.CancelledError):
            await run
        async with await orders.get(timeout=5) as item:
            assert (item.body, item.failures) == (b"one", 0)


async def test_a_handler_that_is_cancelled_alone_failed_and_the_worker_goes_on(
    tmp_path: Path,
) -> None:
    done: list[tuple[bytes, int]] = []

    async def handle(item: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        if not item.failures:
            asyncio.get_running_loop().call_soon(task.cancel)
            await asyncio.sleep(60)
        done.append((item.body, item.failures))

    async with snowmelt.aio.open(tmp_path) as cluster:
        orders = cluster.fifo("orders")
        await orders.put_many([b"one", b"two"])
        async with asyncio.timeout(30):
            await snowmelt.aio.Worker(orders, handle, retry=AT_ONCE).run(timeout=SOON)
        assert done == [(b"one", 1), (b"two", 1)]


def test_where_all_tasks_of_a_loop_are_cancelled_nothing_counts_as_failed(tmp_path: Path) -> None:
    async def work() -> None:
        cluster = snowmelt.aio.open(tmp_path)
        orders, begun = cluster.fifo("orders"), asyncio.Event()
        await orders.put(b"one")

        async def handle(_: Any) -> None:
            begun.set()
            await asyncio.sleep(60)

        run = asyncio.create_task(snowmelt.aio.Worker(orders, handle).run())
        await begun.wait()
        for each in asyncio.all_tasks() - {asyncio.current_task()}:
            each.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        async with await orders.get(timeout=5) as item:
            assert item.failures == 0
        await cluster.close()

    asyncio.run(work())


def test_a_cluster_that_is_silent_when_a_worker_begins_is_given_some_seconds(
    own_node: LocalNode,
) -> None:
    done = threading.Event()
    with snowmelt.connect(own_node.url) as cluster, snowmelt.connect(own_node.url) as other:
        cluster.fifo("orders").put(b"one")
        os.kill(own_node.pid, signal.SIGSTOP)
        resumes = threading.Timer(2.0, os.kill, (own_node.pid, signal.SIGCONT))
        resumes.start()
        Worker(other.fifo("orders"), lambda _: done.set()).run(timeout=SOON)
        assert done.is_set()
        resumes.join()


def test_a_failure_is_logged_in_words_with_its_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def handle(_: Any) -> None:
        raise KeyError("id")

    async def handle_async(_: Any) -> None:
        raise KeyError("id")

    async def work() -> None:
        async with snowmelt.aio.open(tmp_path / "two") as cluster:
            orders = cluster.fifo("orders")
            await orders.put(b"one")
            await snowmelt.aio.Worker(orders, handle_async, retry=None).run(timeout=SOON)

    with snowmelt.open(tmp_path / "one") as cluster:
        orders = cluster.fifo("orders")
        orders.put(b"one")
        Worker(orders, handle, retry=Retry(first=600)).run(timeout=SOON)
    asyncio.run(work())
    first, second = [one for one in caplog.records if one.name == "snowmelt"]
    assert first.getMessage().startswith("a handler failed: queue orders, position 0, again in ")
    assert second.getMessage().startswith("a handler failed: queue orders, position 0, dead after ")
    for one in (first, second):
        assert "reason KeyError: 'id' (test_worker_mishaps.py, line " in one.getMessage()
        assert 'raise KeyError("id")' in caplog.handler.format(one)


def test_no_line_of_the_log_leaves_out_what_it_is_about() -> None:
    root = Path(snowmelt.__file__).parent
    bare = [
        f"{file.name}: {line.strip()}"
        for file in root.rglob("*.py")
        for line in file.read_text().splitlines()
        if not ("LOG.log(" in line or "Meta(" in line)
        and re.search(r"\bLOG\.(log|warning|error|info)\(|extra=\{", line)
    ]
    assert not bare, "tell() writes the fields into the message"
