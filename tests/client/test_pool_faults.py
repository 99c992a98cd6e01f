"""Processes and nodes of a pool die, are paused, leave and come again, and what was promised holds.

Each test has processes of its own, which it kills as the system would.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import snowmelt
from client.pool_process import Other, Refused, pattern
from snowmelt.cli.local import LocalCluster, LocalNode
from snowmelt.core.errors import OutcomeUnknown

MB = 10**6


@pytest.fixture
def pool(node: LocalNode, name: str) -> Iterator[snowmelt.Pool]:
    """This process, which gets."""
    with snowmelt.connect(node.url) as cluster:
        yield cluster.pool(name)


def number_of(body: bytes) -> int:
    return int(body[:11])


def test_when_a_producer_is_killed_the_consumer_asks_elsewhere(
    node: LocalNode, name: str, pool: snowmelt.Pool
) -> None:
    with Other(node.url, name) as first, Other(node.url, name) as second:
        first.tell("put", body="first")
        second.tell("put", body="second")
        assert {pool.get().body, pool.get().body} == {b"first", b"second"}
        first.kill()
        second.tell("put", body="third")
        pool.get(timeout=20).ack()


def test_a_producer_killed_in_the_middle_of_a_large_object(
    node: LocalNode, name: str, pool: snowmelt.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SNOWMELT_NEAR", "no")  # of a machine of its own: it comes in pieces
    with Other(node.url, name) as large, Other(node.url, name) as small:
        small.tell("put", body="known")  # so that it is known, and then has nothing
        pool.get().ack()
        large.tell("put_sized", first=1, count=1, size=200 * MB)
        links = pool._part.engine.statistics
        before = links().links.bytes_in
        with ThreadPoolExecutor(1) as threads:
            get = threads.submit(pool.get)
            while links().links.bytes_in < before + 10 * MB:
                assert not get.done()
            large.kill()
            assert not get.done()
            small.tell("put_sized", first=2, count=1, size=MB)
            one = get.result(20)
        assert one.body == pattern(2, MB)
        one.ack()


def test_a_producer_that_is_paused_is_no_trap(
    node: LocalNode, name: str, pool: snowmelt.Pool
) -> None:
    with Other(node.url, name) as paused, Other(node.url, name) as other:
        for one in (paused, other):
            one.tell("put", body="one")
            pool.get().ack()
        paused.pause()
        for number in range(10):
            other.tell("put", body=str(number))
            assert pool.get(timeout=5).body == b"%d" % number


def test_what_a_killed_consumer_held_comes_again(
    node: LocalNode, name: str, pool: snowmelt.Pool
) -> None:
    with Other(node.url, name) as maker, Other(node.url, name) as taker:
        maker.tell("put", body="precious")
        assert taker.tell("hold") == "precious"
        taker.kill()
        begin = time.monotonic()
        with pool.get() as one:
            assert one.body == b"precious"
        assert 1 < time.monotonic() - begin < 20  # the grace, and not the lease


def test_acknowledging_to_the_dead_says_that_nobody_confirmed(
    node: LocalNode, name: str, pool: snowmelt.Pool
) -> None:
    with Other(node.url, name) as maker:
        maker.tell("put", body="one")
        held = pool.get()
        maker.kill()
        with pytest.raises(OutcomeUnknown):
            held.ack(timeout=1)


def test_who_leaves_in_order_hands_over(node: LocalNode, name: str, pool: snowmelt.Pool) -> None:
    with Other(node.url, name) as leaver, Other(node.url, name, buffers=2) as heir:
        heir.tell("put", body="mine")
        pool.get().ack()
        leaver.tell("put_sized", first=0, count=5, size=MB)
        leaver.tell("close")
        leaver.kill()
        assert heir.tell("stock") == 5
        assert sorted(number_of(one.body) for one in pool.consume(timeout=5)) == [0, 1, 2, 3, 4]


def test_who_leaves_with_nobody_there_says_what_is_lost(node: LocalNode, name: str) -> None:
    with Other(node.url, name) as leaver:
        leaver.tell("put", body="one")
        with pytest.raises(Refused, match="1 object of pool"):
            leaver.tell("close", timeout=0.2)


def test_what_was_spilled_is_there_after_a_kill(
    node: LocalNode, name: str, pool: snowmelt.Pool, tmp_path: Path
) -> None:
    with Other(node.url, name, spill=str(tmp_path), buffers=50) as first:
        first.tell("put_sized", first=0, count=20, size=1000)
        first.tell("put_sized", first=20, count=1, size=20 * MB)
        with pool.get() as one:
            done = [number_of(one.body)]
        first.kill()
    with Other(node.url, name, spill=str(tmp_path), buffers=50) as second:
        second.tell("put_sized", first=21, count=1, size=1000)
        done += [number_of(one.body) for one in pool.consume(timeout=5)]
    assert sorted(done) == list(range(22))


def test_two_processes_on_one_folder(node: LocalNode, name: str, tmp_path: Path) -> None:
    with Other(node.url, name, spill=str(tmp_path)):
        with pytest.raises(Refused) as caught:
            Other(node.url, name, spill=str(tmp_path))
        assert caught.value.args[0] == "StoreBusy"
        assert str(tmp_path) in caught.value.args[1]


# --- nodes ----------------------------------------------------------------------------------------


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(3, tmp_path / "nodes", 0.5) as cluster:
        cluster.start()
        yield cluster


def met(maker: Other, pool: snowmelt.Pool, body: str, timeout: float = 10) -> None:
    maker.tell("put", body=body)
    with pool.get(timeout=timeout) as one:
        assert one.body == body.encode()


def test_a_node_that_introduces_may_die(cluster: LocalCluster) -> None:
    """Which pool which node introduces is a matter of its name: some of four are on the victim."""
    names = [f"frames-{number}" for number in range(4)]
    victim = cluster.nodes[2]
    with snowmelt.connect(cluster.url) as client:
        pools = [client.pool(name) for name in names]
        makers = [Other(cluster.url, name) for name in names]
        try:
            for maker, pool in zip(makers, pools, strict=True):
                met(maker, pool, "before")
            victim.kill()
            for maker, pool in zip(makers, pools, strict=True):
                met(maker, pool, "while it is missed", timeout=5)
            cluster.wait_for([node.name for node in cluster.nodes[:2]], 20)
            for name, pool in zip(names, pools, strict=True):
                with Other(cluster.url, name) as newcomer:
                    met(newcomer, pool, "new")
        finally:
            for maker in makers:
                maker.kill()


def test_with_all_nodes_down_those_who_know_each_other_go_on(cluster: LocalCluster) -> None:
    with (
        snowmelt.connect(cluster.url) as client,
        client.pool("frames") as pool,
        Other(cluster.url, "frames") as maker,
    ):
        met(maker, pool, "before")
        for node in cluster.nodes:
            node.kill()
        for number in range(30):
            met(maker, pool, str(number))
            time.sleep(0.1)
        for node in cluster.nodes:
            node.start()
        with Other(cluster.url, "frames") as newcomer:
            maker.kill()
            met(newcomer, pool, "new", timeout=20)
