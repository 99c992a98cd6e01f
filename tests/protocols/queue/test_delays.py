"""What is for later: as long as it was meant, whatever clocks show, and whoever leads then."""

from typing import Any

import msgspec
import pytest
from node_bench import NodeBench

from snowmelt.client.fifo.steps import due_of
from snowmelt.core.instant import seconds
from snowmelt.core.interval import Interval
from snowmelt.protocols.queue.api.calls import (
    Describe,
    Get,
    PublishStaged,
    Purge,
    Put,
    PutDone,
    Settle,
    Settled,
)


def put(sequence: int, due: int) -> Put:
    return Put("q", "p", sequence, bytes(8), b"", due=due)


def taken(bench: NodeBench) -> Any:
    return bench.answer(Get("q", 9, 99, seconds(0)))


@pytest.mark.parametrize("hours", [-2, 0, 2])
def test_a_delay_is_as_long_as_it_was_meant_whatever_the_clock_shows(hours: int) -> None:
    bench = NodeBench(hours=hours)
    bench.open()
    bench.answer(put(1, due_of(1.0)))
    assert taken(bench).token == 0
    bench.pass_time(0.9)
    assert taken(bench).token == 0
    bench.pass_time(0.1)
    leased = taken(bench)
    assert leased.token
    back = Settle("q", leased.token, back=(Interval(0, 1),), due=due_of(1.0))
    assert bench.answer(back) == Settled(0)
    assert taken(bench).token == 0
    bench.pass_time(1)
    assert taken(bench).token


@pytest.mark.parametrize("hours", [-2, 0, 2])
def test_what_is_published_is_as_late_as_it_was_meant_from_when_it_was_staged(hours: int) -> None:
    bench = NodeBench(hours=hours)
    bench.open()
    staged = msgspec.structs.replace(put(1, due_of(2.0)), hold=seconds(60))
    receipt = bench.answer(staged)
    bench.pass_time(1)
    assert isinstance(bench.answer(PublishStaged("q", "p", 1, (receipt,))), PutDone)
    assert taken(bench).token == 0
    bench.pass_time(1)
    assert taken(bench).token


@pytest.mark.parametrize("crash", [False, True])
def test_what_is_delayed_comes_at_its_moment_whoever_leads(crash: bool) -> None:
    bench = NodeBench()
    bench.open()
    for sequence, delay in ((1, 9.0), (2, 5.0), (3, 0.0), (4, 20.0)):
        bench.answer(put(sequence, due_of(delay)))
    if crash:
        bench.crash()
    bench.pass_time(1)
    assert (bench.answer(Describe("q")).ready, bench.answer(Describe("q")).delayed) == (1, 3)
    get = bench.ask(Get("q", 9, 99, seconds(60)))
    assert [part.start for part in bench.told.pop(get).parts] == [2]
    waits = bench.ask(Get("q", 9, 99, seconds(60)))
    bench.pass_time(5)
    assert [part.start for part in bench.told.pop(waits).parts] == [1]
    waits = bench.ask(Get("q", 9, 99, seconds(60)))
    bench.pass_time(5)
    assert [part.start for part in bench.told.pop(waits).parts] == [0]
    bench.answer(Purge("q"))
    assert bench.answer(Describe("q")).delayed == 0
