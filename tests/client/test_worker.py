"""A worker: what is done is acknowledged, what failed comes again or is dead, nothing is lost."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import snowmelt
from snowmelt import Retry, Worker
from snowmelt.cli.local import LocalNode
from snowmelt.client.leases.item_source import ItemSource

AT_ONCE = Retry(first=0)
SOON = 0.05


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[snowmelt.EmbeddedCluster]:
    with snowmelt.open(tmp_path_factory.mktemp("workers")) as cluster:
        yield cluster


def left(queue: Any) -> tuple[int, int, int]:
    """How many are ready, leased, and dead."""
    status = queue.stats()
    return status.ready, status.leased, status.dead


def test_what_a_handler_has_done_is_acknowledged(cluster: snowmelt.EmbeddedCluster) -> None:
    for queue in (cluster.fifo("done", codec="json"), cluster.priority("done", codec="json")):
        done: list[int] = []
        queue.put_many([{"id": number} for number in range(100)])
        Worker(queue, lambda item, done=done: done.append(item.value["id"])).run(timeout=SOON)
        assert done == list(range(100))
        assert left(queue) == (0, 0, 0)


def test_so_many_threads_work_at_once(cluster: snowmelt.EmbeddedCluster) -> None:
    orders, together = cluster.fifo("at-once"), threading.Barrier(4)
    orders.put_many([b"x"] * 8)
    Worker(orders, lambda _: together.wait(30), threads=4).run(timeout=SOON)
    assert left(orders) == (0, 0, 0)


def test_a_thread_that_waits_while_another_asks_is_not_idle(
    cluster: snowmelt.EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(intake: ItemSource, timeout: float) -> Any:
        time.sleep(5 * SOON)
        return more(intake, timeout)

    more = ItemSource._more
    monkeypatch.setattr(ItemSource, "_more", slow)
    orders, together = cluster.fifo("at-once"), threading.Barrier(4)
    orders.put_many([b"x"] * 4)
    Worker(orders, lambda _: together.wait(5), threads=4, retry=None).run(timeout=SOON)
    assert left(orders) == (0, 0, 0)


def test_what_failed_comes_again_with_its_count_and_the_last_line_of_the_traceback(
    cluster: snowmelt.EmbeddedCluster,
) -> None:
    for orders in (cluster.fifo("again"), cluster.priority("again")):
        seen: list[tuple[int, str]] = []

        def handle(item: Any, seen: list[tuple[int, str]] = seen) -> None:
            seen.append((item.failures, item.reason))
            if item.failures < 2:
                raise KeyError(item.failures)

        orders.put(b"one")
        Worker(orders, handle, retry=AT_ONCE).run(timeout=SOON)
        assert [failures for failures, _ in seen] == [0, 1, 2]
        assert seen[1][1].startswith("KeyError: 0 (test_worker.py, line ")
        assert seen[2][1].endswith(", in handle)")
        assert left(orders) == (0, 0, 0)


def test_a_retry_waits_and_leaves_the_thread_to_others(cluster: snowmelt.EmbeddedCluster) -> None:
    orders, seen = cluster.fifo("waits"), list[bytes]()

    def handle(item: Any) -> None:
        seen.append(item.body)
        if item.body == b"bad":
            raise OSError("away")

    orders.put_many([b"bad", b"good"])
    Worker(orders, handle, retry=Retry(first=600)).run(timeout=SOON)
    assert seen == [b"bad", b"good"]
    assert orders.stats().delayed == 1


def test_each_kind_of_error_has_a_fate_of_its_own(
    cluster: snowmelt.EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    orders, tried = cluster.fifo("kinds", codec="json"), list[str]()
    errors = {"index": IndexError, "os": ConnectionResetError, "value": ValueError}

    def handle(item: Any) -> None:
        tried.append(item.value)
        raise errors[item.value]("so it is")

    cluster.fifo("kinds").put(b"no JSON")
    orders.put_many(list(errors))
    retry = {LookupError: None, OSError: Retry(first=0, times=2), ValueError: Retry(first=600)}
    Worker(orders, handle, retry=retry).run(timeout=SOON)
    assert sorted(tried) == ["index", "os", "os", "os", "value"]
    logged = "\n".join(caplog.messages)
    assert "dead after 1 failure, reason IndexError" in logged
    assert "dead after 3 failures, reason ConnectionResetError" in logged
    assert "AttributeError" not in caplog.text, "an error of the codec stands alone"
    reasons = [seen.reason for seen in orders.peek(dead=True)]
    assert reasons[0].startswith("CodecError: a body of 7 bytes, b'no JSON', is not json")
    assert reasons[1].startswith("IndexError: so it is (test_worker.py, line ")
    assert reasons[2].startswith("ConnectionResetError: so it is")
    assert (left(orders), orders.stats().delayed) == ((0, 0, 3), 1)


def test_leases_are_renewed_while_handlers_work(cluster: snowmelt.EmbeddedCluster) -> None:
    orders, calls = cluster.fifo("long", lease=1), list[bytes]()
    orders.put_many([b"one", b"two"])

    def handle(item: Any) -> None:
        calls.append(item.body)
        threading.Event().wait(1.5)

    Worker(orders, handle, threads=2).run(timeout=SOON)
    assert sorted(calls) == [b"one", b"two"]
    assert left(orders) == (0, 0, 0)


class Gate:
    """A handler that waits until it may go on."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.open = threading.Event()
        self.ended = threading.Event()

    def __call__(self, _: Any) -> None:
        self.begun.set()
        assert self.open.wait(30)
        self.ended.set()


