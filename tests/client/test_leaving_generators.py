"""Generators around a loop: closed, dropped or thrown into; what was in hand failed, or did not."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, closing, contextmanager, suppress

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import LocalNode

Work = Callable[[], Iterator[bytes]]


def closed(work: Work) -> None:
    generator = work()
    next(generator)
    generator.close()


def closed_by_a_block(work: Work) -> None:
    with closing(work()) as generator:  # type: ignore[type-var]
        next(generator)


def closed_by_a_finally(work: Work) -> None:
    generator = work()
    try:
        for _ in generator:
            return
    finally:
        generator.close()


def closed_around_another(work: Work) -> None:
    closed(lambda: (body for body in work()))


def closed_where_it_delegates(work: Work) -> None:
    def around() -> Iterator[bytes]:
        yield from work()

    closed(around)


def closed_while_an_older_exception_is_handled(work: Work) -> None:
    try:
        int("none")
    except ValueError:
        closed(work)


def left_by_break(work: Work) -> None:
    for _ in work():
        break


def raised_in_a_closing_block(work: Work) -> None:
    with closing(work()) as generator:  # type: ignore[type-var]
        for _ in generator:
            raise KeyError("within")


def raised_in_its_loop(work: Work) -> None:
    for _ in work():
        raise KeyError("within")


def raised_in_the_loop_of_another(work: Work) -> None:
    for _ in (body for body in work()):
        raise KeyError("within")


def thrown_into(work: Work) -> None:
    generator = work()
    next(generator)
    generator.throw(KeyError("within"))  # type: ignore[attr-defined]


def thrown_into_by_a_block(work: Work) -> None:
    with contextmanager(work)():
        raise KeyError("within")


def collected(work: Work) -> None:
    generator = work()
    next(generator)
    circle: list[object] = [generator]
    circle.append(circle)
    del generator, circle
    gc.collect()


def collected_while_something_else_is_closed(work: Work) -> None:
    class Other:
        close = staticmethod(gc.collect)

    generator = work()
    next(generator)
    circle: list[object] = [generator]
    circle.append(circle)
    del generator, circle
    Other.close()


IN_ORDER = [
    closed,
    closed_by_a_block,
    closed_by_a_finally,
    closed_around_another,
    closed_where_it_delegates,
    closed_while_an_older_exception_is_handled,
    left_by_break,
]
FAILED = [
    raised_in_a_closing_block,
    raised_in_its_loop,
    raised_in_the_loop_of_another,
    thrown_into,
    thrown_into_by_a_block,
    collected,
    collected_while_something_else_is_closed,
]


@pytest.fixture(params=["waits bare", "waits in a try"])
def work(node: LocalNode, request: pytest.FixtureRequest) -> Iterator[Work]:
    """A generator of bodies, one of two forms: Python ends the first without running it."""
    with snowmelt.connect(node.url) as cluster:
        orders = cluster.fifo("leaving-generators", lease=60)
        orders.put(b"one")

        def bare() -> Iterator[bytes]:
            for item in orders.consume(timeout=0):
                yield item.body

        def tried() -> Iterator[bytes]:
            for item in orders.consume(timeout=0):
                try:
                    yield item.body
                finally:
                    str(item.position)

        yield bare if request.param == "waits bare" else tried


def failures(url: str) -> int:
    """How often the item failed; it is done then."""
    with (
        snowmelt.connect(url) as cluster,
        cluster.fifo("leaving-generators").get(timeout=10) as item,
    ):
        return item.failures


@pytest.mark.parametrize("leave", IN_ORDER)
def test_a_generator_that_is_closed_is_left_in_order(
    node: LocalNode, work: Work, leave: Callable[[Work], None]
) -> None:
    leave(work)
    assert failures(node.url) == 0


@pytest.mark.parametrize("leave", FAILED)
def test_an_exception_around_a_generator_counts(
    node: LocalNode, work: Work, leave: Callable[[Work], None]
) -> None:
    with suppress(KeyError):
        leave(work)
    assert failures(node.url) == 1


# --- on an event loop -----------------------------------------------------------------------------

AsyncWork = Callable[[], AsyncIterator[bytes]]


async def awaited(work: AsyncWork) -> None:
    generator = work()
    await anext(generator)
    await generator.aclose()  # type: ignore[attr-defined]


async def awaited_by_a_block(work: AsyncWork) -> None:
    async with aclosing(work()) as generator:  # type: ignore[type-var]
        await anext(generator)


async def raised_in_an_aclosing_block(work: AsyncWork) -> None:
    async with aclosing(work()) as generator:  # type: ignore[type-var]
        async for _ in generator:
            raise KeyError("within")


async def raised_and_closed_by_nobody(work: AsyncWork) -> None:
    async for _ in work():
        raise KeyError("within")


@pytest.mark.parametrize(
    ("leave", "count"),
    [
        (awaited, 0),
        (awaited_by_a_block, 0),
        (raised_in_an_aclosing_block, 1),
        (raised_and_closed_by_nobody, 1),
    ],
)
def test_an_async_generator_that_is_closed_is_left_in_order(
    node: LocalNode, leave: Callable[[AsyncWork], Awaitable[None]], count: int
) -> None:
    async def main() -> None:
        async with snowmelt.aio.connect(node.url) as cluster:
            orders = cluster.fifo("leaving-async-generators", lease=60)
            await orders.put(b"one")

            async def work() -> AsyncIterator[bytes]:
                async for item in orders.consume(timeout=0):
                    yield item.body

            with suppress(KeyError):
                await leave(work)
            async with await orders.get(timeout=10) as item:
                assert item.failures == count

    asyncio.run(asyncio.wait_for(main(), 30))
