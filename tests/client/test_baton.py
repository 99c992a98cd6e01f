"""A baton as a program holds it, against real nodes."""

import threading
import time
from collections.abc import Iterator

import pytest

import snowmelt
from snowmelt.cli.local import LocalCluster
from snowmelt.core.errors import BadOption, Unreachable
from timing import TRIES, in_time


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(3, tmp_path_factory.mktemp("nodes"), 0.5) as cluster:
        cluster.start()
        yield cluster


@pytest.fixture
def cluster(nodes: LocalCluster) -> Iterator[snowmelt.Cluster]:
    with snowmelt.connect(nodes.url) as cluster:
        yield cluster


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    test: str = request.node.name
    return test[:99].replace("[", ".").replace("]", "")


def test_the_value_goes_from_holder_to_holder_and_the_fence_grows(
    nodes: LocalCluster, cluster: snowmelt.Cluster, name: str
) -> None:
    fences = []
    for number in range(5):
        with cluster.baton(name) as held:
            assert held.value == (b"%d" % (number - 1) if number else b"")
            assert (held.name, held.lost) == (name, False)
            assert 4 < held.seconds_left <= 5
            held.check()
            held.value = bytearray(b"%d" % number)
            assert held.value == b"%d" % number
            fences.append(held.fence)
    assert sorted(set(fences)) == fences
    last = nodes.nodes[2]
    with snowmelt.connect(last.url) as other, other.baton(name) as held:
        assert (held.value, held.fence > fences[-1]) == (b"4", True)


def test_one_thread_takes_hundreds_by_a_few_connections(nodes: LocalCluster, name: str) -> None:
    node = nodes.nodes[0]
    with snowmelt.connect(node.url) as own:
        before = own.statistics().connections_total
        held = [own.baton(f"{name}.{at}").acquire() for at in range(300)]
        assert own.statistics().connections_total <= before + 3
        for one in held:
            one.release()


def test_the_end_of_a_connection_that_many_came_by_costs_none_of_them(
    nodes: LocalCluster, name: str
) -> None:
    with snowmelt.connect(nodes.nodes[0].url) as own:
        held = [own.baton(f"{name}.{at}").acquire() for at in range(20)]
        [used] = {one for held in held for one in held._way._needed}
        own._client._idle.remove(used)
        own._client.end(used)  # as when a call by it is interrupted
        end = time.monotonic() + 10
        while any(one._way._needed for one in held):  # each is renewed by another at once
            assert time.monotonic() < end
            time.sleep(0.01)
        time.sleep(1.1)  # longer than the grace of a node
        for one in held:
            one.release()


