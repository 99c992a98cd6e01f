"""An acknowledgement that brings the next items: `ItemSource.swap`."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import snowmelt
from snowmelt.protocols.queue.api.calls import Get, Settle


class Counted:
    """A port that counts calls by their kind."""

    def __init__(self, port: Any) -> None:
        self._port = port
        self.asked: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    def call(self, body: Any, *given: Any, **more: Any) -> Any:
        if isinstance(body, Get | Settle):
            self.asked.append(body)
        return self._port.call(body, *given, **more)


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[snowmelt.Fifo]:
    with snowmelt.open(tmp_path) as cluster:
        queue = cluster.fifo("jobs", lease=0.5)
        queue.create()
        yield queue


def test_one_call_acknowledges_and_leases(jobs: snowmelt.Fifo) -> None:
    jobs.put_many([b"%d" % number for number in range(5)])
    source: Any = jobs.intake(1)
    source.port = port = Counted(source.port)
    (first,) = source.take(1, 1.0)
    port.asked.clear()
    some = source.swap(first, 3)
    assert [one.body for one in some] == [b"1", b"2", b"3"]
    (asked,) = port.asked
    assert asked.settle is not None
    status = jobs.stats()
    assert (status.ready, status.leased) == (1, 3)
    assert [one.body for one in source.swap(some[1], 3)] == [b"4"]
    assert jobs.stats().leased == 3
    source.close()
    assert [one.body for one in jobs.get_many(9)] == [b"1", b"3", b"4"]


def test_where_nothing_waits_it_is_acknowledged_even_so(jobs: snowmelt.Fifo) -> None:
    jobs.put(b"one")
    source = jobs.intake(1)
    (first,) = source.take(1, 1.0)
    assert source.swap(first, 3) == []
    assert jobs.stats().leased == 0
    source.close()
    assert jobs.stats().ready == 0


def test_acknowledgements_that_were_gathered_before_are_not_in_its_way(jobs: snowmelt.Fifo) -> None:
    for number in range(3):
        jobs.put(b"%d" % number)
    source = jobs.intake(1)
    first, second = (source.take(1, 1.0)[0] for _ in range(2))
    first.ack()
    (third,) = source.swap(second, 1)
    assert third.body == b"2"
    end = time.monotonic() + 5
    while jobs.stats().leased > 1 and time.monotonic() < end:
        time.sleep(0.02)
    assert jobs.stats().leased == 1
    source.close()


def test_what_was_lost_is_said(jobs: snowmelt.Fifo) -> None:
    jobs.put_many([b"one", b"two"])
    source: Any = jobs.intake(1)
    (first,) = source.take(1, 1.0)
    source._renewals.closing = True  # nothing is renewed any more
    source._renewals._leases.clear()
    time.sleep(0.7)
    assert jobs.get().body == b"one"
    with pytest.raises(snowmelt.LeaseLost):
        source.swap(first, 1)
