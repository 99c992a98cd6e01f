"""A pool as a program holds it: real processes, and a real node that introduces them."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import snowmelt
from client.pool_process import Other, pattern, use_up
from snowmelt.cli.local import LocalNode, free_port
from snowmelt.core.errors import BadOption, DataLost, LeaseLost, StoreVersion, TooLarge, Unreachable
from snowmelt.core.record import Write
from snowmelt.store import Store
from timing import in_time

KIB = 1 << 10


@pytest.fixture
def pair(node: LocalNode, name: str) -> Iterator[tuple[snowmelt.Pool, snowmelt.Pool]]:
    """One that puts, and one that gets; each a process' whole part, though in one process."""
    with snowmelt.connect(node.url) as cluster:
        maker = cluster.pool(name, buffers=1000)
        taker = cluster.pool(name, lease=1)
        yield maker, taker
        taker.close()  # which gives back what it holds
        use_up(maker)


def test_an_object_goes_from_one_process_to_another(node: LocalNode, name: str) -> None:
    with (
        Other(node.url, name) as maker,
        snowmelt.connect(node.url) as cluster,
        cluster.pool(name) as pool,
    ):
        maker.tell("put", body="hey")
        with pool.get() as one:
            assert (one.body, len(one.producer)) == (b"hey", 14)
        assert maker.tell("stock") == 0
        told = pool.stats()
        assert (told.requests, told.got, told.hops) == (1, 1, 1)
        assert [(one.asked, one.had) for one in told.producers] == [(1, 1)]


def test_many_come_as_one_column_and_one_by_one(
    pair: tuple[snowmelt.Pool, snowmelt.Pool],
) -> None:
    maker, taker = pair
    bodies = [b"%d" % number for number in range(200)]
    assert maker.put_many(bodies[:100]) == 100
    maker.put_many(snowmelt.core.batch.Batch.of(bodies[100:]))
    with taker.get_many(150) as objects:
        assert len(objects) == 150
        assert [bytes(body) for body in objects.batch] == bodies[:150]
    objects = taker.get_many(150)
    first, *others = objects
    first.ack()
    others[-1].nack()
    assert objects.open
    objects.ack()
    assert not objects.open
    assert taker.get().body == bodies[199]
    assert maker.stats().settled == 199


def test_on_an_exception_it_goes_back(pair: tuple[snowmelt.Pool, snowmelt.Pool]) -> None:
    maker, taker = pair
    maker.put(b"hard")
    with pytest.raises(ZeroDivisionError), taker.get():
        1 / 0  # noqa: B018
    with taker.get() as one:
        assert one.body == b"hard"
    assert maker.stats().given_back == 1


def test_a_loop_settles_as_it_goes_and_gives_the_last_back(
    pair: tuple[snowmelt.Pool, snowmelt.Pool],
) -> None:
    maker, taker = pair
    maker.put_many([b"one", b"two", b"three"])
    for one in taker:
        if one.body == b"two":
            break
    assert [one.body for one in taker.consume(timeout=1)] == [b"two", b"three"]


def test_what_went_wrong_first_is_told_first(node: LocalNode, name: str) -> None:
    def fail() -> None:
        with snowmelt.connect(node.url) as cluster, cluster.pool(name) as pool:
            pool.put(b"one")
            pool.close = lambda: pool._part.close(0.1)  # not as long as it might
            1 / 0  # noqa: B018

    with pytest.raises(ZeroDivisionError) as caught:
        fail()
    (note,) = caught.value.__notes__
    assert "1 object of pool" in note


def test_what_is_acknowledged_too_late_says_so(pair: tuple[snowmelt.Pool, snowmelt.Pool]) -> None:
    maker, taker = pair
    maker.put(b"one")
    held = taker.get()
    held.ack()
    with pytest.raises(LeaseLost, match="were acknowledged or given back before, or its lease"):
        held.ack()


def test_at_most_once_there_is_nothing_to_acknowledge(node: LocalNode, name: str) -> None:
    with (
        Other(node.url, name, delivery="at_most_once", lease=0.2) as maker,
        snowmelt.connect(node.url) as cluster,
        cluster.pool(name, delivery="at_most_once", lease=0.2) as pool,
    ):
        maker.tell("put", body="once")
        one = pool.get()
        with pytest.raises(snowmelt.Empty):
            pool.get(timeout=1)
        one.ack()


