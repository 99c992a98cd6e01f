"""When an item was put is one number of its stored batch: the same at every copy, and for good."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from nodes_bench import WALL, Nodes

from snowmelt.core import times
from snowmelt.core.instant import SECOND
from snowmelt.core.interval import Interval
from snowmelt.core.node import Persist
from snowmelt.core.record import Write
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.calls import ItemRun

rows = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), max_size=6)


@given(rows, st.data())
def test_times_are_a_number_for_each_item(some: list[tuple[int, int]], data: st.DataObject) -> None:
    packed = times.chained([(count, times.whole(count, time)) for count, time in some])
    model = [time for count, time in some for _ in range(count)]
    assert [times.at(packed, index) for index in range(len(model))] == model
    first = data.draw(st.integers(0, len(model)))
    stop = data.draw(st.integers(first, len(model)))
    part = times.sliced(packed, first, stop)
    assert [time for count, time in times.runs(part) for _ in range(count)] == model[first:stop]


def seconds_of(parts: tuple[ItemRun, ...]) -> list[int | None]:
    """When each item of some parts was put, in seconds of the bench's clock."""
    known = [times.at(part.times, index) for part in parts for index in range(part.count)]
    return [(time - WALL) // SECOND if time else None for time in known]


def put_second_by_second(nodes: Nodes, at: str = "n1") -> None:
    """Three batches, of one item, of two and of three, a second apart."""
    for number in range(3):
        nodes.put([b"%d" % number] * (number + 1), number, at)
        nodes.pass_time(1)


SECONDS = [0, 1, 1, 2, 2, 2]


def test_what_comes_back_and_what_is_read_from_the_disk_has_the_time_of_its_put() -> None:
    nodes = Nodes(1)
    nodes.open()
    put_second_by_second(nodes)
    leased = nodes.get(10)
    assert seconds_of(leased.parts) == SECONDS
    back = calls.Settle("q", leased.token, back=(Interval(1, 5),), reason="no")
    nodes.ask(back)
    nodes.pass_time(1)
    assert seconds_of(nodes.get(10).parts) == SECONDS[1:5]
    nodes.restart("n1")
    nodes.view("n1")
    assert seconds_of(nodes.ask(calls.Peek("q", 10, 1 << 20)).parts) == []  # all are leased
    nodes.pass_time(60)
    assert seconds_of(nodes.ask(calls.Peek("q", 10, 1 << 20)).parts) == SECONDS


def test_every_copy_says_the_same_time_also_one_that_was_made_later() -> None:
    nodes = Nodes(6)
    nodes.open(replicas=3)
    put_second_by_second(nodes, "n2")
    for _ in range(3):  # each node that leads is missed, and another has its place
        leader = nodes.status().leader
        assert leader != "n1", "who decides stays"
        rest = [name for name in nodes.members if name != leader]
        nodes.view(*rest)
        nodes.pass_time(10)
        assert nodes.ask(calls.Describe("q"), rest[0]).leader != leader
        assert seconds_of(nodes.ask(calls.Peek("q", 10, 1 << 20), rest[0]).parts) == SECONDS
        nodes.view(*nodes.members)
        nodes.pass_time(10)


def test_what_was_stored_before_times_were_written_down_has_none() -> None:
    nodes = Nodes(1)
    nodes.open()
    put_second_by_second(nodes)
    nodes.restart("n1")
    disk = nodes.disks[next(iter(nodes.members))]
    older, *_ = nodes.bodies("n1")
    (record,) = disk.scan(older, older + b"\0", 1 << 20)
    fields = msgspec.msgpack.decode(record.value)[:4]
    disk.ask(Persist(1, (Write(older, msgspec.msgpack.encode(fields)),)))
    disk.flush()
    nodes.view("n1")
    assert seconds_of(nodes.get(10).parts) == [None, *SECONDS[1:]]
