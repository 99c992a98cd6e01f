"""However a loop ends: what was acknowledged is told, and the rest goes back."""

import asyncio
import gc
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import LocalNode
from snowmelt.client.coalescing.joint_gets import Gets, dealt
from snowmelt.client.connection.steps import Query, Sleep, Steps
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.leases.delivered import LeasedItems
from snowmelt.client.leases.renewals import LeaseRenewals
from snowmelt.client.queue.options import ProducerSequence
from snowmelt.core.errors import BadOption, LeaseLost, QueueDeleted
from snowmelt.core.instant import later, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.queue.api.calls import (
    Get,
    ItemRun,
    Leased,
    NodeAddress,
    Opened,
    Settle,
    Settled,
    Span,
)
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.runtime.clock import steady_now

LEASE = seconds(30)
HERE = NodeAddress(NodeId("n1"), Address("127.0.0.1", 1))


def wait_until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture(params=["node", "embedded"])
def open_cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Any]:
    if request.param == "embedded":
        return lambda: snowmelt.open(tmp_path / "queues")
    node: LocalNode = request.getfixturevalue("node")
    return lambda: snowmelt.connect(node.url)


# --- the books of a loop --------------------------------------------------------------------------


def tending_of(*tokens: int) -> tuple[LeaseRenewals, list[LeasedItems]]:
    """Two items under each lease, the first of them acknowledged so long ago that it is due."""
    renewals = LeaseRenewals(FifoSteps("orders", None, ProducerSequence()))
    found = []
    for token in tokens:
        part = ItemRun(2 * token, b"\0\0\0\0\1\0\0\0\2\0\0\0", b"ab")
        found.append(LeasedItems(token, (part,), LEASE, later(steady_now(), LEASE)))
        assert renewals.took(found[-1])
        renewals.done(found[-1], 2 * token)
    time.sleep(0.06)
    return renewals, found


