"""Exceptions in loops and in `with`: what was in hand goes back, and what is done stays done."""

import pytest

import snowmelt
import snowmelt.aio
from ordinary.kinds import Kind, opened, rest, settled
from snowmelt.cli.local import LocalNode
from snowmelt.core.errors import LeaseLost


def test_an_exception_in_a_loop_gives_back_what_was_in_hand(
    where: tuple[type[Kind], str], name: str
) -> None:
    kind, url = where
    with opened(kind, url, name) as queue:
        for number in range(4):
            queue.put(b"%d" % number)
        in_hand = None
        done: list[bytes] = []

        def work() -> None:
            nonlocal in_hand
            for item in queue.consume(timeout=5):
                if len(done) == 2:
                    in_hand = item
                    raise ZeroDivisionError
                if kind.__name__ != "Pool":
                    item.ack()
                done.append(bytes(item.body))

        with pytest.raises(ZeroDivisionError):
            work()
        settled(queue, seconds=1.5)
        with pytest.raises(LeaseLost):
            in_hand.ack()
        left = rest(queue)
        assert in_hand.body in left
        assert sorted([*done, *left]) == [b"0", b"1", b"2", b"3"]


async def test_an_exception_in_an_async_loop_gives_back_what_was_in_hand(
    node: LocalNode, name: str
) -> None:
    async with snowmelt.aio.connect(node.url) as cluster:
        pool = cluster.pool(name, lease=60)
        for number in range(4):
            await pool.put(b"%d" % number)

        async def work() -> None:
            async for one in pool.consume(timeout=5):
                if one.body == b"2":
                    raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await work()
        left = sorted([one.body async for one in pool.consume(timeout=3)])
        assert left == [b"2", b"3"]


def test_a_loop_ends_with_its_pool_and_what_it_was_asked_for_is_there_still(
    node: LocalNode, name: str
) -> None:
    with snowmelt.connect(node.url) as cluster:
        maker = cluster.pool(name, buffers=10)
        taker = cluster.pool(name, lease=60)
        maker.put_many([b"%d" % number for number in range(6)])
        loop = taker.consume(prefetch=3)
        held = next(loop)
        taker.close()
        with pytest.raises(StopIteration):
            next(loop)
        with pytest.raises((LeaseLost, snowmelt.Unreachable)):
            held.ack()
        other = cluster.pool(name)
        assert sorted(one.body for one in other.consume(timeout=3)) == [
            b"%d" % number for number in range(6)
        ]
