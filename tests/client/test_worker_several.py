"""A worker over several queues, and one whose handler may take only so long."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import snowmelt
import snowmelt.aio
from snowmelt import Retry, Worker
from snowmelt.cli.local import LocalNode
from snowmelt.core.errors import BadOption
from timing import until

ONCE = Retry(first=0, times=1)
"""Dead after its second failure."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[snowmelt.EmbeddedCluster]:
    with snowmelt.open(tmp_path_factory.mktemp("several")) as cluster:
        yield cluster


def left(queue: Any) -> tuple[int, int, int]:
    """How many are ready, leased, and dead."""
    status = queue.stats()
    return status.ready, status.leased, status.dead


def test_several_queues_are_worked_on_at_once_each_by_its_share_of_the_threads(
    cluster: snowmelt.EmbeddedCluster,
) -> None:
    orders, letters = cluster.fifo("weighed"), cluster.priority("weighed-letters")
    orders.put_many([b"x"] * 12)
    letters.put_many([b"y"] * 4)
    together, lock = threading.Barrier(4), threading.Lock()
    at_once: dict[str, int] = {"weighed": 0, "weighed-letters": 0}
    most = dict(at_once)

    def handle(item: Any) -> None:
        with lock:
            at_once[item.queue] += 1
            most[item.queue] = max(most[item.queue], at_once[item.queue])
        together.wait(30)
        with lock:
            at_once[item.queue] -= 1

    Worker({orders: 3, letters: 1}, handle, threads=4).run(timeout=1)
    assert most == {"weighed": 3, "weighed-letters": 1}
    assert left(orders) == left(letters) == (0, 0, 0)


def test_a_queue_that_is_slow_delays_no_other(cluster: snowmelt.EmbeddedCluster) -> None:
    slow, quick = cluster.fifo("slow"), cluster.fifo("quick")
    slow.put_many([b"x"] * 3)
    quick.put_many([b"y"] * 50)
    done = threading.Event()
    worker: list[Worker] = []
    seen: list[bytes] = []

    def handle(item: Any) -> None:
        seen.append(item.body)
        if item.queue == "slow":
            assert done.wait(30)
        elif seen.count(b"y") == 50:
            done.set()
            worker[0].stop()

    worker.append(Worker([slow, quick], handle, threads=2))
    worker[0].run()
    assert seen.count(b"y") == 50
    assert left(quick) == (0, 0, 0)


def test_what_ends_one_of_them_ends_all_and_is_raised(cluster: snowmelt.EmbeddedCluster) -> None:
    first, other = cluster.fifo("ends"), cluster.fifo("ends-too")
    first.put(b"x")
    other.put(b"y")
    begun = threading.Event()

    def handle(item: Any) -> None:
        if item.queue == "ends":
            assert begun.wait(30)
            raise SystemExit(7)
        begun.set()

    with pytest.raises(SystemExit, match="7"):
        Worker([first, other], handle, threads=2).run()
    assert left(other) == (0, 0, 0)


def test_several_queues_with_await(tmp_path: Path) -> None:
    async def work() -> list[tuple[str, bytes]]:
        seen = []

        async def handle(item: Any) -> None:
            seen.append((item.queue, item.body))

        async with snowmelt.aio.open(tmp_path / "q") as cluster:
            one, two = cluster.fifo("one"), cluster.fifo("two")
            await one.put_many([b"1"] * 3)
            await two.put_many([b"2"] * 3)
            await snowmelt.aio.Worker([one, two], handle, tasks=2).run(timeout=1)
            run = asyncio.create_task(snowmelt.aio.Worker([one, two], handle, tasks=2).run())
            await asyncio.sleep(0.2)
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
        return sorted(seen)

    assert asyncio.run(work()) == [("one", b"1")] * 3 + [("two", b"2")] * 3


def test_several_queues_in_several_processes(node: LocalNode, name: str, tmp_path: Path) -> None:
    with snowmelt.connect(node.url) as cluster:
        queues = [cluster.fifo(f"{name}-{one}") for one in "ab"]
        for one in queues:
            one.put_many([b"x"] * 10)
        file = tmp_path / "done"

        def handle(item: Any) -> None:
            with file.open("a") as out:
                out.write(f"{item.queue}\n")

        Worker(queues, handle, threads=2, processes=2).run(timeout=1)
        assert sorted(file.read_text().split()) == [
            f"{name}-{one}" for one in "ab" for _ in "x" * 10
        ]


@pytest.mark.parametrize(
    ("queues", "why"),
    [
        (lambda _: [], "or several"),
        (lambda one: [one, "orders"], "or several"),
        (lambda one: {one: 0}, "the weight of odd is 0; allowed: 1 to 1000"),
        (lambda _: "orders", "a fifo, a priority queue or a pool"),
    ],
)
def test_odd_queues_are_refused(
    cluster: snowmelt.EmbeddedCluster, queues: Callable[[Any], Any], why: str
) -> None:
    with pytest.raises(BadOption, match=why):
        Worker(queues(cluster.fifo("odd")), print)


