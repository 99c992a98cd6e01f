"""kombu's words over a real node: what is published, consumed, given back, routed and heard."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import kombu
import msgspec
import pytest
from kombu.exceptions import ChannelError, OperationalError
from kombu.pidbox import Mailbox

import snowmelt
import snowmelt_doors.celery  # noqa: F401  it makes the scheme known
from snowmelt.cli.local import LocalNode
from snowmelt.client.leases.delivered import LeasedItems
from snowmelt.core.instant import Instant
from snowmelt_doors.celery import consuming, queues
from snowmelt_doors.celery.exchanges import BATON
from snowmelt_doors.celery.messages import packed, stored

pytest_plugins = ("door_nodes",)

Connect = Callable[..., Any]


@pytest.fixture
def connect(node: LocalNode) -> Iterator[Connect]:
    """Makes connections, which end with the test."""
    made = []

    def one(**options: Any) -> Any:
        made.append(kombu.Connection(node.url, transport_options=options))
        return made[-1]

    yield one
    for connection in made:
        connection.release()


def queue_named(name: str, **options: Any) -> Any:
    return kombu.Queue(name, kombu.Exchange(name, type="direct"), routing_key=name, **options)


def publish(connection: Any, queue: Any, *bodies: object, **options: Any) -> None:
    producer = kombu.Producer(connection.default_channel)
    for body in bodies:
        producer.publish(
            body, exchange=queue.exchange, routing_key=queue.routing_key, declare=[queue], **options
        )


def got(
    connection: Any, queue: Any, count: int, timeout: float = 10.0, **options: Any
) -> list[Any]:
    """So many messages, each acknowledged, or those that came in time."""
    came: list[Any] = []

    def hear(_: object, message: Any) -> None:
        came.append(message)
        message.ack()

    end = time.monotonic() + timeout
    with kombu.Consumer(connection.channel(), [queue], callbacks=[hear], **options):
        while len(came) < count and time.monotonic() < end:
            try:
                connection.drain_events(timeout=0.5)
            except TimeoutError:
                continue
    return came


@pytest.mark.parametrize("planted", [False, True])
def test_the_largest_priority_comes_first_and_equals_in_order(
    connect: Connect, name: str, monkeypatch: pytest.MonkeyPatch, planted: bool
) -> None:
    """celery#5935: priorities were those of a few lists, and a cycle went past them."""
    if planted:
        monkeypatch.setattr(queues, "priority_of", lambda _: 0)
    connection, queue = connect(), queue_named(name)
    for priority in (3, 9, None, 3, 0):
        publish(connection, queue, [priority], priority=priority)
    bodies = [one.payload[0] for one in got(connection, queue, 5)]
    assert bodies == ([3, 9, None, 3, 0] if planted else [9, 3, 3, None, 0])


def test_an_eta_is_kept_by_the_queue_and_not_by_a_consumer(connect: Connect, name: str) -> None:
    connection, queue = connect(), queue_named(name)
    due = datetime.now(UTC) + timedelta(seconds=1.5)
    publish(connection, queue, "later", headers={"eta": due.isoformat()})
    publish(connection, queue, "now")
    assert [one.payload for one in got(connection, queue, 1)] == ["now"]
    assert datetime.now(UTC) < due
    assert [one.payload for one in got(connection, queue, 1)] == ["later"]
    assert datetime.now(UTC) >= due - timedelta(seconds=0.2)


@pytest.mark.parametrize("planted", [False, True])
def test_a_message_is_leased_for_longer_than_a_lease_while_it_is_worked_on(
    connect: Connect, name: str, monkeypatch: pytest.MonkeyPatch, planted: bool
) -> None:
    """celery#2481: what took longer than a visibility time-out ran twice."""
    if planted:  # no lease is renewed
        monkeypatch.setattr(LeasedItems, "renewal", property(lambda _: Instant(1 << 62)))
    options = {"queue_options": {"lease": 1.5}}
    first, second, queue = connect(**options), connect(**options), queue_named(name)
    publish(first, queue, "long")
    message = queue(first.default_channel).get()
    again = got(second, queue, 1, timeout=4)
    if planted:
        assert [one.payload for one in again] == ["long"]
        return
    assert again == []
    message.ack()
    assert got(second, queue, 1, timeout=0.5) == []


def test_no_more_is_leased_than_prefetch_count(connect: Connect, name: str) -> None:
    connection, queue = connect(), queue_named(name)
    publish(connection, queue, *range(6))
    came: list[Any] = []
    with kombu.Consumer(connection.channel(), [queue], on_message=came.append, prefetch_count=2):
        for _ in range(3):
            try:
                connection.drain_events(timeout=0.5)
            except TimeoutError:
                break
        assert [one.payload for one in came] == [0, 1]
        came[0].ack()
        connection.drain_events(timeout=5)
        assert [one.payload for one in came] == [0, 1, 2]
        others = [one.payload for one in got(connect(), queue, 3)]
        assert others == [3, 4, 5]