def test_full_buffers_make_a_put_wait_to_its_time_and_no_longer(node: LocalNode, name: str) -> None:
    with (
        snowmelt.connect(node.url) as cluster,
        Other(node.url, name) as taker,
    ):
        pool = cluster.pool(name, buffers=2)
        pool.put(b"one")
        pool.put(b"two")
        begin = time.monotonic()
        with pytest.raises(snowmelt.Full, match=r"no room was made in 0\.5 s"):
            pool.put(b"three", timeout=0.5)
        assert 0.45 < time.monotonic() - begin < 5
        with pytest.raises(snowmelt.Full) as caught:
            pool.put_many([b"three", b"four"], timeout=0)
        assert caught.value.__notes__ == ["the first 0 are in the pool"]
        with pytest.raises(snowmelt.Full):
            pool.await_room(timeout=0)
        threading.Timer(0.2, lambda: taker.begin("get")).start()
        pool.await_room()
        pool.put(b"three", timeout=0)
        told = pool.stats()
        assert (told.put, told.stock, told.given) == (3, 2, 1)
        assert told.blocked_seconds > 0.1
        for _ in range(2):
            taker.begin("get")
        assert [taker.answer() for _ in range(3)] == ["one", "two", "three"]


def test_bytes_are_bounded_too(node: LocalNode, name: str) -> None:
    with snowmelt.connect(node.url) as cluster:
        pool = cluster.pool(name, buffers=100, max_bytes=1000)
        pool.put(bytes(900))
        with pytest.raises(snowmelt.Full):
            pool.put(bytes(200), timeout=0.1)
        pool.get().ack()
        pool.put(bytes(200), timeout=0)
        pool.get().ack()
        with pytest.raises(TooLarge, match=r"an object of 60000 bytes; max_bytes .* is 1000"):
            pool.put_many([b"small", bytes(60_000), b"small"])
        with pytest.raises(snowmelt.Full) as full:
            pool.put_many([bytes(300)] * 60, timeout=0.1)
        assert full.value.__notes__ == ["the first 3 are in the pool"]
        with pool.get_many(60) as objects:
            assert len(objects) == 3


def test_a_million_empty_objects_come_at_once(node: LocalNode, name: str) -> None:
    with (
        snowmelt.connect(node.url) as cluster,
        snowmelt.connect(node.url) as other,
        cluster.pool(name, buffers=1 << 20) as maker,
        other.pool(name) as taker,
    ):

        def round_trip() -> None:
            assert maker.put_many([b""] * 1_000_000) == 1_000_000
            with taker.get_many(1_000_000) as objects:
                assert len(objects) == 1_000_000

        in_time(4, round_trip)
        assert maker.stats().stock == 0


def test_the_readme_names_what_a_producers_with_may_end_in(node: LocalNode, name: str) -> None:
    readme = Path(__file__).parents[2].joinpath("README.md").read_text()
    said = readme.partition("## Large objects\n")[2].partition("\n## ")[0]
    with snowmelt.connect(node.url) as cluster:
        pool = cluster.pool(name)
        pool.put(b"nobody takes it")
        with pytest.raises(snowmelt.SnowmeltError) as raised:
            pool.close(timeout=0.2)
    for word in (type(raised.value).__name__, "spill=True", "stay until"):
        assert word in said


def test_why_there_was_nothing_is_told(node: LocalNode, name: str) -> None:
    with snowmelt.connect(node.url) as cluster, Other(node.url, name) as maker:
        pool = cluster.pool(name)
        begin = time.monotonic()
        with pytest.raises(snowmelt.Empty, match="nobody produces in this pool"):
            pool.get(timeout=0.5)
        assert 0.45 < time.monotonic() - begin < 5
        maker.tell("put", body="one")
        pool.get().ack()
        with pytest.raises(snowmelt.Empty, match="nothing was found in the time given"):
            pool.get(timeout=0.2)
        other = cluster.pool(name, access={"somebody-else": 1.0})
        with pytest.raises(snowmelt.Empty, match="access"):
            other.get(timeout=0.5)


def test_no_node_at_all_is_told() -> None:
    with snowmelt.connect(f"snowmelt://127.0.0.1:{free_port()}") as cluster:
        pool = cluster.pool("frames")
        with pytest.raises(snowmelt.Empty, match="no node of the cluster"):
            pool.get(timeout=0.3)
        pool.put(b"one")
        with pytest.raises(DataLost, match="1 object of pool frames lost"):
            pool.close(timeout=0.2)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"max_hops": 0}, "max_hops is 0; allowed: 1 to 1000"),
        ({"buffers": 0}, "buffers is 0"),
        ({"access": {}}, "access is {}"),
        ({"access": {"left": -1}}, "weights of 0 or more"),
        ({"access": {"left": 0.0}}, "of which one at least is above 0"),
        ({"access": "random"}, "access is 'random'"),
        ({"spill": 5}, "spill is 5; allowed: a folder's path, True or False"),
        ({"spill": "x", "delivery": "at_most_once"}, "comes again after a crash"),
        ({"buffer": 5}, "option is 'buffer'; allowed: buffers, max_bytes"),
        ({"lease": 0}, "lease is 0"),
        ({"producer": "a b"}, "name is 'a b'"),
        ({"listen": "0.0.0.0:0"}, "listen is '0.0.0.0:0'"),
    ],
)
def test_bad_options_are_refused_with_a_sentence(
    node: LocalNode, tmp_path: Path, options: dict, sentence: str
) -> None:
    if "spill" in options and isinstance(options["spill"], str):
        options = options | {"spill": str(tmp_path)}
    with snowmelt.connect(node.url) as cluster, pytest.raises(BadOption) as caught:
        cluster.pool("frames", **options)
    assert sentence in str(caught.value)


