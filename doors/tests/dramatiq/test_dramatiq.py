"""Dramatiq's actors over Snowmelt: what its RabbitMQ and Redis brokers promise, and more."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import dramatiq
import pytest
from dramatiq.errors import ConnectionClosed, QueueJoinTimeout, QueueNotFound
from dramatiq.results import ResultMissing, Results, ResultTimeout

import snowmelt
from snowmelt.cli.local import LocalNode, free_port
from snowmelt.core.errors import BadOption
from snowmelt_doors.dramatiq import SnowmeltBroker, SnowmeltResults
from snowmelt_doors.dramatiq.consumer import SnowmeltConsumer

pytest_plugins = ("door_nodes",)

Broker = Callable[..., SnowmeltBroker]


@pytest.fixture
def make(node: LocalNode, name: str) -> Iterator[Broker]:
    made: list[SnowmeltBroker] = []

    def make(**options: Any) -> SnowmeltBroker:
        made.append(SnowmeltBroker(node.url, namespace=name, **options))
        made[-1].emit_after("process_boot")
        dramatiq.set_broker(made[-1])
        return made[-1]

    before = dramatiq.broker.global_broker
    yield make
    dramatiq.set_broker(before)
    for one in made:
        one.close()


@contextmanager
def worker(broker: SnowmeltBroker, threads: int = 4, **options: Any) -> Iterator[dramatiq.Worker]:
    one = dramatiq.Worker(broker, worker_threads=threads, worker_timeout=100, **options)
    one.start()
    try:
        yield one
    finally:
        one.stop()


def test_actors_work_and_what_failed_is_tried_again_later(make: Broker) -> None:
    broker, done, tried = make(), dict[str, int](), list[float]()

    @dramatiq.actor(broker=broker)
    def put(key: str, value: int) -> None:
        done[key] = value

    @dramatiq.actor(broker=broker, queue_name="other", min_backoff=200, max_backoff=200)
    def fail_twice() -> None:
        tried.append(time.monotonic())
        if len(tried) < 3:
            raise RuntimeError

    with worker(broker):
        for number in range(200):
            put.send(f"key-{number}", number)
        fail_twice.send()
        broker.join("default", timeout=20_000)
        broker.join("other", timeout=20_000)
    assert done == {f"key-{number}": number for number in range(200)}
    assert len(tried) == 3
    assert all(0.1 <= later - one < 5 for one, later in pairwise(tried))


def test_delays_are_the_clusters_and_hold_up_nobody(make: Broker) -> None:
    broker, came = make(), list[int]()
    append = dramatiq.actor(came.append, broker=broker, actor_name="append")
    begun = time.monotonic()
    append.send_with_options(args=(1,), delay=3000)
    append.send_with_options(args=(2,), delay=1000)
    append.send_with_options(args=(3,), delay=10**10)
    append.send(4)
    with worker(broker):
        while len(came) < 3:
            time.sleep(0.01)
        assert time.monotonic() - begun > 2.9
    assert came == [4, 2, 1]
    assert broker.get_declared_delay_queues() == set()
    assert broker.get_queue_message_counts("default") == (0, 1, 0)


def test_what_fails_for_good_is_dead_with_its_reason(make: Broker) -> None:
    broker = make()

    @dramatiq.actor(broker=broker, max_retries=0)
    def fail() -> None:
        raise RuntimeError("no more")

    fail.send()
    unknown = dramatiq.Message("default", "nobody", (), {}, {})
    broker.enqueue(unknown)
    broker.queue_of("default").put(b"not a message")
    with worker(broker):
        broker.join("default", timeout=20_000)
        assert broker.get_queue_message_counts("default") == (0, 0, 3)
    reasons = sorted(one.reason for one in broker.queue_of("default").peek(dead=True))
    assert reasons == ["ActorNotFound: nobody", "RuntimeError: no more", "it can't be decoded"]
    broker.flush_all()
    assert broker.get_queue_message_counts("default") == (0, 0, 0)


def test_the_largest_priority_comes_first(make: Broker) -> None:
    broker, came = make(max_priority=10), list[str]()
    append = dramatiq.actor(came.append, broker=broker, actor_name="append")
    urgent = dramatiq.actor(came.append, broker=broker, actor_name="urgent", broker_priority=9)
    append.send("none")
    for priority in (5, 99, -3, 1):
        append.send_with_options(args=(str(priority),), broker_priority=priority)
    urgent.send("actor")
    with worker(broker, threads=1):
        broker.join("default", timeout=20_000)
    assert came == ["99", "actor", "5", "1", "none", "-3"]


def test_a_stop_gives_back_what_was_not_begun(make: Broker) -> None:
    broker, began, go = make(), threading.Semaphore(0), threading.Event()

    @dramatiq.actor(broker=broker)
    def wait() -> None:
        began.release()
        go.wait(10)

    for _ in range(20):
        wait.send()
    with worker(broker, threads=2) as one:
        began.acquire()
        began.acquire()
        while not one.work_queue.qsize():
            time.sleep(0.01)
        assert broker.queue_of("default").stats().leased <= one.queue_prefetch

        def go_on_once_it_stops() -> None:
            while any(thread.running for thread in one.workers):
                time.sleep(0.01)
            go.set()

        threading.Thread(target=go_on_once_it_stops).start()
    status = broker.queue_of("default").stats()
    assert (status.ready, status.leased, status.failed) == (18, 0, 0)


@pytest.mark.parametrize("prefetch", [1, 2, 3, 16])
def test_no_more_are_leased_than_prefetch_says(make: Broker, prefetch: int) -> None:
    broker = make()
    broker.declare_queue("default")
    for number in range(40):
        broker.enqueue(dramatiq.Message("default", "any", (number,), {}, {}))
    consumer = broker.consume("default", prefetch, 20)
    had = [one for one in (next(consumer) for _ in range(60)) if one is not None]
    assert broker.queue_of("default").stats().leased <= prefetch
    assert len(had) >= max(1, prefetch // 2)
    consumer.ack(had[0])
    after = [one for one in (next(consumer) for _ in range(5)) if one is not None]
    assert len(after) == 1 or prefetch > 2
    consumer.close()
    status = broker.queue_of("default").stats()
    assert (status.ready, status.leased) == (39, 0)


def test_leases_are_renewed_however_long_an_actor_works(make: Broker) -> None:
    broker, came = make(), list[int]()
    broker.cluster.fifo(f"{broker.namespace}.default", lease=2).create()

    @dramatiq.actor(broker=broker)
    def slow(number: int) -> None:
        time.sleep(3)
        came.append(number)

    for number in range(3):
        slow.send(number)
    with worker(broker, threads=1), worker(broker, threads=1):
        broker.join("default", timeout=20_000)
    assert sorted(came) == [0, 1, 2]


def test_a_queue_with_priorities_may_have_been_made_before(make: Broker) -> None:
    broker = make(max_priority=3)
    name = f"{broker.namespace}.default"
    broker.cluster.priority(name, priorities=4, largest_first=True, lease=5).create()
    broker.declare_queue("default")
    broker.enqueue(dramatiq.Message("default", "any", (), {}, {"broker_priority": 2}))
    assert broker.queue_of("default").get().priority == 2
    other = make(max_priority=5)
    other.declare_queue("default")
    with pytest.raises(snowmelt.QueueExists, match="is not one of 6 priorities"):
        other.consume("default")


def test_a_message_is_settled_once(make: Broker) -> None:
    broker = make()
    broker.declare_queue("default")
    broker.enqueue(dramatiq.Message("default", "any", (), {}, {}))
    consumer = broker.consume("default", 1, 1000)
    message = next(consumer)
    assert message is not None
    consumer.nack(message)
    consumer.ack(message)
    consumer.close()
    assert broker.get_queue_message_counts("default") == (0, 0, 1)


def test_join_and_flush_know_their_queues(make: Broker) -> None:
    broker = make()
    broker.declare_queue("default")
    broker.declare_queue("default")
    broker.join("default", timeout=100)
    broker.flush_all()
    assert broker.get_declared_queues() == {"default"}
    broker.enqueue(dramatiq.Message("default", "any", (), {}, {}), delay=60_000)
    with pytest.raises(QueueJoinTimeout):
        broker.join("default", timeout=100)
    broker.flush("default")
    broker.join("default", timeout=100)
    asks: list[Callable[[str], object]] = [broker.join, broker.flush, broker.consume]
    for ask in asks:
        with pytest.raises(QueueNotFound):
            ask("nobody")
    with pytest.raises(QueueNotFound):
        broker.enqueue(dramatiq.Message("nobody", "any", (), {}, {}))


def test_nobody_there_is_said_in_dramatiqs_words(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = SnowmeltBroker(f"snowmelt://127.0.0.1:{free_port()}")
    broker.declare_queue("default")
    consumer = broker.consume("default", 1, 100)
    with pytest.raises(ConnectionClosed):
        next(consumer)
    consumer.close()
    put = broker.queue_of("default")
    monkeypatch.setattr(type(put), "put", _unreachable)
    with pytest.raises(ConnectionClosed):
        broker.enqueue(dramatiq.Message("default", "any", (), {}, {}))
    broker.close()


def _unreachable(*_: object, **__: object) -> None:
    raise snowmelt.Unreachable("nobody is there")


def test_what_is_in_hand_stays_in_hand_while_the_node_is_away(own_node: LocalNode) -> None:
    broker = SnowmeltBroker(own_node.url)
    broker.declare_queue("default")
    for number in range(2):
        broker.enqueue(dramatiq.Message("default", "any", (number,), {}, {}))
    consumer = broker.consume("default", 2, 200)
    message = _first(consumer)
    own_node.kill()
    assert [next(consumer) for _ in range(4)].count(None) >= 3
    own_node.start()
    consumer.ack(message)
    later = _first(consumer)
    consumer.ack(later)
    consumer.close()
    assert sorted(one.args[0] for one in (message, later)) == [0, 1]
    broker.join("default", timeout=10_000)
    broker.close()


def _first(consumer: SnowmeltConsumer) -> Any:
    end = time.monotonic() + 40
    while time.monotonic() < end:
        message = next(consumer)
        if message is not None:
            return message
    raise AssertionError("nothing came")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "where is None"),
        ({"where": "a", "cluster": 1}, "where is 'a'"),
        ({"where": "a", "max_priority": 0}, "max_priority is 0"),
        ({"where": "a", "max_priority": 256}, "max_priority is 256"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(BadOption, match=named):
        SnowmeltBroker(**options)


def test_a_folder_is_opened_once_in_a_process(tmp_path: Path) -> None:
    came = list[int]()
    broker, other = SnowmeltBroker(tmp_path / "queues"), SnowmeltBroker(tmp_path / "queues")
    append = dramatiq.actor(came.append, broker=broker, actor_name="append")
    other.declare_queue("default")
    other.enqueue(append.message(7))
    with worker(broker):
        broker.join("default")
    broker.close()
    other.close()
    assert came == [7]


def test_results_are_kept_for_their_time(make: Broker, node: LocalNode, name: str) -> None:
    broker = make()
    backend = SnowmeltResults(node.url, namespace=f"{name}-results", retention=3600)
    broker.add_middleware(Results(backend=backend))

    @dramatiq.actor(broker=broker, store_results=True)
    def double(number: int) -> int:
        return 2 * number

    @dramatiq.actor(broker=broker, store_results=True, max_retries=0)
    def fail() -> None:
        raise ValueError("no")

    @dramatiq.actor(broker=broker, store_results=True, result_ttl=300)
    def soon_gone() -> int:
        return 1

    with worker(broker):
        message = double.send(21)
        assert message.get_result(block=True, timeout=10_000) == 42
        assert message.get_result() == 42
        with pytest.raises(Exception, match="actor raised ValueError: no"):
            fail.send().get_result(block=True, timeout=10_000)
        gone = soon_gone.send()
        broker.join("default", timeout=10_000)
        time.sleep(0.6)
    with pytest.raises(ResultMissing):
        gone.get_result()
    with pytest.raises(ResultTimeout):
        double.message(1).get_result(block=True, timeout=100)
    assert (double.message(4) | double.message()).run() is not None
    backend.close()


def test_a_folder_is_one_for_a_broker_and_its_results(tmp_path: Path) -> None:
    broker = SnowmeltBroker(tmp_path / "queues")
    backend = SnowmeltResults(tmp_path / "queues")
    broker.add_middleware(Results(backend=backend))

    @dramatiq.actor(broker=broker, store_results=True)
    def double(number: int) -> int:
        return 2 * number

    with worker(broker):
        assert double.send(4).get_result(backend=backend, block=True) == 8
    broker.close()
    broker.close()