def test_a_stop_waits_for_what_is_in_hand_and_gives_back_the_rest(
    cluster: snowmelt.EmbeddedCluster,
) -> None:
    for orders in (cluster.fifo("warm"), cluster.priority("hot")):
        orders.put_many([b"%d" % number for number in range(10)])
        gate = Gate()
        with Worker(orders, gate, prefetch=5) as worker:
            assert gate.begun.wait(30)
            worker.stop()
            while orders.stats().leased > 1:  # the other four go back at once
                pass
            assert orders.stats().ready == 9
            gate.open.set()
        assert left(orders) == (9, 0, 0)
        with orders.get() as item:
            assert (item.body, item.failures) == (b"1", 0)


def test_what_takes_longer_than_grace_goes_back_and_is_not_acknowledged_later(
    cluster: snowmelt.EmbeddedCluster,
) -> None:
    orders, gate = cluster.fifo("grace"), Gate()
    orders.put(b"one")
    with Worker(orders, gate, grace=0.05):
        assert gate.begun.wait(30)
    assert left(orders) == (1, 0, 0)
    gate.open.set()
    assert gate.ended.wait(30)
    with orders.get() as item:
        assert (item.body, item.failures) == (b"one", 0)


def test_what_ends_programs_ends_the_worker_and_counts_as_failed(
    cluster: snowmelt.EmbeddedCluster,
) -> None:
    orders = cluster.fifo("exit")
    orders.put_many([b"one", b"two"])

    def handle(_: Any) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        Worker(orders, handle, threads=2, retry=AT_ONCE).run()
    with orders.get_many() as items:
        assert sum(item.failures for item in items) in (1, 2)  # each thread ends with its first


def test_what_a_handler_has_settled_itself_is_left_as_it_is(
    cluster: snowmelt.EmbeddedCluster,
) -> None:
    orders = cluster.fifo("settled")

    def handle(item: Any) -> None:
        if item.body == b"later":
            item.nack(600, "not now")
        else:
            item.ack()
            raise ValueError("after it was done")

    orders.put_many([b"later", b"done"])
    Worker(orders, handle).run(timeout=SOON)
    status = orders.stats()
    assert (status.ready, status.leased, status.delayed, status.dead) == (0, 0, 1, 0)


def test_a_handler_that_only_gives_back_what_would_work_has_done_nothing(
    cluster: snowmelt.EmbeddedCluster,
) -> None:
    async def work() -> None: ...

    orders = cluster.fifo("coroutine")
    orders.put(b"one")
    Worker(orders, lambda _: work(), retry=None).run(timeout=SOON)
    (seen,) = orders.peek(dead=True)
    assert "gave back a coroutine" in seen.reason