def test_bad_arguments_are_refused_with_a_sentence(
    pair: tuple[snowmelt.Pool, snowmelt.Pool],
) -> None:
    maker, taker = pair
    with pytest.raises(TypeError, match="a body is bytes, not str"):
        maker.put("text")
    with pytest.raises(TypeError, match="a body is bytes, not int"):
        maker.put_many([5])
    with pytest.raises(TypeError, match="put_many takes several bodies"):
        maker.put_many(b"one")
    with pytest.raises(TypeError, match="one piece"):
        maker.put(np.zeros((4, 4))[:, 0])
    with pytest.raises(TypeError, match="a body is bytes, not dict"):
        maker.put({})
    with pytest.raises(TooLarge, match="at most 268435456"):
        maker.put(memoryview(bytes((256 << 20) + 1)))
    for wrong in (0, -1, 2.5, True, 1 << 64):
        with pytest.raises(BadOption, match="objects_max"):
            taker.get_many(wrong)
        with pytest.raises(BadOption, match="bytes_max"):
            taker.get_many(bytes_max=wrong)
    with pytest.raises(BadOption, match="timeout is nan"):
        taker.get(timeout=float("nan"))


@pytest.mark.parametrize("size", [0, 1, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1, 10**6, 10**8])
def test_bodies_of_any_size_come_as_they_were(node: LocalNode, name: str, size: int) -> None:
    with (
        Other(node.url, name) as maker,
        snowmelt.connect(node.url) as cluster,
        cluster.pool(name) as pool,
    ):
        maker.begin("put_sized", first=7, count=1, size=size)
        with pool.get() as one:
            assert len(one.body) == size
            assert one.body == pattern(7, size)


def test_whatever_has_bytes_can_be_put(pair: tuple[snowmelt.Pool, snowmelt.Pool]) -> None:
    maker, taker = pair
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    given = [b"a", bytearray(b"b"), memoryview(b"c"), array, np.zeros((0, 4)), np.zeros(10**5)]
    for body in given:
        maker.put(body)
    expected = [bytes(memoryview(body)) for body in given]
    assert [taker.get().body for _ in given] == expected
    assert maker.put_many(given) == len(given)
    came: list[bytes] = []
    while len(came) < len(given):
        came += [one.body for one in taker.get_many()]
    assert came == expected
    maker.put(array)
    back = np.frombuffer(taker.get().body, np.int32).reshape(3, 4)
    assert (back == array).all()


def test_what_is_closed_says_so_and_closes_again(node: LocalNode, name: str) -> None:
    with snowmelt.connect(node.url) as cluster:
        pool = cluster.pool(name)
        pool.close()
        pool.close()
        for act in (lambda: pool.put(b"one"), pool.get, pool.stats, pool.await_room):
            with pytest.raises(Unreachable, match="this pool is closed"):
                act()
        again = cluster.pool(name)
        again.put(b"one")
        held = again.get()
        with pytest.raises(DataLost):
            again.close(timeout=0)
    with pytest.raises(Unreachable):
        held.ack()


