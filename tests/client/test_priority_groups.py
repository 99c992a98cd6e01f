"""A group of a priority queue: what it is given is the same again, whoever asks for it."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import snowmelt
from snowmelt.client.leases.delivered import part_bodies
from snowmelt.client.queue.group_steps import BEGINNING, Mark
from snowmelt.core.errors import GroupHeld, LeaseLost, NoSuchQueue


@pytest.fixture(params=["node", "folder"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[snowmelt.Cluster]:
    opened: AbstractContextManager[snowmelt.Cluster]
    if request.param == "node":
        opened = snowmelt.connect(request.getfixturevalue("node").url)
    else:
        opened = snowmelt.open(tmp_path)  # type: ignore[assignment]  # of the same face
    with opened as cluster:
        yield cluster


def read(
    jobs: snowmelt.PriorityQueue, start: Mark, end: Mark, group: snowmelt.Group | None = None
) -> list[bytes]:
    group = jobs.group("spark") if group is None else group
    reading = jobs.read(group.locate(start, end).spans)
    assert not reading.unread
    return [body for part in reading.parts for body in part_bodies(part)]


def test_the_most_urgent_are_given_and_told_again_until_they_are_passed(
    cluster: snowmelt.Cluster,
) -> None:
    jobs = cluster.priority("given.told", priorities=3)
    jobs.put_many([(number % 3, b"%d" % number) for number in range(12)])
    first = jobs.group("spark").advance(items_max=5).end
    assert first.count == 5
    group = jobs.group("spark")
    first = group.advance(items_max=100).end  # nobody can have read it: another may begin
    assert first.count == 5
    assert group.advance(items_max=100).end == first
    assert read(jobs, BEGINNING, first, group) == [b"0", b"3", b"6", b"9", b"1"]
    jobs.put(b"fire", priority=0)
    second = jobs.group("spark").advance(first).end
    assert read(jobs, first, second) == [b"fire", b"4", b"7", b"10", b"2", b"5", b"8", b"11"]
    assert (jobs.stats().assigned, jobs.stats().leased) == (8, 0)
    assert group.advance(second).end == second
    assert (jobs.stats().assigned, jobs.stats().ready, jobs.stats().done) == (0, 0, 13)


def test_who_does_not_know_how_far_the_group_is_is_refused(cluster: snowmelt.Cluster) -> None:
    jobs = cluster.priority("given.older")
    jobs.put_many([b"a", b"b", b"c", b"d"])
    group = jobs.group("spark")
    first = group.advance(items_max=1).end
    assert read(jobs, BEGINNING, first, group) == [b"a"]
    with pytest.raises(GroupHeld, match="at work on 1 items already"):
        jobs.group("spark").advance()
    second = group.advance(first, items_max=1).end
    group.advance(second, items_max=1)
    with pytest.raises(GroupHeld, match="is done with 2 items, and this reader knows of 1 only"):
        jobs.group("spark").advance(first)
    with pytest.raises(LeaseLost):
        jobs.group("spark").advance(Mark(first.lease + 1, 3))
    assert jobs.stats().assigned == 1


def test_what_a_group_holds_outlives_the_lease_of_its_queue(cluster: snowmelt.Cluster) -> None:
    jobs = cluster.priority("given.long", lease=0.2)
    jobs.put_many([b"a", b"b"])
    first = jobs.group("spark").advance().end
    time.sleep(0.5)
    assert jobs.stats().assigned == 2
    assert read(jobs, BEGINNING, first) == [b"a", b"b"]


def test_a_group_that_is_released_gives_back_what_it_holds(cluster: snowmelt.Cluster) -> None:
    jobs = cluster.priority("given.released")
    jobs.put_many([b"a", b"b", b"c"])
    group = jobs.group("spark")
    first = group.advance(items_max=2).end
    assert read(jobs, BEGINNING, first, group) == [b"a", b"b"]
    assert jobs.group("spark").release() == 2
    assert jobs.stats().ready == 3
    with pytest.raises(LeaseLost, match="released"):
        group.advance(first)
    with pytest.raises(LeaseLost):
        group.locate(BEGINNING, first)
    anew = jobs.group("spark").advance().end
    assert read(jobs, BEGINNING, anew) == [b"a", b"b", b"c"]


def test_a_group_makes_no_queue(cluster: snowmelt.Cluster) -> None:
    with pytest.raises(NoSuchQueue, match="nobody"):
        cluster.priority("nobody").group("spark").advance()


def test_names_of_groups_do_not_collide_over_queues(cluster: snowmelt.Cluster) -> None:
    one, other = cluster.priority("given.a"), cluster.priority("given.a.b")
    one.put(b"of a")
    other.put(b"of a.b")
    ends = one.group("b.c").advance().end, other.group("c").advance().end
    assert read(one, BEGINNING, ends[0], one.group("b.c")) == [b"of a"]
    assert read(other, BEGINNING, ends[1], other.group("c")) == [b"of a.b"]
    assert "a.b.c" not in cluster.queues()
