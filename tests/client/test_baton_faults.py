"""Batons while nodes are killed and stopped: what is lost is said, and nothing counts twice."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

import snowmelt
from snowmelt import Held
from snowmelt.cli.local import LocalCluster, LocalNode

LEASE = 5.0


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(3, tmp_path_factory.mktemp("nodes"), 0.5) as cluster:
        yield cluster


@pytest.fixture
def nodes(three: LocalCluster) -> LocalCluster:
    """Three that a test may stop and kill; the first decides on views."""
    three.start()
    return three


def own(node: LocalNode, *more: LocalNode) -> snowmelt.Cluster:
    """A client that asks this node first."""
    where = ",".join(f"127.0.0.1:{one.port}" for one in (node, *more))
    return snowmelt.connect(f"snowmelt://{where}")


def test_a_holder_whose_node_dies_is_told_and_another_goes_on(nodes: LocalCluster) -> None:
    one, two, three = nodes.nodes
    with own(two, three) as cluster, own(one) as other:
        held = cluster.baton("index").acquire()
        held.save(b"saved")
        held.value = b"not saved"
        begin = time.monotonic()
        two.kill()
        assert held.wait_lost(20)
        assert time.monotonic() - begin < LEASE + 5, "its own clock tells it"
        assert (held.lost, held.seconds_left) == (True, 0.0)
        with pytest.raises(snowmelt.BatonLost, match="index"):
            held.check()
        with pytest.raises(snowmelt.BatonLost):
            held.release()
        with other.baton("index") as after:
            assert after.fence > held.fence
            assert after.made > held.made
            assert after.value == b"saved"
        with cluster.baton("index") as again:  # its own first node is gone; the next one answers
            assert again.fence > after.fence


def test_the_with_says_that_it_was_lost_unless_something_else_went_wrong(
    nodes: LocalCluster,
) -> None:
    two = nodes.nodes[1]

    def fail(cluster: snowmelt.Cluster, other: Held) -> None:
        with cluster.baton("two") as held:
            two.kill()
            assert held.wait_lost(20)
            assert other.wait_lost(20)
            raise ZeroDivisionError

    def lose() -> None:
        with own(two) as cluster, cluster.baton("one") as held:
            with pytest.raises(ZeroDivisionError) as raised:
                fail(cluster, held)
            assert any("baton 'two'" in note for note in raised.value.__notes__)

    with pytest.raises(snowmelt.BatonLost, match="baton 'one'"):
        lose()


def test_a_node_that_stands_still_for_a_moment_costs_nothing(nodes: LocalCluster) -> None:
    two = nodes.nodes[1]
    with own(two) as cluster, cluster.baton("index") as held:
        os.kill(two.pid, signal.SIGSTOP)
        time.sleep(0.9)
        os.kill(two.pid, signal.SIGCONT)
        end = time.monotonic() + LEASE
        while time.monotonic() < end:
            held.check()
            time.sleep(0.05)


def test_a_wait_ends_in_its_time_beside_a_silent_coordinator(nodes: LocalCluster) -> None:
    one = nodes.nodes[0]
    with own(*nodes.nodes) as cluster:
        index = cluster.baton("index")
        index.acquire().release()
        os.kill(one.pid, signal.SIGSTOP)
        try:
            begin = time.monotonic()
            with suppress(snowmelt.NotGranted, snowmelt.Unreachable):
                index.acquire(timeout=1).release()
            assert time.monotonic() - begin < 15
        finally:
            os.kill(one.pid, signal.SIGCONT)


def test_a_node_that_stands_still_for_long_is_never_believed_again(nodes: LocalCluster) -> None:
    one, two, _ = nodes.nodes
    with own(two) as cluster, own(one) as other:
        held = cluster.baton("index").acquire()
        begin = time.monotonic()
        os.kill(two.pid, signal.SIGSTOP)
        try:
            with other.baton("index", timeout=60) as after:
                assert held.lost, "nobody holds it who was not told, before another does"
                assert after.fence > held.fence
                assert time.monotonic() - begin > LEASE - 1.1
                os.kill(two.pid, signal.SIGCONT)
                with pytest.raises(snowmelt.BatonLost):
                    held.release()
                time.sleep(2)
                after.check()
        finally:
            os.kill(two.pid, signal.SIGCONT)


def test_who_waits_at_a_node_that_dies_is_served_at_another(nodes: LocalCluster) -> None:
    one, two, three = nodes.nodes
    fences: list[int] = []

    def wait() -> None:
        with own(two, three) as waiter, waiter.baton("index", timeout=60) as after:
            fences.append(after.fence)

    with own(one) as holder, holder.baton("index") as held:
        waiting = threading.Thread(target=wait)
        waiting.start()
        time.sleep(0.5)  # it waits at the second by now
        two.kill()
        time.sleep(1)
        assert not fences
    waiting.join(30)
    assert fences[0] > held.fence


def test_a_counter_never_gives_a_number_twice_though_all_nodes_die(nodes: LocalCluster) -> None:
    taken: list[int] = []
    with snowmelt.connect(nodes.url) as cluster:
        counter = cluster.counter("ids", timeout=60)
        for round_ in range(2):
            for _ in range(20):
                taken.extend(counter.next(7))
            for node in nodes.nodes:
                node.kill()
            for node in nodes.nodes:
                node.start()
            nodes.wait_for(["n1", "n2", "n3"], 30)
            taken.extend(counter.next(7))
            assert len(set(taken)) == len(taken), f"round {round_}"
    assert taken == sorted(taken)
    assert max(taken) < 4000, "gaps of a thousand or so"


def test_a_free_baton_is_granted_at_once_from_any_node(nodes: LocalCluster) -> None:
    clusters = [own(node) for node in nodes.nodes]
    for at in range(12):
        with clusters[at % 3].baton("free").acquire(timeout=0):
            taken = clusters[(at + 1) % 3].baton("free")
            with pytest.raises(snowmelt.NotGranted):
                taken.acquire(timeout=0)
    for cluster in clusters:
        cluster.close()