def test_a_cluster_that_is_closed_leaves_all_its_pools_at_once(
    node: LocalNode, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("snowmelt.client.pool.open_pools.TIMEOUT", 2.0)
    cluster = snowmelt.connect(node.url)
    for number in range(4):
        cluster.pool(f"{name}{number}").put(b"nobody takes it over")
    begun = time.monotonic()
    with pytest.raises(DataLost):
        cluster.close()
    assert 2 <= time.monotonic() - begun < 7, "not one after the other"


def test_threads_share_a_pool(node: LocalNode, name: str) -> None:
    takers, makers, each = 8, 4, 250
    with snowmelt.connect(node.url) as cluster:
        maker, taker = cluster.pool(name, buffers=20), cluster.pool(name)
        got: list[bytes] = []

        def take() -> None:
            got.extend(one.body for one in taker.consume(timeout=2))

        def make(first: int) -> None:
            for number in range(first, first + each):
                maker.put(b"%d" % number)

        threads = [threading.Thread(target=take) for _ in range(takers)]
        threads += [threading.Thread(target=make, args=(one * each,)) for one in range(makers)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(30)
        assert sorted(map(int, got)) == list(range(makers * each))


@pytest.mark.parametrize("size", [100, 100_000])
def test_in_one_process_no_program_gets_the_bytes_of_another(tmp_path: Path, size: int) -> None:
    with snowmelt.open(tmp_path) as cluster:
        frames = cluster.pool("frames")
        mine = bytearray(size)
        frames.put(mine)
        mine[0] = 1
        with frames.get() as got:
            mine[1] = 1
            assert got.body == bytes(size)
        frames.put(bytearray(size))
        with frames.get_many() as objects:
            assert objects.batch.blob.readonly


def test_a_pool_that_is_closed_keeps_nothing_in_memory(tmp_path: Path) -> None:
    body = bytes(1 << 20)
    before = sys.getrefcount(body)
    closed = []
    for _ in range(5):
        cluster = snowmelt.open(tmp_path)
        pool = cluster.pool("frames")
        pool.put(body)
        assert sys.getrefcount(body) > before
        with pytest.raises(DataLost):
            cluster.close()
        closed.append(pool)
    assert len(closed) == 5
    assert sys.getrefcount(body) == before


def test_embedded_pools_are_shared_by_name(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        first = cluster.pool("frames", buffers=10)
        second = cluster.pool("frames")
        first.put_many([b"one", b"two"])
        assert {one.body for one in second.consume(timeout=0)} == {b"one", b"two"}
        with pytest.raises(snowmelt.Empty):
            cluster.pool("others").get(timeout=0.1)
    begin = time.monotonic()
    with (
        pytest.raises(DataLost, match="1 object of pool frames"),
        snowmelt.open(tmp_path) as cluster,
    ):
        cluster.pool("frames").put(b"one")
    assert time.monotonic() - begin < 5
    with snowmelt.open(tmp_path) as cluster:
        cluster.pool("kept", spill=True).put(b"one")
    with snowmelt.open(tmp_path) as cluster, cluster.pool("kept", spill=True).get() as one:
        assert one.body == b"one"


def test_who_shares_a_pool_and_leaves_takes_it_from_nobody_else(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        kept = cluster.pool("frames")
        with cluster.pool("frames") as left:
            left.put(b"one")
        with pytest.raises(snowmelt.Closed):
            left.put(b"late")
        with kept.get() as one:
            assert one.body == b"one"
        with pytest.raises(snowmelt.Closed):
            next(left.consume(timeout=1))
        kept.close()
        with cluster.pool("frames") as anew, pytest.raises(snowmelt.Empty):
            anew.get(timeout=0.01)


def test_objects_that_are_iterated_twice_are_the_same(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        pool = cluster.pool("frames")
        pool.put_many([b"one", b"two", b"three"])
        objects = pool.get_many()
        first, *_ = objects
        first.ack()
        assert [one.open for one in objects] == [False, True, True]
        for one in objects:
            if one.open:
                one.ack()
        assert not objects.open
        assert pool.stats().on_loan == 0


def test_a_get_waits_for_its_time_however_short(
    pair: tuple[snowmelt.Pool, snowmelt.Pool],
) -> None:
    _, taker = pair
    took = []
    for _ in range(40):
        begin = time.monotonic()
        with pytest.raises(snowmelt.Empty):
            taker.get(timeout=0.01)
        took.append(time.monotonic() - begin)
    assert min(took) < 0.15, "it was 0.2 s each"


def test_a_spill_that_does_not_read_is_refused_with_a_way_out(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        cluster.pool("kept", spill=True).put(b"one")
    spill = Store.open(tmp_path / "pools" / "kept")
    spill.commit([(Write(b"taken/" + bytes(8), b"of another version"),)])
    spill.close()
    refused = pytest.raises(StoreVersion, match="spill into another folder")
    with snowmelt.open(tmp_path) as cluster, refused:
        cluster.pool("kept", spill=True)


def test_a_fork_takes_no_pool_along(node: LocalNode, name: str) -> None:
    """The parent's goes on, and the child is told at once what to do."""
    program = """
import os, sys, time, snowmelt
with snowmelt.connect(sys.argv[1]) as cluster:
    pool = cluster.pool(sys.argv[2])
    pool.put(b"one")
    child = os.fork()
    begin = time.monotonic()
    if not child:
        try:
            pool.get()
        except snowmelt.Unreachable as error:
            print(error, time.monotonic() - begin < 5, flush=True)
        cluster.close()
        with snowmelt.connect(sys.argv[1]) as own:
            own.pool(sys.argv[2]).get().ack()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert pool.stats().settled == 1
"""
    command = [sys.executable, "-c", program, node.url, name]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert not ended.stderr, ended.stderr
    assert ended.returncode == 0
    words = (
        "this part in a pool belongs to the process that this one was forked from; "
        "connect anew in this one True\n"
    )
    assert ended.stdout == words
