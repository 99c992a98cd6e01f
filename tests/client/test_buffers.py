"""What is handed in is ours when the call returns, and is read before a generator is asked on."""

import asyncio
import tracemalloc
from array import array
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import snowmelt
import snowmelt.aio
from snowmelt.client.pool.bodies import LARGE, several
from snowmelt.client.priority.steps import ranked_parcels
from snowmelt.client.queue.bodies import AHEAD, CALL_BYTES, parcels
from snowmelt.client.queue.ranks import Ranks

FRAMES = 20
RANKS = Ranks("p")
Buffers = Callable[[int], Any]
KINDS = {
    "bytearray": bytearray,
    "memoryview": lambda size: memoryview(bytearray(size)),
    "numpy": lambda size: np.zeros(size, "u1"),
    "array": lambda size: array("B", bytes(size)),
}


def again(buffer: Any, frames: int = FRAMES) -> Iterator[Any]:
    """One buffer again and again, as `readinto` fills it."""
    for number in range(frames):
        buffer[0] = number
        yield buffer
    buffer[0] = 255


def first(bodies: Any) -> list[int]:
    return [body[0] for body in bodies]


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def made(request: pytest.FixtureRequest) -> Buffers:
    return request.param


@pytest.mark.parametrize(("kind", "size"), [("bytearray", 10), ("numpy", LARGE)])
def test_a_generator_may_use_one_buffer_again(tmp_path: Path, kind: str, size: int) -> None:
    made: Buffers = KINDS[kind]
    numbers = list(range(FRAMES))
    with snowmelt.open(tmp_path / "here") as cluster:
        fifo, jobs, pairs = cluster.fifo("f"), cluster.priority("p"), cluster.priority("pairs")
        fifo.put_many(again(made(size)))
        jobs.put_many(again(made(size)))
        pairs.put_many((1, buffer) for buffer in again(made(size)))
        for queue in (fifo, jobs, pairs):
            assert first(item.body for item in queue.consume(timeout=0)) == numbers
        fifo.publish(fifo.stage(again(made(size))))
        assert first(item.body for item in fifo.consume(timeout=0)) == 2 * numbers
        pool = cluster.pool("frames", buffers=FRAMES)
        pool.put_many(again(made(size)))
        assert sorted(first(frame.body for frame in pool.consume(timeout=0))) == numbers
        topic = cluster.multicast("t")
        listening = topic.subscribe(timeout=1)
        topic.publish_many(again(made(size)))
        assert first(next(listening).body for _ in range(FRAMES)) == numbers

    async def on_a_loop() -> None:
        async with snowmelt.aio.open(tmp_path / "loop") as cluster:
            fifo, pool = cluster.fifo("f"), cluster.pool("frames", buffers=FRAMES)
            await fifo.put_many(again(made(size)))
            assert [item.body[0] async for item in fifo.consume(timeout=0)] == numbers
            await pool.put_many(again(made(size)))
            came = [frame.body[0] async for frame in pool.consume(timeout=0)]
            assert sorted(came) == numbers

    asyncio.run(on_a_loop())


@pytest.mark.parametrize("size", [10, 2 * LARGE])
def test_a_buffer_is_the_programs_again_when_a_put_returns(
    tmp_path: Path, made: Buffers, size: int
) -> None:
    with snowmelt.open(tmp_path) as cluster:
        buffer, pool = made(size), cluster.pool("frames")
        for put in (cluster.fifo("f").put, cluster.priority("p").put, pool.put):
            buffer[0] = 7
            put(buffer)
            buffer[0] = 9
        pool.put_many([buffer])
        buffer[0] = 11
        assert cluster.fifo("f").get().body[0] == cluster.priority("p").get().body[0] == 7
        came = sorted(frame.body[0] for frame in pool.consume(timeout=0))
        assert came == [7, 9]


def test_a_buffer_that_comes_after_bytes_is_read_before_the_next_is_asked_for() -> None:
    plain = AHEAD + 2  # so that it is in the midst of what is taken at once
    expected = b"p" * plain + bytes(range(FRAMES))
    for made in KINDS.values():
        bodies = [chain([b"p"] * plain, again(made(1))) for _ in range(3)]
        [parcel] = parcels(bodies[0])
        [some] = ranked_parcels(bodies[1], 0, RANKS)
        [pairs] = ranked_parcels(((0, body) for body in bodies[2]), None, RANKS)
        assert parcel.blob == some.blob == pairs.blob == expected


@pytest.mark.parametrize("kind", [list, iter])
def test_bodies_among_pairs_are_refused_and_pairs_among_bodies(kind: Callable[[Any], Any]) -> None:
    for wrong in ([(0, b"a"), b"b"], [(0, b"a"), (0, b"b", 1)], [b"a", (0, b"b")]):
        with pytest.raises(TypeError, match=r"not both|not 3 things|not tuple"):
            list(ranked_parcels(kind(wrong), None, RANKS))


def test_what_is_read_only_is_handed_over_to_a_pool() -> None:
    frame = np.zeros(LARGE)
    frame.flags.writeable = False
    [parcel] = several([frame])
    assert np.shares_memory(np.frombuffer(parcel.blob, "u1"), frame)


def test_an_endless_generator_of_large_buffers_is_held_for_a_few_calls_only() -> None:
    buffer = bytearray(CALL_BYTES // 4)
    tracemalloc.start()
    try:
        for cut in (parcels, lambda rows: ranked_parcels(rows, 0, RANKS), several):
            calls = cut(again(buffer, 200))
            for _ in range(3):
                next(calls)
            assert tracemalloc.get_traced_memory()[0] < 6 * CALL_BYTES
            calls.close()
    finally:
        tracemalloc.stop()