def test_each_message_comes_once_in_order_though_acknowledgements_lease_the_next(
    connect: Connect, name: str
) -> None:
    connection, queue = connect(), queue_named(name)
    publish(connection, queue, *range(60))
    came: list[int] = []
    most = 0
    channel = connection.channel()

    def hear(message: Any) -> None:
        nonlocal most
        most = max(most, channel.held.count)
        came.append(message.payload)
        message.ack()

    with kombu.Consumer(channel, [queue], on_message=hear, prefetch_count=3):
        end = time.monotonic() + 20
        while len(came) < 60 and time.monotonic() < end:
            connection.drain_events(timeout=5)
        assert came == list(range(60))
        assert most <= 3
        publish(connection, queue, 60)  # where nothing waited meanwhile
        connection.drain_events(timeout=5)
    assert came[60:] == [60]
    assert queue(connection.default_channel).get() is None


def test_a_busy_queue_does_not_keep_all_places_from_another(connect: Connect, name: str) -> None:
    connection, busy, other = connect(), queue_named(name), queue_named(f"{name}-other")
    publish(connection, busy, *["busy"] * 60)
    publish(connection, other, *["other"] * 3)
    came: list[str] = []

    def hear(message: Any) -> None:
        came.append(message.payload)
        message.ack()

    with kombu.Consumer(connection.channel(), [busy, other], on_message=hear, prefetch_count=1):
        end = time.monotonic() + 20
        while came.count("other") < 3 and time.monotonic() < end:
            connection.drain_events(timeout=5)
    assert came.count("other") == 3
    assert came.count("busy") < 60


def test_what_a_closed_channel_did_not_acknowledge_comes_again_at_its_place(
    connect: Connect, name: str
) -> None:
    connection, queue = connect(), queue_named(name)
    publish(connection, queue, "one", "two")
    channel = connection.channel()
    message = queue(channel).get()
    channel.close()
    with pytest.raises(snowmelt.LeaseLost):
        message.ack()
    came = got(connection, queue, 2)
    assert [one.payload for one in came] == ["one", "two"]
    assert not came[0].delivery_info["redelivered"]


def test_what_is_requeued_comes_again_and_what_is_rejected_is_dead(
    connect: Connect, node: LocalNode, name: str
) -> None:
    connection, queue = connect(), queue_named(name)
    publish(connection, queue, "one", priority=5)
    bound = queue(connection.default_channel)
    bound.get().requeue()
    message = bound.get()
    assert message.delivery_info["redelivered"]
    message.reject()
    assert bound.get() is None
    with snowmelt.connect(node.url) as cluster:
        jobs = cluster.queue(name)
        assert [one.reason for one in jobs.peek(dead=True)] == ["rejected"]
        jobs.redrive()
    bound.get().ack()


def test_what_is_no_message_is_set_aside(connect: Connect, node: LocalNode, name: str) -> None:
    connection, queue = connect(), queue_named(name)
    publish(connection, queue, "one")
    with snowmelt.connect(node.url) as cluster:
        jobs = cluster.queue(name)
        good = {"body": b"{}", "content-type": "application/json", "headers": {}}
        strange = [
            stored({**good, "properties": {"delivery_info": "none"}}),
            msgspec.structs.replace(
                stored({**good, "properties": {}}), encoded=b"\xff", is_text=True
            ),
        ]
        for body in (b"not a message", b"", b"\x91" * 10_000, *map(packed, strange)):
            jobs.put(body, priority=9)
        assert [one.payload for one in got(connection, queue, 1)] == ["one"]
        assert len(jobs.peek(dead=True)) == 5


def test_properties_that_amqp_does_not_have_are_left_out(connect: Connect, name: str) -> None:
    connection, queue = connect(), queue_named(name)
    publish(connection, queue, "one", correlation_id="id", signal=object())
    (message,) = got(connection, queue, 1)
    assert message.properties["correlation_id"] == "id"
    assert "signal" not in message.properties


def test_an_expired_message_is_dropped(connect: Connect, name: str) -> None:
    connection, queue = connect(), queue_named(name)
    publish(connection, queue, "old", expiration=0.2)
    time.sleep(0.3)
    publish(connection, queue, "new")
    assert [one.payload for one in got(connection, queue, 1)] == ["new"]


def test_declaring_says_how_many_and_purging_too(connect: Connect, name: str) -> None:
    connection, queue = connect(), queue_named(name)
    publish(connection, queue, 1, 2, 3)
    channel = connection.default_channel
    bound = queue(channel)
    assert bound.queue_declare(passive=True).message_count == 3
    assert bound.purge() == 3
    bound.delete()
    with pytest.raises(ChannelError):
        bound.queue_declare(passive=True)
    assert name not in [queue for queue, _, _ in channel.list_bindings()]


