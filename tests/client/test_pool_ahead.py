"""Puts that find a place which was told of ahead: nobody waits, and all that is promised holds."""

import asyncio
import contextlib
import itertools
import os
import random
import re
import signal
import threading
import time

import pytest

import snowmelt
import snowmelt.aio
from snowmelt.core.errors import DataLost, Full, SnowmeltError, TooLarge
from snowmelt.core.instant import seconds
from throwing import Target
from timing import until

# What is thrown may come into a finalizer of what another test left.
in_finalizers = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


class Thrown(BaseException):
    """From outside."""


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """A put counts as made at once after another, however long a busy machine takes over both."""
    monkeypatch.setattr("snowmelt.protocols.pool.rate.QUICK", seconds(60))


@pytest.fixture
def cluster(tmp_path):
    opened = snowmelt.open(tmp_path)
    yield opened
    with contextlib.suppress(DataLost):
        opened.close()


def told_ahead(pool):
    """Puts until there is a place."""
    for number in range(20):
        if pool._part.engine.places:
            return number
        pool.put(b"before")
    raise AssertionError("no place was told of")


def taken(pool, timeout=0.8):
    return [bytes(one.body) for one in pool.consume(timeout=timeout)]


def test_what_one_thread_puts_comes_in_its_order(cluster):
    pool = cluster.pool("frames", buffers=100)
    for number in range(100):
        if number % 7:
            pool.put(b"%d" % number)
        else:
            pool.put_many([b"%d" % number])
    assert taken(pool) == [b"%d" % number for number in range(100)]


def test_a_put_that_has_returned_is_seen(cluster):
    pool = cluster.pool("frames", buffers=50)
    before = told_ahead(pool)
    for number in range(before + 1, 40):
        pool.put(b"one")
        assert pool.stats().stock == number


def test_no_more_than_the_buffers_come_in_however_many_put(cluster):
    pool = cluster.pool("frames", buffers=7)

    def put_all():
        for _ in range(100):
            pool.put(b"one", timeout=20)

    threads = [threading.Thread(target=put_all) for _ in range(6)]
    for one in threads:
        one.start()
    came, most = 0, 0
    while came < 600:
        most = max(most, pool.stats().stock)
        came += len(taken_some(pool))
    for one in threads:
        one.join()
    assert most <= 7


def taken_some(pool):
    with pool.get_many(3, timeout=5) as objects:
        return list(objects.batch)


def test_who_is_full_hears_it(cluster):
    pool = cluster.pool("frames", buffers=5, max_bytes=1000)
    told_ahead(pool)
    with pytest.raises(TooLarge):
        pool.put(bytes(1001))
    with pytest.raises(Full):  # noqa: PT012 - some of them fit
        for _ in range(6):
            pool.put(b"one", timeout=0)
    assert pool.stats().stock == 5


def test_a_place_that_is_too_small_is_room_for_others(cluster):
    pool = cluster.pool("frames", buffers=6)
    for number in range(2 * 6):
        told = pool.stats().stock
        if told == 6:
            break
        pool.put(bytes(number * 1000 + 1), timeout=1)
    assert pool.stats().stock == 6


def test_a_batch_has_the_room_that_nobody_has_taken(cluster):
    pool = cluster.pool("frames", buffers=10)
    before = told_ahead(pool)
    assert pool.put_many([b"one"] * (10 - before), timeout=1) == 10 - before
    pool.get().ack()
    pool.await_room(timeout=1)


@in_finalizers
def test_what_is_thrown_into_threads_that_put_loses_nothing_and_no_room(cluster):
    pool = cluster.pool("frames", buffers=16)
    returned, over, came = set(), threading.Event(), []
    ready = [threading.Event() for _ in range(3)]

    def put_all(name):
        numbers = itertools.count()
        while not over.is_set():
            with contextlib.suppress(Thrown):
                ready[name].set()  # only from here on it is thrown at
                while not over.is_set():
                    body = b"%d/%d" % (name, next(numbers))
                    with contextlib.suppress(SnowmeltError):
                        pool.put(body, timeout=5)
                        returned.add(body)

    threads = [threading.Thread(target=put_all, args=(name,)) for name in range(3)]
    targets = [Target(*both) for both in zip(threads, ready, strict=True)]
    for one in threads:
        one.start()
    thrown, dice = 0, random.Random(5)
    while thrown < 1_000:
        came += [bytes(one) for one in taken_some(pool)]
        target = dice.choice(targets)
        if target.heard(Thrown):
            target.throw(Thrown)
            thrown += 1
    while not all(one.heard(Thrown) for one in targets):
        came += [bytes(one) for one in taken_some(pool)]
    over.set()
    while any(one.is_alive() for one in threads):
        came += taken(pool, timeout=0.2)
    came += taken(pool)
    assert len(came) == len(set(came))
    assert returned <= set(came)
    assert len(returned) > 100
    assert pool.put_many([b"one"] * 16, timeout=1) == 16  # all its room is there