def test_there_is_a_thread_for_each_queue(cluster: snowmelt.EmbeddedCluster) -> None:
    with pytest.raises(BadOption, match="threads is 1; allowed: 2 or more"):
        Worker([cluster.fifo("odd"), cluster.fifo("odd-too")], print)


# --- limits ---------------------------------------------------------------------------------------


def spins(_: Any) -> None:
    while True:
        time.sleep(0.01)


def test_a_handler_over_its_limit_fails_where_it_is(cluster: snowmelt.EmbeddedCluster) -> None:
    orders = cluster.fifo("over")
    orders.put_many([b"x", b"y"])
    Worker(orders, spins, limit=0.2, retry=ONCE, threads=2).run(timeout=1)
    assert left(orders) == (0, 0, 2)
    reason = orders.peek(dead=True)[0].reason
    assert reason.startswith("TimeoutError: the handler took longer than its limit of 0.2 s (test_")
    assert reason.endswith("in spins)")


def test_no_limit_reaches_what_comes_after_its_handler(cluster: snowmelt.EmbeddedCluster) -> None:
    """Handlers that end just when they are over: each is done or has failed, and nothing breaks."""
    orders = cluster.fifo("just-then")
    orders.put_many([b"x"] * 80)
    done = []

    def handle(item: Any) -> None:
        end = time.perf_counter() + 0.1 + 0.0001 * (item.position % 60)
        while time.perf_counter() < end:
            pass
        done.append(item.position)

    worker = Worker(orders, handle, limit=0.1, retry=None, threads=8)
    worker.run(timeout=1)
    ready, leased, dead = left(orders)
    assert (ready, leased) == (0, 0)
    assert dead > 0
    assert len(done) + dead >= 80


def test_a_handler_that_catches_its_limit_goes_on(cluster: snowmelt.EmbeddedCluster) -> None:
    orders = cluster.fifo("caught")
    orders.put(b"x")

    def stubborn(item: Any) -> None:
        try:
            spins(item)
        except:  # noqa: E722
            time.sleep(0.01)

    Worker(orders, stubborn, limit=0.1, retry=None).run(timeout=1)
    assert left(orders) == (0, 0, 0)


def test_a_handler_that_does_not_come_back_to_python_is_told_in_the_log(
    cluster: snowmelt.EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    orders = cluster.fifo("blocked")
    orders.put(b"x")
    blocked = threading.Lock()
    blocked.acquire()

    def told() -> list[str]:
        return [one for one in caplog.messages if one.startswith("a handler does not end")]

    def end() -> None:
        try:
            until(told)
        finally:
            blocked.release()

    threading.Thread(target=end).start()
    Worker(orders, lambda _: blocked.acquire(), limit=0.2, retry=None).run(timeout=1)
    assert left(orders) == (0, 0, 1)
    assert len(told()) == 1
    assert "queue blocked, position 0, limit 0.2 s, at " in told()[0]


def test_a_process_whose_handler_does_not_end_is_replaced(
    own_node: LocalNode, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"

    def handle(_: Any) -> None:
        with begun.open("a") as out:
            out.write("x")
        if begun.stat().st_size == 1:
            threading.Lock().acquire() and time.sleep(600)

    with snowmelt.connect(own_node.url) as cluster:
        orders = cluster.fifo("stuck", lease=1)
        orders.put(b"x")
        with Worker(orders, handle, limit=0.3, processes=1):
            end = time.monotonic() + 30
            while orders.stats().ready + orders.stats().leased and time.monotonic() < end:
                time.sleep(0.05)
        assert begun.stat().st_size == 2
        assert left(orders) == (0, 0, 0)


def test_a_limit_with_await(tmp_path: Path) -> None:
    async def work() -> tuple[int, str]:
        async def handle(_: Any) -> None:
            await asyncio.sleep(100)

        async with snowmelt.aio.open(tmp_path / "q") as cluster:
            orders = cluster.fifo("orders")
            await orders.put(b"x")
            await snowmelt.aio.Worker(orders, handle, limit=0.2, retry=None).run(timeout=1)
            return (await orders.stats()).dead, (await orders.peek(dead=True))[0].reason

    dead, reason = asyncio.run(work())
    assert dead == 1
    assert reason.startswith("TimeoutError: the handler took longer than its limit of 0.2 s (")


@pytest.mark.parametrize("limit", [0, -1, True, "30", 1e9])
def test_odd_limits_are_refused(cluster: snowmelt.EmbeddedCluster, limit: Any) -> None:
    with pytest.raises(BadOption, match="limit is"):
        Worker(cluster.fifo("odd"), print, limit=limit)
