"""A group of a priority queue: what it is given is the same again, whoever asks for it."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import snowmelt
from snowmelt.client.connection.steps import Rest, Steps
from snowmelt.client.priority import group_steps
from snowmelt.client.priority.groups import PriorityGroup
from snowmelt.client.priority.notes import Note, parts_of
from snowmelt.client.priority.staging import receipt_of
from snowmelt.client.priority.steps import PrioritySteps
from snowmelt.client.queue.group_steps import BEGINNING, Mark
from snowmelt.core.batch import Batch
from snowmelt.core.errors import BadOption, GroupHeld, LeaseLost, NoSuchQueue


@pytest.fixture(params=["node", "folder"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[snowmelt.Cluster]:
    opened: AbstractContextManager[snowmelt.Cluster]
    if request.param == "node":
        opened = snowmelt.connect(request.getfixturevalue("node").url)
    else:
        opened = snowmelt.open(tmp_path)  # type: ignore[assignment]  # of the same face
    with opened as cluster:
        yield cluster


def read(group: PriorityGroup, start: Mark, end: Mark) -> list[bytes]:
    return [
        bytes(body)
        for note in group.batches(start, end)
        for part in parts_of(note, 3)
        for piece in group.read(part)
        for body in Batch(piece.offsets, piece.blob)
    ]


def noted(jobs: snowmelt.PriorityQueue, notes: snowmelt.Fifo, most: int, number: int) -> None:
    """Somebody leases, writes it down, and dies."""
    receipt = receipt_of(jobs.get_many(most).delivered)
    note = Note(receipt.token, receipt.shares, 0)
    notes.put(msgspec.msgpack.encode(note), sequence=number)


def test_the_most_urgent_are_given_and_told_again_until_they_are_passed(
    cluster: snowmelt.Cluster,
) -> None:
    jobs = cluster.priority("told", priorities=3)
    jobs.put_many([(number % 3, b"%d" % number) for number in range(12)])
    first = jobs.group("spark").advance(items_max=5).end
    assert first.count == 1
    group = jobs.group("spark")
    first = group.advance(items_max=100).end  # nobody can have read it: another may begin
    assert first.count == 1
    assert group.advance(items_max=100).end == first
    assert read(group, BEGINNING, first) == [b"0", b"3", b"6", b"9", b"1"]
    jobs.put(b"fire", priority=0)
    second = jobs.group("spark").advance(first).end
    assert read(group, first, second) == [
        b"fire", b"4", b"7", b"10", b"2", b"5", b"8", b"11",
    ]  # fmt: skip
    assert jobs.stats().leased == 8
    assert group.advance(second).end == second
    assert (jobs.stats().leased, jobs.stats().ready) == (0, 0)


def test_who_does_not_know_how_far_the_group_is_is_refused(cluster: snowmelt.Cluster) -> None:
    jobs = cluster.priority("older")
    jobs.put_many([b"a", b"b", b"c", b"d"])
    group = jobs.group("spark")
    first = group.advance(items_max=1).end
    assert read(group, BEGINNING, first) == [b"a"]
    with pytest.raises(GroupHeld, match="at work on 1 items already"):
        jobs.group("spark").advance()
    second = group.advance(first, items_max=1).end
    group.advance(second, items_max=1)
    with pytest.raises(GroupHeld, match="is done with 2 items, and this reader knows of 1 only"):
        jobs.group("spark").advance(first)
    with pytest.raises(GroupHeld, match="is done with 2 items"):
        group.batches(BEGINNING, first)
    with pytest.raises(LeaseLost):
        jobs.group("spark").advance(Mark(first.lease + 1, 3))
    assert jobs.stats().leased == 1


def test_a_batch_outlives_the_lease_of_its_queue(cluster: snowmelt.Cluster) -> None:
    jobs = cluster.priority("long", lease=0.2)
    jobs.put_many([b"a", b"b"])
    first = jobs.group("spark").advance().end
    time.sleep(0.5)
    assert jobs.stats().leased == 2
    assert read(jobs.group("spark"), BEGINNING, first) == [b"a", b"b"]


def test_what_was_noted_and_not_kept_in_time_is_given_anew(cluster: snowmelt.Cluster) -> None:
    jobs = cluster.priority("lapsed", lease=1)
    jobs.put_many([b"a", b"b", b"c"])
    assert jobs.group("spark").advance(items_max=0).end == BEGINNING
    noted(jobs, cluster.fifo("lapsed.spark", producer="notes-of-spark"), 2, 1)
    time.sleep(1.2)
    with jobs.get(timeout=2) as got:
        assert got.body == b"a"
    group = jobs.group("spark")
    first = group.advance().end
    assert first.count == 1
    assert read(group, BEGINNING, first) == [b"b", b"c"]
    group.advance(first)
    assert (jobs.stats().leased, jobs.stats().ready) == (0, 0)


def test_what_was_noted_and_is_held_still_is_the_next_batch(cluster: snowmelt.Cluster) -> None:
    jobs = cluster.priority("noted")
    jobs.put_many([b"a", b"b", b"c"])
    jobs.group("spark").advance(items_max=0)
    noted(jobs, cluster.fifo("noted.spark", producer="notes-of-spark"), 2, 1)
    group = jobs.group("spark")
    first = group.advance(items_max=1).end
    assert read(group, BEGINNING, first) == [b"a", b"b"]


def test_a_note_that_was_long_on_its_way_does_not_come_beside_the_next(
    cluster: snowmelt.Cluster,
) -> None:
    jobs = cluster.priority("late")
    jobs.put_many([b"a", b"b", b"c"])
    group = jobs.group("spark")
    first = group.advance(items_max=1).end
    notes = cluster.fifo("late.spark", producer="notes-of-spark")
    noted(jobs, notes, 1, 1)  # under the number of the first
    assert notes.stats().tail == 1
    assert read(group, BEGINNING, first) == [b"a"]


def test_a_group_that_is_released_gives_back_what_it_holds(cluster: snowmelt.Cluster) -> None:
    jobs = cluster.priority("released")
    jobs.put_many([b"a", b"b", b"c"])
    group = jobs.group("spark")
    first = group.advance(items_max=2).end
    assert read(group, BEGINNING, first) == [b"a", b"b"]
    assert jobs.group("spark").release() == 2
    assert jobs.stats().ready == 3
    with pytest.raises(LeaseLost, match="released"):
        group.advance(first)
    with pytest.raises(LeaseLost):
        group.batches(BEGINNING, first)
    anew = jobs.group("spark").advance().end
    assert read(jobs.group("spark"), BEGINNING, anew) == [b"a", b"b", b"c"]


def test_a_group_makes_no_queue(cluster: snowmelt.Cluster) -> None:
    with pytest.raises(NoSuchQueue, match="nobody"):
        cluster.priority("nobody").group("spark").advance()


def test_what_no_group_can_be_asked_is_named_at_once(cluster: snowmelt.Cluster) -> None:
    group = cluster.priority("asked").group("spark")
    for wrong in (2.5, None, -1, "7", 2**41, 10**30):
        for option in ("items_max", "bytes_max"):
            with pytest.raises(BadOption, match=rf"{option} is .*; allowed: 0 to 1099511627776"):
                group.advance(**{option: wrong})  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="done is 7; allowed: a Mark"):
        group.advance(7)  # type: ignore[arg-type]


def test_what_a_slow_reader_leases_is_kept_before_the_lease_is_over(
    cluster: snowmelt.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    get_many = PrioritySteps.get_many

    def slow(queue: PrioritySteps, *asked: Any) -> Steps[Any]:
        got = yield from get_many(queue, *asked)
        yield Rest(0.05)
        return got

    monkeypatch.setattr(PrioritySteps, "get_many", slow)
    monkeypatch.setattr(group_steps, "GET_ITEMS", 1)
    jobs = cluster.priority("slow", lease=1, max_deliveries=1)
    jobs.put_many([b"%d" % number for number in range(30)])
    group, end, bodies = jobs.group("spark"), BEGINNING, list[bytes]()
    while len(bodies) < 30:
        given = group.advance(end)
        assert given.end != end, f"{len(bodies)} came, and {jobs.stats().dead} are dead"
        bodies += read(group, end, given.end)
        end = given.end
    assert bodies == [b"%d" % number for number in range(30)]
    assert jobs.stats().dead == 0