@in_finalizers
def test_a_handler_that_raises_in_the_middle_of_puts_loses_nothing(cluster):
    pool = cluster.pool("frames", buffers=1000)
    returned = set()

    def raises(*_):
        raise Thrown

    before = signal.signal(signal.SIGALRM, raises)
    number = 0
    try:
        while number < 600:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0007)
                while number < 600:
                    body = b"%d" % number
                    number += 1
                    pool.put(body)
                    returned.add(body)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Thrown:
                continue
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    came = taken(pool)
    assert len(came) == len(set(came))
    assert returned <= set(came)


def test_a_handler_that_closes_the_pool_in_the_middle_of_a_put_ends_it(cluster):
    pool = cluster.pool("frames", buffers=10)
    told_ahead(pool)
    place = pool._part.engine.places.take(1)  # as one that was interrupted here has it
    begun = time.monotonic()
    with pytest.raises(DataLost):
        pool.close()
    assert time.monotonic() - begun < 2
    del place
    with pytest.raises(SnowmeltError):
        pool.put(b"one")


@pytest.mark.parametrize("seed", range(6))
def test_what_is_put_while_the_pool_is_closed_is_counted_or_refused(tmp_path, seed):
    with snowmelt.open(tmp_path) as cluster:
        pool = cluster.pool("frames", buffers=10_000)
        returned = []

        def put_all():
            try:
                while True:
                    pool.put(b"one")
                    returned.append(1)
            except SnowmeltError:
                return

        threads = [threading.Thread(target=put_all) for _ in range(3)]
        for one in threads:
            one.start()
        until(lambda: returned)
        time.sleep(seed * 0.003)
        with pytest.raises(DataLost) as lost:
            pool.close()
        for one in threads:
            one.join()
        told = int(re.match(r"\d+", str(lost.value))[0])
        assert len(returned) <= told <= len(returned) + len(threads)


def test_a_child_puts_nothing_into_its_parents_places(cluster):
    pool = cluster.pool("frames", buffers=10)
    before = told_ahead(pool)
    child = os.fork()
    if not child:
        try:
            pool.put(b"child")
            os._exit(1)
        except SnowmeltError:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    pool.put(b"parent")
    assert pool.stats().stock == before + 1


async def test_a_task_that_only_puts_gives_way(tmp_path):
    async with snowmelt.aio.open(tmp_path) as cluster:
        pool = cluster.pool("frames", buffers=100_000)

        async def put_all():
            while True:
                await pool.put(b"one")

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(put_all(), 0.3)
        with contextlib.suppress(DataLost):
            await pool.close()


async def test_a_cancelled_put_is_in_as_a_whole_or_not_at_all(tmp_path):
    async with snowmelt.aio.open(tmp_path) as cluster:
        pool = cluster.pool("frames", buffers=10_000)
        returned = []

        async def put_all(name):
            for number in range(50):
                await pool.put(b"%d/%d" % (name, number))
                returned.append(b"%d/%d" % (name, number))

        tasks = [asyncio.create_task(put_all(name)) for name in range(10)]
        for one in tasks:
            await asyncio.sleep(0.004)
            one.cancel()
        await asyncio.wait(tasks)
        came = [bytes(one.body) async for one in pool.consume(timeout=1)]
        assert len(came) == len(set(came))
        assert set(returned) <= set(came)


def test_places_that_nobody_has_taken_hold_no_end_up(tmp_path, monkeypatch):
    monkeypatch.setattr("snowmelt.protocols.pool.adopting.ON_THEIR_WAY", seconds(8))
    with snowmelt.open(tmp_path) as cluster:
        pool = cluster.pool("frames", buffers=10)
        before = told_ahead(pool)
        with pool.get_many(before):
            pass
        assert pool._part.engine.places
        begun = time.monotonic()
        pool.close()
        assert time.monotonic() - begun < 4  # no moment is waited for
