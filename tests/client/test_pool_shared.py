"""Large objects between processes of one machine: read where they were written."""

import asyncio
import gc
import os
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

import snowmelt
import snowmelt.aio
from client.pool_process import Other, pattern
from snowmelt.cli.local import LocalNode
from snowmelt.core.errors import BadOption, Full
from snowmelt.runtime.peer import segments

MIB = 1 << 20
pytestmark = pytest.mark.skipif(not segments.POSSIBLE, reason="this system has no memory files")


@pytest.fixture
def pool(node: LocalNode, name: str) -> Iterator[snowmelt.Pool]:
    with snowmelt.connect(node.url) as cluster:
        yield cluster.pool(name, buffers=4)


def memory_files(process: int | str = "self") -> int:
    """How many descriptors of such a process are of segments."""
    links = Path(f"/proc/{process}/fd").iterdir()
    return sum("snowmelt-pool" in str(one.readlink()) for one in list(links) if one.is_symlink())


def met(pool: snowmelt.Pool, other: Other) -> None:
    """Both know each other, so that what is put from now on is written where it is read."""
    other.tell("put", body="known")
    pool.get().ack()


def test_what_is_in_hand_stays_as_it_is_though_it_is_done(
    node: LocalNode, name: str, pool: snowmelt.Pool
) -> None:
    with Other(node.url, name, buffers=4) as other:
        met(pool, other)
        kept = []
        for number in range(60):
            other.tell("put_sized", first=number, count=1, size=MIB)
            with pool.get() as frame:
                assert isinstance(frame.body, memoryview)
                kept.append(np.frombuffer(frame.body, np.uint8)[5:])
        for number, body in enumerate(kept):
            assert body.tobytes() == pattern(number, MIB)[5:]


def test_a_consumer_that_is_killed_gives_its_places_back(
    node: LocalNode, name: str, pool: snowmelt.Pool
) -> None:
    before = memory_files()
    for round_ in range(6):
        with Other(node.url, name) as other:
            pool.put(b"known")
            other.tell("get")
            for number in range(20):
                pool.put(pattern(number, MIB))
                other.tell("hold")
                other.tell("ack")
            other.kill()
        if round_ == 0:
            first = memory_files()
    assert before < first
    assert memory_files() <= first + 2  # of the rounds before nothing is kept


def test_a_child_has_no_descriptor_of_its_parents(
    node: LocalNode, name: str, pool: snowmelt.Pool
) -> None:
    with Other(node.url, name) as other:
        met(pool, other)
        other.tell("put_sized", first=1, count=1, size=MIB)
        frame = pool.get()
        pool.put(b"known too")
        other.tell("get")
        pool.put(bytes(MIB))
        other.tell("get")
        assert memory_files()
        gc.collect()  # what tests of before saw, and hold in circles
        for _ in range(3):  # one that comes in the moment of a fork is in no list yet
            child = os.fork()
            if not child:
                seen = frame.body[:12] == pattern(1, 12)
                os._exit(10 * memory_files_that_nobody_sees() + seen)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if code == 1:
                break
            time.sleep(0.5)
        assert code == 1
        frame.ack()


def memory_files_that_nobody_sees() -> int:
    """One is the child's as long as it sees the object that its parent had in hand."""
    return max(0, memory_files() - 1)


def test_an_array_is_made_where_it_is_read(node: LocalNode, name: str, pool: snowmelt.Pool) -> None:
    with snowmelt.connect(node.url) as cluster:
        mine = cluster.pool(name)
        for dtype in ("uint16", np.uint16, "H"):
            with mine.room((256, 1024), dtype) as room:
                array = np.asarray(room)
                array[:] = np.arange(256 * 1024).reshape(256, 1024)
                del array
            with pool.get() as frame:
                got = np.frombuffer(frame.body, np.uint16).reshape(256, 1024)
                assert (got == np.arange(256 * 1024).reshape(256, 1024).astype("H")).all()