def test_a_pool_is_worked_on_and_what_failed_is_offered_again(
    cluster: snowmelt.EmbeddedCluster,
) -> None:
    frames, seen = cluster.pool("frames", codec="json"), list[int]()

    def handle(frame: Any) -> None:
        seen.append(frame.value)
        if seen.count(2) == 1:
            raise OSError("away")

    frames.put_many([1, 2, 3])
    Worker(frames, handle, retry=AT_ONCE).run(timeout=1)
    assert sorted(seen) == [1, 2, 2, 3]
    assert (frames.stats().stock, frames.stats().on_loan) == (0, 0)
    gate = Gate()
    frames.put(4)
    with Worker(frames, gate, grace=0.05):
        assert gate.begun.wait(30)
    gate.open.set()
    with frames.get() as frame:
        assert frame.value == 4


def test_options_that_cannot_be_are_named(cluster: snowmelt.EmbeddedCluster) -> None:
    orders = cluster.fifo("options")

    async def awaits(_: Any) -> None: ...

    def yields(_: Any) -> Iterator[int]:
        yield 1

    for options, words in (
        ({"threads": 0}, "threads is 0; allowed: 1 to 10000"),
        ({"threads": True}, "threads is True"),
        ({"processes": 2}, "processes is 2; allowed: none for an open folder"),
        ({"grace": -1}, "grace is -1; allowed: 0 to"),
        ({"prefetch": 0}, "prefetch is 0"),
        (
            {"tasks": 2},
            "option is 'tasks'; allowed: retry, prefetch, grace, limit, signals, step, thre",
        ),
        ({"retry": 3}, "retry is 3; allowed: a Retry, None, or a map"),
        ({"retry": {"ValueError": None}}, "a kind of error is 'ValueError'"),
        ({"retry": {ValueError: 3}}, "retry of ValueError is 3"),
    ):
        with pytest.raises(snowmelt.BadOption) as raised:
            Worker(orders, print, **options)
        assert words in str(raised.value)
    for first, handler, words in (
        (orders, awaits, "snowmelt.aio.Worker takes those"),
        (orders, yields, "not one that yields"),
        (orders, "print", "handler is 'print'; allowed: a function of an item"),
        ("orders", print, "queue is 'orders'; allowed: a fifo, a priority queue or a pool"),
    ):
        with pytest.raises(snowmelt.BadOption) as raised:
            Worker(first, handler)
        assert words in str(raised.value)
    for retry in (None, Retry(times=2), {ValueError: None}):
        with pytest.raises(snowmelt.BadOption, match="a pool has no dead"):
            Worker(cluster.pool("options"), print, retry=retry)
    for wrong in ({"first": -1}, {"longest": float("nan")}, {"times": 1.5}):
        with pytest.raises(snowmelt.BadOption, match=next(iter(wrong))):
            Retry(**wrong)
    with (
        Worker(orders, print) as worker,
        pytest.raises(snowmelt.BadOption, match="it runs already"),
    ):
        worker.run()


def test_a_cluster_that_never_was_there_is_told() -> None:
    with (
        snowmelt.connect("snowmelt://127.0.0.1:1") as nobody,
        pytest.raises(snowmelt.Unreachable),
    ):
        Worker(nobody.fifo("orders"), print).run()


def test_a_cluster_that_goes_away_is_waited_for(own_node: LocalNode) -> None:
    came: list[bytes] = []
    first, second = threading.Event(), threading.Event()

    def handle(item: Any) -> None:
        came.append(item.body)
        (first if item.body == b"first" else second).set()

    with snowmelt.connect(own_node.url) as cluster:
        orders = cluster.fifo("orders")
        orders.put(b"first")
        with Worker(orders, handle, threads=2):
            assert first.wait(30)
            own_node.kill()
            own_node.start()
            orders.put(b"second", timeout=30)
            assert second.wait(30)
        cluster.close()
        with pytest.raises(snowmelt.Closed):
            Worker(orders, handle).run()