def test_exchanges_of_each_type_route_as_amqp_says(connect: Connect, name: str) -> None:
    connection = connect()
    channel = connection.default_channel
    for kind, key, sent in (("topic", "a.*", "a.b"), ("fanout", "", "x"), ("direct", "k", "k")):
        exchange = kombu.Exchange(f"{name}-{kind}", type=kind)
        queues = [kombu.Queue(f"{name}-{kind}-{at}", exchange, routing_key=key) for at in (1, 2)]
        other = kombu.Queue(f"{name}-{kind}-other", exchange, routing_key="else")
        for queue in (*queues, other):
            queue(channel).declare()
        kombu.Producer(channel).publish({}, exchange=exchange, routing_key=sent)
        sizes = [queue(channel).queue_declare(passive=True).message_count for queue in queues]
        assert sizes == [1, 1]
        left = other(channel).queue_declare(passive=True).message_count
        assert left == (1 if kind == "fanout" else 0)
    with pytest.raises(ChannelError):
        kombu.Producer(channel).publish({}, exchange=f"{name}-nowhere", routing_key="a")


def test_another_program_sees_a_binding(connect: Connect, name: str) -> None:
    one, two, queue = connect(), connect(), queue_named(name)
    other = kombu.Queue(f"{name}-2", queue.exchange, routing_key="other")
    publish(one, queue, "first")
    other(two.default_channel).declare()
    kombu.Producer(one.default_channel).publish("for two", exchange=name, routing_key="other")
    assert [one.payload for one in got(two, other, 1)] == ["for two"]


def test_remote_control_reaches_all_and_their_replies_come(connect: Connect, name: str) -> None:
    mailbox = Mailbox(name, type="fanout")
    nodes, over = [], threading.Event()

    def serve(hostname: str, connection: Any, ready: threading.Event) -> None:
        channel = connection.channel()
        node = mailbox(connection).Node(hostname, channel=channel)
        node.handlers["ping"] = lambda *_, **__: {"ok": hostname}
        with node.listen():
            ready.set()
            while not over.is_set():
                try:
                    connection.drain_events(timeout=0.2)
                except TimeoutError:
                    continue

    for hostname in ("w1@here", "w2@here"):
        ready = threading.Event()
        thread = threading.Thread(target=serve, args=(hostname, connect(), ready))
        thread.start()
        nodes.append(thread)
        assert ready.wait(10)
    try:
        told = mailbox(connect()).call(["w1@here", "w2@here"], "ping", timeout=5)
        assert sorted(host for one in told for host in one) == ["w1@here", "w2@here"]
    finally:
        over.set()
        for thread in nodes:
            thread.join()


def test_a_program_that_is_not_there_is_an_error_that_kombu_knows() -> None:
    with kombu.Connection("snowmelt://127.0.0.1:1", connect_timeout=0.3) as connection:
        with pytest.raises(connection.connection_errors):
            connection.connect()
        with pytest.raises(OperationalError):
            connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)


def test_consuming_goes_on_after_a_restart_of_the_node(own_node: LocalNode, name: str) -> None:
    """celery#10205: a worker whose connection was reset consumed nothing any more."""
    consume_over_a_restart(own_node, name)


@pytest.mark.wide
def test_a_consumer_that_does_not_wait_for_a_node_stops(
    own_node: LocalNode, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plant: the test before fails where a reset is an error like another."""
    monkeypatch.setattr(consuming, "PASSING", ())
    with pytest.raises((snowmelt.SnowmeltError, AssertionError)):
        consume_over_a_restart(own_node, name)


def consume_over_a_restart(own_node: LocalNode, name: str) -> None:
    queue = queue_named(name)
    came: list[Any] = []
    with kombu.Connection(own_node.url) as connection, kombu.Connection(own_node.url) as other:
        publish(other, queue, "before", "held")
        with kombu.Consumer(connection.channel(), [queue], on_message=came.append):
            while len(came) < 2:
                connection.drain_events(timeout=10)
            came[0].ack()
            own_node.stop()
            time.sleep(2.5)  # longer than a consumer asks, so that it hears of it
            own_node.start()
            publish(other, queue, "after")
            end = time.monotonic() + 20
            while len(came) < 3 and time.monotonic() < end:
                try:
                    connection.drain_events(timeout=1)
                except TimeoutError:
                    continue
            assert [one.payload for one in came] == ["before", "held", "after"]
            for message in came[1:]:
                message.ack()
        assert queue(other.default_channel).queue_declare(passive=True).message_count == 0


def test_a_child_leaves_what_its_parent_holds_alone(connect: Connect, name: str) -> None:
    connection, queue = connect(), queue_named(name)
    publish(connection, queue, "one")
    message = queue(connection.default_channel).get()
    child = os.fork()
    if not child:
        code = 1
        try:
            publish(connection, queue, "of the child")
            connection.release()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    message.ack()
    assert [one.payload for one in got(connection, queue, 1)] == ["of the child"]
    assert queue(connection.default_channel).get() is None


def test_the_table_is_one_baton(connect: Connect, node: LocalNode, name: str) -> None:
    publish(connect(), queue_named(name), "one")
    with snowmelt.connect(node.url) as cluster, cluster.baton(BATON) as held:
        assert name.encode() in held.value