def test_one_at_a_time_through_every_node(nodes: LocalCluster, name: str) -> None:
    inside, seen, rounds = [0], list[int](), 30

    def work(url: str) -> None:
        with snowmelt.connect(url) as own:
            for _ in range(rounds):
                with own.baton(name) as held:
                    inside[0] += 1
                    assert inside[0] == 1
                    seen.append(held.fence)
                    held.value = b"%d" % (int(held.value or b"0") + 1)
                    inside[0] -= 1

    threads = [threading.Thread(target=work, args=(node.url,)) for node in nodes.nodes * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(seen) == 6 * rounds
    assert sorted(set(seen)) == seen
    with snowmelt.connect(nodes.url) as own, own.baton(name) as held:
        assert int(held.value) == 6 * rounds


def test_threads_share_one_baton(cluster: snowmelt.Cluster, name: str) -> None:
    baton, count = cluster.baton(name), [0]

    def work() -> None:
        for _ in range(20):
            with baton as held:
                before = count[0]
                time.sleep(0.001)
                count[0] = before + 1
                held.check()

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert count == [100]


def test_who_waits_too_long_is_told_and_in_nobodys_way(
    cluster: snowmelt.Cluster, name: str
) -> None:
    baton = cluster.baton(name, timeout=0.5)
    with baton as held:

        def in_vain() -> None:
            with pytest.raises(snowmelt.NotGranted, match=r"no turn within 0.5 s at baton"), baton:
                raise AssertionError("two hold it")

        in_time(4, in_vain, least=0.4)
        with pytest.raises(TimeoutError):
            baton.acquire(timeout=0)
        held.check()
    in_time(4, lambda: baton.acquire().release())  # nobody stands before it


def test_a_hold_outlives_its_lease_many_times(cluster: snowmelt.Cluster, name: str) -> None:
    with cluster.baton(name) as held:
        end = time.monotonic() + 7
        while time.monotonic() < end:
            held.check()
            assert held.seconds_left > 2.5
            time.sleep(0.05)
        assert not held.wait_lost(0.1)


def test_who_waited_for_longer_than_a_lease_gets_all_of_it(
    cluster: snowmelt.Cluster, name: str
) -> None:
    baton = cluster.baton(name)
    first = baton.acquire()
    threading.Timer(6.0, first.release).start()
    with baton as held:
        assert held.seconds_left > 3.9
        assert held.fence > first.fence


def test_a_body_that_fails_passes_on_what_it_got_or_saved(
    cluster: snowmelt.Cluster, name: str
) -> None:
    baton = cluster.baton(name)
    with baton as held:
        held.value = b"good"

    def fail(safe: bytes | None) -> None:
        with baton as held:
            assert held.value == b"good"
            if safe is not None:
                held.save(safe)
            held.value = b"half done"
            raise ZeroDivisionError

    for safe in (None, b"safe"):
        with pytest.raises(ZeroDivisionError):
            fail(safe)
    with baton as held:
        assert held.value == b"safe"


def test_given_up_twice_is_an_error_that_says_so(cluster: snowmelt.Cluster, name: str) -> None:
    held = cluster.baton(name).acquire()
    held.release()
    assert (held.lost, held.seconds_left) == (False, 0.0)
    for use in (held.release, held.check, lambda: held.save(b"late")):
        with pytest.raises(snowmelt.BatonLost, match="was given up already"):
            use()
    with pytest.raises(snowmelt.BatonLost, match="was given up already"):
        held.value = b"late"
    assert not held.wait_lost(5), "it was not lost, and there is nothing to wait for"
    with cluster.baton(name) as inside:
        inside.release()  # and the end of the block has nothing left to do


def test_the_end_of_a_program_gives_up_what_it_held(nodes: LocalCluster, name: str) -> None:
    def given_up() -> float:
        with snowmelt.connect(nodes.url) as first:
            held = first.baton(name).acquire()
        with pytest.raises(snowmelt.BatonLost, match="the cluster was closed"):
            held.check()
        with pytest.raises(snowmelt.BatonLost):
            held.release()
        begin = time.monotonic()
        with snowmelt.connect(nodes.url) as second, second.baton(name):
            return time.monotonic() - begin

    assert any(given_up() < 3.5 for _ in range(TRIES)), "not its lease, but a moment's grace"


def test_who_believes_it_lost_leaves_it_at_once(nodes: LocalCluster, name: str) -> None:
    def left(first: snowmelt.Cluster, second: snowmelt.Cluster) -> float:
        held = first.baton(name).acquire()
        held._hold.lose("no word came")  # as far as this side knows
        with pytest.raises(snowmelt.BatonLost, match="no word came"):
            held.release()
        begin = time.monotonic()
        with second.baton(name):
            return time.monotonic() - begin

    with snowmelt.connect(nodes.url) as first, snowmelt.connect(nodes.url) as second:
        took = (left(first, second) for _ in range(TRIES))
        assert any(one < 3.5 for one in took), "not its lease, but a moment's grace"


def test_a_connection_is_used_again_for_the_next_turn(cluster: snowmelt.Cluster, name: str) -> None:
    baton = cluster.baton(name)
    baton.acquire().release()
    accepted = cluster.statistics().connections_total
    for _ in range(20):
        baton.acquire().release()
        with baton, pytest.raises(snowmelt.NotGranted):
            baton.acquire(timeout=0)
    assert cluster.statistics().connections_total <= accepted + 1


def test_the_nodes_tell_how_they_see_it(cluster: snowmelt.Cluster, name: str) -> None:
    baton = cluster.baton(name)
    with baton as held:
        seen = baton.status()
        assert [one.node for one in seen] == ["n1", "n2", "n3"]
        assert sorted(one.state for one in seen) == ["elsewhere", "elsewhere", "held"]
        assert max(one.fence for one in seen) == held.fence


@pytest.mark.parametrize("wrong", ["", "a b", "a/b", "x" * 101, ".x", None])
def test_a_name_that_is_none_is_refused(cluster: snowmelt.Cluster, wrong: str) -> None:
    with pytest.raises(BadOption, match="allowed: 1 to 100 of A-Z"):
        cluster.baton(wrong)


def test_a_timeout_that_no_clock_counts_is_refused(cluster: snowmelt.Cluster) -> None:
    with pytest.raises(BadOption, match="timeout is nan"):
        cluster.baton("index", timeout=float("nan"))


def test_a_closed_cluster_says_so(nodes: LocalCluster) -> None:
    with snowmelt.connect(nodes.url) as cluster:
        baton = cluster.baton("index")
    with pytest.raises(Unreachable, match="this client is closed"):
        baton.acquire()


# --- counters -------------------------------------------------------------------------------------


def test_a_counter_counts(cluster: snowmelt.Cluster, name: str) -> None:
    counter = cluster.counter(name[:80])
    first = counter.next()
    assert (first.start, first.size) == (0, 1)
    taken = [counter.next(count) for count in (10, 5000, 1, 1)]
    assert [one.size for one in taken] == [10, 5000, 1, 1]
    ends = [first.stop, *(one.stop for one in taken)]
    assert [one.start for one in taken] == ends[:-1], "no gap where nothing died"


def test_counters_of_all_nodes_never_give_a_number_twice(nodes: LocalCluster, name: str) -> None:
    taken = list[int]()

    def work(url: str) -> None:
        with snowmelt.connect(url) as own:
            counter = own.counter(name[:80])
            for count in (1, 7, 300) * 10:
                taken.extend(counter.next(count))

    threads = [threading.Thread(target=work, args=(node.url,)) for node in nodes.nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(taken) == list(range(3 * 10 * 308))


@pytest.mark.parametrize("n", [0, -1, 2**40 + 1, 1.5, "7", True])
def test_so_many_numbers_can_not_be_had(cluster: snowmelt.Cluster, n: int) -> None:
    with pytest.raises(BadOption, match=r"n is .*; allowed: 1 to 1099511627776"):
        cluster.counter("ids").next(n)


def test_a_value_that_is_no_counters_is_said_and_kept(cluster: snowmelt.Cluster, name: str) -> None:
    counter = cluster.counter(name[:80])
    with cluster.baton(f"counter.{name[:80]}") as held:
        held.value = b"by hand"
    with pytest.raises(snowmelt.SnowmeltError, match="carries no counter"):
        counter.next()
    with cluster.baton(f"counter.{name[:80]}") as held:
        assert held.value == b"by hand"