def test_what_was_not_made_to_its_end_is_not_put(pool: snowmelt.Pool) -> None:
    with pytest.raises(ZeroDivisionError), pool.room(MIB) as room:
        room[0] = 1 // 0
    assert pool.stats().put == 0
    with pool.room(MIB, timeout=5) as room:
        room[:] = b"x" * MIB
    with pytest.raises(ValueError, match="released"):
        room[0] = 2
    with pool.get() as frame:
        assert frame.body == b"x" * MIB


@pytest.mark.parametrize(
    ("shape", "dtype", "said"),
    [
        (0, "B", "shape is 0"),
        ((), "B", r"shape is \(\)"),
        ((2, -1), "B", "shape is"),
        (1 << 40, "B", "shape is"),
        (2.5, "B", "shape is 2.5"),
        (10, "O", "dtype is 'O'"),
        (10, ">u2", "dtype is '>u2'"),
        (10, None, "dtype is None"),
        (10, object, "dtype is"),
    ],
)
def test_a_shape_that_is_none_is_refused(
    pool: snowmelt.Pool, shape: object, dtype: object, said: str
) -> None:
    with pytest.raises(BadOption, match=said):
        pool.room(shape, dtype)  # type: ignore[arg-type]


def test_an_object_that_moves_has_one_holder_at_a_time(
    node: LocalNode, name: str, pool: snowmelt.Pool
) -> None:
    pool.put(np.zeros(MIB, np.uint8))

    def moves() -> None:
        with snowmelt.connect(node.url) as cluster:
            models = cluster.pool(name)
            for _ in range(5):
                with cluster.baton(name).acquire(timeout=30):
                    old = models.get(timeout=10)
                    models.put(np.frombuffer(old.body, np.uint8) + 1)
                    old.ack()

    threads = [Thread(target=moves) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    with pool.get() as last:
        assert set(last.body) == {15}


def test_memory_whose_put_failed_is_not_written_to_any_more(pool: snowmelt.Pool) -> None:
    pool.put_many([b"x"] * 4)
    with pytest.raises(Full), pool.room(MIB, timeout=0.1) as room:
        room[0] = 1
    with pytest.raises(ValueError, match="released"):
        room[0] = 2
    pool.get_many(4).ack()


async def _made(url: str, name: str) -> bytes:
    async with snowmelt.aio.connect(url) as cluster:
        frames = cluster.pool(name)
        async with frames.room(MIB) as room:
            room[:5] = b"frame"
        async with await frames.get() as frame:
            return bytes(frame.body[:5])


def test_a_task_makes_one(node: LocalNode, name: str) -> None:

    assert asyncio.run(_made(node.url, name)) == b"frame"


def test_memory_that_is_made_in_is_copied_when_it_is_put_before_it_is_done(
    node: LocalNode, name: str, pool: snowmelt.Pool
) -> None:
    with Other(node.url, name) as other:
        pool.put(b"known")
        other.tell("get")
        with pool.room(MIB) as room:
            room[:] = bytes(MIB)
            pool.put(room)
            room[:] = b"x" * MIB
        assert {other.tell("hold"), other.tell("hold")} == {"\0" * 100, "x" * 100}
        other.tell("ack")
        other.tell("ack")


def test_what_a_program_saw_when_it_closed_a_pool_is_given_back_when_it_sees_it_no_more(
    node: LocalNode, name: str
) -> None:
    kept: list[object] = []
    with Other(node.url, name, buffers=4) as other:
        for number in range(60):
            with snowmelt.connect(node.url) as cluster:
                other.tell("put_sized", first=number, count=1, size=MIB)
                frame = cluster.pool(name).get()
                frame.ack()
            kept[:] = [frame]  # longer than its pool
        other.tell("put", body="so that what is back is seen")
        assert memory_files(other.process) <= 3 * 2