def answered(steps: Steps[Any], answer: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    """Takes steps to their end; all that was asked, and what they return."""
    asked = []
    try:
        step = next(steps)
        while True:
            if isinstance(step, Sleep):
                step = steps.send(None)
                continue
            assert isinstance(step, Query)
            asked.append(step.body)
            step = steps.send(answer(step.body))
    except StopIteration as end:
        return asked, end.value


def willing(body: Any) -> Any:
    if isinstance(body, Settle):
        return Settled(0)
    return Opened("orders", QueueSettings(), HERE, HERE)


def told_of(asked: list[Any]) -> dict[int, tuple[Interval, ...]]:
    return {one.token: one.done for one in asked if isinstance(one, Settle)}


def test_what_is_being_told_when_a_loop_ends_is_told_by_the_last_word() -> None:
    renewals, _ = tending_of(1, 2, 3)
    telling = renewals.tend()
    next(telling)
    telling.close()  # as a task that is cancelled while it waits for the first answer
    asked, _ = answered(renewals.close(), willing)
    assert told_of(asked) == {token: (Interval(2 * token, 2 * token + 1),) for token in (1, 2, 3)}


def test_what_a_waiting_get_took_along_is_not_given_back() -> None:
    renewals, _ = tending_of(1)
    getting = renewals.get(1, 1000, 20)
    next(getting)  # and it waits, in another thread
    asked, _ = answered(renewals.close(), willing)
    (settle,) = (one for one in asked if isinstance(one, Settle))
    assert (settle.done, settle.back) == ((Interval(2, 3),), (Interval(3, 4),))


def test_what_a_get_brings_to_a_loop_that_has_ended_goes_back() -> None:
    renewals = LeaseRenewals(FifoSteps("orders", None, ProducerSequence()))
    getting = renewals.get(1, 1000, 20)
    next(getting)
    answered(renewals.close(), willing)

    def brought(body: Any) -> Any:
        if isinstance(body, Get):
            return Leased(7, (ItemRun(0, b"\0\0\0\0\1\0\0\0", b"a"),), (), LEASE)
        return willing(body)

    asked = []
    step: Any = getting.send(willing(None))
    with suppress(StopIteration):
        while True:
            asked.append(step.body)
            step = getting.send(brought(step.body))
    assert asked[-1].back == (Interval(0, 1),)


def test_what_was_told_before_a_get_was_interrupted_is_not_said_to_be_missed() -> None:
    missed: list[Any] = []
    renewals = LeaseRenewals(
        FifoSteps("orders", None, ProducerSequence()), lambda *told: missed.append(told)
    )
    part = ItemRun(0, b"\0\0\0\0\1\0\0\0", b"a")
    delivered = LeasedItems(3, (part,), LEASE, later(steady_now(), LEASE))
    assert renewals.took(delivered)
    renewals.done(delivered, 0)
    getting = renewals.get(1, 1000, 20)
    next(getting)
    getting.send(willing(None))
    back = getting.send(Leased(7, (), (Span(0, 1, "s", 0, ()),), LEASE))  # which nobody can give
    assert isinstance(back, Query)
    assert back.body.back == (Interval(0, 1),)
    again = getting.send(Settled(0))
    assert isinstance(again, Query)
    assert again.body.settle is None
    with pytest.raises(KeyboardInterrupt):
        getting.throw(KeyboardInterrupt)

    asked, _ = answered(renewals.close(), lambda _: Settled(0))
    assert (asked, missed) == ([], [])


def test_what_a_get_of_several_told_is_known_before_it_asks_again() -> None:
    fifo = FifoSteps("orders", None, ProducerSequence())
    _, (delivered,) = tending_of(1)
    *held, _ = delivered.divided(dealt(delivered.parts, [1, 1]))
    gets = Gets(fifo)
    asked = [gets.asked(1, 1000, 20, one) for one in held]
    getting = gets.call([one for one in asked if one is not None])
    next(getting)
    ask = getting.send(willing(None))
    assert isinstance(ask, Query)
    assert ask.body.settle.done == (Interval(2, 4),)
    getting.send(Leased(7, (), (Span(0, 1, "s", 0, ()),), LEASE))  # which nobody can give
    with pytest.raises(KeyboardInterrupt):
        getting.throw(KeyboardInterrupt)
    assert [one.open_in(None) for one in held if one is not None] == [(), ()]


def test_a_lease_whose_last_items_are_being_told_is_not_extended() -> None:
    renewals, (delivered,) = tending_of(1)
    renewals.done(delivered, 3)
    getting = renewals.get(1, 1000, 20)
    next(getting)
    delivered.ends = later(steady_now(), seconds(5))
    for leased in renewals._leases.values():
        leased.renew = steady_now()
    assert answered(renewals.tend(), willing)[0] == []


def test_who_is_silent_holds_up_the_end_of_a_loop_for_a_moment_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    renewals, _ = tending_of(*range(1, 30))
    now = [steady_now()]
    monkeypatch.setattr("snowmelt.client.leases.renewals.steady_now", lambda: now[0])

    def silent(body: Any) -> Any:
        if isinstance(body, Settle):
            now[0] = later(now[0], seconds(5))
        return willing(body)

    asked, _ = answered(renewals.close(), silent)
    assert len(told_of(asked)) == 1


# --- who ends it ----------------------------------------------------------------------------------


def test_a_loop_ends_with_its_cluster(open_cluster: Callable[[], Any]) -> None:
    with open_cluster() as cluster:
        orders = cluster.fifo("leaving-cluster", lease=60)
        orders.put_many([b"one", b"two", b"three"])
        loop = orders.consume(prefetch=3, timeout=0)
        next(loop).ack()
        second = next(loop)
    with open_cluster() as cluster:
        assert [one.body for one in cluster.fifo("leaving-cluster").peek()] == [b"two", b"three"]
    with pytest.raises(LeaseLost):
        second.ack()
    assert list(loop) == []


@pytest.mark.parametrize("embedded", [False, True])
def test_an_async_loop_ends_with_its_cluster(
    node: LocalNode, tmp_path: Path, embedded: bool
) -> None:
    def cluster() -> Any:
        return snowmelt.aio.open(tmp_path) if embedded else snowmelt.aio.connect(node.url)

    async def main() -> None:
        async with cluster() as first:
            orders = first.fifo("leaving-async", lease=60)
            await orders.put_many([b"one", b"two", b"three"])
            loop = orders.consume(prefetch=3, timeout=0)
            await (await anext(loop)).ack()
        async with cluster() as second:
            seen = await second.fifo("leaving-async").peek()
            assert [one.body for one in seen] == [b"two", b"three"]

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_loop_ends_with_the_program(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster:
        orders = cluster.fifo("leaving-program", lease=60)
        orders.put_many([b"one", b"two", b"three"])
        program = (
            "import snowmelt\n"
            f"orders = snowmelt.connect({node.url!r}).fifo('leaving-program')\n"
            "loop = orders.consume(prefetch=3)\n"
            "next(loop).ack()\n"
        )
        ended = subprocess.run(
            [sys.executable, "-c", program], check=True, timeout=30, capture_output=True
        )
        assert not ended.stderr
        assert [one.body for one in orders.peek()] == [b"two", b"three"]


def test_an_async_loop_that_is_cancelled_while_it_ends_ends_all_the_same(node: LocalNode) -> None:
    async def main() -> None:
        async with snowmelt.aio.connect(node.url) as cluster:
            orders = cluster.fifo("leaving-twice", lease=60)
            await orders.put_many([b"one", b"two", b"three"])
            loop = orders.consume(prefetch=3)
            await (await anext(loop)).ack()
            ending = asyncio.ensure_future(loop.aclose())
            await asyncio.sleep(0)
            ending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await ending
        async with snowmelt.aio.connect(node.url) as cluster:
            seen = await cluster.fifo("leaving-twice").peek()
            assert [one.body for one in seen] == [b"two", b"three"]

    asyncio.run(asyncio.wait_for(main(), 30))


# --- the collector of garbage, and signals --------------------------------------------------------


@pytest.fixture
def collected_by_hand() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def drop_in_a_circle(orders: snowmelt.Fifo) -> None:
    """Leaves a loop over three items to the collector, the first of them acknowledged."""
    loop = orders.consume(prefetch=3)
    next(loop).ack()
    circle: list[Any] = [loop]
    circle.append(circle)


@pytest.mark.usefixtures("collected_by_hand")
def test_a_loop_collected_in_the_middle_of_a_step_ends_after_it(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        orders = cluster.fifo("orders", lease=60)
        orders.put_many([b"one", b"two", b"three"])
        drop_in_a_circle(orders)
        machine = cluster._machine._queues
        persist = machine._persist

        def collect(effect: Any) -> Any:
            gc.collect()
            return persist(effect)

        machine._persist = collect  # type: ignore[method-assign]
        orders.put(b"four")
        machine._persist = persist  # type: ignore[method-assign]
        wait_until(lambda: len(orders.peek()) == 3)  # and not when the lease has ended
        assert [one.body for one in orders.peek()] == [b"two", b"three", b"four"]


@pytest.mark.usefixtures("collected_by_hand")
def test_a_loop_collected_while_its_books_are_open_ends_after_that(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster:
        orders = cluster.fifo("leaving-books", lease=60)
        orders.put_many([b"one", b"two", b"three"])
        loop = orders.consume(prefetch=3)
        next(loop).ack()
        lock = loop._renewals._lock
        circle: list[Any] = [loop]
        circle.append(circle)
        del loop, circle
        with lock:  # as it is when an acknowledgement is gathered
            begin = time.monotonic()
            gc.collect()
            assert time.monotonic() - begin < 20  # and not for ever
        wait_until(lambda: len(orders.peek()) == 2)
        assert orders.stats().done == 1


def test_nothing_of_this_runs_within_a_collection_where_ctrl_c_would_be_swallowed() -> None:
    assert not [one for one in gc.callbacks if "snowmelt" in getattr(type(one), "__module__", "")]


def test_a_handler_of_signals_comes_after_the_step_it_would_interrupt_and_may_call(
    tmp_path: Path,
) -> None:
    told: list[str] = []
    with snowmelt.open(tmp_path) as cluster:
        orders = cluster.fifo("orders")

        def handler(*_: object) -> None:
            told.append("handled")
            orders.put(b"from the handler")

        machine = cluster._machine._queues
        persist = machine._persist

        def interrupted(effect: Any) -> Any:
            machine._persist = persist  # type: ignore[method-assign]
            signal.raise_signal(signal.SIGUSR1)
            told.append("step")
            return persist(effect)

        before = signal.signal(signal.SIGUSR1, handler)
        try:
            machine._persist = interrupted  # type: ignore[method-assign]
            orders.put(b"one")
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert told == ["step", "handled"]
        assert sorted(item.body for item in orders.get_many(10)) == [b"from the handler", b"one"]


# --- loops that are shared ------------------------------------------------------------------------


def test_threads_that_wait_in_one_loop_get_all_of_it(node: LocalNode) -> None:
    with snowmelt.connect(node.url) as cluster:
        orders = cluster.fifo("leaving-shared")
        orders.put(b"first")
        orders.get().ack()
        loop = orders.consume(prefetch=5, timeout=60)
        seen: list[bytes] = []

        def work() -> None:
            with suppress(QueueDeleted):
                for item in loop:
                    seen.append(item.body)
                    time.sleep(0.02)  # so that another's get is answered meanwhile
                    item.ack()

        working = [threading.Thread(target=work) for _ in range(4)]
        for one in working:
            one.start()
        time.sleep(0.3)  # all of them wait now
        orders.put_many([b"%d" % at for at in range(40)])
        wait_until(lambda: len(seen) == 40)  # not by another get after it had ended
        wait_until(lambda: orders.stats().done == 41)
        cluster.delete("leaving-shared")  # so that they wait no more
        for one in working:
            one.join(20)
            assert not one.is_alive()
        assert sorted(seen) == sorted(b"%d" % at for at in range(40))


def test_tasks_that_wait_in_one_loop_get_all_of_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with snowmelt.aio.open(tmp_path) as cluster:
            orders = cluster.fifo("orders")
            await orders.put(b"first")
            await (await orders.get()).ack()
            loop = orders.consume(prefetch=5, timeout=2)
            seen: list[bytes] = []

            async def work() -> None:
                async for item in loop:
                    seen.append(item.body)
                    await asyncio.sleep(0.02)
                    await item.ack()

            working = [asyncio.ensure_future(work()) for _ in range(4)]
            await asyncio.sleep(0.2)
            await orders.put_many([b"%d" % at for at in range(40)])
            await asyncio.gather(*working)
            assert sorted(seen) == sorted(b"%d" % at for at in range(40))

    asyncio.run(asyncio.wait_for(main(), 30))


def test_what_is_lost_with_its_lease_is_not_given_out(open_cluster: Callable[[], Any]) -> None:
    with open_cluster() as cluster:
        orders = cluster.fifo("leaving-lost")
        orders.put_many([b"one", b"two", b"three"])
        with orders.consume(prefetch=3, timeout=0) as loop:
            first = next(loop)
            first.held[0].ends = steady_now()  # as after a stop that outlived it
            with pytest.raises(LeaseLost, match="ran out"):
                first.ack()
            assert list(loop) == []


# --- sentences ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [None, 5, b"orders"])
def test_a_name_that_is_no_text_is_refused_in_a_sentence(name: Any) -> None:
    cluster = snowmelt.connect("snowmelt://127.0.0.1:1")
    with pytest.raises(BadOption, match="queue is"):
        cluster.fifo(name)
